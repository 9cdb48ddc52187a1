#include "transport/slab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the above first */
#include <cmocka.h>

/* More than fit into a few blocks, of a size that leaves a rest at the end of each. */
enum { SIZE = 1304, MANY = 200 };

struct thing {
    unsigned char bytes[SIZE];
};

static struct slab slab;

static int begin(void **state)
{
    (void)state;
    slab_init(&slab, sizeof(struct thing));
    return 0;
}

static int end(void **state)
{
    (void)state;
    slab_end(&slab);
    return 0;
}

static bool is_all(const struct thing *thing, unsigned char value)
{
    for (size_t i = 0; i < SIZE; i++)
        if (thing->bytes[i] != value)
            return false;
    return true;
}

static void test_what_is_taken_is_zeroed_aligned_and_ones_own(void **state)
{
    (void)state;
    struct thing *things[MANY];
    for (size_t i = 0; i < MANY; i++) {
        things[i] = slab_take(&slab);
        assert_true(is_all(things[i], 0));
        assert_int_equal((uintptr_t)things[i] % sizeof(double), 0);
        memset(things[i], (int)(i % 255) + 1, SIZE);
    }
    for (size_t i = 0; i < MANY; i++)
        assert_true(is_all(things[i], (unsigned char)(i % 255 + 1)));
    for (size_t i = 0; i < MANY; i++)
        slab_give(things[i]);
}

static void test_what_was_given_back_is_taken_again_and_zeroed(void **state)
{
    (void)state;
    struct thing *keeps = slab_take(&slab), *first = slab_take(&slab);
    memset(keeps, 7, SIZE);
    memset(first, 9, SIZE);
    slab_give(first);
    struct thing *second = slab_take(&slab);
    assert_ptr_equal(second, first);
    assert_true(is_all(second, 0));
    assert_true(is_all(keeps, 7));
    slab_give(second);
    slab_give(keeps);
}

/* As tunnels do: they come and go in any order, and each keeps what is its own. */
static void test_coming_and_going_in_any_order(void **state)
{
    (void)state;
    struct thing *things[MANY] = {NULL};
    unsigned chance = 1;
    for (int turn = 0; turn < 20000; turn++) {
        chance = chance * 1103515245 + 12345;
        size_t at = chance >> 16 & 0xff;
        if (at >= MANY)
            continue;
        if (things[at] == NULL) {
            things[at] = slab_take(&slab);
            assert_true(is_all(things[at], 0));
            memset(things[at], (int)at, SIZE);
        } else {
            assert_true(is_all(things[at], (unsigned char)at));
            slab_give(things[at]);
            things[at] = NULL;
        }
    }
    for (size_t i = 0; i < MANY; i++)
        slab_give(things[i]);
}

static void test_a_few_empty_blocks_are_kept_for_the_next_and_others_go(void **state)
{
    (void)state;
    struct thing *things[MANY];
    for (int turn = 0; turn < 3; turn++) {
        for (size_t i = 0; i < MANY; i++)
            things[i] = slab_take(&slab);
        assert_int_equal(slab.spare_count, 0);
        for (size_t i = 0; i < MANY; i++)
            slab_give(things[i]);
        assert_int_equal(slab.spare_count, 4);
        assert_true(LIST_EMPTY(&slab.some));
        assert_true(LIST_EMPTY(&slab.full));
    }
}

static void test_nothing_can_be_given_back(void **state)
{
    (void)state;
    slab_give(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_taken_is_zeroed_aligned_and_ones_own, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_what_was_given_back_is_taken_again_and_zeroed, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_coming_and_going_in_any_order, begin, end),
        cmocka_unit_test_setup_teardown(test_a_few_empty_blocks_are_kept_for_the_next_and_others_go,
                                        begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_can_be_given_back, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
