#include "control/attach_move.h"

#include "control/handover.h"
#include "control/launch.h"
#include "control/predecessors.h"
#include "control/terms.h"
#include "dns/stand_in.h"
#include "record/log.h"
#include "srt/cleanup.h"
#include "srt/must.h"
#include "srt/queue.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const double attach_again_within_s = 10;

/* ---- freezing ---- */

static bool is_updating(const struct attach_server *server)
{
    const struct launch *launch;
    TAILQ_FOREACH(launch, &server->attached, link)
        if (launch->state == LAUNCH_UPDATING)
            return true;
    return false;
}

/* An answer to a freeze that was called off says nothing of the one after it. */
static void on_names_frozen(void *arg)
{
    struct attach_server *server = arg;
    void (*frozen)(void *) = server->on_frozen;
    if (--server->names_rounds > 0 || frozen == NULL)
        return;
    server->on_frozen = NULL;
    frozen(server->frozen_arg);
}

void launch_check_frozen(struct attach_server *server)
{
    if (server->on_frozen == NULL || server->names_asked || is_updating(server))
        return;
    server->names_asked = true;
    server->names_rounds++;
    workers_freeze_names(server->gateway->workers, on_names_frozen, server);
}

static void stop_watching(struct attach_server *server, struct launch *launch)
{
    if (launch->state == LAUNCH_REFUSED || launch->fd < 0)
        return;
    apart_set(server->gateway->apart, &launch->watch, 0);
    ev_timer_stop(server->gateway->loop, &launch->deadline);
}

void attach_freeze(struct attach_server *server, void (*frozen)(void *arg), void *arg)
{
    struct launch *launch;
    server->frozen = true;
    server->on_frozen = frozen;
    server->frozen_arg = arg;
    ev_timer_stop(server->gateway->loop, &server->pause);
    if (server->listener != NULL)
        apart_set(server->gateway->apart, &server->acceptable, 0);
    TAILQ_FOREACH(launch, &server->waiting, link)
        stop_watching(server, launch);
    TAILQ_FOREACH(launch, &server->attached, link)
        stop_watching(server, launch);
    launch_check_frozen(server);
}

/* The sandbox of a launcher that came from another process. */
static void begin(struct launch *launch)
{
    struct sandbox_config config = {.name = launch->name,
                                    .client = launch->client,
                                    .uid = launch->uid,
                                    .pid = launch->pid,
                                    .policy = launch->policy,
                                    .narrowing = steal_ptr(launch->narrowing),
                                    .names = steal_ptr(launch->names),
                                    .listener_count = launch->listener_count,
                                    .owner = launch};
    for (size_t i = 0; i < launch->listener_count; i++)
        config.listeners[i] = listener_take(launch->listeners[i]);
    launch->sandbox = sandbox_attach(launch->server->gateway->workers, &config);
}

static void go_on(struct launch *launch)
{
    struct ev_loop *loop = launch->server->gateway->loop;
    if (launch->state == LAUNCH_REFUSED || launch->fd < 0)
        return;
    if (launch->received && launch->state == LAUNCH_ATTACHED)
        begin(launch);
    launch->received = launch->held = false;
    if (launch->state == LAUNCH_WAITING) {
        ev_timer_set(&launch->deadline, attach_again_within_s, 0.);
        ev_timer_start(loop, &launch->deadline);
    }
    if (launch_flush(launch))
        (void)launch_handle_frames(launch);
}

void attach_thaw(struct attach_server *server)
{
    struct launch *launch, *next;
    if (!server->frozen)
        return;
    server->frozen = server->given = false;
    server->on_frozen = NULL;
    if (server->names_asked)
        workers_thaw_names(server->gateway->workers);
    server->names_asked = false;
    TAILQ_FOREACH_SAFE(launch, &server->attached, link, next)
        go_on(launch);
    TAILQ_FOREACH_SAFE(launch, &server->waiting, link, next)
        go_on(launch);
    if (server->listener != NULL)
        apart_set(server->gateway->apart, &server->acceptable, EV_READ);
}

const struct listener *attach_listener(const struct attach_server *server)
{
    return server->listener;
}

void attach_claim(struct attach_server *server)
{
    if (server->listener != NULL)
        listener_claim(server->listener);
}

/* ---- sending ---- */

/* In their order. A gateway of before there were kinds sends none, and has proxies only. */
static void write_kinds(const struct launch *launch, struct json *message)
{
    char kinds[ATTACH_MAX_LISTENERS * 16] = "";
    for (size_t i = 0; i < launch->listener_count; i++) {
        const size_t len = strlen(kinds);
        snprintf(kinds + len, sizeof(kinds) - len, "%s%s", i > 0 ? "," : "",
                 listener_word(listener_kind(launch->listeners[i])));
    }
    json_text(message, "kinds", str_of(kinds));
}

static bool has_names(const struct launch *launch)
{
    return launch->sandbox != NULL && sandbox_names(launch->sandbox).len > 0;
}

static void write_state(const struct launch *launch, struct json *message)
{
    json_bool(message, "attached", launch->state == LAUNCH_ATTACHED);
    json_text(message, "name", str_of(launch->name));
    json_text(message, "client", str_of(launch->client));
    json_text(message, "policy", str_of(launch->policy));
    json_number(message, "since", launch->attached_ms);
    json_number(message, "missed", (int64_t)launch->missed);
    json_number(
        message, "listeners",
        (int64_t)(launch->state == LAUNCH_ATTACHED ? launch->listener_count : launch->fd_count));
    write_kinds(launch, message);
    json_bool(message, "asks", launch->asks);
    json_bool(message, "narrowed", launch->narrowed != NULL);
    json_bool(message, "names", has_names(launch));
    json_number(message, "in", (int64_t)launch->in.len);
    json_number(message, "out", (int64_t)(launch->out.len - launch->out_sent));
}

static int make_bytes(const struct launch *launch)
{
    struct json bytes = {0};
    json_append(&bytes, (struct str){launch->in.data, launch->in.len});
    json_append(&bytes, (struct str){launch->out.data + launch->out_sent,
                                     launch->out.len - launch->out_sent});
    int fd = parcel_make((struct str){bytes.data, bytes.len});
    json_free(&bytes);
    return fd;
}

static int make_network(const struct launch *launch)
{
    struct json network = {0};
    terms_write(&network, launch->narrowed);
    const int fd = parcel_make((struct str){network.data, network.len});
    json_free(&network);
    return fd;
}

/* Its descriptors are, in order: the connection, the listeners (or what came for an attach message
 * that is not whole yet), the bytes, what narrows it if anything does, and its resolver's names if
 * it has one. */
static bool send_launch(struct launch *launch, struct channel *channel)
{
    int fds[CHANNEL_FDS_MAX];
    size_t count = 0;
    struct json message = channel_compose("launch");
    write_state(launch, &message);
    fds[count++] = launch->fd;
    for (size_t i = 0; launch->state == LAUNCH_ATTACHED && i < launch->listener_count; i++)
        fds[count++] = listener_fd(launch->listeners[i]);
    for (size_t i = 0; launch->state == LAUNCH_WAITING && i < launch->fd_count; i++)
        fds[count++] = launch->fds[i];
    autoclose int bytes = make_bytes(launch);
    autoclose int network = launch->narrowed != NULL ? make_network(launch) : -1;
    autoclose int names = has_names(launch) ? parcel_make(sandbox_names(launch->sandbox)) : -1;
    if (bytes < 0 || (launch->narrowed != NULL && network < 0) ||
        (has_names(launch) && names < 0)) {
        json_free(&message);
        return false;
    }
    fds[count++] = bytes;
    if (network >= 0)
        fds[count++] = network;
    if (names >= 0)
        fds[count++] = names;
    launch->given = launch->out.len;
    return channel_send(channel, &message, fds, count, CHANNEL_PATIENCE_MS);
}

static bool is_to_move(const struct launch *launch)
{
    return launch->state == LAUNCH_WAITING || launch->state == LAUNCH_ATTACHED;
}

bool attach_send(struct attach_server *server, struct channel *channel)
{
    struct launch *launch;
    bool sent = true;
    server->given = true;
    TAILQ_FOREACH(launch, &server->waiting, link)
        sent = sent && (!is_to_move(launch) || send_launch(launch, channel));
    TAILQ_FOREACH(launch, &server->attached, link)
        sent = sent && (!is_to_move(launch) || send_launch(launch, channel));
    return sent;
}

/* ---- receiving ---- */

static int take_bytes(struct launch *launch, int fd, int64_t in_len, int64_t out_len)
{
    struct json bytes = {0};
    int result = -1;
    if (parcel_open(fd, &bytes) && in_len >= 0 && out_len >= 0 &&
        (uint64_t)in_len + (uint64_t)out_len == bytes.len) {
        frames_add(&launch->in, (struct str){bytes.data, (size_t)in_len});
        json_append(&launch->out, (struct str){bytes.data + in_len, (size_t)out_len});
        launch->server->in_bytes += (size_t)in_len;
        result = 0;
    }
    json_free(&bytes);
    return result;
}

static int take_listeners(struct launch *launch, struct channel_message *message,
                          struct srt_err *err)
{
    const int64_t count = channel_number(message, "listeners");
    const char *kinds = channel_text(message, "kinds");
    autofree char *words = must_copy(kinds != NULL ? kinds : "");
    char *rest = words;
    for (int64_t i = 0; i < count && i < ATTACH_MAX_LISTENERS; i++) {
        const int fd = channel_take_fd(message);
        const char *word = strsep(&rest, ",");
        enum listener_kind kind;
        if (!listener_kind_read(&kind, word))
            kind = LISTENER_PROXY;
        if (launch->state == LAUNCH_WAITING) {
            launch->fds[launch->fd_count++] = fd;
            continue;
        }
        if (!launch_socket_cookie(fd, &launch->cookies[launch->cookie_count++]))
            return srt_err_set(err, "it is no socket");
        /* Its launcher has it too, and may have made it one that does not listen any more. That
         * costs its own sandbox the listener, and nobody the hand-over. */
        struct srt_err why;
        struct listener *listener = listener_adopt(fd, kind, &why);
        if (listener != NULL)
            launch->listeners[launch->listener_count++] = listener;
        else
            log_line("a listener of %s is left out: %s", launch->name, why.text);
    }
    return 0;
}

/* What another gateway has sent, which has read it from the launcher. */
static int read_lists(struct launch *launch, json_t *lists, struct policy **narrowing,
                      struct srt_err *err)
{
    if (lists == NULL)
        return srt_err_set(err, "what narrows it is not valid JSON");
    return terms_narrowing(false, launch->asks, lists, narrowing, &launch->said, err);
}

static int take_network(struct launch *launch, int fd, struct srt_err *err)
{
    struct json network = {0};
    if (!parcel_open(fd, &network))
        return srt_err_set(err, "what narrows it cannot be read");
    json_t *lists = json_loadb(network.data, network.len, 0, NULL);
    json_free(&network);
    const int result = read_lists(launch, lists, &launch->narrowing, err);
    json_decref(lists);
    launch->narrowing = launch_share(launch, launch->narrowing);
    launch->narrowed = launch->narrowing;
    return result;
}

static void restore_name(struct stand_ins *names, const json_t *one)
{
    struct name name;
    const char *text = json_string_value(json_object_get(one, "name"));
    const json_int_t number = json_integer_value(json_object_get(one, "number"));
    const json_int_t used_ms = json_integer_value(json_object_get(one, "used"));
    if (text != NULL && name_parse(&name, str_of(text)) == NAME_OK && number >= 0 &&
        number < STAND_IN_END)
        (void)stand_ins_restore(names, &name, (uint32_t)number, (double)used_ms / 1000.);
}

/* A name that is lost is looked up again, which is no reason to give up. */
static void take_names(struct launch *launch, int fd)
{
    struct json text = {0};
    json_t *root = parcel_open(fd, &text) ? json_loadb(text.data, text.len, 0, NULL) : NULL;
    const json_int_t next = json_integer_value(json_object_get(root, "next"));
    const json_t *one;
    size_t i;
    if (root != NULL && next > 0 && next < STAND_IN_END) {
        launch->names = stand_ins_create((uint32_t)next);
        json_array_foreach(json_object_get(root, "names"), i, one)
            restore_name(launch->names, one);
    }
    json_decref(root);
    json_free(&text);
}

static int fill(struct launch *launch, struct channel_message *message, struct srt_err *err)
{
    launch->client = must_copy(channel_text(message, "client"));
    launch->policy = must_copy(channel_text(message, "policy"));
    launch->attached_ms = channel_number(message, "since");
    launch->asks = channel_flag(message, "asks");
    launch->missed = (uint64_t)channel_number(message, "missed");
    if (take_listeners(launch, message, err) != 0)
        return -1;
    if (take_bytes(launch, channel_take_fd(message), channel_number(message, "in"),
                   channel_number(message, "out")) != 0)
        return srt_err_set(err, "what its launcher has said is incomplete");
    if (channel_flag(message, "narrowed") &&
        take_network(launch, channel_take_fd(message), err) != 0)
        return -1;
    if (channel_flag(message, "names"))
        take_names(launch, channel_take_fd(message));
    return 0;
}

int attach_receive(struct attach_server *server, struct channel_message *message,
                   struct srt_err *err)
{
    struct srt_err why;
    const char *name = channel_text(message, "name");
    const bool attached = channel_flag(message, "attached");
    const int fd = channel_take_fd(message);
    if (fd < 0 || (attached && name == NULL))
        return srt_err_set(err, "a launcher came incomplete");
    struct launch *launch = launch_add(server, fd);
    stop_watching(server, launch);
    launch->received = true;
    launch->name = must_copy(name);
    if (attached)
        launch_move_to(launch, LAUNCH_ATTACHED);
    if (fill(launch, message, &why) == 0)
        return 0;
    return srt_err_set(err, "sandbox %s: %.900s", name != NULL ? name : "(none yet)", why.text);
}

/* ---- retired ---- */

/* What was said after the state had been sent: whole frames, which are denials. */
static void pass_on_rest(struct launch *launch)
{
    struct frames rest = {0};
    struct str json;
    frames_add(&rest,
               (struct str){launch->out.data + launch->given, launch->out.len - launch->given});
    while (frames_peek(&rest, &json) == FRAME_WHOLE) {
        (void)handover_denial(launch->server->gateway->handover, launch->name, json);
        frames_drop(&rest);
    }
    frames_free(&rest);
}

void attach_retire(struct attach_server *server)
{
    struct launch *launch, *next;
    TAILQ_FOREACH_SAFE(launch, &server->waiting, link, next) {
        if (!is_to_move(launch))
            continue;
        launch->moved = true;
        launch_close(launch);
        launch_free(launch);
    }
    TAILQ_FOREACH(launch, &server->attached, link) {
        if (!is_to_move(launch))
            continue;
        if (launch->out.len > launch->given)
            pass_on_rest(launch);
        launch->moved = true;
        launch_close(launch);
        launch_release_listeners(launch);
        launch_move_to(launch, LAUNCH_MOVED);
    }
    listener_release(server->listener);
    server->listener = NULL;
}

static struct launch *find_moved(struct attach_server *server, const char *sandbox)
{
    struct launch *launch;
    TAILQ_FOREACH(launch, &server->attached, link)
        if (launch->state == LAUNCH_MOVED && strcmp(launch->name, sandbox) == 0)
            return launch;
    return NULL;
}

void attach_end(struct attach_server *server, const char *sandbox)
{
    struct launch *launch = find_moved(server, sandbox);
    if (launch != NULL)
        launch_end(launch);
}

void attach_end_all(struct attach_server *server)
{
    struct launch *launch, *next;
    TAILQ_FOREACH_SAFE(launch, &server->attached, link, next)
        if (launch->state == LAUNCH_MOVED)
            launch_end(launch);
}

/* One at a time: the successor lets its launcher go on only when all have answered. */
static void on_narrowed(void *arg)
{
    const struct launch *launch = arg;
    handover_answer(launch->server->gateway->handover, launch->serial, true, STR_NULL);
}

void attach_narrow(struct attach_server *server, const char *sandbox, struct str network,
                   int64_t serial)
{
    struct launch *launch = find_moved(server, sandbox);
    struct policy *narrowing = NULL;
    struct srt_err err;
    json_t *lists = json_loadb(network.p, network.len, 0, NULL);
    const bool good = launch != NULL && read_lists(launch, lists, &narrowing, &err) == 0;
    json_decref(lists);
    if (good) {
        launch->serial = serial;
        launch->narrowed = NULL; /* it is the other process that knows */
        sandbox_update(launch->sandbox, narrowing, on_narrowed, launch);
        return;
    }
    if (launch != NULL) {
        log_line("what is open of %s is cut, since what narrows it cannot be read: %s", sandbox,
                 err.text);
        launch_end(launch);
    }
    handover_answer(server->gateway->handover, serial, launch != NULL, STR_NULL);
}

/* ---- their successor ---- */

void attach_pass_denial(struct attach_server *server, const char *sandbox, struct str message)
{
    struct launch *launch = launch_find(server, sandbox);
    if (launch == NULL || launch->fd < 0)
        return;
    if (launch->out.len - launch->out_sent >= OUT_MAX) {
        launch->missed++;
        return;
    }
    frame_write(&launch->out, message);
    (void)launch_flush(launch);
}

struct update_told {
    struct attach_server *server;
    char *sandbox;
    unsigned waiting;
};

/* Found by its name, since it may have ended meanwhile. */
static void on_updated_elsewhere(void *arg, struct channel_message *message)
{
    struct update_told *told = arg;
    struct launch *launch = launch_find(told->server, told->sandbox);
    (void)message; /* whatever it says, nothing is open there that is not allowed */
    if (launch != NULL)
        launch_updated(launch);
    if (--told->waiting > 0)
        return;
    free(told->sandbox);
    free(told);
}

unsigned launch_tell_update(const struct launch *launch, const json_t *network)
{
    autofree char *text = must(json_dumps(network, JSON_COMPACT));
    struct update_told *told = must(calloc(1, sizeof(*told)));
    told->server = launch->server;
    told->sandbox = must_copy(launch->name);
    told->waiting = predecessors_ask(
        launch->server->gateway->predecessors,
        &(struct predecessors_question){.type = "update", .sandbox = launch->name, .parcel = text},
        on_updated_elsewhere, told);
    if (told->waiting > 0)
        return told->waiting;
    free(told->sandbox);
    free(told);
    return 0;
}
