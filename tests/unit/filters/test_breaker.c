#include "filters/breaker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct breaker after_failures(unsigned count)
{
    struct breaker breaker = {.limit = 3, .pause_ms = 100};
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(breaker_fail(&breaker, 1000), i == 2);
    return breaker;
}

static void assert_admits(struct breaker *breaker, int64_t now_ms, bool admits, bool as_probe)
{
    bool probe;
    assert_int_equal(breaker_admit(breaker, now_ms, &probe), admits);
    assert_int_equal(probe, as_probe);
}

static void so_many_failures_in_a_row_open_it(void **state)
{
    (void)state;
    struct breaker breaker = after_failures(2);
    assert_admits(&breaker, 1000, true, false);
    breaker_succeed(&breaker, false);
    assert_false(breaker_fail(&breaker, 1000));
    assert_false(breaker_fail(&breaker, 1000));
    assert_true(breaker_fail(&breaker, 1000));
    assert_int_equal(breaker_look(&breaker, 1099), BREAKER_OPEN);
    assert_admits(&breaker, 1099, false, false);
    assert_false(breaker_fail(&breaker, 1050)); /* of what was tried before; the pause stays */
    assert_int_equal(breaker_look(&breaker, 1100), BREAKER_HALF_OPEN);
}

static void one_probe_closes_it(void **state)
{
    (void)state;
    struct breaker breaker = after_failures(3);
    assert_admits(&breaker, 1100, true, true);
    assert_admits(&breaker, 1100, false, false);
    breaker_succeed(&breaker, false); /* an old one proves nothing */
    assert_int_equal(breaker_look(&breaker, 1100), BREAKER_HALF_OPEN);
    breaker_succeed(&breaker, true);
    assert_admits(&breaker, 1100, true, false);
    assert_false(breaker_fail(&breaker, 1200)); /* and counting begins anew */
}

static void one_probe_opens_it_again(void **state)
{
    (void)state;
    struct breaker breaker = after_failures(3);
    assert_admits(&breaker, 1100, true, true);
    assert_true(breaker_fail(&breaker, 1150));
    assert_admits(&breaker, 1249, false, false);
    assert_admits(&breaker, 1250, true, true);
}

static void a_probe_that_proves_nothing_leaves_the_place_to_another(void **state)
{
    (void)state;
    struct breaker breaker = after_failures(3);
    assert_admits(&breaker, 1100, true, true);
    breaker_forget_probe(&breaker);
    assert_admits(&breaker, 1100, true, true);
}

static void without_a_limit_it_never_opens(void **state)
{
    (void)state;
    struct breaker breaker = {.pause_ms = 100};
    for (unsigned i = 0; i < 1000; i++)
        assert_false(breaker_fail(&breaker, 0));
    assert_admits(&breaker, 0, true, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_failures_in_a_row_open_it),
        cmocka_unit_test(one_probe_closes_it),
        cmocka_unit_test(one_probe_opens_it_again),
        cmocka_unit_test(a_probe_that_proves_nothing_leaves_the_place_to_another),
        cmocka_unit_test(without_a_limit_it_never_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
