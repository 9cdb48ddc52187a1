/*
 * A batch of records as the lines of the log, and how far they are out.
 *
 * Zeroed: no lines. Ownership: the audit log's; lines_free(). What lines_shown() returns is valid
 * until the next call. Thread: one at a time. Failure: running out of memory ends the process.
 */
#ifndef RECORD_LINES_H
#define RECORD_LINES_H

#include "record/batch.h"

#include <time.h>

struct lines {
    bool squid; /* their format; otherwise JSON. Set by the owner */
    struct json text;
    size_t *ends; /* where the line of each record ends */
    size_t ends_cap;
    size_t sent;     /* bytes of `text` that are out */
    size_t finished; /* lines that are out and reported */

    struct json shown; /* one record for a live reader, where the lines are not JSON */
    time_t stamp_second;
    char stamp[32]; /* of that second, as records show times */
};

/* All of the batch, the first with the number `seq`; nothing of it is out. */
void lines_format(struct lines *lines, const struct batch *batch, uint64_t seq);
/* Where the line of record `index` begins. */
size_t lines_start(const struct lines *lines, size_t index);
/* The line of the record `index` of that batch as JSON, with its number. */
struct str lines_shown(struct lines *lines, const struct batch *batch, size_t index, uint64_t seq);
/* Storage is kept for the next batch, but not what a burst once needed. */
void lines_reset(struct lines *lines);
void lines_free(struct lines *lines);

#endif
