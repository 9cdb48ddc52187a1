/*
 * Arrays that grow by one, for readers that do not know the number of items beforehand.
 *
 * Ownership: the caller's, free(). Thread: any. Failure: none; running out of memory ends the
 * process (srt/must.h).
 */
#ifndef SRT_GROW_H
#define SRT_GROW_H

#include "srt/must.h"

/* Room for `count` + 1 items. The size doubles at powers of two, so no capacity is kept anywhere;
 * `count` must have been reached one by one, or with grow_by(). */
static inline void *grow_one(void *items, size_t count, size_t size)
{
    if ((count & (count - 1)) != 0)
        return items;
    return must(reallocarray(items, count == 0 ? 1 : count * 2, size));
}

/* Room for `more` items behind `count`, for a caller that has counted them; grow_one() may follow.
 */
static inline void *grow_by(void *items, size_t count, size_t more, size_t size)
{
    size_t needed = count + more;
    size_t capacity = 1;
    while (capacity < needed)
        capacity *= 2;
    return must(reallocarray(items, capacity, size));
}

#endif
