/*
 * The end of a connection that may not simply be closed: whoever needs it hands the descriptor over
 * and forgets it.
 *
 * close() with unread input makes the kernel send a reset, which can overtake what was sent last: a
 * refusal would never be read. And a reset that is passed on must not throw away what the kernel
 * has not yet delivered. Ownership: the list owns the descriptors; bounded in time, so none stays.
 * Whoever gives one away may still have to count it, so it is told when it is closed.
 * Thread: the loop's.
 */
#ifndef TRANSPORT_FAREWELL_H
#define TRANSPORT_FAREWELL_H

#include <ev.h>
#include <stdbool.h>
#include <sys/queue.h>

struct farewell;

struct farewells {
    LIST_HEAD(, farewell) list;
    TAILQ_HEAD(farewells_fresh, farewell) fresh; /* the oldest first; not watched yet */
    unsigned fresh_count;
    ev_timer look; /* at those */
    struct ev_loop *loop;
};

typedef void farewell_closed_fn(void *arg);

void farewells_init(struct farewells *farewells, struct ev_loop *loop);
/* Closes everything at once. */
void farewells_end(struct farewells *farewells);

/* Everything has been handed to the kernel: sends the FIN, throws away what still comes until the
 * peer closes too, for about two seconds at most (RFC 9112 9.6). Takes `fd` over.
 *
 * Most peers close as soon as they have read the end, so it is looked at once, a little later or
 * when some more have been said farewell to, before the loop is asked to watch it. */
void farewell_linger(struct farewells *farewells, int fd, farewell_closed_fn *on_closed, void *arg);

/* Room is needed: looks at once whose peer has closed meanwhile. */
void farewells_look(struct farewells *farewells);

/* Resets the connection as soon as the kernel has delivered what it holds, or makes no progress
 * with it for ten seconds. Takes `fd` over, and may be
 * done with it at once. */
void farewell_reset(struct farewells *farewells, int fd, farewell_closed_fn *on_closed, void *arg);

#endif
