#include "control/diff.h"

#include "filters/guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

static struct snapshot *load(const char *text)
{
    struct faults faults = {0};
    struct snapshot *snapshot = snapshot_load_text("gateway.ini", str_of(text), &faults);
    faults_print(&faults, stderr);
    faults_free(&faults);
    assert_non_null(snapshot);
    return snapshot;
}

/* Every line of `expected` is a fault, and there are no others. */
static void faulty(const char *text, const char *expected)
{
    struct faults faults = {0};
    char *said = NULL;
    size_t len;
    assert_null(snapshot_load_text("gateway.ini", str_of(text), &faults));
    FILE *out = open_memstream(&said, &len);
    faults_print(&faults, out);
    fclose(out);
    assert_string_equal(said, expected);
    free(said);
    faults_free(&faults);
}

static void a_configuration_becomes_policies(void **state)
{
    (void)state;
    struct snapshot *snapshot = load("[policy a]\nallow = x.test\n[policy b]\ndeny = y.test\n");
    assert_non_null(snapshot_policy(snapshot, "a"));
    assert_string_equal(policy_name(snapshot_policy(snapshot, "b")), "b");
    assert_null(snapshot_policy(snapshot, "c"));
    snapshot_release(snapshot);
}

static void every_fault_is_told_at_once(void **state)
{
    (void)state;
    struct faults faults = {0};
    assert_null(snapshot_load_text(
        "gateway.ini", STR("[policy a]\nallow = *.com\n[policy b]\nallow = a b c\n"), &faults));
    assert_int_equal(faults.errors, 2);
    assert_int_equal(faults.items[0].line, 2);
    assert_int_equal(faults.items[1].line, 4);
    faults_free(&faults);
}

static void a_fault_of_a_module_is_told_with_its_section(void **state)
{
    (void)state;
    faulty("[filter f]\nmodule = quota\nwindows = 1h\n",
           "gateway.ini:3: [filter f] windows: unknown key\n");
}

static void a_view_of_the_machine_shares_everything_else(void **state)
{
    (void)state;
    struct snapshot *snapshot = load("[policy a]\nallow = x.test\n");
    struct addr own;
    assert_true(addr_parse(&own, STR("192.0.2.1")));
    snapshot->generation = 7;
    snapshot->host = snapshot_make_host(NULL, 0, NULL, 0);
    struct snapshot *other = snapshot_with_host(snapshot, snapshot_make_host(&own, 1, NULL, 0));
    struct snapshot *third = snapshot_with_host(other, snapshot_make_host(NULL, 0, NULL, 0));
    snapshot_release(snapshot);
    snapshot_release(third);
    assert_int_equal(other->generation, 7);
    assert_int_equal(other->host->own_addr_count, 1);
    assert_non_null(snapshot_policy(other, "a"));
    snapshot_release(other);
}

static void a_diff_counts_equal_rules(void **state)
{
    (void)state;
    struct snapshot *from =
        load("[policy a]\nallow = same.test\nallow = twice.test\nallow = twice.test\n"
             "[policy gone]\ndeny = z.test\n");
    struct snapshot *to =
        load("[policy a]\nallow = twice.test\ndeny = same.test\nallow = same.test\n");
    struct diff diff;
    diff_make(&diff, from, to);
    assert_int_equal(diff.added.total, 1);
    assert_string_equal(diff.added.lines[0], "a: deny = same.test");
    assert_int_equal(diff.removed.total, 2);
    assert_string_equal(diff.removed.lines[0], "a: allow = twice.test");
    assert_string_equal(diff.removed.lines[1], "gone: deny = z.test");
    diff_free(&diff);
    diff_make(&diff, from, from);
    assert_int_equal(diff.added.total + diff.removed.total, 0);
    diff_free(&diff);
    snapshot_release(from);
    snapshot_release(to);
}

static void a_long_diff_is_bounded_and_says_so(void **state)
{
    (void)state;
    struct json text = {0};
    json_append(&text, STR("[policy a]\n"));
    for (int i = 0; i < DIFF_LINES_MAX + 5; i++) {
        char line[64];
        int len = snprintf(line, sizeof(line), "allow = h%d.test\n", i);
        json_append(&text, (struct str){line, (size_t)len});
    }
    json_append(&text, (struct str){"", 1});
    struct snapshot *from = load("[policy a]\nallow = x.test\n"), *to = load(text.data);
    struct diff diff;
    diff_make(&diff, from, to);
    assert_int_equal(diff.added.count, DIFF_LINES_MAX);
    assert_int_equal(diff.added.total, DIFF_LINES_MAX + 5);
    json_reset(&text);
    diff_write(&diff, &text);
    json_append(&text, (struct str){"", 1});
    assert_non_null(strstr(text.data, "\"and 5 more\"],\"removed\":[\"a: allow = x.test\"]"));
    diff_free(&diff);
    json_free(&text);
    snapshot_release(from);
    snapshot_release(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_configuration_becomes_policies),
        cmocka_unit_test(every_fault_is_told_at_once),
        cmocka_unit_test(a_fault_of_a_module_is_told_with_its_section),
        cmocka_unit_test(a_view_of_the_machine_shares_everything_else),
        cmocka_unit_test(a_diff_counts_equal_rules),
        cmocka_unit_test(a_long_diff_is_bounded_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
