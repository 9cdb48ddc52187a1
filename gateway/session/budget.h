/*
 * What a [client] may use up: tunnels at a time, connections and bytes per time (INTERFACE 1.2).
 *
 * The state lives by the client's name as long as the workers do, so a reload with other limits
 * keeps what was used; the limits come with each question. Ownership: the team's list. Thread:
 * found on the control thread, used on any worker; relaxed atomics, since a limit that two workers
 * reach at once may be passed by one and no more.
 */
#ifndef SESSION_BUDGET_H
#define SESSION_BUDGET_H

#include "config/gateway_config.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* A token bucket as one number: the time at which everything taken so far will have been refilled
 * (GCRA). Zeroed is full. */
struct bucket {
    _Atomic int64_t refilled_at_ns;
};

/* Takes `n` if that many are there; otherwise says in how many seconds (rounded up, at least 1). */
bool bucket_take(struct bucket *bucket, const struct config_rate *rate, uint64_t n, int64_t now_ns,
                 unsigned *wait_s);
/* Takes `n` that cannot be given back, into debt if need be. */
void bucket_charge(struct bucket *bucket, const struct config_rate *rate, uint64_t n,
                   int64_t now_ns);
/* True when nothing is left. */
bool bucket_is_empty(const struct bucket *bucket, const struct config_rate *rate, int64_t now_ns,
                     unsigned *wait_s);

struct budget {
    SLIST_ENTRY(budget) link;
    char *name;
    atomic_uint tunnels;
    struct bucket connects, bytes_up;
};

SLIST_HEAD(budgets, budget);

/* That of the client, made on first use. */
struct budget *budgets_find(struct budgets *budgets, const char *name);
void budgets_free(struct budgets *budgets);

/* One more tunnel. NULL: it is counted; otherwise the key of the limit that is reached, and
 * `wait_s` says when to come back. */
const char *budget_begin(struct budget *budget, const struct config_client *client, int64_t now_ns,
                         unsigned *wait_s);
void budget_end(struct budget *budget);

#endif
