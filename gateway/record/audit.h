/*
 * The audit log: one JSON object a line (INTERFACE 1.6), written by one thread.
 *
 * A worker formats a record into its own struct json and hands it over; the writer numbers it
 * (`seq`), writes batches with writev, and tells the worker when a ticket is on disk. Nothing here
 * blocks the caller. When records cannot be written or the queue is full: with audit-required the
 * gateway refuses new requests (audit_healthy() is false) until it can; without, they are counted
 * and a `lost` record says how many as soon as one can be written.
 *
 * Ownership: the control thread creates and destroys. Thread: audit_submit() from any thread.
 */
#ifndef RECORD_AUDIT_H
#define RECORD_AUDIT_H

#include "srt/err.h"
#include "srt/str.h"

#include <stdint.h>

struct audit;

struct audit_config {
    const char *path; /* or "stderr", "none", "unix:/path": a collector's stream or datagrams */
    bool required;
    bool squid;         /* squid's access.log instead of JSON; live readers get JSON all the same */
    size_t queue_bytes; /* bound of what waits; 0 = AUDIT_QUEUE_BYTES */
    int numbering_fd;   /* of a process that writes this log as well, taken over; 0: none does */
};

enum { AUDIT_QUEUE_BYTES = 8 << 20 };

/* NULL and `err` when the log cannot be opened (exit 71 at start). */
struct audit *audit_open(const struct audit_config *config, struct srt_err *err);
/* Writes what was handed over, waits for it (two seconds at most when the log cannot be written),
 * ends the thread. NULL is allowed. */
void audit_close(struct audit *audit);

/* Reopen the path (USR1, log rotation) before the next record. No record is lost or doubled; when
 * it cannot be opened the old file stays in use and a message says so. */
void audit_reopen(struct audit *audit);

/* False: new requests end as OUTCOME_AUDIT_FAILURE. Always true without audit-required. */
bool audit_healthy(const struct audit *audit);

/* Called once for each record that was submitted with it, usually on the writer's thread. `go`: the
 * record is written, or is given up without audit-required, so the request may go on. Otherwise it
 * could not be written and has left the queue: the request ends as OUTCOME_AUDIT_FAILURE. It must
 * only post to a mailbox. */
typedef void audit_written_fn(void *arg, uint64_t ticket, bool go);

/* Hands over one object without its schema, ts and seq: `fields` is the inside of the object,
 * beginning with "kind" ({"schema":..,"ts":..,"seq":..,FIELDS}). Copies. With `written` non-NULL
 * that is called later; returns false when the record was not taken (queue full, or audit-required
 * and the log not writable), and then `written` is not called. With audit-log = none: true, and
 * `written` is never called (see audit_waits()). */
bool audit_submit(struct audit *audit, struct str fields, audit_written_fn *written, void *arg,
                  uint64_t ticket);

/* Whether the log is in squid's format: then only what audit_submit_request() brings appears in it,
 * and a line for records that were lost. */
bool audit_wants_squid(const struct audit *audit);

/* The record of a request, and its line in that format (record/squid.h); an empty one when it has
 * none, as a request has when it begins. */
bool audit_submit_request(struct audit *audit, struct str fields, struct str squid,
                          audit_written_fn *written, void *arg, uint64_t ticket);

/* Those records may lie there until this is called, once for as many as belong together. */
void audit_wake(struct audit *audit);

/* No more calls of `written`, and none is running when this returns: whom they tell may be freed.
 */
void audit_mute(struct audit *audit);

/* Whether a caller that wants its record on disk first has anything to wait for. It does not while
 * the log cannot be written and audit-required is off. */
bool audit_waits(const struct audit *audit);

/* A live reader: called on the writer's thread with each whole line once it is written. At most
 * one; NULL removes it, and after the call the old one is not running. */
void audit_observe(struct audit *audit, void (*line)(void *arg, struct str line), void *arg);

/* What a process that is to write the same log counts with (record/numbering.h). */
int audit_numbering_fd(const struct audit *audit);

/* Records that could not be written, in all. */
uint64_t audit_lost(const struct audit *audit);
/* Records written, in all. */
uint64_t audit_count(const struct audit *audit);

#endif
