/*
 * A request as one line of squid's native access.log (`audit-format = squid`), for those who have
 * tools that read it:
 *
 *     time elapsed client tag/status bytes method URL user hierarchy/address type
 *
 * docs/operations.md has the mapping. Ownership: the caller's buffer; views are borrowed for the
 * call. Thread: any. Failure: none.
 */
#ifndef RECORD_SQUID_H
#define RECORD_SQUID_H

#include "record/event.h"

/* A request at its end, which is when squid logs: refused, or over. */
struct squid_request {
    const struct event_request *request;
    enum outcome outcome;    /* OUTCOME_ALLOWED, or why it was refused */
    int status;              /* that the client got; 0: none */
    bool tunnel;             /* bytes, not an HTTP exchange that we see */
    bool admitted;           /* it was let through before it ended so */
    const struct addr *addr; /* dialled; NULL: none */
    uint64_t bytes_down, duration_ms;
    const char *cause; /* of the close; NULL where it was not admitted */
};

/* The line from `elapsed` on, with its newline. */
void squid_line(struct json *out, const struct squid_request *request);

/* What squid itself writes for a transaction that is none: `error:WHAT` where the URL would be. */
void squid_note(struct json *out, struct str what);

/* `time` and the blank behind it. */
void squid_time(struct json *out, int64_t ts_ms);

#endif
