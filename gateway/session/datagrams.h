/*
 * DNS over UDP at a sandbox's resolver: a datagram in, an answer out, from the address that was
 * asked. It is sent by a visit, and meanwhile nothing is read; nothing is kept, and what the kernel
 * does not take is asked for again.
 *
 * Thread: the worker's.
 */
#ifndef SESSION_DATAGRAMS_H
#define SESSION_DATAGRAMS_H

#include <ev.h>

/* The watcher's `data` is the door. */
void on_datagrams(struct ev_loop *loop, ev_io *io, int revents);

#endif
