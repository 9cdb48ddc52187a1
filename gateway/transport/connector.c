#include "transport/connector.h"

#include "transport/stream.h"

#include <assert.h>
#include <errno.h>
#include <ev.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define STAGGER_S 0.25

struct attempt {
    struct connector *connector;
    int fd; /* -1: not begun, or failed */
    ev_io writable;
    struct addr addr;
};

struct connector {
    struct ev_loop *loop;
    connector_done_fn *done;
    void *arg;
    ev_timer stagger, deadline;
    uint16_t port;
    uint32_t count, begun, open;
    enum outcome worst;        /* that speaks best for the failures so far */
    struct attempt attempts[]; /* in the order of trying */
};

void connector_order(const struct approved *approved, uint32_t order[RESOLVER_MAX_ADDRS])
{
    uint32_t next[2] = {0, 0}; /* where to look for the next address of each family */
    assert(approved->count > 0 && approved->count <= RESOLVER_MAX_ADDRS);
    bool six = approved->addrs[0].family == 6;
    for (uint32_t n = 0; n < approved->count; six = !six) {
        uint32_t i = next[six];
        while (i < approved->count && (approved->addrs[i].family == 6) != six)
            i++;
        next[six] = i + 1;
        if (i < approved->count)
            order[n++] = i;
    }
}

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

static void note_failure(struct connector *connector, int error)
{
    enum outcome outcome = outcome_of(error);
    if (eloquence(outcome) > eloquence(connector->worst))
        connector->worst = outcome;
}

/* On loopback a connection to a port in the ephemeral range can meet itself (simultaneous open). */
static bool met_itself(int fd)
{
    struct sockaddr_storage here, there;
    socklen_t here_len = sizeof(here), there_len = sizeof(there);
    struct addr here_addr, there_addr;
    uint16_t here_port, there_port;
    if (getsockname(fd, (struct sockaddr *)&here, &here_len) != 0 ||
        getpeername(fd, (struct sockaddr *)&there, &there_len) != 0)
        return false;
    return addr_from_sockaddr((struct sockaddr *)&here, &here_addr, &here_port) &&
           addr_from_sockaddr((struct sockaddr *)&there, &there_addr, &there_port) &&
           here_port == there_port && addr_eq(&here_addr, &there_addr);
}

static void begin_next(struct connector *connector);

static void on_writable(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop, (void)revents;
    struct attempt *attempt = io->data;
    struct connector *connector = attempt->connector;
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(attempt->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    if (error == 0 && met_itself(attempt->fd))
        error = ECONNREFUSED;
    if (error == EINPROGRESS)
        return;
    /* A reset in answer to our SYN is ECONNREFUSED; ECONNRESET is one of a connection that stood. */
    if (error == 0 || error == ECONNRESET) {
        struct connected connected = {.outcome = OUTCOME_ALLOWED, .addr = attempt->addr};
        connected.was_reset = error == ECONNRESET;
        ev_io_stop(loop, &attempt->writable);
        connected.fd = attempt->fd;
        attempt->fd = -1;
        stream_tune(connected.fd);
        finish(connector, &connected);
        return;
    }
    note_failure(connector, error);
    attempt_close(attempt);
    begin_next(connector);
}

static bool begin(struct connector *connector, struct attempt *attempt)
{
    struct sockaddr_storage to;
    socklen_t len = addr_to_sockaddr(&attempt->addr, connector->port, &to);
    attempt->fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (attempt->fd < 0) {
        note_failure(connector, errno);
        return false;
    }
    if (connect(attempt->fd, (struct sockaddr *)&to, len) != 0 && errno != EINPROGRESS) {
        note_failure(connector, errno);
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
    struct connected connected = {.fd = -1, .addr = connector->attempts[0].addr};
    if (connector->open > 0)
        note_failure(connector, ETIMEDOUT);
    connected.outcome = connector->worst;
    finish(connector, &connected);
}

struct connector *connector_start(struct ev_loop *loop, const struct approved *approved,
                                  uint64_t timeout_ms, connector_done_fn *done, void *arg)
{
    struct connector *connector =
        calloc(1, sizeof(*connector) + approved->count * sizeof(struct attempt));
    uint32_t order[RESOLVER_MAX_ADDRS];
    if (connector == NULL)
        abort();
    connector->loop = loop;
    connector->done = done;
    connector->arg = arg;
    connector->port = approved->port;
    connector->count = approved->count;
    connector_order(approved, order);
    for (uint32_t i = 0; i < approved->count; i++)
        connector->attempts[i] =
            (struct attempt){.connector = connector, .fd = -1, .addr = approved->addrs[order[i]]};
    ev_timer_init(&connector->stagger, on_stagger, STAGGER_S, 0.);
    connector->stagger.data = connector;
    ev_timer_init(&connector->deadline, on_deadline, (double)timeout_ms / 1000., 0.);
    connector->deadline.data = connector;
    ev_timer_start(loop, &connector->deadline);
    begin_next(connector);
    return connector;
}
