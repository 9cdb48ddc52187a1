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

/* When `ms` from now are over, for calls that wait until a moment of this clock. */
static inline struct timespec clock_until(clockid_t clock, int ms)
{
    struct timespec until;
    clock_gettime(clock, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    return until;
}

#endif
