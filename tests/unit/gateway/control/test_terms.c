#include "control/terms.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>

static struct policy *read_lists(const char *json, bool asks)
{
    struct policy *policy = NULL;
    struct faults faults = {0};
    struct srt_err err = {0};
    json_t *lists = json_loads(json, 0, NULL);
    if (terms_narrowing(false, asks, lists, &policy, &faults, &err) != 0)
        fail_msg("%s", err.text);
    json_decref(lists);
    faults_free(&faults);
    assert_non_null(policy);
    return policy;
}

static void assert_same_rules(const struct policy *a, const struct policy *b)
{
    assert_int_equal(policy_rule_count(a), policy_rule_count(b));
    assert_int_equal(policy_asks(a), policy_asks(b));
    for (size_t i = 0; i < policy_rule_count(a); i++) {
        char left_id[RULE_ID_MAX], right_id[RULE_ID_MAX];
        const struct rule *left = policy_rule_at(a, i), *right = policy_rule_at(b, i);
        assert_string_equal(left->text, right->text);
        assert_string_equal(rule_id(left, left_id), rule_id(right, right_id));
        assert_int_equal(left->effect, right->effect);
        assert_int_equal(left->scope, right->scope);
        const char *why = rule_reason(left), *other = rule_reason(right);
        assert_string_equal(why != NULL ? why : "", other != NULL ? other : "");
    }
}

/* What one process writes of a sandbox's lists, the next one reads as the same policy. */
static void what_narrows_a_sandbox_is_written_as_it_was_read(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        bool asks;
    } rows[] = {
        {"{}", false},
        {"{}", true},
        {"{\"strictAllowlist\":true}", true},
        {"{\"allowedDomains\":[],\"deniedDomains\":[]}", false},
        {"{\"allowedDomains\":[\"b.test\",\"*.a.test\",\"c.test:8080\",\"192.0.2.7\","
         "\"[2001:db8::1]:443\",\"B\u00fccher.test\"],"
         "\"deniedDomains\":[\"*\",\"x.a.test\"],"
         "\"deniedResolvedAddresses\":[\"10.0.0.0/8\",\"fd00::/8\"]}",
         false},
        {"{\"allowedDomains\":[\"a.test\"],\"deniedDomains\":[\"y.test\",\"x.test\",\"y.test\"],"
         "\"deniedDomainReasons\":{\"y.test\":\"says \\\"no\\\"\\n\\u20ac\",\"x.test\":\"old\"}}",
         false},
        {"{\"allowedDomains\":[\" "
         "a.test\\t\"],\"deniedDomains\":[\"\\tx.test\",\"B\u00fccher.test.\"],"
         "\"deniedDomainReasons\":{\"\\tx.test\":\"\\u001b[31m\\u2028\",\"B\u00fccher.test.\":"
         "\"\\\\\"}}",
         false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct json written = {0}, again = {0};
        struct policy *first = read_lists(rows[i].json, rows[i].asks);
        terms_write(&written, first);
        json_append(&written, (struct str){"", 1});
        struct policy *second = read_lists(written.data, rows[i].asks);
        assert_same_rules(first, second);
        terms_write(&again, second);
        json_append(&again, (struct str){"", 1});
        assert_string_equal(written.data, again.data);
        policy_free(first);
        policy_free(second);
        json_free(&written);
        json_free(&again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_narrows_a_sandbox_is_written_as_it_was_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
