/*
 * The records of one request (INTERFACE 1.6): every field of its kind, `null` where unknown.
 *
 * One writer of their fields for live traffic, `explain` and `replay`. Ownership: views are
 * borrowed for the call. Thread: any. Failure: none.
 */
#ifndef RECORD_EVENT_H
#define RECORD_EVENT_H

#include "filters/chain.h"
#include "record/json.h"

/* Who, what and under which configuration. Views with p == NULL are null. */
struct event_request {
    struct str id, sandbox, client, listener, policy;
    uint64_t generation; /* 0: null */
    struct str peer;
    const char *front;           /* front_word(), or NULL: not known yet */
    struct str method;           /* where visible */
    struct str path;             /* where visible; a query is cut off here, whatever was given */
    const struct target *target; /* NULL: the request named none */
    struct str host_text;        /* without a target: what was asked for instead, any bytes */
    uint16_t port_text;          /* 0: null */
};

/* Queries carry tokens and signatures; what is recorded never does. */
struct str event_cut_query(struct str path);

/* A `decision`. `verdict` is what happened: OUTCOME_ALLOWED or the reason of the refusal.
 * `decision` gives rule, mode and would (NULL before the policy was asked); `addr` the address that
 * is dialled or was denied (NULL: none yet). */
void event_decision(struct json *json, const struct event_request *request, enum outcome verdict,
                    const struct decision *decision, const struct addr *addr, struct str message);

struct event_close {
    const struct addr *addr; /* dialled; NULL: none */
    struct str sni;
    uint64_t bytes_up, bytes_down, duration_ms;
    const char *cause;
};

void event_close(struct json *json, const struct event_request *request,
                 const struct event_close *close);

#endif
