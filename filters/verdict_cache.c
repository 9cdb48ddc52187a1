#include "filters/verdict_cache.h"

#include "filters/builtin.h"
#include "filters/secret_hash.h"
#include "srt/must.h"

#include <assert.h>
#include <sys/queue.h>

struct entry {
    LIST_ENTRY(entry) chain;
    TAILQ_ENTRY(entry) used;
    uint64_t hash;
    int64_t until_ms;
    bool pass;
    char *reason;
    size_t len;
    char question[];
};

struct verdict_cache {
    LIST_HEAD(, entry) * chains;
    size_t mask;
    TAILQ_HEAD(, entry) used; /* the longest unused first */
    size_t count, entries_max;
    uint64_t point;
};

struct verdict_cache *verdict_cache_create(size_t entries_max)
{
    struct verdict_cache *cache = must_calloc(1, sizeof(*cache));
    size_t chains = 16;
    assert(entries_max > 0);
    while (chains < entries_max && chains < (size_t)1 << 20)
        chains *= 2;
    cache->chains = must_calloc(chains, sizeof(*cache->chains));
    cache->mask = chains - 1;
    cache->entries_max = entries_max;
    cache->point = secret_hash_point();
    TAILQ_INIT(&cache->used);
    return cache;
}

static void drop(struct verdict_cache *cache, struct entry *entry)
{
    LIST_REMOVE(entry, chain);
    TAILQ_REMOVE(&cache->used, entry, used);
    cache->count--;
    free(entry->reason);
    free(entry);
}

void verdict_cache_clear(struct verdict_cache *cache)
{
    while (!TAILQ_EMPTY(&cache->used))
        drop(cache, TAILQ_FIRST(&cache->used));
}

void verdict_cache_free(struct verdict_cache *cache)
{
    if (cache == NULL)
        return;
    verdict_cache_clear(cache);
    free(cache->chains);
    free(cache);
}

static struct entry *find(const struct verdict_cache *cache, uint64_t hash, struct str question)
{
    struct entry *entry;
    LIST_FOREACH(entry, &cache->chains[secret_hash_place(hash, cache->mask)], chain)
        if (entry->hash == hash && str_eq((struct str){entry->question, entry->len}, question))
            return entry;
    return NULL;
}

bool verdict_cache_find(struct verdict_cache *cache, struct str question, int64_t now_ms,
                        struct cached_verdict *out)
{
    struct entry *entry = find(cache, secret_hash_str(cache->point, question), question);
    if (entry == NULL)
        return false;
    if (now_ms >= entry->until_ms) {
        drop(cache, entry);
        return false;
    }
    TAILQ_REMOVE(&cache->used, entry, used);
    TAILQ_INSERT_TAIL(&cache->used, entry, used);
    *out = (struct cached_verdict){entry->pass, entry->reason};
    return true;
}

void verdict_cache_put(struct verdict_cache *cache, struct str question, bool pass,
                       const char *reason, int64_t until_ms)
{
    const uint64_t hash = secret_hash_str(cache->point, question);
    struct entry *entry = find(cache, hash, question);
    if (entry != NULL)
        drop(cache, entry);
    if (question.len > VERDICT_CACHE_QUESTION_MAX)
        return;
    if (cache->count == cache->entries_max)
        drop(cache, TAILQ_FIRST(&cache->used));
    entry = must_calloc(1, sizeof(*entry) + question.len);
    entry->hash = hash;
    entry->until_ms = until_ms;
    entry->pass = pass;
    entry->reason = must_copy(reason != NULL ? reason : "");
    entry->len = question.len;
    memcpy(entry->question, question.p, question.len);
    LIST_INSERT_HEAD(&cache->chains[secret_hash_place(hash, cache->mask)], entry, chain);
    TAILQ_INSERT_TAIL(&cache->used, entry, used);
    cache->count++;
}

size_t verdict_cache_count(const struct verdict_cache *cache)
{
    return cache->count;
}
