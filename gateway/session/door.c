#include "session/session.h"

#include "record/log.h"
#include "session/datagrams.h"
#include "session/visit.h"
#include "srt/cleanup.h"
#include "srt/must.h"
#include "transport/foreign.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
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

/* What is asked there would be a new name's. */
static bool is_frozen(const struct door *door)
{
    const enum listener_kind kind = listener_kind(door->listener);
    return door->sandbox != NULL && door->sandbox->names_frozen &&
           (kind == LISTENER_DNS_UDP || kind == LISTENER_DNS_TCP);
}

static bool is_accepted_elsewhere(const struct door *door)
{
    return door->sandbox != NULL && listener_kind(door->listener) != LISTENER_DNS_UDP;
}

/* Of what comes; then not before it is asked again. */
static bool is_told_once(const struct door *door)
{
    return door->gate >= 0 && is_accepted_elsewhere(door);
}

void door_watch(struct door *door)
{
    struct worker *worker = door->worker;
    if (door->listener == NULL || door->shut || door->visit != NULL || is_frozen(door) ||
        ev_is_active(&worker->accept_pause)) {
        ev_io_stop(worker->loop, &door->readable);
        return;
    }
    struct epoll_event once = {.events = EPOLLIN | EPOLLONESHOT};
    if (is_told_once(door))
        (void)epoll_ctl(door->gate, EPOLL_CTL_MOD, listener_fd(door->listener), &once);
    ev_io_start(worker->loop, &door->readable);
}

void door_unwatch(struct door *door)
{
    if (!is_told_once(door))
        ev_io_stop(door->worker->loop, &door->readable);
}

void doors_resume(struct worker *worker)
{
    struct door *door;
    LIST_FOREACH(door, &worker->doors, link)
        door_watch(door);
}

static void shut_there(struct visit *visit)
{
    (void)shutdown(listener_fd(visit->listener), SHUT_RDWR);
}

void door_shut(struct door *door, const char *why)
{
    struct worker *worker = door->worker;
    if (door->shut || door->listener == NULL)
        return;
    ev_io_stop(worker->loop, &door->readable);
    door->shut = true;
    if (door->sandbox != NULL)
        visit_begin_alone(visit_create(door, shut_there));
    else
        (void)shutdown(listener_fd(door->listener), SHUT_RDWR);
    if (workers_may_complain(worker->team, ev_now(worker->loop)))
        log_line("nothing is accepted from a listener of %s any more: %s",
                 door->sandbox != NULL ? door->sandbox->name : door->name, why);
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

static void let_in(struct door *door, const struct guest *guest, bool has_queued)
{
    struct worker *worker = door->worker;
    if (door->sandbox != NULL)
        stream_unlinger(guest->fd);
    if (door->sandbox != NULL && guest->peer.ss_family == AF_UNIX &&
        !foreign_accepted(guest->fd, worker->room.scratch, RELAY_CHUNK)) {
        door_shut(door, "its clients can pass descriptors there");
        return;
    }
    worker->accept_pause_s = 0;
    bool at_once;
    const enum outcome capacity = capacity_for(door, &at_once);
    if (at_once)
        close(guest->fd);
    else
        session_create(door, guest->fd, (const struct sockaddr *)&guest->peer, capacity,
                       has_queued);
}

static void let_all_in(struct door *door, struct guests *guests)
{
    /* Who comes by way of another thread has been there for long enough, too. */
    const size_t queued = door->sandbox != NULL ? 0 : QUEUED_BEHIND;
    for (size_t i = 0; i < guests->count; i++)
        let_in(door, &guests->list[i], i >= queued);
    guests->count = 0;
    if (guests->error == EINVAL || guests->error == EBADF || guests->error == ENOTSOCK)
        door_shut(door, "it does not listen");
    else if (guests->error != 0)
        pause_accepting(door->worker, guests->error);
}

static void on_connections(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop, (void)revents;
    struct door *door = io->data;
    struct guests guests;
    guests_accept(&guests, listener_fd(door->listener));
    let_all_in(door, &guests);
}

/* ---- a launcher's, which it has, too ---- */

/* Where its launcher has cleared O_NONBLOCK and taken the connection, this waits for the next. */
static void accept_there(struct visit *visit)
{
    guests_accept(visit->guests, listener_fd(visit->listener));
}

static void on_accepted_there(struct visit *visit)
{
    let_all_in(visit->door, visit->guests);
}

static void on_foreign_connections(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop, (void)revents;
    struct door *door = io->data;
    struct epoll_event told;
    if (is_told_once(door) && epoll_wait(door->gate, &told, 1, 0) != 1)
        return;
    struct visit *visit = visit_create(door, accept_there);
    visit->guests = must(malloc(sizeof(*visit->guests)));
    visit->guests->count = 0;
    visit->back = on_accepted_there;
    visit_begin(visit);
}

static void tune_there(struct visit *visit)
{
    visit->failed = !listener_unblock(visit->listener) || !listener_tune(visit->listener);
}

static void on_tuned_there(struct visit *visit)
{
    if (visit->failed)
        door_shut(visit->door, "it cannot be used");
}

/* It is watched from then on. */
static void tune_foreign(struct door *door)
{
    struct visit *visit = visit_create(door, tune_there);
    visit->back = on_tuned_there;
    visit_begin(visit);
}

/* A listener is shared: with other workers, a launcher, a process that takes our place. While
 * somebody has it open, an epoll instance that it was added to goes on telling of it, although we
 * have closed it and its number is another's, and libev does not remove what it no longer watches.
 * So it is watched through an instance of its own, which ends with the door. It tells once of
 * connections that are accepted elsewhere: whoever comes meanwhile would wake the worker in vain.
 */
static int make_gate(const struct listener *listener, bool once)
{
    struct epoll_event readable = {.events = once ? EPOLLIN | EPOLLONESHOT : EPOLLIN};
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

typedef void door_reaction(struct ev_loop *loop, ev_io *io, int revents);

static door_reaction *reaction_at(const struct door *door)
{
    if (door->sandbox == NULL)
        return on_connections;
    return is_accepted_elsewhere(door) ? on_foreign_connections : on_datagrams;
}

struct door *door_open(struct worker *worker, struct listener *listener, struct sandbox *sandbox)
{
    struct door *door = must(calloc(1, sizeof(*door)));
    door->worker = worker;
    door->listener = listener;
    door->sandbox = sandbox;
    door->proto = proto_at(listener);
    door->gate = make_gate(listener, is_accepted_elsewhere(door));
    ev_io_init(&door->readable, reaction_at(door),
               door->gate >= 0 ? door->gate : listener_fd(listener), EV_READ);
    door->readable.data = door;
    LIST_INSERT_HEAD(&worker->doors, door, link);
    if (sandbox != NULL) {
        tune_foreign(door);
    } else {
        (void)listener_tune(listener);
        door_watch(door);
    }
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
    if (door->visit != NULL)
        visit_forget(door->visit);
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
