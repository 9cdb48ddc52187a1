/*
 * A hash of bytes that whoever chooses the bytes cannot make collide: a polynomial over the field
 * of 2^61 - 1 at a secret point. It is made byte by byte, so that every suffix or prefix that is
 * passed on the way has its own at no cost.
 *
 * Thread: any; pure. Failure: secret_hash_point() ends the process when there is no chance to be
 * had.
 */
#ifndef FILTERS_SECRET_HASH_H
#define FILTERS_SECRET_HASH_H

#include "srt/str.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#define SECRET_HASH_PRIME ((UINT64_C(1) << 61) - 1)

static inline uint64_t secret_hash_point(void)
{
    uint64_t point;
    if (getrandom(&point, sizeof(point), 0) != (ssize_t)sizeof(point))
        abort();
    return point % (SECRET_HASH_PRIME - 512) + 512; /* more than any value that is added */
}

/* hash * point + value + 1, modulo the prime; a hash begins as 0. */
static inline uint64_t secret_hash_add(uint64_t point, uint64_t hash, uint64_t value)
{
    const unsigned __int128 product = (unsigned __int128)hash * point + value + 1;
    const uint64_t sum = ((uint64_t)product & SECRET_HASH_PRIME) + (uint64_t)(product >> 61);
    return sum >= SECRET_HASH_PRIME ? sum - SECRET_HASH_PRIME : sum;
}

static inline uint64_t secret_hash_str(uint64_t point, struct str bytes)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < bytes.len; i++)
        hash = secret_hash_add(point, hash, (unsigned char)bytes.p[i]);
    return hash;
}

/* Its place in a table; `mask` is a power of two less one. */
static inline size_t secret_hash_place(uint64_t hash, size_t mask)
{
    return (size_t)((hash * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & mask;
}

#endif
