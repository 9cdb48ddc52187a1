#include "srt/str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void is(struct str s, const char *text)
{
    assert_int_equal(s.len, strlen(text));
    assert_memory_equal(s.p, text, s.len);
}

static void lines_are_cut_off_one_by_one(void **state)
{
    (void)state;
    struct str rest = STR("first\n\nthird\r\nlast");
    is(str_take_line(&rest), "first");
    is(str_take_line(&rest), "");
    is(str_take_line(&rest), "third\r");
    is(str_take_line(&rest), "last");
    assert_int_equal(rest.len, 0);
    is(str_take_line(&rest), "");
}

static void a_line_that_ends_the_text_leaves_none(void **state)
{
    (void)state;
    struct str rest = STR("only\n");
    is(str_take_line(&rest), "only");
    assert_int_equal(rest.len, 0);
    rest = STR_NULL;
    assert_int_equal(str_take_line(&rest).len, 0);
}

static void what_stands_before_a_byte_is_taken(void **state)
{
    (void)state;
    is(str_until(STR("name # comment # more"), '#'), "name ");
    is(str_until(STR("#"), '#'), "");
    is(str_until(STR("name"), '#'), "name");
    assert_int_equal(str_until(STR_NULL, '#').len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_cut_off_one_by_one),
        cmocka_unit_test(a_line_that_ends_the_text_leaves_none),
        cmocka_unit_test(what_stands_before_a_byte_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
