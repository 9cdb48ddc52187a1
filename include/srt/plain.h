/*
 * Copies of text that mostly stands for itself between quotes, without looking at it byte by byte.
 *
 * Plain is printable ASCII but quote and backslash: what JSON and a string of a header field (RFC
 * 8941 3.3.3) hold as it is. Ownership: the caller's storage. Thread: any. Failure: none.
 */
#ifndef SRT_PLAIN_H
#define SRT_PLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool plain_is(char c)
{
    return c >= ' ' && c <= '~' && c != '"' && c != '\\';
}

#define PLAIN_EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* A borrow or carry that goes from one byte into the next comes from one that is not plain itself.
 */
static inline bool plain_are_eight(uint64_t eight)
{
    const uint64_t quote = eight ^ PLAIN_EACH('"'), backslash = eight ^ PLAIN_EACH('\\');
    const uint64_t control = (eight - PLAIN_EACH(' ')) & ~eight;
    const uint64_t above = eight | (eight + PLAIN_EACH(1));
    const uint64_t marks =
        ((quote - PLAIN_EACH(1)) & ~quote) | ((backslash - PLAIN_EACH(1)) & ~backslash);
    return ((control | above | marks) & PLAIN_EACH(0x80)) == 0;
}

typedef uint8_t plain_sixteen __attribute__((vector_size(16)));

/* These copy so many; false: not all of them are plain. */
static inline bool plain_copy_sixteen(char *out, const char *from)
{
    plain_sixteen bytes;
    uint64_t marks[2];
    memcpy(&bytes, from, sizeof(bytes));
    memcpy(out, &bytes, sizeof(bytes));
    const plain_sixteen marked = (plain_sixteen)(bytes - ' ' > '~' - ' ') |
                                 (plain_sixteen)(bytes == '"') | (plain_sixteen)(bytes == '\\');
    memcpy(marks, &marked, sizeof(marks));
    return (marks[0] | marks[1]) == 0;
}

static inline bool plain_copy_eight(char *out, const char *from)
{
    uint64_t eight;
    memcpy(&eight, from, sizeof(eight));
    memcpy(out, &eight, sizeof(eight));
    return plain_are_eight(eight);
}

static inline bool plain_copy_two_fours(char *out, const char *from, size_t second)
{
    uint32_t a, b;
    memcpy(&a, from, sizeof(a));
    memcpy(&b, from + second, sizeof(b));
    memcpy(out, &a, sizeof(a));
    memcpy(out + second, &b, sizeof(b));
    return plain_are_eight((uint64_t)a << 32 | b);
}

/* As many at once as there are; the last ones together with some that were looked at before.
 * Returns how many are certainly plain. */
static inline size_t plain_copy_steps(char *out, const char *from, size_t len)
{
    size_t done = 0;
    if (len < 4)
        return 0;
    if (len < 8)
        return plain_copy_two_fours(out, from, len - 4) ? len : 0;
    if (len < 16)
        return plain_copy_eight(out, from) && plain_copy_eight(out + len - 8, from + len - 8) ? len
                                                                                              : 0;
    for (; len - done >= 16; done += 16)
        if (!plain_copy_sixteen(out + done, from + done))
            return done;
    return plain_copy_sixteen(out + len - 16, from + len - 16) ? len : done;
}

/* Copies as much of the beginning of `from` as is plain, and returns how much that is. `out` has
 * room for all; what is behind that in it is then anything. */
static inline size_t plain_copy(char *out, const char *from, size_t len)
{
    size_t done = plain_copy_steps(out, from, len);
    for (; done < len && plain_is(from[done]); done++)
        out[done] = from[done];
    return done;
}

#endif
