/*
 * Where requests that wait for an approval become questions, and questions are answered: by
 * operators (control/admin_approvals.c), by the launcher of the sandbox (control/attach.c).
 *
 * However many requests of one sandbox, client or listener wait for one host and port, they are one
 * question. Its waiters are tickets of the workers' (session/approval.h), which keep the time; one
 * that is not here any more cannot be answered. What was answered for a time is a grant: it is in
 * force in the workers, and here to be listed and revoked. Every answer is recorded.
 *
 * Ownership: the gateway's. Thread: control loop. Failure: an enum that says why not; then nothing
 * has changed.
 */
#ifndef CONTROL_DESK_H
#define CONTROL_DESK_H

#include "control/gateway.h"
#include "filters/grants.h"
#include "session/approval.h"

struct granting;

struct desk *desk_create(struct gateway *gateway);
/* Only after workers_stop(). NULL is allowed. */
void desk_free(struct desk *desk);
/* For workers_config. */
const struct workers_asks *desk_asks(const struct desk *desk);

enum desk_result {
    DESK_DONE,
    DESK_UNKNOWN,   /* there is none: answered, timed out, or its client left */
    DESK_NOT_YOURS, /* it waits for somebody else's answer */
    DESK_FULL,      /* no further grant can be kept */
    DESK_RESULT_COUNT,
};
const char *desk_result_text(enum desk_result result);

struct desk_answer {
    struct str id;
    bool approves;
    bool keeps;       /* also for what the same one asks later */
    uint64_t for_ms;  /* how long; 0: as long as the sandbox, and for others not allowed */
    const char *peer; /* who answers, for the record */
    void *owner;      /* whose launcher it is, or NULL: an operator */
};

/* With DESK_DONE `out` gets the members of the answer's object. */
enum desk_result desk_answer(struct desk *desk, const struct desk_answer *answer, struct json *out);

/* An operator's answer before anybody asks, for `for_ms` as above. `grant` says what it is about,
 * the verdict and who; `owner` is the sandbox's with GRANT_SANDBOX. Whoever waits for it goes on.
 * `out` as above. */
enum desk_result desk_grant(struct desk *desk, struct grant *grant, uint64_t for_ms, void *owner,
                            struct json *out);
/* The elements of the array at hand. */
void desk_write_pending(const struct desk *desk, struct json *out);
size_t desk_waiting(const struct desk *desk); /* requests */

/* What it has granted (control/granting.h). */
struct granting *desk_granting(struct desk *desk);

/* Another process has taken the place: who waits is told to come again, and nobody waits here any
 * more. Grants stay behind. */
void desk_retire(struct desk *desk);

#endif
