/* What the benchmarks of single parts measure with. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* The processor's time: what else the machine does is not the measured part's. */
static inline double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The end of a figure's line. */
static inline void print_machine(void)
{
    struct utsname host;
    uname(&host);
    printf(",\"machine\":\"%s %ld cpus\",\"kernel\":\"%s\"}\n", host.machine,
           sysconf(_SC_NPROCESSORS_ONLN), host.release);
}

static inline size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static uint32_t dice_state = 1;

static inline uint32_t dice(uint32_t sides)
{
    dice_state = dice_state * 1664525 + 1013904223;
    return (uint32_t)(((uint64_t)dice_state * sides) >> 32);
}

#endif
