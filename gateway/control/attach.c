#include "control/attach.h"

#include "control/desk.h"
#include "control/granting.h"
#include "control/handover.h"
#include "control/launch.h"
#include "control/places.h"
#include "control/predecessors.h"
#include "control/terms.h"
#include "record/log.h"
#include "srt/cleanup.h"
#include "srt/must.h"
#include "transport/foreign.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/socket.h>
#include <time.h>

enum {
    ATTACHED_MAX = 10000,
    WAITING_MAX = 64,             /* connections that have not attached; the oldest makes room */
    WAITING_BYTES_MAX = 64 << 20, /* what all unfinished frames may hold together */
    FDS_PER_MESSAGE = 253, /* all that can come (SCM_MAX_FD), so that the kernel closes none */
};
static const double attach_within_s = 10;
static const double refused_linger_s = 5;
static const double pause_s = 1;

static int64_t monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the connection ---- */

static void close_fds(struct launch *launch)
{
    for (size_t i = 0; i < launch->fd_count; i++)
        if (launch->fds[i] >= 0)
            foreign_close(launch->fds[i]);
    launch->fd_count = 0;
}

static void forget_input(struct launch *launch)
{
    launch->server->in_bytes -= launch->in.len;
    frames_free(&launch->in);
    close_fds(launch);
}

void launch_move_to(struct launch *launch, enum launch_state state)
{
    struct attach_server *server = launch->server;
    bool was_waiting = launch->state == LAUNCH_WAITING || launch->state == LAUNCH_REFUSED;
    bool is_waiting = state == LAUNCH_WAITING || state == LAUNCH_REFUSED;
    launch->state = state;
    if (was_waiting && !is_waiting) {
        TAILQ_REMOVE(&server->waiting, launch, link);
        server->waiting_count--;
        TAILQ_INSERT_TAIL(&server->attached, launch, link);
        server->attached_count++;
    }
}

void launch_release_listeners(struct launch *launch)
{
    for (size_t i = 0; i < launch->listener_count; i++)
        listener_release(launch->listeners[i]);
    launch->listener_count = 0;
}

void launch_free(struct launch *launch)
{
    struct attach_server *server = launch->server;
    if (launch->state == LAUNCH_WAITING || launch->state == LAUNCH_REFUSED) {
        TAILQ_REMOVE(&server->waiting, launch, link);
        server->waiting_count--;
    } else {
        TAILQ_REMOVE(&server->attached, launch, link);
        server->attached_count--;
    }
    launch_release_listeners(launch);
    if (launch->last_words >= 0)
        close(launch->last_words);
    policy_free(launch->narrowing);
    json_free(&launch->out);
    free(launch->name);
    free(launch->client);
    free(launch->policy);
    faults_free(&launch->said);
    free(launch);
}

static void record_life(struct launch *launch, const char *kind,
                        const struct attach_message *message)
{
    struct json fields = {0};
    char peer[48];
    snprintf(peer, sizeof(peer), "uid=%" PRIu32 ",pid=%" PRId32, launch->uid, launch->pid);
    json_text(&fields, "kind", str_of(kind));
    json_text(&fields, "sandbox", str_of(launch->name));
    json_text(&fields, "client", str_of(launch->client));
    json_text(&fields, "policy", str_of(launch->policy));
    json_number(&fields, "generation", (int64_t)launch->server->gateway->snapshot->generation);
    json_text(&fields, "peer", str_of(peer));
    if (message != NULL) {
        json_text(&fields, "command", str_of(message->command));
        json_bool(&fields, "narrowed", message->network != NULL);
    } else {
        json_number(&fields, "duration_ms", monotonic_ms() - launch->attached_ms);
    }
    gateway_record(launch->server->gateway, &fields);
}

static void on_detached(void *arg)
{
    struct launch *launch = arg;
    struct gateway *gateway = launch->server->gateway;
    bool private = launch->private;
    granting_forget(desk_granting(gateway->desk), launch->name);
    if (!launch->moved)
        record_life(launch, "detach", NULL);
    launch_free(launch);
    if (private)
        gateway_stop(gateway);
}

/* The end of its connection is not ours alone to make. */
static bool is_shared(const struct launch *launch)
{
    return launch->moved || launch->received || launch->server->given;
}

void launch_close(struct launch *launch)
{
    struct ev_loop *loop = launch->server->gateway->loop;
    if (launch->fd < 0)
        return;
    ev_io_stop(loop, &launch->io);
    ev_timer_stop(loop, &launch->deadline);
    if (is_shared(launch))
        close(launch->fd);
    else if (launch->fd != launch->last_words)
        foreign_hang_up(launch->fd);
    launch->fd = -1;
    forget_input(launch);
}

void launch_end(struct launch *launch)
{
    struct attach_server *server = launch->server;
    struct gateway *gateway = server->gateway;
    launch_close(launch);
    launch_release_listeners(launch);
    if (launch->sandbox != NULL) {
        struct sandbox *sandbox = launch->sandbox;
        launch->sandbox = NULL;
        launch_move_to(launch, LAUNCH_DETACHING);
        sandbox_detach(sandbox, on_detached, launch);
        if (!launch->moved)
            predecessors_detach(gateway->predecessors, launch->name);
        launch_check_frozen(server);
        return;
    }
    bool private = launch->private;
    launch_free(launch);
    if (private)
        gateway_stop(gateway);
}

/* What to wait for follows from the state alone. */
static void watch_connection(struct launch *launch)
{
    struct ev_loop *loop = launch->server->gateway->loop;
    size_t unsent = launch->out.len - launch->out_sent;
    if (launch->server->frozen)
        return;
    int events = unsent > 0 ? EV_WRITE : 0;
    if (launch->state != LAUNCH_UPDATING && unsent < OUT_MAX && !launch->held)
        events |= EV_READ;
    if (ev_is_active(&launch->io) && (launch->io.events & (EV_READ | EV_WRITE)) == events)
        return;
    ev_io_stop(loop, &launch->io);
    if (events != 0) {
        ev_io_set(&launch->io, launch->fd, events);
        ev_io_start(loop, &launch->io);
    }
}

bool launch_flush(struct launch *launch)
{
    if (launch->server->given || launch->received)
        return true;
    while (launch->out_sent < launch->out.len) {
        ssize_t n = send(launch->fd, launch->out.data + launch->out_sent,
                         launch->out.len - launch->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n <= 0) {
            launch_end(launch);
            return false;
        }
        launch->out_sent += (size_t)n;
    }
    if (launch->out_sent == launch->out.len) {
        json_free(&launch->out);
        launch->out_sent = 0;
        if (launch->state == LAUNCH_REFUSED)
            shutdown(launch->fd, SHUT_WR);
    }
    watch_connection(launch);
    return true;
}

/* Closes the object that was opened in `message`, frees it, and sends it. False as flush(). */
static bool send_message(struct launch *launch, struct json *message)
{
    json_object_close(message);
    frame_write(&launch->out, (struct str){message->data, message->len});
    json_free(message);
    return launch_flush(launch);
}

static struct json begin_message(const char *type)
{
    struct json message = {0};
    json_object_open(&message, NULL);
    json_text(&message, "type", str_of(type));
    return message;
}

static void write_said(const struct launch *launch, struct json *message, const char *key,
                       enum fault_level level)
{
    size_t count = 0;
    for (size_t i = 0; i < launch->said.count; i++) {
        if (launch->said.items[i].level != level)
            continue;
        if (count++ == 0)
            json_array_open(message, key);
        json_text(message, NULL, str_of(launch->said.items[i].text));
    }
    if (count > 0)
        json_array_close(message);
}

/* ---- refusing ---- */

static bool refuse(struct launch *launch, const char *why)
{
    struct json message = begin_message("refused");
    json_text(&message, "message", str_of(why));
    write_said(launch, &message, "faults", FAULT_ERROR);
    if (!launch->private) /* whose launcher has the same standard error */
        log_line("a launcher (uid %" PRIu32 ", pid %" PRId32 ") was refused: %s", launch->uid,
                 launch->pid, why);
    forget_input(launch);
    launch_move_to(launch, LAUNCH_REFUSED);
    ev_timer_stop(launch->server->gateway->loop, &launch->deadline);
    ev_timer_set(&launch->deadline, refused_linger_s, 0.);
    ev_timer_start(launch->server->gateway->loop, &launch->deadline);
    return send_message(launch, &message);
}

/* A launcher that breaks the protocol after it attached is not to be trusted with a sandbox. */
static bool give_up(struct launch *launch, const char *why)
{
    if (launch->state == LAUNCH_WAITING)
        return refuse(launch, why);
    log_line("the launcher of %s (uid %" PRIu32 ", pid %" PRId32 ") is cut off: %s", launch->name,
             launch->uid, launch->pid, why);
    launch_end(launch);
    return false;
}

/* ---- attaching ---- */

struct launch *launch_find(struct attach_server *server, const char *name)
{
    struct launch *launch;
    TAILQ_FOREACH(launch, &server->attached, link)
    if (strcmp(launch->name, name) == 0)
        return launch;
    return NULL;
}

static bool has_equal_lists(const struct launch *launch, const struct launch *other)
{
    return other != launch && other->state == LAUNCH_ATTACHED && other->shares &&
           memcmp(other->lists, launch->lists, sizeof(launch->lists)) == 0;
}

struct policy *launch_share(struct launch *launch, struct policy *narrowing)
{
    const struct launch *other;
    struct json lists = {0};
    if (launch->private || narrowing == NULL)
        return narrowing;
    terms_write(&lists, narrowing);
    digest_make(launch->lists, (struct str){lists.data, lists.len});
    json_free(&lists);
    launch->shares = true;
    TAILQ_FOREACH(other, &launch->server->attached, link)
    if (has_equal_lists(launch, other)) {
        policy_free(narrowing);
        return policy_share(other->narrowed);
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
        if (message->listeners[i] != ATTACH_PROXY)
            return srt_err_set(err, "transparent egress is not available in this version");
        if (!launch_socket_cookie(launch->fds[i], &cookie))
            return srt_err_set(err, "descriptor %zu is not a socket", i);
        if (listener_is_taken(launch, cookie))
            return srt_err_set(err, "descriptor %zu is the listener of somebody else", i);
        struct listener *listener = listener_adopt(steal_fd(&launch->fds[i]), err);
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
    launch->attached_ms = monotonic_ms();
    return 0;
}

static bool attach(struct launch *launch, const struct attach_message *message)
{
    struct srt_err err;
    if (launch->state != LAUNCH_WAITING)
        return give_up(launch, "a second attach message");
    if (make_sandbox(launch, message, &err) != 0)
        return refuse(launch, err.text);
    ev_timer_stop(launch->server->gateway->loop, &launch->deadline);
    launch_move_to(launch, LAUNCH_ATTACHED);
    record_life(launch, "attach", message);
    struct json answer = begin_message("attached");
    json_text(&answer, "sandbox", str_of(launch->name));
    json_text(&answer, "policy", str_of(launch->policy));
    json_number(&answer, "generation", (int64_t)launch->server->gateway->snapshot->generation);
    places_write(launch->server->gateway, &answer);
    write_said(launch, &answer, "warnings", FAULT_WARNING);
    return send_message(launch, &answer);
}

/* ---- updates ---- */

void launch_updated(struct launch *launch)
{
    if (launch->state != LAUNCH_UPDATING || --launch->updates_left > 0)
        return; /* or the launcher has gone meanwhile */
    launch->narrowed = launch->next_narrowed;
    launch->state = LAUNCH_ATTACHED;
    struct attach_server *server = launch->server;
    struct json answer = begin_message("updated");
    json_number(&answer, "serial", launch->serial);
    json_number(&answer, "generation", (int64_t)server->gateway->snapshot->generation);
    if (send_message(launch, &answer))
        launch_handle_frames(launch);
    launch_check_frozen(server);
}

static void on_updated(void *arg)
{
    launch_updated(arg);
}

static bool reject(struct launch *launch, int64_t serial, const char *why)
{
    struct json answer = begin_message("rejected");
    json_number(&answer, "serial", serial);
    json_text(&answer, "message", str_of(why));
    return send_message(launch, &answer);
}

static bool update(struct launch *launch, const struct attach_message *message)
{
    struct srt_err err;
    struct policy *narrowing;
    if (launch->state != LAUNCH_ATTACHED)
        return give_up(launch, "an update before the attach message");
    struct faults ignored = {0};
    int result = terms_narrowing(launch->private, launch->asks, message->network, &narrowing,
                                 &ignored, &err);
    faults_free(&ignored);
    if (result != 0)
        return reject(launch, message->serial, err.text);
    launch->serial = message->serial;
    launch->next_narrowed = narrowing;
    launch->shares = false;
    launch->updates_left = 1;
    launch->state = LAUNCH_UPDATING;
    watch_connection(launch);
    sandbox_update(launch->sandbox, narrowing, on_updated, launch);
    launch->updates_left += launch_tell_update(launch, message->network);
    return true;
}

/* ---- answers ---- */

static bool answer(struct launch *launch, const struct attach_message *message)
{
    struct json ignored = {0};
    char peer[48];
    if (launch->state != LAUNCH_ATTACHED || !launch->asks)
        return give_up(launch, "an answer that nobody asked for");
    snprintf(peer, sizeof(peer), "uid=%" PRIu32 ",pid=%" PRId32, launch->uid, launch->pid);
    /* One that comes late finds nothing; the launcher has been told why, or will be. */
    (void)desk_answer(launch->server->gateway->desk,
                      &(struct desk_answer){.id = str_of(message->id),
                                            .approves = message->approves,
                                            .keeps = message->keeps,
                                            .peer = peer,
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
        struct json message = begin_message(type);
        json_append(&message, STR(","));
        json_append(&message, (struct str){members->data, members->len});
        (void)send_message(launch, &message);
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
static bool handle_fault(struct launch *launch, const struct attach_message *message,
                         const char *why)
{
    if (launch->state == LAUNCH_ATTACHED && message->answerable)
        return reject(launch, message->serial, why);
    return give_up(launch, why);
}

bool launch_handle_frames(struct launch *launch)
{
    while (!launch->server->frozen &&
           (launch->state == LAUNCH_WAITING || launch->state == LAUNCH_ATTACHED)) {
        struct attach_message message;
        struct srt_err err;
        struct str json;
        enum frame_result result = frames_peek(&launch->in, &json);
        if (result == FRAME_BAD)
            return give_up(launch, "a frame of no valid length");
        if (result == FRAME_MORE)
            return true;
        int read = attach_message_read(&message, json, &err);
        launch->server->in_bytes -= launch->in.len;
        frames_drop(&launch->in);
        launch->server->in_bytes += launch->in.len;
        bool alive;
        if (read != 0)
            alive = handle_fault(launch, &message, err.text);
        else if (message.type == ATTACH_ATTACH)
            alive = attach(launch, &message);
        else if (message.type == ATTACH_UPDATE)
            alive = update(launch, &message);
        else
            alive = answer(launch, &message);
        attach_message_free(&message);
        if (!alive)
            return false;
    }
    return true;
}

/* Takes every descriptor that came, wanted or not, so that none leaks. */
static bool take_descriptors(struct launch *launch, struct msghdr *header)
{
    bool fits = (header->msg_flags & MSG_CTRUNC) == 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c != NULL; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd = -1;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (launch->state == LAUNCH_WAITING && launch->fd_count < ATTACH_MAX_LISTENERS) {
                launch->fds[launch->fd_count++] = fd;
            } else {
                foreign_close(fd);
                fits = false;
            }
        }
    }
    return fits;
}

static struct launch *heavier(struct launch *a, struct launch *b)
{
    return b->in.len > a->in.len ? b : a;
}

/* Whoever holds most makes room: frames that are never finished must not keep the others out.
 * False: that is `launch` itself, and it is given up. */
static bool make_room_for(struct launch *launch, size_t bytes)
{
    struct attach_server *server = launch->server;
    while (server->in_bytes + bytes > WAITING_BYTES_MAX) {
        struct launch *heaviest = launch, *other;
        TAILQ_FOREACH(other, &server->waiting, link)
        heaviest = heavier(heaviest, other);
        TAILQ_FOREACH(other, &server->attached, link)
        heaviest = heavier(heaviest, other);
        (void)give_up(heaviest, "too much is being sent to the gateway at once");
        if (heaviest == launch)
            return false;
    }
    return true;
}

/* A launcher that has said all it had to say reads on until its sandbox has ended here: what that
 * was denied last may still be on its way from a worker. It keeps its descriptor: epoll would go on
 * telling of the number of one that is closed while another of the connection is open. */
static void keep_for_last_words(struct launch *launch)
{
    if (launch->sandbox != NULL && launch->out.len == launch->out_sent)
        launch->last_words = launch->fd;
}

/* At once or not at all. */
static void say_last_words(struct launch *launch, struct json *message)
{
    struct json frame = {0};
    frame_write(&frame, (struct str){message->data, message->len});
    if (send(launch->last_words, frame.data, frame.len, MSG_DONTWAIT | MSG_NOSIGNAL) !=
        (ssize_t)frame.len)
        close(steal_fd(&launch->last_words));
    json_free(&frame);
    json_free(message);
}

/* Nobody is let in, and nothing read that was held back, before the pause is over. */
static void pause_reading(struct attach_server *server)
{
    struct ev_loop *loop = server->gateway->loop;
    if (server->listener != NULL)
        ev_io_stop(loop, &server->acceptable);
    ev_timer_stop(loop, &server->pause);
    ev_timer_set(&server->pause, pause_s, 0.);
    ev_timer_start(loop, &server->pause);
}

static void hold(struct launch *launch)
{
    launch->held = true;
    watch_connection(launch);
    pause_reading(launch->server);
}

/* False: `launch` is gone, or there is nothing more to read now. */
static bool read_some(struct launch *launch)
{
    struct attach_server *server = launch->server;
    union {
        char bytes[CMSG_SPACE(FDS_PER_MESSAGE * sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {server->chunk, sizeof(server->chunk)};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    ssize_t n = foreign_receive(launch->fd, &header);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return false;
    if (n < 0 && errno == EBUSY) {
        hold(launch);
        return false;
    }
    if (n <= 0) {
        if (n == 0)
            keep_for_last_words(launch);
        launch_end(launch);
        return false;
    }
    bool fits = take_descriptors(launch, &header);
    if (launch->state == LAUNCH_REFUSED)
        return true;
    if (!fits)
        return give_up(launch, "descriptors that nobody asked for") && false;
    if (!make_room_for(launch, (size_t)n))
        return false;
    frames_add(&launch->in, (struct str){server->chunk, (size_t)n});
    server->in_bytes += (size_t)n;
    return launch_handle_frames(launch);
}

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
    struct launch *launch = io->data;
    (void)loop;
    if ((events & EV_WRITE) != 0 && !launch_flush(launch))
        return;
    if ((events & EV_READ) != 0)
        (void)read_some(launch);
}

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct launch *launch = timer->data;
    (void)loop;
    (void)events;
    if (launch->state == LAUNCH_WAITING)
        (void)refuse(launch, "no attach message came within ten seconds");
    else
        launch_end(launch);
}

/* ---- coming in ---- */

static void make_room(struct attach_server *server)
{
    if (server->waiting_count >= WAITING_MAX)
        launch_end(TAILQ_FIRST(&server->waiting));
}

struct launch *launch_add(struct attach_server *server, int fd)
{
    const int on = 1;
    struct launch *launch = must(calloc(1, sizeof(*launch)));
    struct ucred peer = {0};
    socklen_t len = sizeof(peer);
    launch->server = server;
    launch->fd = fd;
    launch->last_words = -1;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0) {
        launch->uid = peer.uid;
        launch->pid = peer.pid;
    } else {
        launch->uid = UINT32_MAX;
    }
    /* Or the kernel throws away what comes out of band, and what is passed with it. */
    (void)setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
    ev_io_init(&launch->io, on_io, fd, EV_READ);
    ev_timer_init(&launch->deadline, on_deadline, attach_within_s, 0.);
    launch->io.data = launch->deadline.data = launch;
    TAILQ_INSERT_TAIL(&server->waiting, launch, link);
    server->waiting_count++;
    ev_timer_start(server->gateway->loop, &launch->deadline);
    watch_connection(launch);
    return launch;
}

static void release_held(struct launches *launches)
{
    struct launch *launch;
    TAILQ_FOREACH(launch, launches, link)
    if (launch->held) {
        launch->held = false;
        watch_connection(launch);
    }
}

static void on_pause_over(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct attach_server *server = timer->data;
    (void)events;
    if (foreign_is_busy()) {
        pause_reading(server);
        return;
    }
    release_held(&server->waiting);
    release_held(&server->attached);
    if (server->listener != NULL)
        ev_io_start(loop, &server->acceptable);
}

static void on_acceptable(struct ev_loop *loop, ev_io *io, int events)
{
    struct attach_server *server = io->data;
    (void)loop, (void)events;
    for (int i = 0; i < WAITING_MAX; i++) {
        if (foreign_is_busy()) { /* and who makes room may make it more so */
            pause_reading(server);
            return;
        }
        int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            make_room(server);
            launch_add(server, fd);
            continue;
        }
        /* The connection stays in the queue and would wake us without end. */
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            pause_reading(server);
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
    ev_io_init(&server->acceptable, on_acceptable, listener_fd(listener), EV_READ);
    server->acceptable.data = server;
    ev_io_start(server->gateway->loop, &server->acceptable);
}

void attach_append_address(const struct attach_server *server, struct json *line)
{
    char text[ADDRESS_TEXT_MAX];
    if (server->listener == NULL)
        return;
    json_append(line, STR(" control="));
    json_append(line, str_of(gateway_format_address(text, listener_bound(server->listener))));
}

void attach_serve_private(struct attach_server *server, int fd)
{
    launch_add(server, fd)->private = true;
}

void attach_on_denial(void *arg, const struct denial *denial)
{
    struct launch *launch = denial->owner;
    (void)arg;
    if (launch->fd < 0 && launch->last_words < 0 && launch->state != LAUNCH_MOVED)
        return;
    if (launch->out.len - launch->out_sent >= OUT_MAX) {
        launch->missed++;
        return;
    }
    char ts[64];
    time_t seconds = (time_t)(denial->ts_ms / 1000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    size_t len = strftime(ts, sizeof(ts), "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(ts + len, sizeof(ts) - len, ".%03dZ", (int)(denial->ts_ms % 1000));

    struct json message = begin_message("denial");
    json_text(&message, "ts", str_of(ts));
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
    if (launch->fd >= 0 && launch->state != LAUNCH_MOVED) {
        launch->missed = 0;
        (void)send_message(launch, &message);
        return;
    }
    json_object_close(&message);
    if (launch->last_words >= 0) {
        say_last_words(launch, &message);
        return;
    }
    if (handover_denial(launch->server->gateway->handover, launch->name,
                        (struct str){message.data, message.len}))
        launch->missed = 0;
    else
        launch->missed++;
    json_free(&message);
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
    for (launch = TAILQ_FIRST(&server->waiting); launch != NULL; launch = next) {
        next = TAILQ_NEXT(launch, link);
        launch_close(launch);
        launch_free(launch);
    }
    for (launch = TAILQ_FIRST(&server->attached); launch != NULL; launch = next) {
        next = TAILQ_NEXT(launch, link);
        launch_close(launch);
        if (!launch->moved && !launch->received)
            record_life(launch, "detach", NULL);
        launch_free(launch);
    }
    ev_timer_stop(loop, &server->pause);
    if (server->listener != NULL) {
        ev_io_stop(loop, &server->acceptable);
        listener_close(server->listener);
    }
    free(server);
}
