/*
 * Text for people and records, put together without printf, which costs more than all else that is
 * done for a refusal.
 *
 * Ownership: the caller's storage. Thread: any. Failure: what has no room is cut off; the text is
 * NUL-terminated all the same.
 */
#ifndef SRT_TEXT_H
#define SRT_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { TEXT_NUMBER_MAX = 20 + 1 };

/* `value` in decimal; returns how many digits. */
static inline size_t text_number(char out[TEXT_NUMBER_MAX], uint64_t value)
{
    char digits[TEXT_NUMBER_MAX], *first = digits + sizeof(digits);
    do {
        *--first = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    const size_t len = (size_t)(digits + sizeof(digits) - first);
    memcpy(out, first, len);
    out[len] = '\0';
    return len;
}

/* The parts one after the other, those that are NULL left out; returns the length. `size` is at
 * least 1. */
static inline size_t text_join(char *out, size_t size, const char *const parts[], size_t count)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t room = size - 1 - len, whole = parts[i] != NULL ? strlen(parts[i]) : 0;
        const size_t fits = whole < room ? whole : room;
        memcpy(out + len, fits > 0 ? parts[i] : "", fits);
        len += fits;
    }
    out[len] = '\0';
    return len;
}

#define TEXT_PARTS(...) ((const char *const[]){__VA_ARGS__})
#define TEXT_JOIN(out, size, ...)                     \
    text_join((out), (size), TEXT_PARTS(__VA_ARGS__), \
              sizeof(TEXT_PARTS(__VA_ARGS__)) / sizeof(char *))

#endif
