/*
 * How a library says that an operator's or a user's input is at fault.
 *
 * The text is built where the cause is known and is complete: it names what was asked, what went
 * wrong and, where there is one, the remedy. It carries no trailing newline and no program name.
 * Ownership: the caller's. Thread: any. Libraries fill it and return; only programs print it.
 */
#ifndef SRT_ERR_H
#define SRT_ERR_H

#include <stdarg.h>
#include <stdio.h>

struct srt_err {
    char text[1024];
};

/* Fills `err` (which may be NULL) and returns -1, so that `return srt_err_set(...)` reads well. */
__attribute__((format(printf, 2, 3))) static inline int srt_err_set(struct srt_err *err,
                                                                    const char *format, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof(err->text), format, args);
        va_end(args);
    }
    return -1;
}

#endif
