#include "asked.h"
#include "filters/remote_line.h"
#include "srt/cleanup.h"

static void assert_text(char *text, const char *expected)
{
    assert_string_equal(text, expected);
    free(text);
}

static struct srt_filter_request request_of(const struct asking *asking,
                                            struct srt_filter_field *fields)
{
    struct srt_filter_request request = asked_request(asking, fields);
    request.id = asked_text("01J");
    return request;
}

static void a_question_has_what_was_asked_for(void **state)
{
    (void)state;
    struct srt_filter_field fields[MAX_FIELDS];
    const struct asking asking = {
        .path = "/x?q=\"", .sandbox = "a", .fields = {"X-A", "1", "x-b", ""}, .body_len = 5};
    const struct srt_filter_request request = request_of(&asking, fields);
    assert_text(remote_write_request(&request, REMOTE_ALL),
                "{\"sandbox\":\"a\",\"client\":null,\"policy\":\"p\",\"front\":\"http\","
                "\"host\":\"good.test\",\"port\":80,\"method\":\"GET\",\"path\":\"/x?q=\\\"\","
                "\"body\":5,\"headers\":[[\"X-A\",\"1\"],[\"x-b\",\"\"]],\"asks\":false}");
    assert_text(remote_write_request(&request, REMOTE_HOST | REMOTE_PORT),
                "{\"host\":\"good.test\",\"port\":80}");
    assert_text(remote_write_request(&request, 0), "{}");

    const struct srt_filter_request tunnel = request_of(&(struct asking){.opaque = true}, fields);
    assert_text(remote_write_request(&tunnel, REMOTE_METHOD | REMOTE_BODY | REMOTE_HEADERS),
                "{\"method\":null,\"body\":null,\"headers\":null}");
}

/* What was written whole and then narrowed is what would have been written. */
static void narrowed_later_is_the_same(void **state)
{
    (void)state;
    struct srt_filter_field fields[MAX_FIELDS];
    const struct asking asking = {.path = "/\xff\xc3\xa9", .fields = {"X", "a\tb\xe2\x80\xa8"}};
    const struct srt_filter_request request = request_of(&asking, fields);
    autofree char *all = remote_write_request(&request, REMOTE_ALL);
    for (unsigned wanted = 0; wanted <= REMOTE_ALL; wanted++) {
        autofree char *narrowed = remote_narrow_request(all, wanted);
        assert_text(remote_write_request(&request, wanted), narrowed);
    }
}

static void every_byte_is_ascii_and_on_one_line(void **state)
{
    (void)state;
    struct srt_filter_field fields[MAX_FIELDS];
    const struct asking asking = {.path = "/\n\x7f\xe2\x80\xa8", .fields = {"X", "caf\xe9\xff"}};
    const struct srt_filter_request request = request_of(&asking, fields);
    assert_text(remote_write_request(&request, REMOTE_PATH | REMOTE_HEADERS),
                "{\"path\":\"/\\n\x7f\\u2028\",\"headers\":[[\"X\",\"caf\\u00E9\\u00FF\"]]}");
}

static void lines_end_with_their_newline(void **state)
{
    (void)state;
    assert_text(remote_line_hello("a/b", 3),
                "{\"id\":0,\"hello\":{\"protocol\":1,\"worker\":3,\"filter\":\"a/b\"}}\n");
    assert_text(remote_line_request(7, "01J", 500, "{\"port\":80}"),
                "{\"id\":7,\"request\":{\"record\":\"01J\",\"timeout_ms\":500,\"port\":80}}\n");
    assert_text(remote_line_request(7, "01J", 500, "{}"),
                "{\"id\":7,\"request\":{\"record\":\"01J\",\"timeout_ms\":500}}\n");
    assert_text(remote_line_abandon(7), "{\"id\":7,\"abandon\":{}}\n");
    assert_text(
        remote_line_end(8, asked_text("01J"), "{\"port\":80}", 1, 2),
        "{\"id\":8,\"end\":{\"record\":\"01J\",\"bytes_up\":1,\"bytes_down\":2,\"port\":80}}"
        "\n");
}

static void hellos(void **state)
{
    (void)state;
    struct remote_hello hello;
    struct srt_err why;
    assert_true(remote_read_hello(STR("{\"id\":0,\"hello\":{\"protocol\":1,\"phases\":[\"end\","
                                      "\"request\"],\"fields\":[\"host\",\"host\"]}}"),
                                  &hello, &why));
    assert_int_equal(hello.phases, REMOTE_END | REMOTE_REQUEST);
    assert_int_equal(hello.fields, REMOTE_HOST);
    assert_true(remote_read_hello(
        STR("{\"hello\":{\"phases\":[\"abandon\"],\"protocol\":1},\"id\":0}\r"), &hello, &why));
    assert_int_equal(hello.phases, REMOTE_ABANDON);
    assert_int_equal(hello.fields, REMOTE_USUAL);
    assert_true(remote_read_hello(
        STR("{\"hello\":{\"phases\":[\"end\"],\"protocol\":1,\"fields\":[]},\"id\":0}"), &hello,
        &why));
    assert_int_equal(hello.fields, 0);

    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "{\"id\":0}",
        "{\"id\":0,\"hello\":{}}",
        "{\"id\":0,\"hello\":[]}",
        "{\"id\":\"0\",\"hello\":{\"protocol\":1,\"phases\":[\"request\"]}}",
        "{\"id\":0,\"hello\":{\"protocol\":\"1\",\"phases\":[\"request\"]}}",
        "{\"id\":0,\"hello\":{\"protocol\":1.0,\"phases\":[\"request\"]}}",
        "{\"id\":0,\"hello\":{\"protocol\":1,\"phases\":\"request\"}}",
        "{\"id\":0,\"hello\":{\"protocol\":1,\"phases\":[1]}}",
        "{\"id\":0,\"hello\":{\"protocol\":1,\"phases\":[\"request\"],\"fields\":{}}}",
        "{\"id\":0,\"hello\":{\"protocol\":1,\"phases\":[\"request\"],\"fields\":null}}",
        "{\"id\":0,\"hello\":{\"protocol\":1,\"phases\":[\"request\"]},\"verdict\":\"pass\"}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        why.text[0] = '\0';
        assert_false(remote_read_hello(str_of(bad[i]), &hello, &why));
        assert_string_not_equal(why.text, "");
    }
}

static void assert_answer(const char *line, enum srt_filter_verdict verdict, const char *reason,
                          int64_t ttl_ms)
{
    struct remote_answer answer;
    struct srt_err why;
    assert_true(remote_read_answer(str_of(line), &answer, &why));
    assert_int_equal(answer.id, 7);
    assert_int_equal(answer.verdict, verdict);
    assert_string_equal(answer.reason, reason);
    assert_int_equal(answer.ttl_ms, ttl_ms);
}

static void answers(void **state)
{
    (void)state;
    assert_answer("{\"id\":7,\"verdict\":\"pass\"}", SRT_FILTER_PASS, "", -1);
    assert_answer("{\"ttl\":1.5,\"reason\":\"caf\\u00e9\",\"verdict\":\"deny\",\"id\":7}",
                  SRT_FILTER_DENY, "caf\xc3\xa9", 1500);
    assert_answer("{\"id\":7,\"verdict\":\"error\",\"reason\":null,\"ttl\":0}", SRT_FILTER_ERROR,
                  "", 0);
    assert_answer("{\"id\":7,\"verdict\":\"pass\",\"ttl\":1e300}", SRT_FILTER_PASS, "",
                  INT64_C(366) * 86400 * 1000);
    static const char no_word[] = "its verdict is none of pass, allow, deny and error";
    assert_answer("{\"id\":7}", SRT_FILTER_ERROR, no_word, -1);
    assert_answer("{\"id\":7,\"verdict\":\"PASS\"}", SRT_FILTER_ERROR, no_word, -1);
    assert_answer("{\"id\":7,\"verdict\":0}", SRT_FILTER_ERROR, no_word, -1);
    assert_answer("{\"id\":7,\"verdict\":null}", SRT_FILTER_ERROR, no_word, -1);
    assert_answer("{\"id\":7,\"verdict\":\"pass\",\"x\":1}", SRT_FILTER_ERROR,
                  "'x' is not known here", -1);
    assert_answer("{\"id\":7,\"verdict\":\"pass\",\"ttl\":-1}", SRT_FILTER_ERROR,
                  "its ttl is no number of seconds", -1);
    assert_answer("{\"id\":7,\"verdict\":\"pass\",\"reason\":[]}", SRT_FILTER_ERROR,
                  "its reason is no text", -1);
}

static void lines_that_answer_nobody(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "42",
        "pass",
        "null",
        "{",
        "{\"verdict\":\"pass\"}",
        "{\"id\":null,\"verdict\":\"pass\"}",
        "{\"id\":\"7\",\"verdict\":\"pass\"}",
        "{\"id\":7.0,\"verdict\":\"pass\"}",
        "{\"id\":0,\"verdict\":\"pass\"}",
        "{\"id\":-7,\"verdict\":\"pass\"}",
        "{\"id\":99999999999999999999,\"verdict\":\"pass\"}",
        "{\"id\":7,\"verdict\":\"deny\",\"verdict\":\"pass\"}",
        "{\"id\":7,\"id\":8,\"verdict\":\"pass\"}",
        "{\"id\":7,\"verdict\":\"pass\"} x",
        "{\"id\":7,\"verdict\":\"pass\",\"reason\":\"\xff\"}",
        "{\"id\":7,\"verdict\":\"pass\",\"reason\":\"\\ud800\"}",
        "{\"id\":7,\"verdict\":\"pass\",\"reason\":\"\\u0000\"}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct remote_answer answer;
        struct srt_err why = {""};
        assert_false(remote_read_answer(str_of(bad[i]), &answer, &why));
        assert_int_equal(answer.verdict, SRT_FILTER_ERROR);
        assert_string_not_equal(why.text, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_has_what_was_asked_for),
        cmocka_unit_test(narrowed_later_is_the_same),
        cmocka_unit_test(every_byte_is_ascii_and_on_one_line),
        cmocka_unit_test(lines_end_with_their_newline),
        cmocka_unit_test(hellos),
        cmocka_unit_test(answers),
        cmocka_unit_test(lines_that_answer_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
