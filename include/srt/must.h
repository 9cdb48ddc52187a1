/*
 * Memory that must be had.
 *
 * Running out of it ends the process: a gateway that goes on with half of its rules or records
 * would be worse than one that is started again. What a stranger can make large is bounded
 * elsewhere.
 */
#ifndef SRT_MUST_H
#define SRT_MUST_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline _Noreturn void must_end(void)
{
    static const char text[] = "out of memory\n";
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    abort();
}

static inline void *must(void *allocated)
{
    if (allocated == NULL)
        must_end();
    return allocated;
}

/* NULL of NULL. */
static inline char *must_copy(const char *text)
{
    return text != NULL ? must(strdup(text)) : NULL;
}

#endif
