#include "dns/stand_in.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct name name_of(const char *text)
{
    struct name name;
    assert_int_equal(name_parse(&name, str_of(text)), NAME_OK);
    return name;
}

static struct name name_number(unsigned number)
{
    char text[32];
    snprintf(text, sizeof(text), "h%u.test", number);
    return name_of(text);
}

static uint32_t give(struct stand_ins *set, const struct name *name, double now_s)
{
    uint32_t number;
    assert_true(stand_ins_give(set, name, now_s, &number));
    return number;
}

static const struct name *find(struct stand_ins *set, uint32_t number, uint8_t family, double now_s)
{
    const struct addr addr = stand_in_addr(number, family);
    return stand_ins_find(set, &addr, now_s);
}

static void test_a_name_keeps_its_address(void **state)
{
    (void)state;
    struct stand_ins *set = stand_ins_create(77);
    const struct name a = name_of("a.test"), b = name_of("b.test");
    const uint32_t first = give(set, &a, 1);
    assert_int_equal(first, STAND_IN_FIRST + 77);
    assert_int_not_equal(give(set, &b, 1), first);
    assert_int_equal(give(set, &a, 1000), first);
    assert_string_equal(find(set, first, 4, 1000)->text, "a.test");
    assert_string_equal(find(set, first, 6, 1000)->text, "a.test");
    assert_int_equal(stand_ins_count(set), 2);
    stand_ins_free(set);
}

static void test_addresses(void **state)
{
    (void)state;
    static const struct {
        uint32_t number;
        uint8_t family;
        const char *text;
    } rows[] = {{256, 4, "198.18.1.0"},
                {STAND_IN_END - 1, 4, "198.19.255.255"},
                {256, 6, "fd3c:5e1a:77d2::c612:100"},
                {STAND_IN_END - 1, 6, "fd3c:5e1a:77d2::c613:ffff"}};
    static const char *const others[] = {"198.17.255.255",
                                         "198.20.0.0",
                                         "0.18.1.0",
                                         "192.0.2.1",
                                         "fd3c:5e1a:77d2::c611:ffff",
                                         "fd3c:5e1a:77d2::c614:0",
                                         "fd3c:5e1a:77d2::1:c612:100",
                                         "::1"};
    char text[ADDR_TEXT_MAX];
    struct addr addr;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        addr = stand_in_addr(rows[i].number, rows[i].family);
        assert_string_equal(addr_format(text, &addr), rows[i].text);
        assert_true(stand_in_is(&addr));
    }
    struct stand_ins *set = stand_ins_create(0);
    const struct name a = name_of("a.test");
    assert_int_equal(give(set, &a, 1), 256);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_true(addr_parse(&addr, str_of(others[i])));
        assert_false(stand_in_is(&addr));
        assert_null(stand_ins_find(set, &addr, 1));
    }
    stand_ins_free(set);
}

static void test_what_was_never_given_stands_for_nothing(void **state)
{
    (void)state;
    struct stand_ins *set = stand_ins_create(5);
    assert_null(find(set, STAND_IN_FIRST + 5, 4, 1));
    stand_ins_free(set);
}

static void test_the_bound_holds_and_the_oldest_gives_way(void **state)
{
    (void)state;
    struct stand_ins *set = stand_ins_create(0);
    uint32_t number;
    for (unsigned i = 0; i < STAND_IN_MAX; i++) {
        const struct name name = name_number(i);
        give(set, &name, 1);
    }
    const struct name more = name_of("more.test"), first = name_number(0), second = name_number(1);
    assert_false(stand_ins_give(set, &more, STAND_IN_KEPT_S, &number));
    const uint32_t used = give(set, &first, 2), oldest = used + 1;
    assert_string_equal(find(set, oldest, 4, 1)->text, second.text);
    assert_int_equal(give(set, &first, STAND_IN_KEPT_S), used);
    const uint32_t third = used + 2;
    assert_true(stand_ins_give(set, &more, 1 + STAND_IN_KEPT_S, &number));
    assert_null(find(set, third, 4, 1 + STAND_IN_KEPT_S));
    assert_string_equal(find(set, used, 4, 1 + STAND_IN_KEPT_S)->text, first.text);
    assert_int_equal(stand_ins_count(set), STAND_IN_MAX);
    stand_ins_free(set);
}

/* However fast names are asked for, an address stands for another one only when nobody can have it
 * in hand any more; one that is in use never does. */
static void test_addresses_come_round_late(void **state)
{
    (void)state;
    struct stand_ins *set = stand_ins_create(12345);
    static double left_s[STAND_IN_END];
    const struct name kept = name_of("kept.test");
    const uint32_t kept_number = give(set, &kept, 1);
    double now_s = 1;
    for (unsigned i = 0; i < 3 * STAND_IN_END; i++) {
        const struct name name = name_number(i);
        uint32_t number;
        while (!stand_ins_give(set, &name, now_s, &number)) {
            now_s += STAND_IN_KEPT_S;
            assert_int_equal(give(set, &kept, now_s), kept_number);
        }
        assert_in_range(number, STAND_IN_FIRST, STAND_IN_END - 1);
        assert_int_not_equal(number, kept_number);
        assert_true(left_s[number] < 1 || now_s - left_s[number] > 20. * STAND_IN_KEPT_S);
        left_s[number] = now_s;
    }
    assert_string_equal(find(set, kept_number, 4, now_s)->text, "kept.test");
    stand_ins_free(set);
}

static void test_a_clock_that_was_set_back_blocks_nobody(void **state)
{
    (void)state;
    struct stand_ins *set = stand_ins_create(0);
    for (unsigned i = 0; i < STAND_IN_MAX; i++) {
        const struct name name = name_number(i);
        give(set, &name, 1e9);
    }
    const struct name more = name_of("more.test");
    give(set, &more, 1);
    stand_ins_free(set);
}

static void copy(void *arg, const struct name *name, uint32_t number, double used_s)
{
    assert_true(stand_ins_restore(arg, name, number, used_s));
}

static void test_another_set_goes_on_where_one_ends(void **state)
{
    (void)state;
    struct stand_ins *set = stand_ins_create(7);
    for (unsigned i = 0; i < STAND_IN_MAX; i++) {
        const struct name name = name_number(i);
        (void)give(set, &name, i);
    }
    stand_ins_freeze(set, true);
    struct name known = name_number(0), fresh = name_of("fresh.test"), other = name_of("o.test");
    const uint32_t kept = give(set, &known, STAND_IN_MAX), next = stand_ins_next(set);
    uint32_t number;
    assert_false(stand_ins_give(set, &fresh, 9 * STAND_IN_MAX, &number));

    struct stand_ins *copied = stand_ins_create(next);
    stand_ins_each(set, copy, copied);
    assert_int_equal(stand_ins_count(copied), STAND_IN_MAX);
    assert_false(stand_ins_restore(copied, &other, next, 0)); /* there is no room */
    assert_int_equal(give(copied, &known, 2 * STAND_IN_MAX), kept);
    assert_int_equal(give(copied, &fresh, 2 * STAND_IN_MAX), next);
    assert_null(find(copied, kept + 1, 4, 2 * STAND_IN_MAX)); /* that of the oldest */
    assert_non_null(find(copied, kept + 2, 6, 2 * STAND_IN_MAX));

    struct stand_ins *empty = stand_ins_create(next);
    assert_false(stand_ins_restore(empty, &other, STAND_IN_FIRST - 1, 0));
    assert_false(stand_ins_restore(empty, &other, STAND_IN_END, 0));
    assert_true(stand_ins_restore(empty, &other, next, 0));
    assert_false(stand_ins_restore(empty, &other, next + 1, 0));
    assert_false(stand_ins_restore(empty, &fresh, next, 0));
    assert_int_equal(give(empty, &fresh, 0), next + 1);
    stand_ins_free(set);
    stand_ins_free(copied);
    stand_ins_free(empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_keeps_its_address),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_what_was_never_given_stands_for_nothing),
        cmocka_unit_test(test_the_bound_holds_and_the_oldest_gives_way),
        cmocka_unit_test(test_addresses_come_round_late),
        cmocka_unit_test(test_a_clock_that_was_set_back_blocks_nobody),
        cmocka_unit_test(test_another_set_goes_on_where_one_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
