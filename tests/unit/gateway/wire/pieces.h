/*
 * Bytes for a parser: exact copies on the heap, so that the sanitizer sees a read past what has
 * arrived. Included by the tests of this folder only.
 */
#ifndef TESTS_WIRE_PIECES_H
#define TESTS_WIRE_PIECES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "srt/cleanup.h"
#include "srt/str.h"

/* The caller frees. */
static inline char *exact_copy(struct str bytes)
{
    char *copy = malloc(bytes.len != 0 ? bytes.len : 1);
    assert_non_null(copy);
    if (bytes.len != 0)
        memcpy(copy, bytes.p, bytes.len);
    return copy;
}

static inline void assert_str(struct str got, const char *want)
{
    if (want == NULL) {
        assert_null(got.p);
        return;
    }
    if (!str_eq(got, str_of(want)))
        fail_msg("got '%.*s', want '%s'", STR_ARG(got), want);
}

#endif
