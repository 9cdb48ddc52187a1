#include "launcher/options.h"

#include "dns/addr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#define WORDS(...) ((char **)(uintptr_t)(const char *const[]){"srt-launch", __VA_ARGS__, NULL})

static struct options parsed(char **words)
{
    struct options options;
    struct srt_err err;
    if (options_parse(&options, words, &err) != 0)
        fail_msg("%s", err.text);
    return options;
}

static void assert_refused(char **words, const char *says)
{
    struct options options;
    struct srt_err err;
    assert_int_equal(options_parse(&options, words, &err), -1);
    if (strstr(err.text, says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

static void test_options_end_at_the_first_word(void **state)
{
    (void)state;
    struct options options =
        parsed(WORDS("-v", "-s", "f", "curl", "-s", "-v", "--help", "--", "x"));
    assert_true(options.verbose);
    assert_string_equal(options.settings, "f");
    assert_string_equal(options.rest[0], "curl");
    assert_string_equal(options.rest[1], "-s");
    assert_string_equal(options.rest[4], "--");
    assert_int_equal(options.action, OPTIONS_RUN);
}

static void test_every_way_to_give_a_value(void **state)
{
    (void)state;
    assert_string_equal(parsed(WORDS("--settings=f", "x")).settings, "f");
    assert_string_equal(parsed(WORDS("--settings", "f", "x")).settings, "f");
    assert_string_equal(parsed(WORDS("-sf", "x")).settings, "f");
    assert_string_equal(parsed(WORDS("--gateway=unix:/a=b", "x")).gateway, "unix:/a=b");
}

static void test_shell_strings(void **state)
{
    (void)state;
    struct options options = parsed(WORDS("-vsf", "-vc", "echo", "name"));
    assert_true(options.verbose);
    assert_string_equal(options.settings, "f");
    assert_string_equal(options.shell_string, "echo");
    assert_string_equal(options.rest[0], "name");
    options = parsed(WORDS("-c", "echo $1", "name", "-v"));
    assert_string_equal(options.shell_string, "echo $1");
    assert_string_equal(options.rest[0], "name");
    assert_false(options.verbose);
    assert_string_equal(parsed(WORDS("-c", "")).shell_string, "");
}

static void test_subcommands(void **state)
{
    (void)state;
    assert_int_equal(parsed(WORDS("doctor")).action, OPTIONS_DOCTOR);
    assert_int_equal(parsed(WORDS("connect", "h", "22")).action, OPTIONS_CONNECT);
    struct options options = parsed(WORDS("explain-path", "--settings", "f", "p", "q"));
    assert_int_equal(options.action, OPTIONS_EXPLAIN_PATH);
    assert_string_equal(options.settings, "f");
    assert_string_equal(options.rest[0], "p");
    /* After -- a program of that name is meant. */
    assert_int_equal(parsed(WORDS("--", "doctor")).action, OPTIONS_RUN);
    assert_refused(WORDS("explain-path"), "path");
}

static void test_published_ports(void **state)
{
    (void)state;
    struct options options =
        parsed(WORDS("--publish", "8000", "--publish=0:8001", "--publish", "[::1]:80:8002", "x"));
    assert_int_equal(options.publish.count, 3);
    static const struct {
        uint8_t family;
        uint16_t outside, inside;
    } rows[] = {{4, 8000, 8000}, {4, 0, 8001}, {6, 80, 8002}};
    for (size_t i = 0; i < 3; i++) {
        struct addr addr;
        uint16_t port;
        const struct publish_port *is = &options.publish.ports[i];
        assert_true(addr_from_sockaddr((const struct sockaddr *)&is->host, &addr, &port));
        assert_int_equal(addr.family, rows[i].family);
        assert_int_equal(port, rows[i].outside);
        assert_int_equal(is->inside, rows[i].inside);
    }
    static const char *const wrong[] = {
        "",      "0",       "1:",   ":1",     "a",   "1:0",       "65536", "+1",    "1:2:3:4",
        "::1:2", "::1:1:2", "[1:2", "[]:1:2", "[1]", "1.2.3:1:2", "h:1:2", "[::1]", "[::1]:2"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_refused(WORDS("--publish", wrong[i], "x"), "HOSTPORT");
    assert_refused(WORDS("--publish", "10.0.0.1:1:2", "x"), "loopback");
    assert_refused(WORDS("--publish", "[::2]:1:2", "x"), "loopback");
}

static void test_mistakes_are_named(void **state)
{
    (void)state;
    assert_refused(WORDS("-v"), "no command");
    assert_refused(WORDS("-vx", "true"), "unknown option -vx");
    assert_refused(WORDS("-vs"), "-vs needs a value");
    assert_refused(WORDS("--bogus", "x"), "--bogus");
    assert_refused(WORDS("-x", "x"), "-x");
    assert_refused(WORDS("--settings"), "--settings");
    assert_refused(WORDS("--settings=", "x"), "settings");
    assert_refused(WORDS("--verbose=yes", "x"), "--verbose");
    assert_refused(WORDS("--control-fd", "2", "x"), "control-fd");
    assert_refused(WORDS("--control-fd", "-1", "x"), "control-fd");
    assert_refused(WORDS("--control-fd", "9x", "x"), "control-fd");
    assert_refused(WORDS("--setting", "f", "x"), "--setting; did you mean --settings?");
    assert_refused(WORDS("--contrl-fd=3", "x"), "did you mean --control-fd?");
    assert_refused(WORDS("--ro-bind", "/", "/", "x"), "put -- before");
    assert_refused(WORDS("--a", "x"), "put -- before");
}

/* Whoever comes from srt brings these along. */
static void test_srts_name_for_verbose(void **state)
{
    (void)state;
    assert_true(parsed(WORDS("--debug", "x")).verbose);
    assert_true(parsed(WORDS("-d", "x")).verbose);
    struct options options = parsed(WORDS("ls", "-d", "/tmp"));
    assert_false(options.verbose);
    assert_string_equal(options.rest[1], "-d");
}

static void test_usage_is_aligned(void **state)
{
    (void)state;
    char text[4096] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);
    options_usage(out);
    fclose(out);
    assert_non_null(strstr(text, "\n  -s, --settings FILE                   settings;"));
    assert_non_null(strstr(text, "\n      --dry-run                         print"));
    assert_non_null(strstr(text, "\n  -c STRING                             run STRING"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_end_at_the_first_word),
        cmocka_unit_test(test_every_way_to_give_a_value),
        cmocka_unit_test(test_shell_strings),
        cmocka_unit_test(test_subcommands),
        cmocka_unit_test(test_published_ports),
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_srts_name_for_verbose),
        cmocka_unit_test(test_usage_is_aligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
