/*
 * What a reader of configuration says about a text: the faults as they would be printed.
 *
 * Ownership: the text belongs to said() and lives until its next call.
 */
#ifndef TESTS_UNIT_CONFIG_SAID_H
#define TESTS_UNIT_CONFIG_SAID_H

#include "config/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Takes the faults; without the last newline, so that one fault reads as one line. */
static inline const char *said(struct faults *faults)
{
    static char *text;
    static size_t size;
    free(text);
    FILE *out = open_memstream(&text, &size);
    faults_print(faults, out);
    fclose(out);
    faults_free(faults);
    if (size > 0)
        text[size - 1] = '\0';
    return text;
}

#endif
