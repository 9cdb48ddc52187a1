/*
 * The numbers of audit records, where two processes may write one log: while a gateway takes the
 * place of another (control/handover.h), both count on the same counter and write in turn, so that
 * the log has every number once and in order.
 *
 * The counter is in shared memory behind a lock that survives the death of its holder. Ownership:
 * the audit log's. Thread: the audit writer's, one at a time. Failure: NULL and `err`.
 */
#ifndef RECORD_NUMBERING_H
#define RECORD_NUMBERING_H

#include "srt/err.h"

#include <stdbool.h>
#include <stdint.h>

struct numbering;

struct numbering *numbering_create(struct srt_err *err);
/* What numbering_fd() gave in another process; `fd` is taken over. */
struct numbering *numbering_adopt(int fd, struct srt_err *err);
void numbering_free(struct numbering *numbering); /* NULL is allowed */

/* To be sent to another process; stays the numbering's. */
int numbering_fd(const struct numbering *numbering);

/* It is this process's turn: `*next` is the next number. False: not within `ms`. */
bool numbering_begin(struct numbering *numbering, int ms, uint64_t *next);
/* The turn is over, and `next` is the next number. */
void numbering_end(struct numbering *numbering, uint64_t next);

#endif
