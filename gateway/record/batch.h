/*
 * Records on their way to the audit log: what they say, since when, and who waits for each.
 *
 * Zeroed: an empty batch. Ownership: the audit log's; batch_free(). Thread: one at a time. Failure:
 * running out of memory ends the process.
 */
#ifndef RECORD_BATCH_H
#define RECORD_BATCH_H

#include "record/audit.h"
#include "record/json.h"

/* Bytes. Records and their lines begin with room that malloc() gives pages of its own: only those
 * that are used cost anything, and after a burst, which uses more than is kept, they go back whole.
 * On a heap every step of growing would leave a hole. */
enum { BATCH_ROOM = 128 << 10, BATCH_KEEP = 64 << 10 };

struct entry {
    int64_t ts_ms;
    size_t start, len;         /* of its fields, in the batch's bytes */
    size_t squid_len;          /* of its line in that format, which is behind the fields */
    audit_written_fn *written; /* NULL: nobody waits (any more) */
    void *arg;
    uint64_t ticket;
};

struct batch {
    struct entry *entries;
    size_t count, cap;
    struct json bytes; /* used as a growing buffer of fields */
};

/* A copy of `entry` with these bytes. */
void batch_add(struct batch *batch, struct str fields, struct str squid, const struct entry *entry);
/* Keeps the entries from `from` on that were not dropped. */
void batch_keep(struct batch *batch, size_t from);
/* Storage is kept for the next batch, but not what a burst has used. */
void batch_reset(struct batch *batch);
void batch_free(struct batch *batch);

/* What a record of that many bytes takes up while it waits. */
size_t entry_cost_of(size_t len);
size_t entry_cost(const struct entry *entry);
/* Given up while it is in its batch; batch_keep() leaves it out. */
void entry_drop(struct entry *entry);
bool entry_is_dropped(const struct entry *entry);

#endif
