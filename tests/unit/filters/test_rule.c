#include "filters/rule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct rule_origin origin;

/* What the parser says about a rule: "" when it is fine. */
static const char *said(enum rule_effect effect, enum rule_dialect dialect, const char *text)
{
    static char message[1024];
    struct faults faults = {0};
    struct rule rule;
    origin = (struct rule_origin){.suffix = ""};
    message[0] = '\0';
    bool good = rule_parse(&rule, effect, dialect, text, &origin, 7, (struct place){"f.ini", 7, 0},
                           &faults);
    assert_int_equal(good, faults.errors == 0);
    if (faults.count > 0)
        fault_format(&faults.items[0], message, sizeof(message));
    if (good)
        rule_free(&rule);
    faults_free(&faults);
    return message;
}

static void assert_says(const char *message, const char *part)
{
    if (strstr(message, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", message, part);
}

static void test_faults_name_place_rule_and_remedy(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"a.test methd=GET",
         "f.ini:7: rule `a.test methd=GET`: unknown attribute `methd`; did you mean `method`?"},
        {"a.test colour=red", "unknown attribute `colour`"},
        {"a.test id=x id=y", "id= is given twice"},
        {"a.test reason=\"x\" reason=\"y\"", "reason= is given twice"},
        {"a.test to=10.0.0.0/8 to=10.0.0.0/8", "to= is given twice"},
        {"*", "default = allow"},
        {"*:*", "default = allow"},
        {"*.com", "public suffix"},
        {"*.co.uk", "public suffix"},
        {"a.*.test", "first label"},
        {"*a.test", "first label"},
        {"https://a.test/", "not a URL"},
        {"2001:db8::1", "in brackets: `[2001:db8::1]`"},
        {"[a.test]", "brackets are for IPv6"},
        {"[::1", "without `]`"},
        {"[::1]/128", "stands inside"},
        {"[fe80::1%eth0]", "no zone"},
        {"10.0.0.1/8", "address bits behind"},
        {"10.0.0.0/x", "not an address or a range"},
        {"127.1", "not a host name"},
        {"a_b.test:99999", "not a port from 1 to 65535"},
        {"a.test:90-80", "did you mean 80-90?"},
        {"a.test:1 ports=2", "given twice"},
        {"a.test front=tcp", "connect, http, socks5 or transparent"},
        {"a.test method=get", "upper case"},
        {"a.test method=CONNECT", "front=connect"},
        {"a.test method=GET front=connect", "never visible with front=connect"},
        {"a.test path=x", "neither `/` nor `*`"},
        {"a.test path=/../x", "matches no request"},
        {"10.0.0.1 to=10.0.0.0/8", "this rule names addresses"},
        {"a.test sni=yes", "neither match nor off"},
        {"a.test mode=x", "enforce, report or ask"},
        {"a.test until=soon", "2030-01-31T12:00:00Z"},
        {"a.test id=\"x\"", "one word"},
        {"a.test reason=x", "needs quotes"},
        {"a.test reason=\"x", "not closed"},
        {"a.test b.test", "not an attribute"},
        {"a\nb", "control characters"},
        {"", "needs a host"},
        {":80", "host is missing"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_says(said(RULE_ALLOW, RULE_INI, rows[i].text), rows[i].part);
    assert_says(said(RULE_DENY, RULE_INI, "a.test to=10.0.0.0/8"), "no meaning in a deny rule");
    assert_says(said(RULE_DENY, RULE_INI, "a.test sni=off"), "no meaning in a deny rule");
    assert_says(said(RULE_DENY, RULE_INI, "a.test mode=ask"), "no meaning in a deny rule");
    assert_says(said(RULE_ALLOW, RULE_SETTINGS, "*:22"), "can only be denied");
    assert_says(said(RULE_ALLOW, RULE_SETTINGS, "10.0.0.0/8"), "no range");
    assert_says(said(RULE_ALLOW, RULE_SETTINGS, "a.test id=x"), "nothing else");
    assert_string_equal(said(RULE_DENY, RULE_SETTINGS, "*:22"), "");
    assert_string_equal(said(RULE_DENY, RULE_INI, "*"), "");
}

static void test_a_private_suffix_is_a_warning(void **state)
{
    (void)state;
    assert_says(said(RULE_ALLOW, RULE_INI, "*.github.io"), "warning: ");
    assert_string_equal(said(RULE_ALLOW, RULE_INI, "*.octocat.github.io"), "");
    assert_string_equal(said(RULE_ALLOW, RULE_INI, "github.io"), "");
}

/* `until`, lists and quoting end up as values, in whatever order they are written. */
static void test_attributes_become_values(void **state)
{
    (void)state;
    struct faults faults = {0};
    struct rule rule;
    char id[RULE_ID_MAX];
    origin = (struct rule_origin){.prefix = (char[]){"build:"}, .suffix = ""};
    const char *text = "Api.Test.\treason=\"two  words, a=b\" until=2030-01-31T12:00:00Z "
                       "ports=80,8000-8010 front=http,transparent method=GET,M-SEARCH path=/v1/* "
                       "to=10.0.0.0/8, [fd00::/8] 192.0.2.1 sni=match mode=report id=api";
    assert_true(rule_parse(&rule, RULE_ALLOW, RULE_INI, text, &origin, 12,
                           (struct place){"f", 12, 0}, &faults));
    assert_true(str_eq(rule_name(&rule), STR("api.test")));
    assert_string_equal(rule_reason(&rule), "two  words, a=b");
    assert_string_equal(rule_id(&rule, id), "api");
    assert_int_equal(rule.extra->until, 1896091200);
    assert_true(rule_has_port(&rule, 8010) && !rule_has_port(&rule, 443));
    assert_true(rule_has_front(&rule, FRONT_HTTP) && !rule_has_front(&rule, FRONT_CONNECT));
    assert_true(rule_has_method(&rule, STR("M-SEARCH")) && !rule_has_method(&rule, STR("POST")));
    assert_int_equal(rule.extra->to_count, 3);
    assert_int_equal(rule.sni, RULE_SNI_MATCH);
    assert_int_equal(rule.mode, RULE_REPORT);
    rule_free(&rule);

    assert_true(rule_parse(&rule, RULE_DENY, RULE_INI, "a.test", &origin, 12,
                           (struct place){"f", 12, 0}, &faults));
    assert_string_equal(rule_id(&rule, id), "build:12");
    assert_null(rule_reason(&rule));
    rule_free(&rule);
    faults_free(&faults);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults_name_place_rule_and_remedy),
        cmocka_unit_test(test_a_private_suffix_is_a_warning),
        cmocka_unit_test(test_attributes_become_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
