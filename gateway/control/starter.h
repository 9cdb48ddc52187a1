/*
 * A process beside the gateway that can start the program again, which the gateway itself cannot
 * once it is in its cage (control/confine.h). It does that only: this program, with the arguments
 * and the environment that the gateway was started with, and one descriptor more.
 *
 * It is forked before anything is opened, and ends with the gateway. Ownership: run.c's. Thread:
 * control; starter_create() while there is no other. Failure: NULL or -1 and `err`.
 */
#ifndef CONTROL_STARTER_H
#define CONTROL_STARTER_H

#include "srt/err.h"

struct ev_loop;
struct starter;

struct starter *starter_create(struct srt_err *err);
void starter_free(struct starter *starter); /* NULL is allowed */

/* `text` says how the started program ended. Once, unless it was released before. */
typedef void starter_ended_fn(void *arg, const char *text);

/* Starts the program with `--take-over N`, N being a copy of `fd`. One at a time. */
int starter_start(struct starter *starter, struct ev_loop *loop, int fd, starter_ended_fn *ended,
                  void *arg, struct srt_err *err);

/* What was started is on its own from now on, and is nobody's child. */
void starter_release(struct starter *starter);

#endif
