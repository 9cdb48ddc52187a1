/*
 * Files below a directory of their own, which is the working directory while a test runs.
 *
 * For cmocka_unit_test_setup_teardown().
 */
#ifndef TESTS_UNIT_CONFIG_FILES_H
#define TESTS_UNIT_CONFIG_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static inline int enter_directory(void **state)
{
    char directory[] = "/tmp/config.XXXXXX";
    if (mkdtemp(directory) == NULL || chdir(directory) != 0)
        return -1;
    *state = strdup(directory);
    return 0;
}

static inline int leave_directory(void **state)
{
    char command[100];
    snprintf(command, sizeof(command), "rm -r %s", (const char *)*state);
    free(*state);
    return chdir("/") != 0 || system(command) != 0 ? -1 : 0;
}

static inline void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

#endif
