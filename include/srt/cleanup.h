/*
 * Scope attributes for straight-line code: what a variable owns is released when its scope ends,
 * unless it was handed on with steal_ptr() or steal_fd(). Evented code has destroy functions
 * instead.
 */
#ifndef SRT_CLEANUP_H
#define SRT_CLEANUP_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free_(void *pointer_to_pointer)
{
    free(*(void **)pointer_to_pointer);
}

static inline void cleanup_close_(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline void cleanup_fclose_(FILE **file)
{
    if (*file != NULL)
        fclose(*file);
}

/* Of an owner whose pointer to it is to const. */
static inline void free_const(const void *owned)
{
    free((void *)(uintptr_t)owned);
}

#define autofree __attribute__((cleanup(cleanup_free_)))
#define autoclose __attribute__((cleanup(cleanup_close_)))
#define autofclose __attribute__((cleanup(cleanup_fclose_)))

static inline int steal_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

#define steal_ptr(variable)                       \
    ({                                            \
        __typeof__(variable) taken_ = (variable); \
        (variable) = NULL;                        \
        taken_;                                   \
    })

#endif
