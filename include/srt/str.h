/*
 * A view of bytes that somebody else owns: a pointer and a length, no terminator.
 *
 * Ownership: none. A view is valid only as long as the bytes it points into. Thread: any.
 * Failure: none of these functions can fail. `p == NULL` means "absent", which is different from
 * an empty view (`p != NULL, len == 0`).
 */
#ifndef SRT_STR_H
#define SRT_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
    const char *p;
    size_t len;
};

#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})
#define STR_NULL ((struct str){NULL, 0})

/* For printf: printf("%.*s", STR_ARG(view)). */
#define STR_ARG(view) (int)(view).len, (view).p != NULL ? (view).p : ""

static inline struct str str_of(const char *zero_terminated)
{
    return (struct str){zero_terminated, zero_terminated != NULL ? strlen(zero_terminated) : 0};
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

/* ASCII only, independent of the locale: bytes above 0x7f compare as they are. */
static inline unsigned char str_lower_byte(unsigned char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

/* Its value; -1: it is no hexadecimal digit. */
static inline int str_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    const char lower = (char)str_lower_byte((unsigned char)c);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static inline bool str_ieq(struct str a, struct str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (str_lower_byte((unsigned char)a.p[i]) != str_lower_byte((unsigned char)b.p[i]))
            return false;
    return true;
}

static inline bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && memcmp(s.p, prefix.p, prefix.len) == 0;
}

static inline bool str_istarts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && str_ieq((struct str){s.p, prefix.len}, prefix);
}

/* The part from `from` to the end; an empty view when `from` is past the end. */
static inline struct str str_from(struct str s, size_t from)
{
    return from >= s.len ? (struct str){s.p + s.len, 0} : (struct str){s.p + from, s.len - from};
}

static inline bool str_has(struct str s, char c)
{
    return s.len > 0 && memchr(s.p, c, s.len) != NULL;
}

/* The part before the first `c`, or all of it. */
static inline struct str str_until(struct str s, char c)
{
    const char *end = s.len > 0 ? (const char *)memchr(s.p, c, s.len) : NULL;
    return (struct str){s.p, end != NULL ? (size_t)(end - s.p) : s.len};
}

/* Cuts the part before the first `c` (or all) off `*rest`, which goes on behind it. */
static inline struct str str_take_until(struct str *rest, char c)
{
    const struct str part = str_until(*rest, c);
    *rest = str_from(*rest, part.len + 1);
    return part;
}

/* Cuts the next line off `*rest`; without its line feed, which the last one need not have. */
static inline struct str str_take_line(struct str *rest)
{
    return str_take_until(rest, '\n');
}

/* The same for a list in which every separator has a part on either side, though it may be empty:
 * `*rest` is absent behind the last part. False: there is none any more. */
static inline bool str_next_part(struct str *rest, char separator, struct str *part)
{
    if (rest->p == NULL)
        return false;
    *part = str_until(*rest, separator);
    *rest = part->len < rest->len ? str_from(*rest, part->len + 1) : STR_NULL;
    return true;
}

/* Not memchr(): of the few bytes that separate words the compiler makes a few comparisons. */
static inline bool str_is_one_of(char c, struct str few)
{
    for (size_t i = 0; i < few.len; i++)
        if (few.p[i] == c)
            return true;
    return false;
}

/* Cuts the next word off `*rest`, and what separates it from the last one: bytes of `separators`.
 * False: there is none any more. */
static inline bool str_next_word(struct str *rest, struct str separators, struct str *word)
{
    size_t start = 0, end;
    while (start < rest->len && str_is_one_of(rest->p[start], separators))
        start++;
    for (end = start; end < rest->len && !str_is_one_of(rest->p[end], separators); end++)
        ;
    *word = (struct str){rest->p + start, end - start};
    *rest = str_from(*rest, end);
    return word->len > 0;
}

/* Takes the decimal number off the front of `*text`. False: there is none, it has a leading zero,
 * or it does not fit. */
static inline bool str_take_uint(struct str *text, uint64_t *out)
{
    size_t len = 0;
    *out = 0;
    for (; len < text->len && text->p[len] >= '0' && text->p[len] <= '9'; len++)
        if (__builtin_mul_overflow(*out, 10u, out) ||
            __builtin_add_overflow(*out, (uint64_t)(text->p[len] - '0'), out))
            return false;
    if (len == 0 || (len > 1 && text->p[0] == '0'))
        return false;
    *text = str_from(*text, len);
    return true;
}

/* All of it is a decimal number of at most `max`, without a leading zero. */
static inline bool str_uint(struct str text, uint64_t max, uint64_t *out)
{
    return str_take_uint(&text, out) && text.len == 0 && *out <= max;
}

/* Without spaces and tabs (the OWS of RFC 9110 5.6.3) at both ends. */
static inline struct str str_trim(struct str s)
{
    while (s.len > 0 && (s.p[0] == ' ' || s.p[0] == '\t'))
        s.p++, s.len--;
    while (s.len > 0 && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
        s.len--;
    return s;
}

#endif
