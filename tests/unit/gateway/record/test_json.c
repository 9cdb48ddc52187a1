#include "record/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

static void expect(struct json *json, const char *text)
{
    assert_int_equal(json->len, strlen(text));
    assert_memory_equal(json->data, text, json->len);
    json_reset(json);
}

static void text_is(const char *bytes, size_t len, const char *written)
{
    struct json json = {0};
    json_text(&json, NULL, (struct str){bytes, len});
    expect(&json, written);
    json_free(&json);
}

static void commas_stand_between_elements_only(void **state)
{
    (void)state;
    struct json json = {0};
    json_object_open(&json, NULL);
    json_text(&json, "a", STR("x"));
    json_number(&json, "b", -1);
    json_array_open(&json, "c");
    json_bool(&json, NULL, true);
    json_object_open(&json, NULL);
    json_object_close(&json);
    json_array_close(&json);
    json_none(&json, "d");
    json_raw(&json, "e", STR("{\"f\":1}"));
    json_object_close(&json);
    json_newline(&json);
    expect(&json, "{\"a\":\"x\",\"b\":-1,\"c\":[true,{}],\"d\":null,\"e\":{\"f\":1}}\n");
    json_text(&json, "kind", STR("close"));
    expect(&json, "\"kind\":\"close\"");
    json_free(&json);
}

static void absent_is_null_and_empty_is_empty(void **state)
{
    (void)state;
    text_is(NULL, 0, "null");
    text_is("", 0, "\"\"");
}

static void what_could_forge_a_line_is_escaped(void **state)
{
    (void)state;
    text_is("a\n{\"verdict\":\"allow\"}", 21, "\"a\\u000a{\\\"verdict\\\":\\\"allow\\\"}\"");
    text_is("\x1b[31m\0\x7f\\", 8, "\"\\u001b[31m\\u0000\\u007f\\\\\"");
    text_is("\xe2\x80\xa8\xe2\x80\xa9", 6, "\"\\u2028\\u2029\"");
    text_is("\xc2\x9b", 2, "\"\\u009b\"");
    text_is("\xe2\x82\xac\xf0\x9f\x98\x80", 7, "\"\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

static void bytes_that_are_not_utf8_become_their_own_number(void **state)
{
    (void)state;
    text_is("\xff\xfe", 2, "\"\\u00ff\\u00fe\"");
    text_is("\xc3", 1, "\"\\u00c3\"");
    text_is("\xc0\xaf", 2, "\"\\u00c0\\u00af\"");
    text_is("\xed\xa0\x80", 3, "\"\\u00ed\\u00a0\\u0080\"");
    text_is("\xf4\x90\x80\x80", 4, "\"\\u00f4\\u0090\\u0080\\u0080\"");
    text_is("\xe2\x82x", 3, "\"\\u00e2\\u0082x\"");
}

/* Every two-byte text is one line that a parser accepts. */
static void every_pair_of_bytes_is_one_valid_line(void **state)
{
    (void)state;
    struct json json = {0};
    for (unsigned pair = 0; pair < 0x10000; pair++) {
        const char bytes[2] = {(char)(pair >> 8), (char)(pair & 255)};
        json_array_open(&json, NULL);
        json_text(&json, NULL, (struct str){bytes, 2});
        json_array_close(&json);
        assert_null(memchr(json.data, '\n', json.len));
        json_t *read = json_loadb(json.data, json.len, JSON_ALLOW_NUL, NULL);
        assert_non_null(read);
        json_decref(read);
        json_reset(&json);
    }
    json_free(&json);
}

/* Wherever a byte stands in a text of any length, it and its neighbours are written as they are
 * alone. */
static void bytes_are_written_alike_in_any_place(void **state)
{
    (void)state;
    enum { MOST_AROUND = 40 }; /* more than two copies of sixteen bytes */
    struct json alone = {0}, whole = {0};
    for (unsigned pair = 0; pair < 0x10000; pair++) {
        const char bytes[2] = {(char)(pair >> 8), (char)(pair & 255)};
        json_text(&alone, NULL, (struct str){bytes, 2});
        const struct str written = {alone.data + 1, alone.len - 2};
        const size_t around = pair % (MOST_AROUND + 1);
        for (size_t at = pair / 41 % 7; at <= around; at += 7) {
            char text[MOST_AROUND + 2], wanted[MOST_AROUND + 2 + 16];
            memset(text, 'x', sizeof(text));
            memset(wanted, 'x', sizeof(wanted));
            memcpy(text + at, bytes, 2);
            wanted[0] = '"';
            memcpy(wanted + 1 + at, written.p, written.len);
            wanted[1 + around + written.len] = '"';
            wanted[2 + around + written.len] = '\0';
            json_text(&whole, NULL, (struct str){text, around + 2});
            expect(&whole, wanted);
        }
        json_reset(&alone);
    }
    json_free(&alone);
    json_free(&whole);
}

static void numbers_are_written_to_the_ends(void **state)
{
    (void)state;
    struct json json = {0};
    json_number(&json, NULL, INT64_MIN);
    json_number(&json, NULL, INT64_MAX);
    json_number(&json, NULL, 0);
    expect(&json, "-9223372036854775808,9223372036854775807,0");
    json_free(&json);
}

static void times_are_utc_and_have_milliseconds(void **state)
{
    (void)state;
    struct json json = {0};
    json_time(&json, "since", 0);
    json_time(&json, "until", 1709210096007); /* in a leap year's February */
    expect(&json, "\"since\":\"1970-01-01T00:00:00.000Z\","
                  "\"until\":\"2024-02-29T12:34:56.007Z\"");
    json_free(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_stand_between_elements_only),
        cmocka_unit_test(absent_is_null_and_empty_is_empty),
        cmocka_unit_test(what_could_forge_a_line_is_escaped),
        cmocka_unit_test(bytes_that_are_not_utf8_become_their_own_number),
        cmocka_unit_test(every_pair_of_bytes_is_one_valid_line),
        cmocka_unit_test(bytes_are_written_alike_in_any_place),
        cmocka_unit_test(numbers_are_written_to_the_ends),
        cmocka_unit_test(times_are_utc_and_have_milliseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
