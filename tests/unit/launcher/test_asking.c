#include "launcher/asking.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static enum asking_answer answer(const char *line)
{
    return asking_read(line, strlen(line));
}

static void words_are_answers_and_nothing_else_is(void **state)
{
    (void)state;
    assert_int_equal(answer("y\n"), ASKING_YES);
    assert_int_equal(answer("yes\r\n"), ASKING_YES);
    assert_int_equal(answer("a \n"), ASKING_ALWAYS);
    assert_int_equal(answer("always\n"), ASKING_ALWAYS);
    assert_int_equal(answer("n\n"), ASKING_NO);
    assert_int_equal(answer("d\n"), ASKING_NEVER);
    assert_int_equal(answer("q"), ASKING_NO_MORE);
    static const char *const unclear[] = {"",     "\n",    "Y\n",    "yy\n",    "y y\n",    " y\n",
                                          "ye\n", "no!\n", "\x1b[y", "\003y\n", "always!\n"};
    for (size_t i = 0; i < sizeof(unclear) / sizeof(unclear[0]); i++)
        assert_int_equal(answer(unclear[i]), ASKING_UNCLEAR);
}

static void assert_text(const char *json, const char *expected)
{
    char text[ASKING_TEXT_MAX];
    json_t *frame = json_loads(json, 0, NULL);
    assert_non_null(frame);
    assert_string_equal(asking_text(frame, text), expected);
    json_decref(frame);
}

static void a_question_is_one_line_of_plain_text(void **state)
{
    (void)state;
    assert_text("{\"host\":\"a.test\",\"port\":443,\"front\":\"connect\",\"method\":\"CONNECT\","
                "\"policy\":\"build\"}",
                "srt-launch: the sandbox asks for a.test:443 (connect, CONNECT, policy build)");
    assert_text("{\"host\":\"::1\",\"port\":80,\"front\":\"socks5\",\"method\":null,"
                "\"policy\":null}",
                "srt-launch: the sandbox asks for ::1:80 (socks5)");
}

static void nothing_in_it_steers_the_terminal(void **state)
{
    (void)state;
    assert_text("{\"host\":\"a\\u001b[2Jb\\n\\u009bc\\u202e.test\\u0007\",\"port\":443,"
                "\"front\":\"c\\r\",\"policy\":7}",
                "srt-launch: the sandbox asks for a?[2Jb???c???.test?:443 (c?)");
    assert_text("{}", "srt-launch: the sandbox asks for :0)");
}

static void no_question_is_longer_than_its_room(void **state)
{
    (void)state;
    char text[ASKING_TEXT_MAX], host[5000], policy[5000];
    memset(host, 'h', sizeof(host));
    memset(policy, 'p', sizeof(policy));
    json_t *frame =
        json_pack("{s:s%, s:i, s:s%, s:s%}", "host", host, (int)sizeof(host), "port", 1, "front",
                  policy, (int)sizeof(policy), "policy", policy, (int)sizeof(policy));
    assert_non_null(frame);
    assert_true(strlen(asking_text(frame, text)) < 512);
    json_decref(frame);
}

static void without_the_option_nobody_is_asked(void **state)
{
    (void)state;
    struct asking asking;
    struct srt_err err;
    assert_int_equal(asking_open(&asking, NULL, &err), 0);
    json_t *frame = json_pack("{s:s, s:s}", "type", "ask", "id", "1");
    asking_frame(&asking, frame);
    json_decref(frame);
    assert_int_equal(asking_fd(&asking), -1);
    assert_int_equal(asking_deadline_ms(&asking), 0);
    asking_turn(&asking, true);
    asking_withdraw(&asking);
    asking_forget(&asking);
    asking_close(&asking);
    assert_int_equal(asking_open(&asking, "mail", &err), -1);
    assert_string_equal(err.text, "--ask mail: it can be tty only");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_answers_and_nothing_else_is),
        cmocka_unit_test(a_question_is_one_line_of_plain_text),
        cmocka_unit_test(nothing_in_it_steers_the_terminal),
        cmocka_unit_test(no_question_is_longer_than_its_room),
        cmocka_unit_test(without_the_option_nobody_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
