/*
 * Opens one TCP connection to the first of some approved addresses that answers (RFC 8305):
 * families take turns, a new attempt starts 250 ms after the last or as soon as one fails, the
 * first that connects wins and the others are closed.
 *
 * Dials nothing but a struct approved, so an address that the guard has not seen cannot be dialled.
 * Ownership: connector_start() gives a handle that is dead after `done` or connector_cancel().
 * Thread: the loop's. Failure: an outcome.
 */
#ifndef TRANSPORT_CONNECTOR_H
#define TRANSPORT_CONNECTOR_H

#include "filters/chain.h"

struct ev_loop;
struct connector;

struct connected {
    enum outcome outcome; /* ALLOWED, or CONNECT_REFUSED, _UNREACHABLE, _TIMEOUT, or OVERLOAD when
                             descriptors or ports ran out */
    int fd;               /* non-blocking, tuned, now the callee's; -1 unless ALLOWED */
    bool was_reset;   /* it was made, and reset before we looked; what came before can be read */
    struct addr addr; /* the one that answered, otherwise the first that was tried */
};

/* Called exactly once, on the loop's thread, never from within connector_start(). */
typedef void connector_done_fn(void *arg, const struct connected *connected);

struct connector *connector_start(struct ev_loop *loop, const struct approved *approved,
                                  uint64_t timeout_ms, connector_done_fn *done, void *arg);
void connector_cancel(struct connector *connector);

/* The order in which the addresses are tried: index i of `order` is an index into `approved`. */
void connector_order(const struct approved *approved, uint32_t order[RESOLVER_MAX_ADDRS]);

#endif
