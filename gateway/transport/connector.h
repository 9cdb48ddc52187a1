/*
 * Opens one TCP connection to the first of some approved addresses that answers (RFC 8305): those
 * that are known to answer first, families take turns, a new attempt starts 250 ms after the last
 * or as soon as one fails, the first that connects wins and the others are closed. However many
 * there are and however dead, it ends within the timeout.
 *
 * Dials nothing but a struct approved, so an address that the guard has not seen cannot be dialled.
 * Without TCP Fast Open: no byte of a sandbox leaves before the connection is recorded.
 * Ownership: connector_start() gives a handle that is dead after `done` or connector_cancel().
 * Thread: the loop's. Failure: an outcome.
 */
#ifndef TRANSPORT_CONNECTOR_H
#define TRANSPORT_CONNECTOR_H

#include "transport/reach.h"
#include "transport/slab.h"

struct ev_loop;
struct connector;

struct connect_options {
    uint64_t timeout_ms;
    /* Where to come from; NULL or zero: as the routes say. What cannot be had is never replaced:
     * then the address is unreachable. Borrowed for the call. */
    const struct config_bind *bind;
    struct slab *room;   /* of connector_size(), where few addresses are taken from; or NULL */
    struct reach *reach; /* asked for the order and told what became of it, until `done`; or NULL */
};

/* Of a connector with the few addresses that most have. */
size_t connector_size(void);

struct connected {
    enum outcome outcome; /* ALLOWED, or CONNECT_REFUSED, _UNREACHABLE, _TIMEOUT, or OVERLOAD when
                             descriptors or ports ran out */
    int fd;               /* non-blocking, tuned, now the callee's; -1 unless ALLOWED */
    bool was_reset;   /* it was made, and reset before we looked; what came before can be read */
    struct addr addr; /* the one that answered, otherwise the first that was tried */
    uint8_t tried;    /* addresses for which an attempt began */
};

/* Called exactly once, on the loop's thread, never from within connector_start(). */
typedef void connector_done_fn(void *arg, const struct connected *connected);

struct connector *connector_start(struct ev_loop *loop, const struct approved *approved,
                                  const struct connect_options *options, connector_done_fn *done,
                                  void *arg);
void connector_cancel(struct connector *connector);

#endif
