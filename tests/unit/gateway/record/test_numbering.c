#include "record/numbering.h"

#include "srt/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { SOON_MS = 1, LONG_MS = 60000 };

static uint64_t take(struct numbering *numbering, uint64_t count)
{
    uint64_t next = 0;
    assert_true(numbering_begin(numbering, LONG_MS, &next));
    numbering_end(numbering, next + count);
    return next;
}

static void both_count_on(void **state)
{
    (void)state;
    struct srt_err err;
    struct numbering *first = numbering_create(&err);
    assert_non_null(first);
    assert_int_equal(take(first, 3), 0);
    struct numbering *second = numbering_adopt(dup(numbering_fd(first)), &err);
    assert_non_null(second);
    assert_int_equal(take(second, 1), 3);
    assert_int_equal(take(first, 1), 4);
    numbering_free(first);
    assert_int_equal(take(second, 1), 5);
    numbering_free(second);
}

static void a_turn_is_one_process_s(void **state)
{
    (void)state;
    struct srt_err err;
    uint64_t next;
    struct numbering *first = numbering_create(&err);
    struct numbering *second = numbering_adopt(dup(numbering_fd(first)), &err);
    assert_true(numbering_begin(first, LONG_MS, &next));
    assert_false(numbering_begin(second, SOON_MS, &next));
    numbering_end(first, 7);
    assert_int_equal(take(second, 1), 7);
    numbering_free(first);
    numbering_free(second);
}

static void who_dies_in_its_turn_holds_nobody_up(void **state)
{
    (void)state;
    struct srt_err err;
    struct numbering *numbering = numbering_create(&err);
    assert_int_equal(take(numbering, 5), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        uint64_t next;
        _exit(numbering_begin(numbering, LONG_MS, &next) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(take(numbering, 1), 5);
    numbering_free(numbering);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_count_on),
        cmocka_unit_test(a_turn_is_one_process_s),
        cmocka_unit_test(who_dies_in_its_turn_holds_nobody_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
