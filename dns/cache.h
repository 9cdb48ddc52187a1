/*
 * Answers by name until they expire, bounded: the least recently used one gives way.
 *
 * The cache knows nothing of TTL policy; who stores says for how long. The index is a balanced tree
 * (glibc's tsearch), so names chosen by an attacker cannot make look-ups slow.
 *
 * Ownership: the creator's. Thread: one. Failure: an answer that finds no memory is not kept.
 */
#ifndef DNS_CACHE_H
#define DNS_CACHE_H

#include "dns/resolver.h"

struct cache;

/* NULL if there is no memory. A cache of 0 entries is valid and keeps nothing. */
struct cache *cache_create(uint32_t max_entries);
void cache_destroy(struct cache *cache);

/* Copies the answer out, if there is one that is valid at `now_s`. */
bool cache_find(struct cache *cache, const struct name *name, double now_s,
                struct resolve_answer *out);

/* Replaces what is there. */
void cache_store(struct cache *cache, const struct name *name, const struct resolve_answer *answer,
                 double now_s, uint32_t ttl_s);

void cache_clear(struct cache *cache);
uint32_t cache_count(const struct cache *cache);

#endif
