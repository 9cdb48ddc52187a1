/*
 * The time in milliseconds. Thread: any. Failure: none.
 */
#ifndef SRT_CLOCK_H
#define SRT_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_read_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* For deadlines and durations: it only grows. */
static inline int64_t clock_ms(void)
{
    return clock_read_ms(CLOCK_MONOTONIC);
}

/* Since the epoch, for records: it may be set. */
static inline int64_t clock_wall_ms(void)
{
    return clock_read_ms(CLOCK_REALTIME);
}

#endif
