#include "transport/connector.h"

#include "srt/must.h"
#include "transport/stream.h"

#include <assert.h>
#include <errno.h>
#include <ev.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define STAGGER_S 0.25

enum { FEW = 4 }; /* addresses */

struct attempt {
    struct connector *connector;
    int fd; /* -1: not begun, or failed */
    double began_s;
    ev_io writable;
    struct addr addr;
};

struct connector {
    struct ev_loop *loop;
    connector_done_fn *done;
    void *arg;
    struct reach *reach;
    struct config_bind bind;
    ev_timer stagger, deadline;
    uint16_t port;
    uint8_t count, begun, open;
    bool in_slab;
    enum outcome worst;        /* that speaks best for the failures so far */
    struct attempt attempts[]; /* in the order of trying */
};

static void attempt_close(struct attempt *attempt)
{
    if (attempt->fd < 0)
        return;
    ev_io_stop(attempt->connector->loop, &attempt->writable);
    close(attempt->fd);
    attempt->fd = -1;
    attempt->connector->open--;
}

void connector_cancel(struct connector *connector)
{
    for (uint32_t i = 0; i < connector->begun; i++)
        attempt_close(&connector->attempts[i]);
    ev_timer_stop(connector->loop, &connector->stagger);
    ev_timer_stop(connector->loop, &connector->deadline);
    if (connector->in_slab)
        slab_give(connector);
    else
        free(connector);
}

static void finish(struct connector *connector, const struct connected *connected)
{
    connector_done_fn *done = connector->done;
    void *arg = connector->arg;
    connector_cancel(connector);
    done(arg, connected);
}

static enum outcome outcome_of(int error)
{
    switch (error) {
    case ECONNREFUSED:
        return OUTCOME_CONNECT_REFUSED;
    case ETIMEDOUT:
        return OUTCOME_CONNECT_TIMEOUT;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
    case EADDRNOTAVAIL: /* of a socket that is not bound: no local port is left (connect(2)) */
        return OUTCOME_OVERLOAD;
    default:
        return OUTCOME_CONNECT_UNREACHABLE;
    }
}

/* Several addresses can fail in several ways; somebody who answered "no" says most about the
 * target, and our own lack of descriptors least. */
static int eloquence(enum outcome outcome)
{
    if (outcome == OUTCOME_CONNECT_REFUSED)
        return 4;
    if (outcome == OUTCOME_CONNECT_TIMEOUT)
        return 3;
    if (outcome == OUTCOME_CONNECT_UNREACHABLE)
        return 2;
    return outcome == OUTCOME_OVERLOAD ? 1 : 0;
}

static void note_outcome(struct connector *connector, enum outcome outcome)
{
    if (eloquence(outcome) > eloquence(connector->worst))
        connector->worst = outcome;
}

/* What the network said about the address; what is ours to blame is no fact about it. */
static void note_failure(const struct attempt *attempt, int error)
{
    struct connector *connector = attempt->connector;
    enum outcome outcome = outcome_of(error);
    note_outcome(connector, outcome);
    if (connector->reach != NULL && outcome != OUTCOME_OVERLOAD)
        reach_note_failure(connector->reach, &attempt->addr, connector->port,
                           ev_now(connector->loop));
}

/* Of those that are still silent, who had their time: the next attempt has begun since. */
static void note_silence(const struct connector *connector)
{
    double now_s = ev_now(connector->loop);
    for (uint32_t i = 0; connector->reach != NULL && i < connector->begun; i++) {
        const struct attempt *attempt = &connector->attempts[i];
        if (attempt->fd >= 0 && now_s - attempt->began_s >= STAGGER_S)
            reach_note_failure(connector->reach, &attempt->addr, connector->port, now_s);
    }
}

/* On loopback a connection to a port in the ephemeral range can meet itself (simultaneous open). */
static bool met_itself(const struct attempt *attempt)
{
    struct sockaddr_storage here;
    socklen_t len = sizeof(here);
    struct addr addr;
    uint16_t port;
    return getsockname(attempt->fd, (struct sockaddr *)&here, &len) == 0 &&
           addr_from_sockaddr((struct sockaddr *)&here, &addr, &port) &&
           port == attempt->connector->port && addr_eq(&addr, &attempt->addr);
}

static void begin_next(struct connector *connector);

static void win(struct connector *connector, struct attempt *attempt, bool was_reset)
{
    struct connected connected = {.outcome = OUTCOME_ALLOWED,
                                  .fd = attempt->fd,
                                  .was_reset = was_reset,
                                  .addr = attempt->addr,
                                  .tried = connector->begun};
    double now_s = ev_now(connector->loop);
    ev_io_stop(connector->loop, &attempt->writable);
    attempt->fd = -1;
    connector->open--;
    stream_tune(connected.fd);
    if (connector->reach != NULL)
        reach_note_answer(connector->reach, &attempt->addr, connector->port, now_s,
                          now_s - attempt->began_s);
    note_silence(connector);
    finish(connector, &connected);
}

static void on_writable(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop, (void)revents;
    struct attempt *attempt = io->data;
    struct connector *connector = attempt->connector;
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(attempt->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    if (error == 0 && met_itself(attempt))
        error = ECONNREFUSED;
    if (error == EINPROGRESS)
        return;
    /* A reset in answer to our SYN is ECONNREFUSED; ECONNRESET is one of a connection that stood.
     */
    if (error == 0 || error == ECONNRESET) {
        win(connector, attempt, error == ECONNRESET);
        return;
    }
    note_failure(attempt, error);
    attempt_close(attempt);
    begin_next(connector);
}

/* 0 or an errno. A port is chosen by connect(), which knows the other end: one that is taken for
 * another target can be used again (IP_BIND_ADDRESS_NO_PORT, ip(7)). */
static int bind_source(int fd, const struct config_bind *source, uint8_t family)
{
    const struct addr *addr = family == 4 ? &source->v4 : &source->v6;
    struct sockaddr_storage from;
    const int on = 1;
    if (source->interface[0] != '\0' &&
        setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, source->interface,
                   (socklen_t)strlen(source->interface)) != 0)
        return errno;
    if (source->v4.family == 0 && source->v6.family == 0)
        return 0;
    if (addr->family == 0)
        return EAFNOSUPPORT;
    (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    socklen_t len = addr_to_sockaddr(addr, 0, &from);
    return bind(fd, (struct sockaddr *)&from, len) == 0 ? 0 : errno;
}

static int open_socket(const struct config_bind *source, uint8_t family, enum outcome *failure)
{
    int fd = socket(family == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                    IPPROTO_TCP);
    if (fd < 0) {
        *failure = outcome_of(errno);
        return -1;
    }
    if (bind_source(fd, source, family) != 0) {
        *failure = OUTCOME_CONNECT_UNREACHABLE; /* from there */
        close(fd);
        return -1;
    }
    return fd;
}

static bool begin(struct connector *connector, struct attempt *attempt)
{
    struct sockaddr_storage to;
    enum outcome failure;
    socklen_t len = addr_to_sockaddr(&attempt->addr, connector->port, &to);
    attempt->began_s = ev_now(connector->loop);
    attempt->fd = open_socket(&connector->bind, attempt->addr.family, &failure);
    if (attempt->fd < 0) {
        note_outcome(connector, failure);
        return false;
    }
    if (connect(attempt->fd, (struct sockaddr *)&to, len) != 0 && errno != EINPROGRESS) {
        note_failure(attempt, errno);
        close(attempt->fd);
        attempt->fd = -1;
        return false;
    }
    ev_io_init(&attempt->writable, on_writable, attempt->fd, EV_WRITE);
    attempt->writable.data = attempt;
    ev_io_start(connector->loop, &attempt->writable);
    connector->open++;
    return true;
}

static void begin_next(struct connector *connector)
{
    while (connector->begun < connector->count) {
        if (begin(connector, &connector->attempts[connector->begun++])) {
            ev_timer_stop(connector->loop, &connector->stagger);
            ev_timer_set(&connector->stagger, STAGGER_S, 0.);
            ev_timer_start(connector->loop, &connector->stagger);
            return;
        }
    }
    if (connector->open == 0) {
        /* From the loop, not from here: the caller may be connector_start(). */
        ev_timer_stop(connector->loop, &connector->deadline);
        ev_timer_set(&connector->deadline, 0., 0.);
        ev_timer_start(connector->loop, &connector->deadline);
    }
}

static void on_stagger(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)loop, (void)revents;
    begin_next(timer->data);
}

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)loop, (void)revents;
    struct connector *connector = timer->data;
    struct connected connected = {
        .fd = -1, .addr = connector->attempts[0].addr, .tried = connector->begun};
    if (connector->open > 0)
        note_outcome(connector, OUTCOME_CONNECT_TIMEOUT);
    note_silence(connector);
    connected.outcome = connector->worst;
    finish(connector, &connected);
}

static size_t size_for(uint32_t count)
{
    return sizeof(struct connector) + count * sizeof(struct attempt);
}

size_t connector_size(void)
{
    return size_for(FEW);
}

static struct connector *connector_create(struct slab *room, uint8_t count)
{
    const bool in_slab = room != NULL && count <= FEW;
    struct connector *connector = must(in_slab ? slab_take(room) : calloc(1, size_for(count)));
    connector->in_slab = in_slab;
    return connector;
}

struct connector *connector_start(struct ev_loop *loop, const struct approved *approved,
                                  const struct connect_options *options, connector_done_fn *done,
                                  void *arg)
{
    struct connector *connector = connector_create(options->room, approved->count);
    uint32_t order[RESOLVER_MAX_ADDRS];
    connector->loop = loop;
    connector->done = done;
    connector->arg = arg;
    connector->port = approved->port;
    connector->count = approved->count;
    connector->reach = options->reach;
    if (options->bind != NULL)
        connector->bind = *options->bind;
    reach_order(options->reach, approved, ev_now(loop), order);
    for (uint32_t i = 0; i < approved->count; i++)
        connector->attempts[i] =
            (struct attempt){.connector = connector, .fd = -1, .addr = approved->addrs[order[i]]};
    ev_timer_init(&connector->stagger, on_stagger, STAGGER_S, 0.);
    connector->stagger.data = connector;
    ev_timer_init(&connector->deadline, on_deadline, (double)options->timeout_ms / 1000., 0.);
    connector->deadline.data = connector;
    ev_timer_start(loop, &connector->deadline);
    begin_next(connector);
    return connector;
}
