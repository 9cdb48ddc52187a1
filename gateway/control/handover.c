#include "control/handover.h"

#include "control/admin.h"
#include "control/attach_move.h"
#include "control/channel.h"
#include "control/deed.h"
#include "control/desk.h"
#include "control/notify.h"
#include "control/predecessors.h"
#include "control/reload.h"
#include "control/starter.h"
#include "control/tunnels.h"
#include "record/log.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <errno.h>
#include <ev.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

enum { VERSION = 1 };
static const double ready_within_s = 60; /* also for lists of millions of names */
static const double reason_within_s = 5;
static const double last_words_s = 2.5; /* a connection's linger (transport/farewell.h), and some */

enum stage {
    STAGE_IDLE,
    STAGE_PAUSING,  /* a reload that is under way ends first */
    STAGE_STARTED,  /* the new process reads its configuration */
    STAGE_FREEZING, /* it is ready; updates of sandboxes that are under way end first */
    STAGE_GIVEN,    /* it was told to go */
    STAGE_ENDED,    /* it has ended, and the starter will say how */
    STAGE_RETIRED,  /* it serves, and this process does no more */
    STAGE_TAKING,   /* this process is the new one, and not told to go yet */
};

struct handover {
    struct gateway *gateway;
    struct starter *starter;
    enum stage stage;
    struct channel *other; /* the new process, or the old one while its place is taken */
    ev_timer limit;        /* of the stage; once retired, when those that are idle have to go */
    ev_timer last_words;

    /* Of a process that takes a place. */
    int numbering_fd;
    uint64_t generation;
    char sha256[65];
    struct handover_calls calls;
};

bool handover_denial(struct handover *handover, const char *sandbox, struct str message)
{
    struct json told = channel_compose("denial");
    json_text(&told, "sandbox", str_of(sandbox));
    json_text(&told, "message", message);
    if (handover->other != NULL && channel_send(handover->other, &told, NULL, 0, 0))
        return true;
    json_free(&told);
    return false;
}

void handover_answer(struct handover *handover, int64_t serial, bool found, struct str parcel)
{
    if (handover->other == NULL)
        return;
    struct json message = channel_compose("answer");
    json_number(&message, "serial", serial);
    json_bool(&message, "found", found);
    autoclose int fd = parcel.p != NULL ? parcel_make(parcel) : -1;
    (void)channel_send(handover->other, &message, &fd, fd >= 0, CHANNEL_PATIENCE_MS);
}

/* ---- giving ---- */

static void record(struct handover *handover, const char *result, const char *message)
{
    deed_record(handover->gateway, &(struct deed){.action = "hand-over",
                                                  .peer = "signal",
                                                  .by = "operator",
                                                  .result = result,
                                                  .message = message,
                                                  .waiting = DEED_WAITS_NOBODY});
}

/* Everything is as it was before the signal. */
static void fail(struct handover *handover, const char *why)
{
    struct gateway *gateway = handover->gateway;
    ev_timer_stop(gateway->loop, &handover->limit);
    channel_free(handover->other);
    handover->other = NULL;
    if (handover->stage != STAGE_PAUSING)
        starter_release(handover->starter);
    handover->stage = STAGE_IDLE;
    log_line("hand-over failed, this process goes on: %s", why);
    record(handover, "failed", why);
    attach_thaw(gateway->attach);
    admin_pause(gateway->admin, false);
    reload_resume(gateway->reloader);
}

static void set_limit(struct handover *handover, double seconds)
{
    ev_timer_stop(handover->gateway->loop, &handover->limit);
    ev_timer_set(&handover->limit, seconds, 0.);
    ev_timer_start(handover->gateway->loop, &handover->limit);
}

static void on_limit(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct handover *handover = timer->data;
    (void)loop;
    (void)events;
    if (handover->stage == STAGE_RETIRED)
        workers_hurry(handover->gateway->workers);
    else
        fail(handover, handover->stage == STAGE_ENDED ? "the new process ended"
                                                      : "the new process was not ready in time");
}

static void on_new_ended(void *arg, const char *text)
{
    struct handover *handover = arg;
    fail(handover, text);
}

static bool offer(struct handover *handover, const char *kind, const char *name,
                  const struct listener *listener)
{
    struct json message = channel_compose("listener");
    json_text(&message, "kind", str_of(kind));
    json_text(&message, "name", str_of(name));
    json_bool(&message, "own", listener_is_own(listener));
    const int fd = listener_fd(listener);
    return channel_send(handover->other, &message, &fd, 1, CHANNEL_PATIENCE_MS);
}

static void offer_admin(void *arg, const struct listener *listener)
{
    (void)offer(arg, "admin", "admin", listener);
}

static void send_offers(struct handover *handover)
{
    const struct gateway *gateway = handover->gateway;
    const struct gateway_config *config = gateway->snapshot->config;
    const struct listener *control = attach_listener(gateway->attach);
    char digest[65];
    struct json begin = channel_compose("begin");
    json_number(&begin, "generation", (int64_t)gateway->snapshot->generation);
    json_text(&begin, "sha256", str_of(reload_hex(digest, config->sha256)));
    const int numbering = audit_numbering_fd(gateway->audit);
    bool sent = channel_send(handover->other, &begin, &numbering, 1, CHANNEL_PATIENCE_MS);
    for (size_t i = 0; i < config->listen_count; i++)
        sent = sent && offer(handover, "listen", config->listens[i].name, gateway->listeners[i]);
    if (control != NULL)
        sent = sent && offer(handover, "control", "control", control);
    admin_offer(gateway->admin, offer_admin, handover);
    struct json end = channel_compose("end");
    if (!channel_send(handover->other, &end, NULL, 0, CHANNEL_PATIENCE_MS) || !sent)
        fail(handover, "the new process does not take the listeners");
}

/* No launcher is being read, none is written to: what they and their sandboxes are does not
 * change. */
static void on_frozen(void *arg)
{
    struct handover *handover = arg;
    struct gateway *gateway = handover->gateway;
    struct json go = channel_compose("go");
    if (!attach_send(gateway->attach, handover->other) ||
        !predecessors_send(gateway->predecessors, handover->other)) {
        json_free(&go);
        fail(handover, "the new process does not take the sandboxes");
        return;
    }
    handover->stage = STAGE_GIVEN;
    (void)channel_send(handover->other, &go, NULL, 0, CHANNEL_PATIENCE_MS);
}

static void on_last_words(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct handover *handover = timer->data;
    (void)loop;
    (void)events;
    gateway_stop(handover->gateway);
}

static void on_nobody_left(void *arg)
{
    struct handover *handover = arg;
    log_line("nothing is open any more in the process that has handed over");
    ev_timer_start(handover->gateway->loop, &handover->last_words);
}

static void on_workers_retired(void *arg)
{
    struct handover *handover = arg;
    struct gateway *gateway = handover->gateway;
    for (size_t i = 0; i < gateway->snapshot->config->listen_count; i++) {
        listener_release(gateway->listeners[i]);
        gateway->listeners[i] = NULL;
    }
    workers_await_end(gateway->workers, on_nobody_left, handover);
    reload_resume(gateway->reloader);
}

static void retire(struct handover *handover, int pid)
{
    struct gateway *gateway = handover->gateway;
    handover->stage = STAGE_RETIRED;
    gateway->retired = true;
    starter_release(handover->starter);
    notify_main_pid(pid);
    record(handover, "ok", NULL);
    struct json message = channel_compose("retired");
    (void)channel_send(handover->other, &message, NULL, 0, CHANNEL_PATIENCE_MS);
    predecessors_hand_on(gateway->predecessors);
    desk_retire(gateway->desk);
    admin_retire(gateway->admin);
    attach_retire(gateway->attach);
    workers_retire(gateway->workers, on_workers_retired, handover);
    set_limit(handover, (double)gateway->snapshot->config->drain_timeout_ms / 1000.);
    log_line("handed over to process %d; what is open here is served to its end", pid);
}

/* Nobody is left who would say that a sandbox has ended. */
static void on_successor_gone(struct handover *handover)
{
    channel_free(handover->other);
    handover->other = NULL;
    log_line("the process that took over has ended");
    attach_end_all(handover->gateway->attach);
    gateway_drain(handover->gateway);
}

static void hear_update(struct gateway *gateway, struct channel_message *message,
                        const char *sandbox)
{
    struct json network = {0};
    const int parcel = channel_take_fd(message);
    if (parcel >= 0 && !parcel_open(parcel, &network))
        attach_end(gateway->attach, sandbox); /* and the answer below is true */
    attach_narrow(gateway->attach, sandbox, (struct str){network.data, network.len},
                  channel_number(message, "serial"));
    json_free(&network);
}

static void hear_successor(struct handover *handover, struct channel_message *message)
{
    struct gateway *gateway = handover->gateway;
    const char *sandbox = channel_text(message, "sandbox"), *id = channel_text(message, "id");
    if (channel_is(message, "reload"))
        reload_follow(gateway->reloader, (uint64_t)channel_number(message, "generation"));
    else if (channel_is(message, "reopen"))
        audit_reopen(gateway->audit);
    else if (channel_is(message, "detach") && sandbox != NULL)
        attach_end(gateway->attach, sandbox);
    else if (channel_is(message, "update") && sandbox != NULL)
        hear_update(gateway, message, sandbox);
    else if (channel_is(message, "tunnels"))
        tunnels_tell(gateway, channel_number(message, "serial"));
    else if (channel_is(message, "cut") && id != NULL)
        tunnels_cut_here(gateway, id, channel_number(message, "serial"));
}

static void on_successor(void *arg, struct channel_message *message)
{
    struct handover *handover = arg;
    if (message == NULL && handover->stage == STAGE_RETIRED) {
        on_successor_gone(handover);
    } else if (message == NULL) {
        handover->stage = STAGE_ENDED;
        set_limit(handover, reason_within_s);
    } else if (handover->stage == STAGE_RETIRED) {
        hear_successor(handover, message);
    } else if (channel_is(message, "hello") && channel_number(message, "version") != VERSION) {
        fail(handover, "the new process takes over in another way");
    } else if (channel_is(message, "hello")) {
        send_offers(handover);
    } else if (channel_is(message, "ready")) {
        handover->stage = STAGE_FREEZING;
        admin_pause(handover->gateway->admin, true);
        attach_freeze(handover->gateway->attach, on_frozen, handover);
    } else if (channel_is(message, "failed")) {
        const char *why = channel_text(message, "message");
        fail(handover, why != NULL ? why : "the new process does not say why");
    } else if (channel_is(message, "serving")) {
        retire(handover, (int)channel_number(message, "pid"));
    }
}

static void start_new(void *arg)
{
    struct handover *handover = arg;
    struct srt_err err;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        fail(handover, strerror(errno));
        return;
    }
    autoclose int theirs = pair[1];
    handover->other = channel_create(handover->gateway->apart, pair[0]);
    if (starter_start(handover->starter, handover->gateway->loop, theirs, on_new_ended, handover,
                      &err) != 0) {
        fail(handover, err.text);
        return;
    }
    handover->stage = STAGE_STARTED;
    channel_hear(handover->other, on_successor, handover);
    set_limit(handover, ready_within_s);
}

/* NULL: nothing keeps it from handing over. */
static const char *why_not(const struct handover *handover)
{
    const struct gateway *gateway = handover->gateway;
    if (gateway->retired)
        return "this process has handed over already";
    if (gateway->draining)
        return "this process is draining and hands nothing over";
    if (handover->stage != STAGE_IDLE)
        return "a hand-over is under way already";
    if (handover->starter == NULL)
        return "this process can start no other and hands nothing over";
    if (getpid() == 1)
        return "this is process 1, and hands nothing over: with its end everything here would end";
    return NULL;
}

void handover_begin(struct handover *handover)
{
    const char *why = why_not(handover);
    if (why != NULL) {
        log_line("%s", why);
        return;
    }
    log_line("handing over to a new process");
    handover->stage = STAGE_PAUSING;
    reload_pause(handover->gateway->reloader, start_new, handover);
}

/* ---- taking ---- */

static int hear_offer(struct handover *handover, struct channel_message *message,
                      struct activation *activation)
{
    static const struct {
        const char *word;
        enum offered_kind kind;
    } kinds[] = {
        {"listen", OFFERED_LISTEN}, {"control", OFFERED_CONTROL}, {"admin", OFFERED_ADMIN}};
    const char *kind = channel_text(message, "kind"), *name = channel_text(message, "name");
    for (size_t i = 0; kind != NULL && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const int fd = strcmp(kind, kinds[i].word) == 0 ? channel_take_fd(message) : -1;
        if (fd >= 0)
            activation_offer(activation, kinds[i].kind, name, fd, channel_flag(message, "own"));
    }
    const char *digest = channel_text(message, "sha256");
    if (!channel_is(message, "begin"))
        return channel_is(message, "end");
    handover->numbering_fd = channel_take_fd(message);
    handover->generation = (uint64_t)channel_number(message, "generation");
    snprintf(handover->sha256, sizeof(handover->sha256), "%s", digest != NULL ? digest : "");
    return 0;
}

int handover_take(struct handover *handover, int fd, struct activation *activation,
                  struct srt_err *err)
{
    struct json hello = channel_compose("hello");
    handover->stage = STAGE_TAKING;
    handover->other = channel_create(handover->gateway->apart, fd);
    json_number(&hello, "version", VERSION);
    if (!channel_send(handover->other, &hello, NULL, 0, CHANNEL_PATIENCE_MS))
        return srt_err_set(err, "there is no process to take over from");
    for (bool whole = false; !whole;) {
        struct channel_message *message = channel_receive(handover->other, CHANNEL_PATIENCE_MS);
        if (message == NULL)
            return srt_err_set(err, "the process to take over from hands nothing over");
        whole = hear_offer(handover, message, activation) != 0;
        channel_message_free(message);
    }
    return handover->numbering_fd > 0
               ? 0
               : srt_err_set(err, "the process to take over from does not say how it counts");
}

int handover_take_numbering(struct handover *handover)
{
    const int fd = handover->numbering_fd;
    handover->numbering_fd = 0;
    return fd;
}

static bool is_same(const struct handover *handover, const uint8_t sha256[32])
{
    char digest[65];
    return strcmp(reload_hex(digest, sha256), handover->sha256) == 0;
}

uint64_t handover_generation(const struct handover *handover, const uint8_t sha256[32])
{
    return handover->generation + !is_same(handover, sha256);
}

static void give_up(struct handover *handover, const char *why)
{
    struct json message = channel_compose("failed");
    json_text(&message, "message", str_of(why));
    channel_deafen(handover->other);
    (void)channel_send(handover->other, &message, NULL, 0, CHANNEL_PATIENCE_MS);
    handover->calls.failed(handover->calls.arg, why);
}

static void claim_paths(struct gateway *gateway)
{
    for (size_t i = 0; i < gateway->snapshot->config->listen_count; i++)
        listener_claim(gateway->listeners[i]);
    admin_claim(gateway->admin);
    attach_claim(gateway->attach);
}

/* The workers accept. */
static void on_taken(void *arg)
{
    struct handover *handover = arg;
    struct gateway *gateway = handover->gateway;
    struct channel *giver = handover->other;
    handover->other = NULL;
    handover->stage = STAGE_IDLE;
    claim_paths(gateway);
    handover->calls.serving(handover->calls.arg);
    predecessors_succeed(gateway->predecessors, giver, handover->calls.manager,
                         handover->calls.arg);
    attach_thaw(gateway->attach);
    admin_pause(gateway->admin, false);
    if (!is_same(handover, gateway->snapshot->config->sha256))
        predecessors_tell(gateway->predecessors, "reload");
    reload_resume(gateway->reloader);
}

static void on_giver(void *arg, struct channel_message *message)
{
    struct handover *handover = arg;
    struct gateway *gateway = handover->gateway;
    struct srt_err err;
    int fd;
    if (message == NULL) {
        handover->calls.failed(handover->calls.arg, "the process to take over from has given up");
    } else if (channel_is(message, "launch")) {
        if (attach_receive(gateway->attach, message, &err) != 0)
            give_up(handover, err.text);
    } else if (channel_is(message, "predecessor") && (fd = channel_take_fd(message)) >= 0) {
        predecessors_add(gateway->predecessors, channel_create(gateway->apart, fd));
    } else if (channel_is(message, "go")) {
        channel_deafen(handover->other);
        workers_commit(gateway->workers, on_taken, handover);
    }
}

static void on_prepared(void *arg, const char *error)
{
    struct handover *handover = arg;
    if (error != NULL) {
        give_up(handover, error);
        return;
    }
    struct json ready = channel_compose("ready");
    if (!channel_send(handover->other, &ready, NULL, 0, CHANNEL_PATIENCE_MS)) {
        handover->calls.failed(handover->calls.arg, "the process to take over from has given up");
        return;
    }
    channel_hear(handover->other, on_giver, handover);
}

void handover_stand_by(struct handover *handover, const struct handover_calls *calls)
{
    struct gateway *gateway = handover->gateway;
    handover->calls = *calls;
    attach_freeze(gateway->attach, NULL, NULL);
    admin_pause(gateway->admin, true);
    reload_pause(gateway->reloader, NULL, NULL);
    workers_prepare(gateway->workers, gateway->snapshot, gateway->listeners, on_prepared, handover);
}

/* ---- life ---- */

struct handover *handover_create(struct gateway *gateway, struct starter *starter)
{
    struct handover *handover = must(calloc(1, sizeof(*handover)));
    handover->gateway = gateway;
    handover->starter = starter;
    ev_timer_init(&handover->limit, on_limit, 0., 0.);
    ev_timer_init(&handover->last_words, on_last_words, last_words_s, 0.);
    handover->limit.data = handover->last_words.data = handover;
    return handover;
}

void handover_free(struct handover *handover)
{
    if (handover == NULL)
        return;
    ev_timer_stop(handover->gateway->loop, &handover->limit);
    ev_timer_stop(handover->gateway->loop, &handover->last_words);
    channel_free(handover->other);
    if (handover->numbering_fd > 0)
        close(handover->numbering_fd);
    starter_free(handover->starter);
    free(handover);
}
