#include "session/budget.h"

#include "srt/must.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const int64_t NS_PER_MS = 1000000, NS_PER_S = 1000000000;

/* The time that `n` tokens take to be refilled. A debt of a century is as good as any. */
static int64_t cost_ns(const struct config_rate *rate, uint64_t n)
{
    const int64_t most = INT64_MAX / 4;
    unsigned __int128 cost = (unsigned __int128)n * rate->per_ms * (uint64_t)NS_PER_MS;
    cost /= rate->count;
    return cost < (unsigned __int128)most ? (int64_t)cost : most;
}

static int64_t period_ns(const struct config_rate *rate)
{
    return cost_ns(rate, rate->count);
}

static unsigned seconds_until_ns(int64_t ns)
{
    int64_t seconds = (ns + NS_PER_S - 1) / NS_PER_S;
    return seconds < 1 ? 1 : seconds > UINT32_MAX ? UINT32_MAX : (unsigned)seconds;
}

/* When `n` more will have been refilled; bounded, so that debts cannot overflow. */
static int64_t refilled_after(int64_t before, const struct config_rate *rate, uint64_t n,
                              int64_t now_ns)
{
    const int64_t most = now_ns + INT64_MAX / 4;
    int64_t after = (before > now_ns ? before : now_ns) + cost_ns(rate, n);
    return after < most ? after : most;
}

bool bucket_take(struct bucket *bucket, const struct config_rate *rate, uint64_t n, int64_t now_ns,
                 unsigned *wait_s)
{
    if (rate->count == 0)
        return true;
    int64_t before = atomic_load_explicit(&bucket->refilled_at_ns, memory_order_relaxed), after;
    do {
        after = refilled_after(before, rate, n, now_ns);
        if (after - now_ns > period_ns(rate)) {
            *wait_s = seconds_until_ns(after - now_ns - period_ns(rate));
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&bucket->refilled_at_ns, &before, after,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void bucket_charge(struct bucket *bucket, const struct config_rate *rate, uint64_t n,
                   int64_t now_ns)
{
    if (rate->count == 0 || n == 0)
        return;
    int64_t before = atomic_load_explicit(&bucket->refilled_at_ns, memory_order_relaxed), after;
    do
        after = refilled_after(before, rate, n, now_ns);
    while (!atomic_compare_exchange_weak_explicit(&bucket->refilled_at_ns, &before, after,
                                                  memory_order_relaxed, memory_order_relaxed));
}

bool bucket_is_empty(const struct bucket *bucket, const struct config_rate *rate, int64_t now_ns,
                     unsigned *wait_s)
{
    if (rate->count == 0)
        return false;
    int64_t owed = atomic_load_explicit(&bucket->refilled_at_ns, memory_order_relaxed) - now_ns;
    if (owed < period_ns(rate))
        return false;
    *wait_s = seconds_until_ns(owed - period_ns(rate));
    return true;
}

struct budget *budgets_find(struct budgets *budgets, const char *name)
{
    struct budget *budget;
    SLIST_FOREACH(budget, budgets, link)
        if (strcmp(budget->name, name) == 0)
            return budget;
    budget = must(calloc(1, sizeof(*budget)));
    budget->name = must_copy(name);
    SLIST_INSERT_HEAD(budgets, budget, link);
    return budget;
}

void budgets_free(struct budgets *budgets)
{
    while (!SLIST_EMPTY(budgets)) {
        struct budget *budget = SLIST_FIRST(budgets);
        SLIST_REMOVE_HEAD(budgets, link);
        free(budget->name);
        free(budget);
    }
}

const char *budget_begin(struct budget *budget, const struct config_client *client, int64_t now_ns,
                         unsigned *wait_s)
{
    unsigned open = atomic_fetch_add_explicit(&budget->tunnels, 1, memory_order_relaxed);
    const char *reached = NULL;
    *wait_s = 1;
    if (client->max_tunnels != 0 && open >= client->max_tunnels)
        reached = "max-tunnels";
    else if (bucket_is_empty(&budget->bytes_up, &client->bytes_up, now_ns, wait_s))
        reached = "bytes-up";
    else if (!bucket_take(&budget->connects, &client->connect_rate, 1, now_ns, wait_s))
        reached = "connect-rate";
    if (reached != NULL)
        budget_end(budget);
    return reached;
}

void budget_end(struct budget *budget)
{
    unsigned before = atomic_fetch_sub_explicit(&budget->tunnels, 1, memory_order_relaxed);
    assert(before > 0);
}
