#include "session/session.h"

#include "record/log.h"
#include "session/datagrams.h"
#include "srt/cleanup.h"
#include "srt/must.h"
#include "transport/foreign.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ACCEPT_TURN = 16,      /* connections before others get their turn */
    OVERFLOW = 256,        /* beyond max-connections so many are told so; more are closed at once */
    SANDBOX_OVERFLOW = 16, /* the same beyond max-sandbox-connections */
    QUEUED_BEHIND = 2,     /* so many others: long enough to have sent something */
};

#define PAUSE_FIRST_S 0.05
#define PAUSE_LAST_S 1.0

/* Descriptors have run out. Accepting would spin, since the listener stays readable; what is open
 * goes on, and the kernel queues whoever comes. */
static void pause_accepting(struct worker *worker, int error)
{
    struct door *door;
    LIST_FOREACH(door, &worker->doors, link)
        ev_io_stop(worker->loop, &door->readable);
    if (ev_is_active(&worker->accept_pause))
        return;
    double pause = worker->accept_pause_s * 2;
    worker->accept_pause_s = pause < PAUSE_FIRST_S  ? PAUSE_FIRST_S
                             : pause > PAUSE_LAST_S ? PAUSE_LAST_S
                                                    : pause;
    ev_timer_set(&worker->accept_pause, worker->accept_pause_s, 0.);
    ev_timer_start(worker->loop, &worker->accept_pause);
    counter_add(&worker->counters.accept_pauses, 1);
    if (workers_may_complain(worker->team, ev_now(worker->loop)))
        log_line("cannot accept connections: %s; accepting pauses", strerror(error));
}

void doors_resume(struct worker *worker)
{
    struct door *door;
    LIST_FOREACH(door, &worker->doors, link)
        if (door->listener != NULL && !door->shut)
            ev_io_start(worker->loop, &door->readable);
}

void door_shut(struct door *door, const char *why)
{
    struct worker *worker = door->worker;
    ev_io_stop(worker->loop, &door->readable);
    door->shut = true;
    (void)shutdown(listener_fd(door->listener), SHUT_RDWR);
    if (workers_may_complain(worker->team, ev_now(worker->loop)))
        log_line("nothing is accepted from a listener of %s any more: %s",
                 door->sandbox != NULL ? door->sandbox->name : door->name, why);
}

/* A launcher shares its listener with us, and with it the flag that keeps accept4() from waiting;
 * it may also have taken the connection itself. An honest one that cleared the flag is forgiven.
 * False: we could be made to wait. */
static bool begin_accepting(struct door *door)
{
    if (door->sandbox == NULL)
        return true;
    const int listener = listener_fd(door->listener), flags = fcntl(listener, F_GETFL);
    if (flags >= 0 && (flags & O_NONBLOCK) == 0)
        (void)fcntl(listener, F_SETFL, flags | O_NONBLOCK);
    return alarm_set(&door->worker->alarm);
}

static void end_accepting(struct door *door)
{
    if (door->sandbox != NULL)
        alarm_clear(&door->worker->alarm);
}

/* False: no more for now. */
static bool after_failure(struct door *door, int error)
{
    switch (error) {
    case EAGAIN:
        return false;
    case EINTR:
        if (door->sandbox != NULL)
            door_shut(door, "its launcher makes us wait there");
        return door->sandbox == NULL;
    case EINVAL:
    case EBADF:
    case ENOTSOCK:
        door_shut(door, "it does not listen");
        return false;
    /* About one connection that went before it was accepted (accept(2)). */
    case ECONNABORTED:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
        return true;
    default:
        pause_accepting(door->worker, error);
        return false;
    }
}

static unsigned connections_of(const struct sandbox *sandbox)
{
    unsigned sum = 0;
    for (size_t i = 0; i < sandbox->door_count; i++)
        sum += sandbox->doors[i]->sessions;
    return sum;
}

/* Whether one more is too many; `*at_once`: even to be told so. */
static enum outcome capacity_now(const struct door *door, bool *at_once)
{
    const struct gateway_config *config = door->worker->tenure->snapshot->config;
    const unsigned open = workers_connections(door->worker->team);
    *at_once = open >= config->max_connections + OVERFLOW;
    if (open >= config->max_connections)
        return OUTCOME_OVERLOAD;
    if (door->sandbox == NULL)
        return OUTCOME_ALLOWED;
    const unsigned own = connections_of(door->sandbox);
    *at_once = own >= config->max_sandbox_connections + SANDBOX_OVERFLOW;
    return own >= config->max_sandbox_connections ? OUTCOME_LIMIT : OUTCOME_ALLOWED;
}

/* Who was refused and is gone takes nobody's place. */
static enum outcome capacity_for(const struct door *door, bool *at_once)
{
    const enum outcome capacity = capacity_now(door, at_once);
    if (capacity == OUTCOME_ALLOWED)
        return capacity;
    farewells_look(&door->worker->farewells);
    return capacity_now(door, at_once);
}

/* accept4() makes a whole socket before it finds that there is nobody to give it to: ten times as
 * dear as to ask. */
static bool somebody_waits(const struct door *door)
{
    struct pollfd listener = {.fd = listener_fd(door->listener), .events = POLLIN};
    return poll(&listener, 1, 0) != 0;
}

/* False: no more for now. */
static bool accept_one(struct door *door, bool has_queued)
{
    struct worker *worker = door->worker;
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(peer);
    const int fd = accept4(listener_fd(door->listener), (struct sockaddr *)&peer, &len,
                           SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return after_failure(door, errno);
    if (door->sandbox != NULL)
        stream_unlinger(fd);
    if (door->sandbox != NULL && peer.ss_family == AF_UNIX &&
        !foreign_accepted(fd, worker->room.scratch, RELAY_CHUNK)) {
        door_shut(door, "its clients can pass descriptors there");
        return false;
    }
    worker->accept_pause_s = 0;
    bool at_once;
    const enum outcome capacity = capacity_for(door, &at_once);
    if (at_once)
        close(fd);
    else
        session_create(door, fd, (const struct sockaddr *)&peer, capacity, has_queued);
    return true;
}

static void on_connections(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop, (void)revents;
    struct door *door = io->data;
    if (!begin_accepting(door)) {
        pause_accepting(door->worker, ENOMEM);
        return;
    }
    for (int turn = 0; turn < ACCEPT_TURN && somebody_waits(door); turn++)
        if (!accept_one(door, turn >= QUEUED_BEHIND))
            break;
    end_accepting(door);
}

/* A listener is shared: with other workers, a launcher, a process that takes our place. While
 * somebody has it open, an epoll instance that it was added to goes on telling of it, although we
 * have closed it and its number is another's, and libev does not remove what it no longer watches.
 * So it is watched through an instance of its own, which ends with the door. */
static int make_gate(const struct listener *listener)
{
    struct epoll_event readable = {.events = EPOLLIN};
    autoclose int gate = epoll_create1(EPOLL_CLOEXEC);
    if (gate < 0 || epoll_ctl(gate, EPOLL_CTL_ADD, listener_fd(listener), &readable) != 0)
        return -1;
    return steal_fd(&gate);
}

static const struct proto *proto_at(const struct listener *listener)
{
    switch (listener_kind(listener)) {
    case LISTENER_TRANSPARENT:
        return &proto_transparent;
    case LISTENER_DNS_TCP:
        return &proto_dns;
    case LISTENER_PROXY:
    case LISTENER_DNS_UDP:
        break;
    }
    return NULL;
}

struct door *door_open(struct worker *worker, struct listener *listener, struct sandbox *sandbox)
{
    struct door *door = must(calloc(1, sizeof(*door)));
    door->worker = worker;
    door->listener = listener;
    door->sandbox = sandbox;
    door->proto = proto_at(listener);
    stream_tune(listener_fd(listener)); /* what is accepted from it inherits that (tcp(7)) */
    if (addr_is_loopback(&listener_bound(listener)->addr))
        stream_unpace(listener_fd(listener));
    stream_refuse_descriptors(listener_fd(listener));
    door->gate = make_gate(listener);
    ev_io_init(&door->readable,
               listener_kind(listener) == LISTENER_DNS_UDP ? on_datagrams : on_connections,
               door->gate >= 0 ? door->gate : listener_fd(listener), EV_READ);
    door->readable.data = door;
    LIST_INSERT_HEAD(&worker->doors, door, link);
    if (!ev_is_active(&worker->accept_pause))
        ev_io_start(worker->loop, &door->readable);
    return door;
}

static void free_if_unused(struct door *door)
{
    if (!door->closed || door->sessions > 0)
        return;
    free(door->name);
    free(door);
}

void door_retire(struct door *door)
{
    ev_io_stop(door->worker->loop, &door->readable);
    if (door->gate >= 0)
        close(door->gate);
    door->gate = -1;
    listener_release(door->listener);
    door->listener = NULL;
}

void door_close(struct door *door)
{
    assert(!door->closed);
    door_retire(door);
    LIST_REMOVE(door, link);
    door->config = NULL;
    door->closed = true;
    free_if_unused(door);
}

void door_leave(struct door *door)
{
    assert(door->sessions > 0);
    door->sessions--;
    free_if_unused(door);
}

void door_linger(struct door *door)
{
    door->sessions++;
    workers_connection_opened(door->worker->team);
}

void door_unlinger(void *arg)
{
    struct door *door = arg;
    workers_connection_closed(door->worker->team);
    door_leave(door);
}
