/*
 * What may wait does so in a process of its own, so that nobody else waits with it: an open of a
 * FIFO, a connection, a datagram for a full queue.
 *
 * Such a process lives no longer than its caller waits, whom a signal may have killed meanwhile.
 */
#ifndef LAUNCHER_WARDEN_WAITS_H
#define LAUNCHER_WARDEN_WAITS_H

#include "launcher/warden/call.h"

/* 0 in the process that is to wait and to answer, and there calls that wait are interrupted
 * (EINTR) now and then; what the warden answers otherwise. */
int64_t wait_begin(const struct call *call);
/* After such an interruption: ends the process if nobody waits any more. */
void wait_check(const struct call *call);
/* A pause, which gets longer each time, and wait_check(). */
void wait_pause(const struct call *call, unsigned turn);
/* Answers, and ends the process. */
_Noreturn void wait_end(const struct call *call, int64_t result);

#endif
