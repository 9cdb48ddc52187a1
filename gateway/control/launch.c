#include "control/launch.h"

#include "control/desk.h"
#include "control/granting.h"
#include "control/predecessors.h"
#include "dns/stand_in.h"
#include "record/log.h"
#include "srt/cleanup.h"
#include "srt/clock.h"
#include "srt/must.h"
#include "transport/foreign.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/socket.h>

enum {
    WAITING_BYTES_MAX = 64 << 20, /* what all unfinished frames may hold together */
    FDS_PER_MESSAGE = 253, /* all that can come (SCM_MAX_FD), so that the kernel closes none */
};
static const double attach_within_s = 10;
static const double refused_linger_s = 5;

/* ---- its life ---- */

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
    stand_ins_free(launch->names);
    json_free(&launch->out);
    free(launch->name);
    free(launch->client);
    free(launch->policy);
    faults_free(&launch->said);
    free(launch);
}

const char *launch_peer(const struct launch *launch, char out[LAUNCH_PEER_MAX])
{
    snprintf(out, LAUNCH_PEER_MAX, "uid=%" PRIu32 ",pid=%" PRId32, launch->uid, launch->pid);
    return out;
}

void launch_record(struct launch *launch, const char *kind, const struct attach_message *message)
{
    struct json fields = {0};
    char peer[LAUNCH_PEER_MAX];
    json_text(&fields, "kind", str_of(kind));
    json_text(&fields, "sandbox", str_of(launch->name));
    json_text(&fields, "client", str_of(launch->client));
    json_text(&fields, "policy", str_of(launch->policy));
    json_number(&fields, "generation", (int64_t)launch->server->gateway->snapshot->generation);
    json_text(&fields, "peer", str_of(launch_peer(launch, peer)));
    if (message != NULL) {
        json_text(&fields, "command", str_of(message->command));
        json_bool(&fields, "narrowed", message->network != NULL);
    } else {
        json_number(&fields, "duration_ms", clock_ms() - launch->attached_ms);
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
        launch_record(launch, "detach", NULL);
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
    apart_set(launch->server->gateway->apart, &launch->watch, 0);
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

struct launch *launch_find(struct attach_server *server, const char *name)
{
    struct launch *launch;
    TAILQ_FOREACH(launch, &server->attached, link)
        if (strcmp(launch->name, name) == 0)
            return launch;
    return NULL;
}

/* ---- what it is told ---- */

/* What to wait for follows from the state alone. */
void launch_watch(struct launch *launch)
{
    size_t unsent = launch->out.len - launch->out_sent;
    if (launch->server->frozen || launch->fd < 0)
        return;
    int events = unsent > 0 ? EV_WRITE : 0;
    if (launch->state != LAUNCH_UPDATING && unsent < OUT_MAX && !launch->held)
        events |= EV_READ;
    apart_set(launch->server->gateway->apart, &launch->watch, events);
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
    launch_watch(launch);
    return true;
}

/* Closes the object that was opened in `message`, frees it, and sends it. False as launch_flush().
 */
bool launch_send(struct launch *launch, struct json *message)
{
    json_object_close(message);
    frame_write(&launch->out, (struct str){message->data, message->len});
    json_free(message);
    return launch_flush(launch);
}

struct json launch_compose(const char *type)
{
    struct json message = {0};
    json_object_open(&message, NULL);
    json_text(&message, "type", str_of(type));
    return message;
}

void launch_write_said(const struct launch *launch, struct json *message, const char *key,
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

bool launch_refuse(struct launch *launch, const char *why)
{
    struct json message = launch_compose("refused");
    json_text(&message, "message", str_of(why));
    launch_write_said(launch, &message, "faults", FAULT_ERROR);
    if (!launch->private) /* whose launcher has the same standard error */
        log_line("a launcher (uid %" PRIu32 ", pid %" PRId32 ") was refused: %s", launch->uid,
                 launch->pid, why);
    forget_input(launch);
    launch_move_to(launch, LAUNCH_REFUSED);
    ev_timer_stop(launch->server->gateway->loop, &launch->deadline);
    ev_timer_set(&launch->deadline, refused_linger_s, 0.);
    ev_timer_start(launch->server->gateway->loop, &launch->deadline);
    return launch_send(launch, &message);
}

/* A launcher that breaks the protocol after it attached is not to be trusted with a sandbox. */
bool launch_give_up(struct launch *launch, const char *why)
{
    if (launch->state == LAUNCH_WAITING)
        return launch_refuse(launch, why);
    log_line("the launcher of %s (uid %" PRIu32 ", pid %" PRId32 ") is cut off: %s", launch->name,
             launch->uid, launch->pid, why);
    launch_end(launch);
    return false;
}

/* At once or not at all. */
void launch_say_last_words(struct launch *launch, struct json *message)
{
    struct json frame = {0};
    json_object_close(message);
    frame_write(&frame, (struct str){message->data, message->len});
    if (send(launch->last_words, frame.data, frame.len, MSG_DONTWAIT | MSG_NOSIGNAL) !=
        (ssize_t)frame.len)
        close(steal_fd(&launch->last_words));
    json_free(&frame);
    json_free(message);
}

/* ---- what it says ---- */

bool launch_handle_frames(struct launch *launch)
{
    while (!launch->server->frozen &&
           (launch->state == LAUNCH_WAITING || launch->state == LAUNCH_ATTACHED)) {
        struct attach_message message;
        struct srt_err err;
        struct str json;
        enum frame_result result = frames_peek(&launch->in, &json);
        if (result == FRAME_BAD)
            return launch_give_up(launch, "a frame of no valid length");
        if (result == FRAME_MORE)
            return true;
        int read = attach_message_read(&message, json, &err);
        launch->server->in_bytes -= launch->in.len;
        frames_drop(&launch->in);
        launch->server->in_bytes += launch->in.len;
        const bool alive = read == 0 ? attach_take(launch, &message)
                                     : attach_take_fault(launch, &message, err.text);
        attach_message_free(&message);
        if (!alive)
            return false;
    }
    return true;
}

/* Takes every descriptor that came, wanted or not, so that none leaks. Returns what is wrong with
 * them, or NULL. There is room for all that can come, so what was cut could not be opened. */
static const char *take_descriptors(struct launch *launch, struct msghdr *header)
{
    const char *wrong = (header->msg_flags & MSG_CTRUNC) != 0
                            ? "the gateway may open no more descriptors (ulimit -n)"
                            : NULL;
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
                wrong = "descriptors that nobody asked for";
            }
        }
    }
    return wrong;
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
        (void)launch_give_up(heaviest, "too much is being sent to the gateway at once");
        if (heaviest == launch)
            return false;
    }
    return true;
}

/* A launcher that has said all it had to say reads on until its sandbox has ended here: what that
 * was denied last may still be on its way from a worker. */
static void keep_for_last_words(struct launch *launch)
{
    if (launch->sandbox != NULL && launch->out.len == launch->out_sent)
        launch->last_words = launch->fd;
}

static void hold(struct launch *launch)
{
    launch->held = true;
    launch_watch(launch);
    attach_pause(launch->server);
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
    const char *wrong = take_descriptors(launch, &header);
    if (launch->state == LAUNCH_REFUSED)
        return true;
    if (wrong != NULL)
        return launch_give_up(launch, wrong) && false;
    if (!make_room_for(launch, (size_t)n))
        return false;
    frames_add(&launch->in, (struct str){server->chunk, (size_t)n});
    server->in_bytes += (size_t)n;
    return launch_handle_frames(launch);
}

static void on_io(struct apart_watch *watch, int events)
{
    struct launch *launch = watch->data;
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
        (void)launch_refuse(launch, "no attach message came within ten seconds");
    else
        launch_end(launch);
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
    launch->watch = (struct apart_watch){.fd = fd, .heard = on_io, .data = launch};
    ev_timer_init(&launch->deadline, on_deadline, attach_within_s, 0.);
    launch->deadline.data = launch;
    TAILQ_INSERT_TAIL(&server->waiting, launch, link);
    server->waiting_count++;
    ev_timer_start(server->gateway->loop, &launch->deadline);
    launch_watch(launch);
    return launch;
}
