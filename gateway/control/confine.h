/*
 * The gateway's own cage: what a process that only opens files and sockets never calls is refused
 * by the kernel, so that whoever takes the gateway over by its input gets no shell and no other
 * process.
 *
 * Irrevocable, for the whole process: called once, before the first thread. Thread: main. Failure:
 * -1 and `err`; the gateway runs without it then, and says so.
 */
#ifndef CONTROL_CONFINE_H
#define CONTROL_CONFINE_H

#include "srt/err.h"

int confine_process(struct srt_err *err);

#endif
