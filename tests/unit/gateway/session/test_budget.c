#include "session/budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the above first */
#include <cmocka.h>

static const int64_t SECOND = 1000000000, NOW = 1000000000000;

static void a_full_bucket_gives_what_it_holds_and_refills(void **state)
{
    (void)state;
    struct bucket bucket = {0};
    const struct config_rate three_a_minute = {.count = 3, .per_ms = 60000};
    unsigned wait_s = 0;
    for (int i = 0; i < 3; i++)
        assert_true(bucket_take(&bucket, &three_a_minute, 1, NOW, &wait_s));
    assert_false(bucket_take(&bucket, &three_a_minute, 1, NOW, &wait_s));
    assert_int_equal(wait_s, 20);
    assert_false(bucket_take(&bucket, &three_a_minute, 1, NOW + 19 * SECOND, &wait_s));
    assert_int_equal(wait_s, 1);
    assert_true(bucket_take(&bucket, &three_a_minute, 1, NOW + 20 * SECOND, &wait_s));
}

static void what_was_refused_is_not_taken(void **state)
{
    (void)state;
    struct bucket bucket = {0};
    const struct config_rate ten_a_second = {.count = 10, .per_ms = 1000};
    unsigned wait_s;
    assert_false(bucket_take(&bucket, &ten_a_second, 11, NOW, &wait_s));
    assert_true(bucket_take(&bucket, &ten_a_second, 10, NOW, &wait_s));
}

static void a_charge_can_go_into_debt(void **state)
{
    (void)state;
    struct bucket bucket = {0};
    const struct config_rate kilobyte_a_second = {.count = 1000, .per_ms = 1000};
    unsigned wait_s = 0;
    bucket_charge(&bucket, &kilobyte_a_second, 999, NOW);
    assert_false(bucket_is_empty(&bucket, &kilobyte_a_second, NOW, &wait_s));
    bucket_charge(&bucket, &kilobyte_a_second, 5001, NOW);
    assert_true(bucket_is_empty(&bucket, &kilobyte_a_second, NOW, &wait_s));
    assert_int_equal(wait_s, 5);
    assert_false(bucket_is_empty(&bucket, &kilobyte_a_second, NOW + 6 * SECOND, &wait_s));
}

static void no_limit_and_no_overflow(void **state)
{
    (void)state;
    struct bucket bucket = {0};
    const struct config_rate none = {0}, slow = {.count = 1, .per_ms = 86400000};
    unsigned wait_s = 0;
    assert_true(bucket_take(&bucket, &none, UINT64_MAX, NOW, &wait_s));
    assert_false(bucket_is_empty(&bucket, &none, NOW, &wait_s));
    for (int i = 0; i < 100; i++)
        bucket_charge(&bucket, &slow, UINT64_MAX, NOW);
    assert_true(bucket_is_empty(&bucket, &slow, NOW, &wait_s));
    assert_true(wait_s > 86400);
}

static void tunnels_are_counted_by_name(void **state)
{
    (void)state;
    struct budgets budgets = SLIST_HEAD_INITIALIZER(budgets);
    const struct config_client two = {.max_tunnels = 2};
    struct budget *mine = budgets_find(&budgets, "mine");
    unsigned wait_s;
    assert_ptr_equal(budgets_find(&budgets, "mine"), mine);
    assert_ptr_not_equal(budgets_find(&budgets, "theirs"), mine);
    assert_null(budget_begin(mine, &two, NOW, &wait_s));
    assert_null(budget_begin(mine, &two, NOW, &wait_s));
    assert_string_equal(budget_begin(mine, &two, NOW, &wait_s), "max-tunnels");
    assert_string_equal(budget_begin(mine, &two, NOW, &wait_s), "max-tunnels"); /* a refusal holds no place */
    budget_end(mine);
    assert_null(budget_begin(mine, &two, NOW, &wait_s));
    budgets_free(&budgets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_bucket_gives_what_it_holds_and_refills),
        cmocka_unit_test(what_was_refused_is_not_taken),
        cmocka_unit_test(a_charge_can_go_into_debt),
        cmocka_unit_test(no_limit_and_no_overflow),
        cmocka_unit_test(tunnels_are_counted_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
