/*
 * Memory that must be had.
 *
 * Running out of it ends the process: a gateway that goes on with half of its rules or records
 * would be worse than one that is started again. What a stranger can make large is bounded
 * elsewhere.
 */
#ifndef SRT_MUST_H
#define SRT_MUST_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* With which status a program ends then; one that does not say ends by SIGABRT. */
extern const int must_status __attribute__((weak));

static inline _Noreturn void must_end(void)
{
    static const char text[] =
        ": out of memory, or more than the limits on it allow (ulimit -d, ulimit -v)\n";
    (void)!write(STDERR_FILENO, program_invocation_short_name,
                 strlen(program_invocation_short_name));
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    if (&must_status != NULL)
        _exit(must_status);
    abort();
}

static inline void *must(void *allocated)
{
    if (allocated == NULL)
        must_end();
    return allocated;
}

/* Zeroed; of a count of 0 something, too. */
static inline void *must_calloc(size_t count, size_t size)
{
    return must(calloc(count != 0 ? count : 1, size));
}

/* What printf() would say. */
__attribute__((format(printf, 1, 0))) static inline char *must_vformat(const char *format,
                                                                       va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        must_end();
    return text;
}

__attribute__((format(printf, 1, 2))) static inline char *must_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = must_vformat(format, args);
    va_end(args);
    return text;
}

/* NULL of NULL. */
static inline char *must_copy(const char *text)
{
    return text != NULL ? must(strdup(text)) : NULL;
}

#endif
