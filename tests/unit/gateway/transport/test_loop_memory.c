#include "transport/loop_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the above first */
#include <cmocka.h>

static void fill(unsigned char *block, long from, long to)
{
    for (long i = from; i < to; i++)
        block[i] = (unsigned char)(i * 7);
}

static void check(const unsigned char *block, long len)
{
    for (long i = 0; i < len; i++)
        assert_int_equal(block[i], (unsigned char)(i * 7));
}

/* Small, across the size from which on it has pages of its own, and on. */
static void test_it_grows_and_keeps_what_is_in_it(void **state)
{
    (void)state;
    unsigned char *block = NULL;
    long before = 0;
    for (long size = 10; size < 4 << 20; before = size, size = size * 3 / 2) {
        block = loop_memory(block, size);
        assert_int_equal((uintptr_t)block % _Alignof(max_align_t), 0);
        check(block, before);
        fill(block, before, size);
    }
    assert_null(loop_memory(block, 0));
}

static void test_it_shrinks_and_keeps_what_is_left(void **state)
{
    (void)state;
    unsigned char *block = loop_memory(NULL, 1 << 20);
    fill(block, 0, 1 << 20);
    for (long size = 1 << 19; size > 10; size /= 3) {
        block = loop_memory(block, size);
        check(block, size);
    }
    assert_null(loop_memory(block, 0));
}

static void test_nothing_is_freed_as_nothing(void **state)
{
    (void)state;
    assert_null(loop_memory(NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_grows_and_keeps_what_is_in_it),
        cmocka_unit_test(test_it_shrinks_and_keeps_what_is_left),
        cmocka_unit_test(test_nothing_is_freed_as_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
