#include "control/frame.h"

#include "config/settings.h"
#include "record/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>

#define ATTACH                                                                \
    "{\"type\":\"attach\",\"version\":1,\"name\":\"npm-41\",\"policy\":null," \
    "\"command\":\"npm install\",\"listeners\":[\"proxy\"],\"network\":null}"
#define UPDATE "{\"type\":\"update\",\"serial\":7,\"network\":{\"allowedDomains\":[\"a.test\"]}}"

static int read_text(struct attach_message *message, const char *json, struct srt_err *err)
{
    return attach_message_read(message, str_of(json), err);
}

static void refused(const char *json, const char *because)
{
    struct attach_message message;
    struct srt_err err;
    assert_int_equal(read_text(&message, json, &err), -1);
    if (strstr(err.text, because) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, because);
}

static void frames_come_whole_or_byte_by_byte(void **state)
{
    (void)state;
    struct json bytes = {0};
    frame_write(&bytes, STR(ATTACH));
    frame_write(&bytes, STR(UPDATE));
    for (size_t step = 1; step <= bytes.len; step += bytes.len - 1) {
        struct frames frames = {0};
        size_t seen = 0;
        for (size_t at = 0; at < bytes.len; at += step) {
            struct str json;
            size_t n = bytes.len - at < step ? bytes.len - at : step;
            frames_add(&frames, (struct str){bytes.data + at, n});
            while (frames_peek(&frames, &json) == FRAME_WHOLE) {
                assert_true(str_eq(json, seen == 0 ? STR(ATTACH) : STR(UPDATE)));
                seen++;
                frames_drop(&frames);
            }
        }
        assert_int_equal(seen, 2);
        assert_int_equal(frames.len, 0);
        frames_free(&frames);
    }
    json_free(&bytes);
}

static void a_length_out_of_bounds_is_bad_before_its_bytes_come(void **state)
{
    (void)state;
    static const struct {
        const char header[5];
        enum frame_result result;
    } rows[] = {
        {"\x00\x00\x00\x00", FRAME_BAD},  {"\x00\x80\x00\x00", FRAME_MORE},
        {"\x00\x80\x00\x01", FRAME_BAD},  {"\xff\xff\xff\xff", FRAME_BAD},
        {"\x00\x00\x00\x01", FRAME_MORE},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct frames frames = {0};
        struct str json;
        frames_add(&frames, (struct str){rows[i].header, 4});
        assert_int_equal(frames_peek(&frames, &json), rows[i].result);
        frames_free(&frames);
    }
}

static void an_attach_message_is_read(void **state)
{
    (void)state;
    struct attach_message message;
    struct srt_err err;
    assert_int_equal(read_text(&message, ATTACH, &err), 0);
    assert_int_equal(message.type, ATTACH_ATTACH);
    assert_string_equal(message.name, "npm-41");
    assert_null(message.policy);
    assert_string_equal(message.command, "npm install");
    assert_int_equal(message.listener_count, 1);
    assert_int_equal(message.listeners[0], LISTENER_PROXY);
    assert_null(message.network);
    attach_message_free(&message);
}

static void an_update_message_is_read(void **state)
{
    (void)state;
    struct attach_message message;
    struct srt_err err;
    assert_int_equal(read_text(&message, UPDATE, &err), 0);
    assert_int_equal(message.type, ATTACH_UPDATE);
    assert_int_equal(message.serial, 7);
    char *network = json_dumps(message.network, JSON_COMPACT);
    assert_string_equal(network, "{\"allowedDomains\":[\"a.test\"]}");
    free(network);
    attach_message_free(&message);
}

static void a_launcher_may_say_that_it_answers_and_answer(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        bool approves, keeps;
    } rows[] = {
        {"{\"type\":\"answer\",\"id\":\"7\",\"verdict\":\"approve\",\"for\":\"once\"}", true,
         false},
        {"{\"type\":\"answer\",\"id\":\"7\",\"verdict\":\"refuse\",\"for\":\"sandbox\"}", false,
         true},
    };
    struct attach_message message;
    struct srt_err err;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(read_text(&message, rows[i].json, &err), 0);
        assert_int_equal(message.type, ATTACH_ANSWER);
        assert_string_equal(message.id, "7");
        assert_int_equal(message.approves, rows[i].approves);
        assert_int_equal(message.keeps, rows[i].keeps);
        attach_message_free(&message);
    }
    assert_int_equal(read_text(&message, ATTACH, &err), 0);
    assert_false(message.asks);
    attach_message_free(&message);
    assert_int_equal(read_text(&message,
                               "{\"type\":\"attach\",\"version\":1,\"name\":\"a\",\"ask\":true,"
                               "\"listeners\":[\"proxy\"],\"network\":null}",
                               &err),
                     0);
    assert_true(message.asks);
    attach_message_free(&message);
    refused("{\"type\":\"attach\",\"version\":1,\"name\":\"a\",\"ask\":\"tty\","
            "\"listeners\":[\"proxy\"],\"network\":null}",
            "\"ask\"");
    refused("{\"type\":\"answer\",\"verdict\":\"approve\",\"for\":\"once\"}", "\"id\"");
    refused("{\"type\":\"answer\",\"id\":7,\"verdict\":\"approve\",\"for\":\"once\"}", "\"id\"");
    refused("{\"type\":\"answer\",\"id\":\"7\",\"verdict\":\"yes\",\"for\":\"once\"}",
            "\"verdict\"");
    refused("{\"type\":\"answer\",\"id\":\"7\",\"verdict\":\"approve\",\"for\":\"ever\"}",
            "\"for\"");
    refused("{\"type\":\"answer\",\"id\":\"7\",\"verdict\":\"approve\"}", "\"for\"");
    refused("{\"type\":\"answer\",\"id\":\"7\",\"verdict\":\"approve\",\"for\":\"once\",\"x\":1}",
            "unknown member");
}

static void more_values_than_settings_may_have_are_not_read(void **state)
{
    (void)state;
    enum { COUNT = SETTINGS_VALUES_MAX + 8192 };
    char *text = malloc(COUNT * 2 + 64);
    char *to = text + sprintf(text, "{\"type\":\"update\",\"serial\":1,\"network\":{\"x\":[");
    for (int i = 0; i < COUNT; i++)
        to += sprintf(to, "1,");
    sprintf(to, "1]}}");
    refused(text, "more than 208192 values");
    free(text);
}

#define ATTACH_WITH(name, listeners, network)                                       \
    "{\"type\":\"attach\",\"version\":1,\"name\":" name ",\"listeners\":" listeners \
    ",\"network\":" network "}"

static void what_is_not_exactly_a_message_is_refused(void **state)
{
    (void)state;
    refused("", "not valid JSON");
    refused("{", "not valid JSON");
    refused("[]", "not an object");
    refused("{}", "\"type\"");
    refused("{\"type\":1}", "\"type\"");
    refused("{\"type\":\"detach\"}", "unknown \"type\"");
    refused(ATTACH ATTACH, "not valid JSON");
    refused("{\"type\":\"update\",\"type\":\"update\",\"serial\":1,\"network\":{}}", "JSON");
    refused("{\"type\":\"update\",\"serial\":1}", "\"network\"");
    refused("{\"type\":\"update\",\"serial\":1,\"network\":null}", "\"network\"");
    refused("{\"type\":\"update\",\"serial\":\"1\",\"network\":{}}", "\"serial\"");
    refused("{\"type\":\"update\",\"serial\":1,\"network\":{},\"x\":1}", "unknown member");
    refused("{\"type\":\"attach\",\"version\":2}", "version 2");
    refused("{\"type\":\"attach\",\"version\":\"1\"}", "\"version\"");
    refused(ATTACH_WITH("1", "[\"proxy\"]", "null"), "\"name\"");
    refused(ATTACH_WITH("\"\"", "[\"proxy\"]", "null"), "\"name\"");
    refused(ATTACH_WITH("\"a b\"", "[\"proxy\"]", "null"), "printable");
    refused(ATTACH_WITH("\"a\\u0000b\"", "[\"proxy\"]", "null"), "JSON");
    refused(ATTACH_WITH("\"\\u001b[31m\"", "[\"proxy\"]", "null"), "printable");
    refused(ATTACH_WITH("\"a\"", "[]", "null"), "\"listeners\"");
    refused(ATTACH_WITH("\"a\"", "{\"proxy\":1}", "null"), "\"listeners\"");
    refused(ATTACH_WITH("\"a\"", "[1]", "null"), "unknown kind");
    refused(ATTACH_WITH("\"a\"", "[\"raw\"]", "null"), "unknown kind");
    refused(ATTACH_WITH("\"a\"", "[\"proxy\",\"proxy\",\"proxy\",\"proxy\",\"proxy\"]", "null"),
            "\"listeners\"");
    refused(ATTACH_WITH("\"a\"", "[\"proxy\"]", "[]"), "\"network\"");
}

/* Whose serial is known can be told that it is wrong; everybody else is only cut off. */
static void a_wrong_update_is_answerable_when_its_serial_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        bool answerable;
    } rows[] = {
        {"{\"type\":\"update\",\"serial\":7}", true},
        {"{\"type\":\"update\",\"serial\":7,\"network\":null}", true},
        {"{\"type\":\"update\",\"serial\":7,\"network\":[]}", true},
        {"{\"type\":\"update\",\"serial\":7,\"network\":\"a.test\"}", true},
        {"{\"type\":\"update\",\"serial\":7,\"network\":{},\"x\":1}", true},
        {"{\"type\":\"update\",\"network\":{}}", false},
        {"{\"type\":\"update\",\"serial\":\"7\",\"network\":{}}", false},
        {"{\"type\":\"updates\",\"serial\":7,\"network\":{}}", false},
        {ATTACH_WITH("\"a\"", "[\"proxy\"]", "[]"), false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct attach_message message;
        struct srt_err err;
        assert_int_equal(read_text(&message, rows[i].json, &err), -1);
        assert_int_equal(message.answerable, rows[i].answerable);
        if (rows[i].answerable)
            assert_int_equal(message.serial, 7);
    }
}

static void nesting_without_end_is_refused(void **state)
{
    (void)state;
    enum { DEPTH = 100000 };
    char *json = malloc(DEPTH + 1);
    assert_non_null(json);
    memset(json, '[', DEPTH);
    json[DEPTH] = '\0';
    refused(json, "JSON");
    free(json);
}

static void a_long_name_is_refused_and_a_long_command_is_cut(void **state)
{
    (void)state;
    char text[4096], word[2000];
    struct attach_message message;
    struct srt_err err;
    memset(word, 'x', sizeof(word));
    snprintf(text, sizeof(text), ATTACH_WITH("\"%.*s\"", "[\"proxy\"]", "null"),
             ATTACH_NAME_MAX + 1, word);
    refused(text, "\"name\"");
    snprintf(text, sizeof(text),
             "{\"type\":\"attach\",\"version\":1,\"name\":\"a\",\"command\":\"%.*s\","
             "\"listeners\":[\"proxy\"],\"network\":null}",
             ATTACH_COMMAND_MAX + 100, word);
    assert_int_equal(read_text(&message, text, &err), 0);
    assert_int_equal(strlen(message.command), ATTACH_COMMAND_MAX);
    attach_message_free(&message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_whole_or_byte_by_byte),
        cmocka_unit_test(a_length_out_of_bounds_is_bad_before_its_bytes_come),
        cmocka_unit_test(an_attach_message_is_read),
        cmocka_unit_test(an_update_message_is_read),
        cmocka_unit_test(a_launcher_may_say_that_it_answers_and_answer),
        cmocka_unit_test(what_is_not_exactly_a_message_is_refused),
        cmocka_unit_test(more_values_than_settings_may_have_are_not_read),
        cmocka_unit_test(a_wrong_update_is_answerable_when_its_serial_is_known),
        cmocka_unit_test(nesting_without_end_is_refused),
        cmocka_unit_test(a_long_name_is_refused_and_a_long_command_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
