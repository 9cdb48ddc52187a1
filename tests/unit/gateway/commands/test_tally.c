#include "commands/tally.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

static uint64_t by_requests(const struct tally_row *row)
{
    return row->requests;
}

static void a_key_has_one_row_before_and_after_sorting(void **state)
{
    (void)state;
    size_t count;
    struct tally *tally = tally_create();
    tally_row(tally, STR("b"))->requests += 2;
    tally_row(tally, STR("a"))->requests += 2;
    tally_row(tally, STR("heavy"))->requests += 3;
    tally_row(tally, STR("b"))->requests += 0;
    struct tally_row **rows = tally_sorted(tally, by_requests, &count);
    assert_int_equal(count, 3);
    assert_string_equal(rows[0]->key, "heavy");
    assert_string_equal(rows[1]->key, "a");
    assert_string_equal(rows[2]->key, "b");
    assert_ptr_equal(tally_row(tally, STR("b")), rows[2]);
    tally_free(tally);
}

static void what_is_too_much_goes_to_the_others(void **state)
{
    (void)state;
    size_t count;
    char key[16];
    struct tally *tally = tally_create();
    for (int i = 0; i < TALLY_ROWS + 100; i++) {
        int len = snprintf(key, sizeof(key), "%d", i);
        tally_row(tally, (struct str){key, (size_t)len})->requests++;
    }
    tally_row(tally, STR("7"))->requests++;
    struct tally_row **rows = tally_sorted(tally, by_requests, &count);
    assert_int_equal(count, TALLY_ROWS + 1);
    assert_string_equal(rows[0]->key, "7");
    assert_null(rows[TALLY_ROWS]->key);
    assert_int_equal(rows[TALLY_ROWS]->requests, 100);
    tally_free(tally);
}

static void ports_are_counted_once_and_up_to_a_bound(void **state)
{
    (void)state;
    struct tally *tally = tally_create();
    struct tally_row *row = tally_row(tally, STR("x"));
    tally_add_port(row, 443);
    tally_add_port(row, 443);
    assert_int_equal(row->port_count, 1);
    for (uint16_t port = 1; port <= 2 * TALLY_PORTS; port++)
        tally_add_port(row, port);
    assert_int_equal(row->port_count, TALLY_PORTS + 1);
    tally_free(tally);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_one_row_before_and_after_sorting),
        cmocka_unit_test(what_is_too_much_goes_to_the_others),
        cmocka_unit_test(ports_are_counted_once_and_up_to_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
