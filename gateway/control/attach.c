#include "control/attach.h"

#include "control/desk.h"
#include "control/handover.h"
#include "control/launch.h"
#include "control/places.h"
#include "control/terms.h"
#include "srt/cleanup.h"
#include "srt/clock.h"
#include "srt/must.h"
#include "srt/queue.h"
#include "transport/foreign.h"

#include <errno.h>
#include <sys/socket.h>

enum {
    ATTACHED_MAX = 10000,
    WAITING_MAX = 64, /* connections that have not attached; the oldest makes room */
};
static const double pause_s = 1;

/* ---- attaching ---- */

/* What narrows the sandbox, or will when the update is over, if that can be another's, too. */
static struct policy *policy_to_share(const struct launch *launch)
{
    if (!launch->shares)
        return NULL;
    return launch->state == LAUNCH_ATTACHED   ? launch->narrowed
           : launch->state == LAUNCH_UPDATING ? launch->next_narrowed
                                              : NULL;
}

struct policy *launch_share(struct launch *launch, struct policy *narrowing)
{
    const struct launch *other;
    struct json lists = {0};
    launch->shares = !launch->private && narrowing != NULL;
    if (!launch->shares)
        return narrowing;
    terms_write(&lists, narrowing);
    digest_make(launch->lists, (struct str){lists.data, lists.len});
    json_free(&lists);
    TAILQ_FOREACH(other, &launch->server->attached, link) {
        struct policy *policy = other != launch ? policy_to_share(other) : NULL;
        if (policy != NULL && memcmp(other->lists, launch->lists, sizeof(launch->lists)) == 0) {
            policy_free(narrowing);
            return policy_share(policy);
        }
    }
    return narrowing;
}

bool launch_socket_cookie(int fd, uint64_t *cookie)
{
    socklen_t len = sizeof(*cookie);
    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, cookie, &len) == 0;
}

/* Whether the socket already has an owner here: the gateway itself or another sandbox. A listener
 * is an identity, so it must not have two. */
static bool listener_is_taken(const struct launch *launch, uint64_t cookie)
{
    const struct gateway *gateway = launch->server->gateway;
    const struct launch *other;
    uint64_t own;
    for (size_t i = 0; i < gateway->snapshot->config->listen_count; i++)
        if (launch_socket_cookie(listener_fd(gateway->listeners[i]), &own) && own == cookie)
            return true;
    TAILQ_FOREACH(other, &launch->server->attached, link)
        for (size_t i = 0; i < other->cookie_count; i++)
            if (other->cookies[i] == cookie)
                return true;
    for (size_t i = 0; i < launch->cookie_count; i++)
        if (launch->cookies[i] == cookie)
            return true;
    return false;
}

static int adopt_listeners(struct launch *launch, const struct attach_message *message,
                           struct sandbox_config *config, struct srt_err *err)
{
    if (launch->fd_count != message->listener_count)
        return srt_err_set(err, "%zu listeners were announced and %zu descriptors came",
                           message->listener_count, launch->fd_count);
    for (size_t i = 0; i < message->listener_count; i++) {
        uint64_t cookie;
        if (!launch_socket_cookie(launch->fds[i], &cookie))
            return srt_err_set(err, "descriptor %zu is not a socket", i);
        if (listener_is_taken(launch, cookie))
            return srt_err_set(err, "descriptor %zu is the listener of somebody else", i);
        struct listener *listener =
            listener_adopt(steal_fd(&launch->fds[i]), message->listeners[i], err);
        if (listener == NULL)
            return -1;
        config->listeners[config->listener_count++] = listener;
        launch->cookies[launch->cookie_count++] = cookie;
    }
    launch->fd_count = 0;
    return 0;
}

static int make_sandbox(struct launch *launch, const struct attach_message *message,
                        struct srt_err *err)
{
    struct gateway *gateway = launch->server->gateway;
    struct sandbox_config config = {
        .name = message->name, .uid = launch->uid, .pid = launch->pid, .owner = launch};
    if (gateway->draining)
        return srt_err_set(err, "the gateway is ending");
    if (launch->server->attached_count >= ATTACHED_MAX)
        return srt_err_set(err, "%d sandboxes are attached already", ATTACHED_MAX);
    if (launch_find(launch->server, message->name) != NULL)
        return srt_err_set(err, "a sandbox named %s is attached already", message->name);
    if (launch->private && message->policy != NULL)
        return srt_err_set(err, "a private gateway has no policy %s; name a gateway to use one",
                           message->policy);
    if (!launch->private && terms_policy(gateway->snapshot, launch->uid, message->policy,
                                         &config.policy, &config.client, err) != 0)
        return -1;
    launch->asks = message->asks;
    if (terms_narrowing(launch->private, launch->asks, message->network, &config.narrowing,
                        &launch->said, err) != 0)
        return -1;
    config.narrowing = launch_share(launch, config.narrowing);
    if (adopt_listeners(launch, message, &config, err) != 0) {
        for (size_t i = 0; i < config.listener_count; i++)
            listener_release(config.listeners[i]);
        if (config.narrowing != NULL)
            policy_free(config.narrowing);
        return -1;
    }
    for (size_t i = 0; i < config.listener_count; i++)
        launch->listeners[launch->listener_count++] = listener_take(config.listeners[i]);
    launch->name = must_copy(message->name);
    launch->narrowed = config.narrowing;
    launch->client = must_copy(config.client);
    launch->policy =
        must_copy(config.policy != NULL ? config.policy : policy_name(config.narrowing));
    launch->sandbox = sandbox_attach(gateway->workers, &config);
    launch->attached_ms = clock_ms();
    return 0;
}

static bool attach(struct launch *launch, const struct attach_message *message)
{
    struct srt_err err;
    if (launch->state != LAUNCH_WAITING)
        return launch_give_up(launch, "a second attach message");
    if (make_sandbox(launch, message, &err) != 0)
        return launch_refuse(launch, err.text);
    ev_timer_stop(launch->server->gateway->loop, &launch->deadline);
    launch_move_to(launch, LAUNCH_ATTACHED);
    launch_record(launch, "attach", message);
    struct json answer = launch_compose("attached");
    json_text(&answer, "sandbox", str_of(launch->name));
    json_text(&answer, "policy", str_of(launch->policy));
    json_number(&answer, "generation", (int64_t)launch->server->gateway->snapshot->generation);
    places_write(launch->server->gateway, &answer);
    launch_write_said(launch, &answer, "warnings", FAULT_WARNING);
    return launch_send(launch, &answer);
}

/* ---- updates ---- */

void launch_updated(struct launch *launch)
{
    if (launch->state != LAUNCH_UPDATING || --launch->updates_left > 0)
        return; /* or the launcher has gone meanwhile */
    launch->narrowed = launch->next_narrowed;
    launch->state = LAUNCH_ATTACHED;
    struct attach_server *server = launch->server;
    struct json answer = launch_compose("updated");
    json_number(&answer, "serial", launch->serial);
    json_number(&answer, "generation", (int64_t)server->gateway->snapshot->generation);
    if (launch_send(launch, &answer))
        launch_handle_frames(launch);
    launch_check_frozen(server);
}

static void on_updated(void *arg)
{
    launch_updated(arg);
}

static bool reject(struct launch *launch, int64_t serial, const char *why)
{
    struct json answer = launch_compose("rejected");
    json_number(&answer, "serial", serial);
    json_text(&answer, "message", str_of(why));
    return launch_send(launch, &answer);
}

static bool update(struct launch *launch, const struct attach_message *message)
{
    struct srt_err err;
    struct policy *narrowing;
    if (launch->state != LAUNCH_ATTACHED)
        return launch_give_up(launch, "an update before the attach message");
    struct faults ignored = {0};
    int result = terms_narrowing(launch->private, launch->asks, message->network, &narrowing,
                                 &ignored, &err);
    faults_free(&ignored);
    if (result != 0)
        return reject(launch, message->serial, err.text);
    launch->serial = message->serial;
    launch->next_narrowed = launch_share(launch, narrowing);
    launch->updates_left = 1;
    launch->state = LAUNCH_UPDATING;
    launch_watch(launch);
    sandbox_update(launch->sandbox, launch->next_narrowed, on_updated, launch);
    launch->updates_left += launch_tell_update(launch, message->network);
    return true;
}

/* ---- answers ---- */

static bool answer(struct launch *launch, const struct attach_message *message)
{
    struct json ignored = {0};
    char peer[LAUNCH_PEER_MAX];
    if (launch->state != LAUNCH_ATTACHED || !launch->asks)
        return launch_give_up(launch, "an answer that nobody asked for");
    /* One that comes late finds nothing; the launcher has been told why, or will be. */
    (void)desk_answer(launch->server->gateway->desk,
                      &(struct desk_answer){.id = str_of(message->id),
                                            .approves = message->approves,
                                            .keeps = message->keeps,
                                            .peer = launch_peer(launch, peer),
                                            .owner = launch},
                      &ignored);
    json_free(&ignored);
    return launch->fd >= 0;
}

bool attach_asks(const void *owner)
{
    const struct launch *launch = owner;
    return launch->asks && launch->fd >= 0;
}

bool attach_tell(void *owner, const char *type, struct json *members)
{
    struct launch *launch = owner;
    const bool takes = launch->fd >= 0 && launch->out.len - launch->out_sent < OUT_MAX;
    if (takes) {
        struct json message = launch_compose(type);
        json_append(&message, STR(","));
        json_append(&message, (struct str){members->data, members->len});
        (void)launch_send(launch, &message);
    }
    json_free(members);
    return takes;
}

struct sandbox *attach_sandbox(void *owner)
{
    return ((struct launch *)owner)->sandbox;
}

void *attach_find(struct attach_server *server, const char *name, const char **policy)
{
    struct launch *launch = launch_find(server, name);
    if (launch != NULL && policy != NULL)
        *policy = launch->private ? "" : launch->policy;
    return launch;
}

/* ---- reading ---- */

/* A message that could not be read. Who attached and can be answered keeps what it has: a mistake
 * in its settings must not cost a sandbox its life. */
bool attach_take_fault(struct launch *launch, const struct attach_message *message, const char *why)
{
    if (launch->state == LAUNCH_ATTACHED && message->answerable)
        return reject(launch, message->serial, why);
    return launch_give_up(launch, why);
}

bool attach_take(struct launch *launch, const struct attach_message *message)
{
    switch (message->type) {
    case ATTACH_ATTACH:
        return attach(launch, message);
    case ATTACH_UPDATE:
        return update(launch, message);
    case ATTACH_ANSWER:
        return answer(launch, message);
    }
    return false;
}

/* ---- coming in ---- */

static void make_room(struct attach_server *server)
{
    if (server->waiting_count >= WAITING_MAX)
        launch_end(TAILQ_FIRST(&server->waiting));
}

void attach_pause(struct attach_server *server)
{
    struct ev_loop *loop = server->gateway->loop;
    if (server->listener != NULL)
        apart_set(server->gateway->apart, &server->acceptable, 0);
    ev_timer_stop(loop, &server->pause);
    ev_timer_set(&server->pause, pause_s, 0.);
    ev_timer_start(loop, &server->pause);
}

static void release_held(struct launches *launches)
{
    struct launch *launch;
    TAILQ_FOREACH(launch, launches, link)
        if (launch->held) {
            launch->held = false;
            launch_watch(launch);
        }
}

static void on_pause_over(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct attach_server *server = timer->data;
    (void)loop, (void)events;
    if (foreign_is_busy()) {
        attach_pause(server);
        return;
    }
    release_held(&server->waiting);
    release_held(&server->attached);
    if (server->listener != NULL)
        apart_set(server->gateway->apart, &server->acceptable, EV_READ);
}

static void on_acceptable(struct apart_watch *watch, int events)
{
    struct attach_server *server = watch->data;
    (void)events;
    for (int i = 0; i < WAITING_MAX; i++) {
        if (foreign_is_busy()) { /* and who makes room may make it more so */
            attach_pause(server);
            return;
        }
        int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            make_room(server);
            launch_add(server, fd);
            continue;
        }
        /* The connection stays in the queue and would wake us without end. */
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            attach_pause(server);
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

/* ---- the outside ---- */

struct attach_server *attach_create(struct gateway *gateway)
{
    struct attach_server *server = must(calloc(1, sizeof(*server)));
    server->gateway = gateway;
    TAILQ_INIT(&server->waiting);
    TAILQ_INIT(&server->attached);
    ev_timer_init(&server->pause, on_pause_over, pause_s, 0.);
    server->pause.data = server;
    return server;
}

void attach_listen(struct attach_server *server, struct listener *listener)
{
    server->listener = listener;
    server->acceptable =
        (struct apart_watch){.fd = listener_fd(listener), .heard = on_acceptable, .data = server};
    apart_set(server->gateway->apart, &server->acceptable, EV_READ);
}

void attach_append_address(const struct attach_server *server, struct json *line)
{
    char text[CONFIG_ADDRESS_TEXT_MAX];
    if (server->listener == NULL)
        return;
    json_append(line, STR(" control="));
    json_append(line, str_of(config_address_format(text, listener_bound(server->listener))));
}

void attach_serve_private(struct attach_server *server, int fd)
{
    launch_add(server, fd)->private = true;
}

static struct json compose_denial(const struct launch *launch, const struct denial *denial)
{
    struct json message = launch_compose("denial");
    json_time(&message, "ts", denial->ts_ms);
    json_text(&message, "host", str_of(denial->host));
    json_number(&message, "port", denial->port);
    json_text(&message, "front", str_of(front_word(denial->front)));
    json_text(&message, "reason", str_of(outcome_row(denial->reason)->word));
    json_text(&message, "rule", str_of(denial->rule));
    json_text(&message, "policy", str_of(denial->policy));
    json_text(&message, "message", str_of(denial->message));
    json_text(&message, "next_step", str_of(denial->next_step));
    json_text(&message, "request_id", str_of(denial->request_id));
    json_number(&message, "missed", (int64_t)launch->missed);
    return message;
}

/* To the process that has the connection now. */
static void pass_denial(struct launch *launch, struct json *message)
{
    json_object_close(message);
    if (handover_denial(launch->server->gateway->handover, launch->name,
                        (struct str){message->data, message->len}))
        launch->missed = 0;
    else
        launch->missed++;
    json_free(message);
}

void attach_on_denial(void *arg, const struct denial *denial)
{
    struct launch *launch = denial->owner;
    (void)arg;
    if (launch->fd < 0 && launch->last_words < 0 && launch->state != LAUNCH_MOVED)
        return;
    launch->missed += denial->missed;
    if (launch->out.len - launch->out_sent >= OUT_MAX) {
        launch->missed++;
        return;
    }
    struct json message = compose_denial(launch, denial);
    if (launch->fd >= 0 && launch->state != LAUNCH_MOVED) {
        launch->missed = 0;
        (void)launch_send(launch, &message);
    } else if (launch->last_words >= 0) {
        launch_say_last_words(launch, &message);
    } else {
        pass_denial(launch, &message);
    }
}

size_t attach_count(const struct attach_server *server)
{
    return server->attached_count;
}

void attach_free(struct attach_server *server)
{
    struct launch *launch, *next;
    if (server == NULL)
        return;
    struct ev_loop *loop = server->gateway->loop;
    TAILQ_FOREACH_SAFE(launch, &server->waiting, link, next) {
        launch_close(launch);
        launch_free(launch);
    }
    TAILQ_FOREACH_SAFE(launch, &server->attached, link, next) {
        launch_close(launch);
        if (!launch->moved && !launch->received)
            launch_record(launch, "detach", NULL);
        launch_free(launch);
    }
    ev_timer_stop(loop, &server->pause);
    if (server->listener != NULL) {
        apart_set(server->gateway->apart, &server->acceptable, 0);
        listener_close(server->listener);
    }
    free(server);
}
