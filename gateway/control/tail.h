/*
 * The end of the audit log, as operators read it: the last decisions, and what comes for those who
 * follow.
 *
 * Ownership: control/admin.c's. Thread: the control loop, but for the lines, which come on the
 * audit writer's thread and wait here, bounded, until the loop takes them. Failure: what does not
 * fit is counted.
 */
#ifndef CONTROL_TAIL_H
#define CONTROL_TAIL_H

#include "record/audit.h"
#include "record/json.h"

#include <ev.h>

enum { TAIL_DECISIONS_MAX = 1000 };

struct tail;

/* On the loop: whole lines, one or more, and how many were left out before them. */
typedef void tail_lines_fn(void *arg, struct str lines, uint64_t missed);

struct tail *tail_create(struct ev_loop *loop, tail_lines_fn *lines, void *arg);
/* From now on it sees the log. Called again, it does nothing. */
void tail_observe(struct tail *tail, struct audit *audit);
/* Whether anybody follows; without followers no lines come. */
void tail_follow(struct tail *tail, bool followed);
/* The last decisions, oldest first, as elements of the array at hand. */
void tail_write_decisions(struct tail *tail, size_t last, struct json *out);
void tail_free(struct tail *tail);

#endif
