/*
 * `learn` and `replay` over a recorded day: what they print, and with which status they end.
 */
#include "commands/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/srt-history-XXXXXX";
static char printed[1 << 16];

static char *path_in(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(path_in(name), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Runs a command and keeps what it printed on standard output. */
static int run(int (*run_command)(const struct command *, int, char **), const char *words)
{
    static const struct command self = {.name = "test", .synopsis = "", .summary = ""};
    char copy[512], *argv[16] = {0};
    int argc = 0;
    snprintf(copy, sizeof(copy), "%s", words);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "))
        argv[argc++] = word;

    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    FILE *into = tmpfile();
    assert_non_null(into);
    dup2(fileno(into), STDOUT_FILENO);
    optind = 0; /* getopt starts anew */
    int status = run_command(&self, argc, argv);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    rewind(into);
    printed[fread(printed, 1, sizeof(printed) - 1, into)] = '\0';
    fclose(into);
    return status;
}

static void record(FILE *log, const char *host, unsigned port, const char *verdict,
                   const char *reason)
{
    fprintf(log,
            "{\"schema\":\"srt.audit/1\",\"ts\":\"2026-01-01T00:00:00.000Z\",\"seq\":1,"
            "\"kind\":\"decision\",\"id\":\"01J\",\"sandbox\":null,\"policy\":\"build\","
            "\"front\":\"connect\",\"method\":null,\"path\":null,\"host\":\"%s\",\"port\":%u,"
            "\"addr\":null,\"verdict\":\"%s\",\"would\":null,\"reason\":%s,\"rule\":null}\n",
            host, port, verdict, reason);
}

#define DENIED(log, host, port) record(log, host, port, "deny", "\"not-allowed\"")

static FILE *open_log(void)
{
    FILE *log = fopen(path_in("audit.jsonl"), "w");
    assert_non_null(log);
    return log;
}

static int learn(void)
{
    char words[512];
    snprintf(words, sizeof(words), "learn %s", path_in("audit.jsonl"));
    return run(command_learn, words);
}

/* The rule lines alone, in order, joined by ";". */
static const char *lines_of(void)
{
    static char joined[4096];
    joined[0] = '\0';
    for (char *line = strtok(printed, "\n"); line != NULL; line = strtok(NULL, "\n"))
        if (line[0] != '#')
            snprintf(joined + strlen(joined), sizeof(joined) - strlen(joined), "%s;", line);
    return joined;
}

static void learn_writes_one_line_for_each_lone_host(void **state)
{
    (void)state;
    FILE *log = open_log();
    DENIED(log, "pypi.org", 443);
    DENIED(log, "pypi.org", 443);
    DENIED(log, "git.corp.example.com", 22);
    DENIED(log, "2001:db8::1", 8080);
    record(log, "fine.test", 443, "allow", "null");
    fclose(log);
    assert_int_equal(learn(), EXIT_DONE);
    assert_non_null(strstr(printed, "# 2 requests: pypi.org\n"));
    assert_string_equal(lines_of(), "allow = pypi.org;allow = [2001:db8::1]:8080;"
                                    "allow = git.corp.example.com:22;");
}

static void learn_merges_below_the_deepest_common_parent(void **state)
{
    (void)state;
    FILE *log = open_log();
    DENIED(log, "a.eu.example.com", 443);
    DENIED(log, "b.eu.example.com", 80);
    DENIED(log, "example.com", 443);
    DENIED(log, "c.eu.example.com", 8443);
    fclose(log);
    assert_int_equal(learn(), EXIT_DONE);
    assert_string_equal(
        lines_of(), "allow = example.com;allow = *.eu.example.com;allow = c.eu.example.com:8443;");
}

static void learn_never_proposes_a_wildcard_over_a_suffix(void **state)
{
    (void)state;
    FILE *log = open_log();
    DENIED(log, "one.com", 443);
    DENIED(log, "two.com", 443);
    DENIED(log, "one.co.uk", 443);
    DENIED(log, "two.co.uk", 443);
    DENIED(log, "one.github.io", 443);
    DENIED(log, "two.github.io", 443);
    DENIED(log, "one.test", 443);
    DENIED(log, "two.test", 443);
    fclose(log);
    assert_int_equal(learn(), EXIT_DONE);
    assert_null(strstr(printed, "*"));
}

static void learn_says_what_no_line_can_lift(void **state)
{
    (void)state;
    FILE *log = open_log();
    record(log, "bad.test", 443, "deny", "\"denied-by-rule\"");
    record(log, "gone.test", 443, "deny", "\"dns-nxdomain\"");
    fputs("half a line", log);
    fclose(log);
    assert_int_equal(learn(), EXIT_DONE);
    assert_non_null(strstr(printed, "bad.test:443: denied-by-rule"));
    assert_null(strstr(printed, "gone.test"));
    assert_string_equal(lines_of(), "");
}

static void a_log_that_is_not_there_is_a_fault(void **state)
{
    (void)state;
    assert_int_equal(run(command_learn, "learn /nonexistent/audit.jsonl"), EXIT_SYSTEM);
    assert_int_equal(run(command_learn, "learn"), EXIT_USAGE);
}

static void replay_names_the_verdicts_that_change(void **state)
{
    (void)state;
    FILE *log = open_log();
    record(log, "stays.test", 443, "allow", "null");
    record(log, "gone.test", 443, "deny", "\"dns-nxdomain\""); /* the policy had allowed it */
    DENIED(log, "opens.test", 443);
    DENIED(log, "closed.test", 443);
    record(log, "garbled", 443, "deny", "\"bad-request\"");
    fclose(log);
    write_file("gateway.ini", "[listen main]\naddress = 127.0.0.1:0\npolicy = build\n"
                              "[policy build]\nallow = stays.test\nallow = opens.test\n");
    char words[512], config[128];
    snprintf(config, sizeof(config), "%s", path_in("gateway.ini"));
    snprintf(words, sizeof(words), "replay -c %s %s", config, path_in("audit.jsonl"));
    assert_int_equal(run(command_replay, words), EXIT_NO);
    assert_non_null(strstr(printed, "allow -> deny  01J  gone.test:443"));
    assert_non_null(strstr(printed, "deny -> allow  01J  opens.test:443"));
    assert_null(strstr(printed, "stays.test"));
    assert_null(strstr(printed, "closed.test"));
    assert_null(strstr(printed, "garbled"));
}

static void replay_of_what_stays_the_same_is_quiet(void **state)
{
    (void)state;
    FILE *log = open_log();
    record(log, "stays.test", 443, "allow", "null");
    fclose(log);
    char words[512], config[128];
    snprintf(config, sizeof(config), "%s", path_in("gateway.ini"));
    snprintf(words, sizeof(words), "replay -c %s --policy build %s", config,
             path_in("audit.jsonl"));
    assert_int_equal(run(command_replay, words), EXIT_DONE);
    assert_string_equal(printed, "");
    snprintf(words, sizeof(words), "replay -c %s --policy nobody %s", config,
             path_in("audit.jsonl"));
    assert_int_equal(run(command_replay, words), EXIT_USAGE);
}

static const char *summary(const char *options)
{
    char words[512];
    snprintf(words, sizeof(words), "summary %s %s", options, path_in("audit.jsonl"));
    assert_int_equal(run(command_summary, words), EXIT_DONE);
    return printed;
}

static void closed(FILE *log, const char *host, unsigned up, unsigned down)
{
    fprintf(log,
            "{\"schema\":\"srt.audit/1\",\"ts\":\"2026-01-01T01:00:00.000Z\",\"seq\":1,"
            "\"kind\":\"close\",\"id\":\"01J\",\"sandbox\":\"box\",\"policy\":\"build\","
            "\"front\":\"connect\",\"host\":\"%s\",\"port\":443,\"addr\":null,\"sni\":null,"
            "\"bytes_up\":%u,\"bytes_down\":%u,\"duration_ms\":7,\"cause\":\"client\"}\n",
            host, up, down);
}

static void summary_counts_and_proposes(void **state)
{
    (void)state;
    FILE *log = open_log();
    DENIED(log, "often.test", 443);
    DENIED(log, "often.test", 8443);
    DENIED(log, "2001:db8::1", 22);
    record(log, "bad.test", 443, "deny", "\"denied-by-rule\"");
    record(log, "gone.test", 443, "deny", "\"dns-nxdomain\"");
    record(log, "fine.test", 443, "allow", "null");
    closed(log, "fine.test", 100, 2000);
    fputs("{\"schema\":\"srt.audit/1\",\"ts\":\"2026-01-01T02:00:00.000Z\",\"seq\":9,"
          "\"kind\":\"lost\",\"count\":5}\n",
          log);
    fclose(log);
    json_t *told = json_loads(summary("--json"), 0, NULL);
    assert_non_null(told);
    assert_int_equal(json_integer_value(json_object_get(told, "requests")), 6);
    assert_int_equal(json_integer_value(json_object_get(told, "denied")), 5);
    assert_int_equal(json_integer_value(json_object_get(told, "lost")), 5);
    assert_int_equal(json_integer_value(json_object_get(told, "bytes_down")), 2000);
    const json_t *first = json_array_get(json_object_get(told, "denied_hosts"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "often.test");
    assert_string_equal(json_string_value(json_object_get(first, "rule")),
                        "allow = often.test ports=443,8443");
    json_decref(told);

    summary("--top 1");
    assert_non_null(strstr(printed, "allow = often.test ports=443,8443\n"));
    assert_non_null(strstr(printed, "others"));
    assert_null(strstr(printed, "gone.test"));
    summary("");
    assert_non_null(strstr(printed, "allow = [2001:db8::1]:22\n"));
    assert_non_null(strstr(printed, "denied-by-rule; no allow line lifts that\n"));
    assert_non_null(strstr(printed, "2026-01-01T00"));
    assert_int_equal(run(command_summary, "summary --top 0 x"), EXIT_USAGE);
}

/* What the scanner does not read, jansson does: the same whichever way a line is written. */
static void lines_read_the_same_however_they_are_written(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{\"schema\":\"srt.audit/1\",\"kind\":\"close\",\"host\":\"a.test\",\"bytes_up\":12}\n",
        "{ \"schema\":\"srt.audit/1\",\"kind\":\"close\",\"host\":\"a.test\",\"bytes_up\":12}\n",
        "{\"schema\":\"srt.audit/"
        "1\",\"kind\":\"close\",\"host\":\"\\u0061.test\",\"bytes_up\":12}\n",
        "{\"schema\":\"srt.audit/1\",\"kind\":\"close\",\"host\":\"b\",\"host\":\"a.test\","
        "\"bytes_up\":12}\n",
        "{\"schema\":\"srt.audit/1\",\"more\":[{\"x\":true}],\"kind\":\"close\","
        "\"bytes_up\":12,\"host\":\"a.test\"}\r\n",
        "{\"schema\":\"srt.audit/1\",\"m\":\"\xc3\xa4\",\"kind\":\"close\",\"bytes_up\":12,"
        "\"host\":\"a.test\"}",
    };
    static const char *const broken[] = {
        "{\"schema\":\"srt.audit/1\",\"kind\":\"close\",\"host\":\"a.test\",\"bytes_up\":12",
        "{\"schema\":\"srt.audit/1\",\"kind\":\"close\",\"host\":\"a.test\",\"bytes_up\":012}",
        "{\"schema\":\"srt.audit/1\",\"kind\":\"close\",\"host\":\"a.test\",}",
        "{\"schema\":\"srt.audit/1\",\"kind\":\"close\",\"host\":\"a\x01.test\"}",
        "{\"schema\":\"srt.audit/1\",\"kind\":\"close\",\"host\":\"a\xff.test\"}",
        "{\"schema\":\"srt.audit/1\",\"kind\":\"close\"}}",
        "{\"schema\":\"srt.audit/2\",\"kind\":\"close\"}",
        "{}",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        write_file("audit.jsonl", lines[i]);
        summary("--json");
        assert_non_null(strstr(printed, "\"name\":\"a.test\",\"requests\":1,\"denied\":0,"
                                        "\"bytes_up\":12"));
    }
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        write_file("audit.jsonl", broken[i]);
        summary("--json");
        assert_non_null(strstr(printed, "\"closes\":0"));
        assert_non_null(strstr(printed, "\"passed_over\":1"));
    }
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path_in("audit.jsonl"));
    unlink(path_in("gateway.ini"));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learn_writes_one_line_for_each_lone_host),
        cmocka_unit_test(learn_merges_below_the_deepest_common_parent),
        cmocka_unit_test(learn_never_proposes_a_wildcard_over_a_suffix),
        cmocka_unit_test(learn_says_what_no_line_can_lift),
        cmocka_unit_test(a_log_that_is_not_there_is_a_fault),
        cmocka_unit_test(replay_names_the_verdicts_that_change),
        cmocka_unit_test(replay_of_what_stays_the_same_is_quiet),
        cmocka_unit_test(summary_counts_and_proposes),
        cmocka_unit_test(lines_read_the_same_however_they_are_written),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
