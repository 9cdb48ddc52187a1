#include "dns/cache.h"

#include <search.h>
#include <stdlib.h>
#include <sys/queue.h>

struct cache_entry {
    struct name name; /* first: the tree compares names */
    double stored_s, expires_s;
    TAILQ_ENTRY(cache_entry) by_use;
    enum resolve_status status;
    uint32_t count;
    struct addr addrs[];
};

TAILQ_HEAD(cache_list, cache_entry);

struct cache {
    uint32_t max_entries, count;
    void *by_name;
    struct cache_list by_use; /* the most recently used first */
};

struct cache *cache_create(uint32_t max_entries)
{
    struct cache *cache = calloc(1, sizeof(*cache));
    if (cache == NULL)
        return NULL;
    cache->max_entries = max_entries;
    TAILQ_INIT(&cache->by_use);
    return cache;
}

static void remove_entry(struct cache *cache, struct cache_entry *entry)
{
    tdelete(entry, &cache->by_name, name_compare);
    TAILQ_REMOVE(&cache->by_use, entry, by_use);
    cache->count--;
    free(entry);
}

void cache_clear(struct cache *cache)
{
    while (!TAILQ_EMPTY(&cache->by_use))
        remove_entry(cache, TAILQ_FIRST(&cache->by_use));
}

void cache_destroy(struct cache *cache)
{
    if (cache == NULL)
        return;
    cache_clear(cache);
    free(cache);
}

uint32_t cache_count(const struct cache *cache)
{
    return cache->count;
}

static struct cache_entry *find_entry(struct cache *cache, const struct name *name)
{
    struct cache_entry **found = tfind(name, &cache->by_name, name_compare);
    return found != NULL ? *found : NULL;
}

/* A clock that was set back must not prolong an answer, so one from the future is not valid either.
 */
static bool is_valid(const struct cache_entry *entry, double now_s)
{
    return entry->stored_s <= now_s && now_s < entry->expires_s;
}

bool cache_find(struct cache *cache, const struct name *name, double now_s,
                struct resolve_answer *out)
{
    struct cache_entry *entry = find_entry(cache, name);
    if (entry == NULL)
        return false;
    if (!is_valid(entry, now_s)) {
        remove_entry(cache, entry);
        return false;
    }
    TAILQ_REMOVE(&cache->by_use, entry, by_use);
    TAILQ_INSERT_HEAD(&cache->by_use, entry, by_use);
    out->status = entry->status;
    out->count = entry->count;
    memcpy(out->addrs, entry->addrs, entry->count * sizeof(entry->addrs[0]));
    return true;
}

void cache_store(struct cache *cache, const struct name *name, const struct resolve_answer *answer,
                 double now_s, uint32_t ttl_s)
{
    struct cache_entry *old = find_entry(cache, name);
    if (old != NULL)
        remove_entry(cache, old);
    if (cache->max_entries == 0 || ttl_s == 0)
        return;
    if (cache->count == cache->max_entries)
        remove_entry(cache, TAILQ_LAST(&cache->by_use, cache_list));

    size_t addrs_size = answer->count * sizeof(answer->addrs[0]);
    struct cache_entry *entry = malloc(sizeof(*entry) + addrs_size);
    if (entry == NULL)
        return;
    entry->name = *name;
    entry->stored_s = now_s;
    entry->expires_s = now_s + ttl_s;
    entry->status = answer->status;
    entry->count = answer->count;
    memcpy(entry->addrs, answer->addrs, addrs_size);
    if (tsearch(entry, &cache->by_name, name_compare) == NULL) {
        free(entry);
        return;
    }
    TAILQ_INSERT_HEAD(&cache->by_use, entry, by_use);
    cache->count++;
}
