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

static void a_part_is_cut_off_with_what_separates_it(void **state)
{
    (void)state;
    struct str rest = STR("key=a=b");
    is(str_take_until(&rest, '='), "key");
    is(rest, "a=b");
    is(str_take_until(&rest, ';'), "a=b");
    is(rest, "");
    is(str_take_until(&rest, ';'), "");
}

static void a_list_has_a_part_on_either_side_of_a_separator(void **state)
{
    (void)state;
    struct str rest = STR(",a,,"), part;
    static const char *const parts[] = {"", "a", "", ""};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        assert_true(str_next_part(&rest, ',', &part));
        is(part, parts[i]);
    }
    assert_false(str_next_part(&rest, ',', &part));
    rest = STR("");
    assert_true(str_next_part(&rest, ',', &part));
    assert_false(str_next_part(&rest, ',', &part));
}

static void words_have_no_separator_in_them(void **state)
{
    (void)state;
    struct str rest = STR(", one,\ttwo\0three ,"), word;
    assert_true(str_next_word(&rest, STR(", \t"), &word));
    is(word, "one");
    assert_true(str_next_word(&rest, STR(", \t"), &word));
    assert_true(str_eq(word, STR("two\0three")));
    assert_false(str_next_word(&rest, STR(", \t"), &word));
    assert_int_equal(word.len, 0);
}

static void bytes_are_found(void **state)
{
    (void)state;
    assert_true(str_has(STR("a:b"), ':'));
    assert_false(str_has(STR("ab"), ':'));
    assert_false(str_has(STR_NULL, '\0'));
    assert_true(str_istarts(STR("Proxy-Authorization"), STR("proxy-")));
    assert_false(str_istarts(STR("Prox"), STR("proxy-")));
}

static void numbers_are_plain_digits_within_bounds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t max;
        bool good;
        uint64_t value;
    } rows[] = {
        {"0", 9, true, 0},
        {"65535", 65535, true, 65535},
        {"65536", 65535, false, 0},
        {"18446744073709551615", UINT64_MAX, true, UINT64_MAX},
        {"18446744073709551616", UINT64_MAX, false, 0},
        {"99999999999999999999999999", UINT64_MAX, false, 0},
        {"", 9, false, 0},
        {"-1", 9, false, 0},
        {"+1", 9, false, 0},
        {" 1", 9, false, 0},
        {"1 ", 9, false, 0},
        {"01", 9, false, 0},
        {"0x1", 9, false, 0},
        {"1.0", 9, false, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t value;
        bool good = str_uint(str_of(rows[i].text), rows[i].max, &value);
        assert_int_equal(good, rows[i].good);
        if (good)
            assert_int_equal(value, rows[i].value);
    }
}

static void a_number_is_taken_off_what_follows_it(void **state)
{
    (void)state;
    uint64_t value;
    struct str text = STR("90ms");
    assert_true(str_take_uint(&text, &value));
    assert_int_equal(value, 90);
    is(text, "ms");
    assert_false(str_take_uint(&text, &value));
    is(text, "ms");
}

static void digits_have_their_value(void **state)
{
    (void)state;
    static const char digits[] = "0123456789abcdef", capitals[] = "0123456789ABCDEF";
    for (int i = 0; i < 16; i++) {
        assert_int_equal(str_hex_digit(digits[i]), i);
        assert_int_equal(str_hex_digit(capitals[i]), i);
    }
    static const char others[] = "/:@G`g\xff";
    for (size_t i = 0; i < sizeof(others); i++)
        assert_int_equal(str_hex_digit(others[i]), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_cut_off_one_by_one),
        cmocka_unit_test(a_line_that_ends_the_text_leaves_none),
        cmocka_unit_test(what_stands_before_a_byte_is_taken),
        cmocka_unit_test(a_part_is_cut_off_with_what_separates_it),
        cmocka_unit_test(a_list_has_a_part_on_either_side_of_a_separator),
        cmocka_unit_test(words_have_no_separator_in_them),
        cmocka_unit_test(bytes_are_found),
        cmocka_unit_test(numbers_are_plain_digits_within_bounds),
        cmocka_unit_test(a_number_is_taken_off_what_follows_it),
        cmocka_unit_test(digits_have_their_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
