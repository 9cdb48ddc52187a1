#include "srt/text.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void parts_follow_each_other(void **state)
{
    (void)state;
    char out[32];
    assert_int_equal(TEXT_JOIN(out, sizeof(out), "evil.test", NULL, ":", "", "443"), 13);
    assert_string_equal(out, "evil.test:443");
    assert_int_equal(TEXT_JOIN(out, sizeof(out), NULL, NULL), 0);
    assert_string_equal(out, "");
}

static void what_has_no_room_is_cut_off(void **state)
{
    (void)state;
    char out[9] = "........";
    assert_int_equal(TEXT_JOIN(out, 5, "abc", "def", "ghi"), 4);
    assert_memory_equal(out, "abcd\0...", 9);
    assert_int_equal(TEXT_JOIN(out, 4, "abc", "def"), 3);
    assert_string_equal(out, "abc");
    assert_int_equal(TEXT_JOIN(out, 1, "abc", "def"), 0);
    assert_string_equal(out, "");
}

static void numbers_are_decimal(void **state)
{
    (void)state;
    char out[TEXT_NUMBER_MAX];
    assert_int_equal(text_number(out, 0), 1);
    assert_string_equal(out, "0");
    assert_int_equal(text_number(out, 65535), 5);
    assert_string_equal(out, "65535");
    assert_int_equal(text_number(out, UINT64_MAX), 20);
    assert_string_equal(out, "18446744073709551615");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_follow_each_other),
        cmocka_unit_test(what_has_no_room_is_cut_off),
        cmocka_unit_test(numbers_are_decimal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
