/*
 * Verdicts that are still good: what was asked, byte for byte, and what was answered. Bounded; the
 * one that was not used for longest makes room.
 *
 * The hash has a secret, and equal means equal in every byte: nobody can make one question pass for
 * another. Ownership: its user's; keys and reasons are copied. Thread: one; pure, the clock is the
 * caller's. Failure: none but that of memory.
 */
#ifndef FILTERS_VERDICT_CACHE_H
#define FILTERS_VERDICT_CACHE_H

#include "srt/str.h"

#include <stdint.h>

struct verdict_cache;

struct cached_verdict {
    bool pass;
    const char *reason; /* of a denial; the cache's, until its next call */
};

struct verdict_cache *verdict_cache_create(size_t entries_max); /* at least 1 */
void verdict_cache_free(struct verdict_cache *cache);           /* NULL is allowed */

bool verdict_cache_find(struct verdict_cache *cache, struct str question, int64_t now_ms,
                        struct cached_verdict *out);
/* What is longer than VERDICT_CACHE_QUESTION_MAX is not kept. */
enum { VERDICT_CACHE_QUESTION_MAX = 4096 };
void verdict_cache_put(struct verdict_cache *cache, struct str question, bool pass,
                       const char *reason, int64_t until_ms);
void verdict_cache_clear(struct verdict_cache *cache);
size_t verdict_cache_count(const struct verdict_cache *cache);

#endif
