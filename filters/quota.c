/*
 * quota: requests and bytes for each sandbox, client or policy in windows of the clock.
 *
 * The counts belong to the filter's name, not to one configuration, so that a reload gives nobody
 * a fresh window; they go when no configuration has a quota of that name. Every worker counts into
 * the same accounts under a lock that is held for a look-up.
 */
#include "config/value.h"
#include "filters/builtin.h"
#include "filters/secret_hash.h"
#include "srt/must.h"
#include "srt/queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <time.h>

enum { BUCKETS = 4096, ACCOUNTS_MAX = 100000, SWEEP_MS = 1000 };

enum subject { PER_SANDBOX, PER_CLIENT, PER_POLICY };

struct tally {
    int64_t window;
    uint64_t used;
};

struct account {
    LIST_ENTRY(account) link;
    struct tally requests, bytes;
    int64_t touched_ms;
    size_t len;
    char subject[];
};

/* The accounts of one name, shared by the configurations that have it. */
struct ledger {
    LIST_ENTRY(ledger) link;
    unsigned users;
    char *name;
    pthread_mutex_t lock;
    LIST_HEAD(, account) buckets[BUCKETS];
    size_t count;
    uint64_t point;
    int64_t swept_ms;
};

static pthread_mutex_t ledgers_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, ledger) ledgers = LIST_HEAD_INITIALIZER(ledgers);

struct limit {
    uint64_t count, per_ms; /* per_ms 0 = none */
    const char *text;       /* as it was written */
};

struct quota {
    struct ledger *ledger;
    enum subject per;
    struct limit requests, bytes;
};

/* ---- ledgers ---- */

static struct ledger *ledger_create(const char *name)
{
    struct ledger *ledger = must_calloc(1, sizeof(*ledger));
    ledger->name = must_copy(name);
    ledger->point = secret_hash_point();
    pthread_mutex_init(&ledger->lock, NULL);
    LIST_INSERT_HEAD(&ledgers, ledger, link);
    return ledger;
}

static struct ledger *ledger_take(const char *name)
{
    struct ledger *ledger;
    pthread_mutex_lock(&ledgers_lock);
    LIST_FOREACH(ledger, &ledgers, link)
        if (strcmp(ledger->name, name) == 0)
            break;
    if (ledger == NULL)
        ledger = ledger_create(name);
    ledger->users++;
    pthread_mutex_unlock(&ledgers_lock);
    return ledger;
}

static void drop_account(struct ledger *ledger, struct account *account)
{
    LIST_REMOVE(account, link);
    ledger->count--;
    free(account);
}

static void ledger_leave(struct ledger *ledger)
{
    pthread_mutex_lock(&ledgers_lock);
    const bool last = --ledger->users == 0;
    if (last)
        LIST_REMOVE(ledger, link);
    pthread_mutex_unlock(&ledgers_lock);
    if (!last)
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        struct account *account, *next;
        LIST_FOREACH_SAFE(account, &ledger->buckets[i], link, next)
            free(account);
    }
    pthread_mutex_destroy(&ledger->lock);
    free(ledger->name);
    free(ledger);
}

/* ---- the section ---- */

static void destroy(void *filter)
{
    struct quota *self = filter;
    if (self->ledger != NULL)
        ledger_leave(self->ledger);
    free(self);
}

static bool take_limit(struct limit *limit, bool sizes, const struct srt_filter_key *key,
                       struct srt_filter_fault *fault)
{
    limit->text = key->value;
    if (value_rate(str_of(key->value), sizes, &limit->count, &limit->per_ms))
        return true;
    return builtin_refuse(fault, key, "'%s' is not %s/UNIT, such as %s", key->value,
                          sizes ? "SIZE" : "NUMBER", sizes ? "1g/d" : "1000/h");
}

static bool take_requests(void *limit, const struct srt_filter_key *key,
                          struct srt_filter_fault *fault)
{
    return take_limit(limit, false, key, fault);
}

static bool take_bytes(void *limit, const struct srt_filter_key *key,
                       struct srt_filter_fault *fault)
{
    return take_limit(limit, true, key, fault);
}

static bool take_subject(void *subject, const struct srt_filter_key *key,
                         struct srt_filter_fault *fault)
{
    static const char *const words[] = {
        [PER_SANDBOX] = "sandbox", [PER_CLIENT] = "client", [PER_POLICY] = "policy"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(key->value, words[i]) != 0)
            continue;
        *(enum subject *)subject = (enum subject)i;
        return true;
    }
    return builtin_refuse(fault, key, "'%s' is none of sandbox, client and policy", key->value);
}

#define AT(field) offsetof(struct quota, field)

static const struct builtin_key known_keys[] = {
    {"requests", false, take_requests, AT(requests)},
    {"bytes", false, take_bytes, AT(bytes)},
    {"per", false, take_subject, AT(per)},
    {NULL, false, NULL, 0},
};

static void *create(const struct srt_filter_host *host, const char *name,
                    const struct srt_filter_key *keys, size_t key_count,
                    struct srt_filter_fault *fault)
{
    (void)host;
    struct quota *self = must_calloc(1, sizeof(*self));
    bool good = builtin_take_keys(self, known_keys, keys, key_count, fault);
    if (good && self->requests.per_ms == 0 && self->bytes.per_ms == 0)
        good = builtin_refuse(fault, NULL, "it has neither requests nor bytes");
    if (good) {
        self->ledger = ledger_take(name);
        return self;
    }
    destroy(self);
    return NULL;
}

/* ---- accounts, with the ledger's lock held ---- */

/* Its window is over for every limit of this quota. */
static bool is_over(const struct quota *self, const struct account *account, int64_t now_ms)
{
    const uint64_t longest =
        self->requests.per_ms > self->bytes.per_ms ? self->requests.per_ms : self->bytes.per_ms;
    return now_ms - account->touched_ms > (int64_t)longest;
}

static void sweep(const struct quota *self, int64_t now_ms)
{
    struct ledger *ledger = self->ledger;
    if (now_ms - ledger->swept_ms < SWEEP_MS && now_ms >= ledger->swept_ms)
        return;
    ledger->swept_ms = now_ms;
    for (size_t i = 0; i < BUCKETS; i++) {
        struct account *account, *next;
        LIST_FOREACH_SAFE(account, &ledger->buckets[i], link, next)
            if (is_over(self, account, now_ms))
                drop_account(ledger, account);
    }
}

static size_t bucket_of(const struct ledger *ledger, struct str subject)
{
    return secret_hash_place(secret_hash_str(ledger->point, subject), BUCKETS - 1);
}

/* NULL: there are too many. */
static struct account *find_account(const struct quota *self, struct str subject, int64_t now_ms)
{
    struct ledger *ledger = self->ledger;
    const size_t bucket = bucket_of(ledger, subject);
    struct account *account;
    LIST_FOREACH(account, &ledger->buckets[bucket], link)
        if (str_eq((struct str){account->subject, account->len}, subject))
            return account;
    if (ledger->count >= ACCOUNTS_MAX)
        sweep(self, now_ms);
    if (ledger->count >= ACCOUNTS_MAX)
        return NULL;
    account = must_calloc(1, sizeof(*account) + subject.len);
    account->len = subject.len;
    if (subject.len > 0)
        memcpy(account->subject, subject.p, subject.len);
    LIST_INSERT_HEAD(&ledger->buckets[bucket], account, link);
    ledger->count++;
    return account;
}

static void turn_window(struct tally *tally, const struct limit *limit, int64_t now_ms)
{
    const int64_t window = limit->per_ms != 0 ? now_ms / (int64_t)limit->per_ms : 0;
    if (tally->window != window)
        *tally = (struct tally){.window = window};
}

static struct account *turn_account(const struct quota *self,
                                    const struct srt_filter_request *request)
{
    const struct srt_filter_text text = self->per == PER_SANDBOX  ? request->sandbox
                                        : self->per == PER_CLIENT ? request->client
                                                                  : request->policy;
    struct account *account = find_account(self, builtin_str(text), request->now_ms);
    if (account == NULL)
        return NULL;
    account->touched_ms = request->now_ms;
    turn_window(&account->requests, &self->requests, request->now_ms);
    turn_window(&account->bytes, &self->bytes, request->now_ms);
    return account;
}

/* ---- the request ---- */

static bool is_used_up(const struct tally *tally, const struct limit *limit)
{
    return limit->per_ms != 0 && tally->used >= limit->count;
}

static enum srt_filter_verdict deny_until(const struct limit *limit, const char *what,
                                          int64_t now_ms, struct srt_filter_ruling *ruling)
{
    const int64_t per_ms = (int64_t)limit->per_ms;
    const time_t until = (time_t)((now_ms / per_ms + 1) * per_ms / 1000);
    struct tm utc;
    char text[32];
    gmtime_r(&until, &utc);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
    return builtin_deny(ruling, "the quota of %s %s is used up until %s", limit->text, what, text);
}

static enum srt_filter_verdict on_request(void *local, const struct srt_filter_request *request,
                                          const struct srt_filter_ticket *ticket,
                                          struct srt_filter_edits *edits,
                                          struct srt_filter_ruling *ruling)
{
    const struct quota *self = local;
    enum srt_filter_verdict verdict = SRT_FILTER_PASS;
    (void)ticket, (void)edits;
    pthread_mutex_lock(&self->ledger->lock);
    struct account *account = turn_account(self, request);
    if (account == NULL)
        verdict = builtin_deny(ruling, "too many are counted at once");
    else if (is_used_up(&account->requests, &self->requests))
        verdict = deny_until(&self->requests, "requests", request->now_ms, ruling);
    else if (is_used_up(&account->bytes, &self->bytes))
        verdict = deny_until(&self->bytes, "bytes", request->now_ms, ruling);
    else
        account->requests.used++;
    pthread_mutex_unlock(&self->ledger->lock);
    return verdict;
}

static void on_end(void *local, const struct srt_filter_request *request, uint64_t bytes_up,
                   uint64_t bytes_down)
{
    const struct quota *self = local;
    pthread_mutex_lock(&self->ledger->lock);
    struct account *account = turn_account(self, request);
    if (account != NULL)
        account->bytes.used += bytes_up + bytes_down;
    pthread_mutex_unlock(&self->ledger->lock);
}

const struct srt_filter_module module_quota = {
    .abi = SRT_FILTER_ABI,
    .size = sizeof(struct srt_filter_module),
    .name = "quota",
    .create = create,
    .destroy = destroy,
    .on_request = on_request,
    .on_end = on_end,
};
