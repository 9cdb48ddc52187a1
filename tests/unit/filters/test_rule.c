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

/* The whole line, as `check` prints it. */
static void assert_fault(enum rule_effect effect, enum rule_dialect dialect, const char *text,
                         const char *fault)
{
    char want[2048];
    snprintf(want, sizeof(want), "f.ini:7: rule `%s`: %s", text, fault);
    assert_string_equal(said(effect, dialect, text), want);
}

static void test_faults_name_place_rule_and_remedy(void **state)
{
    (void)state;
    static const struct {
        const char *text, *fault;
    } rows[] = {
        {"*", "`*` alone allows every host; if that is meant, write `default = allow` in the "
              "policy, otherwise narrow it (a port, method=, to=, ...)"},
        {"a.test methd=GET", "unknown attribute `methd`; did you mean `method`?"},
        {"a.test colour=red", "unknown attribute `colour`"},
        {"a.test id=x id=y", "id= is given twice"},
        {"a.test ports=1 ports=2", "ports= is given twice"},
        {"a.test front=http front=http", "front= is given twice"},
        {"a.test method=GET method=GET", "method= is given twice"},
        {"a.test path=/ path=/", "path= is given twice"},
        {"a.test reason=\"x\" reason=\"y\"", "reason= is given twice"},
        {"a.test to=10.0.0.0/8 to=10.0.0.0/8", "to= is given twice"},
        {"*:*", "`*` alone allows every host; if that is meant, write `default = allow` in the "
                "policy, otherwise narrow it (a port, method=, to=, ...)"},
        {"* id=x", "`*` alone allows every host; if that is meant, write `default = allow` in the "
                   "policy, otherwise narrow it (a port, method=, to=, ...)"},
        {"*.com", "`*.com` covers a whole public suffix, under which anybody can register; name "
                  "the domains that are meant"},
        {"*.co.uk", "`*.co.uk` covers a whole public suffix, under which anybody can register; "
                    "name the domains that are meant"},
        {"a.*.test", "`*` stands alone or as the first label (`*.example.com`)"},
        {"*a.test", "`*` stands alone or as the first label (`*.example.com`)"},
        {"https://a.test/", "a rule names a host, not a URL: leave out the scheme and the path"},
        {"a.test method=GET,*", "every method is meant where there is no method=: leave it out"},
        {".a.test", "a name has no leading dot: `*.a.test` is every name below, `a.test` itself"},
        {"a.test/x", "a rule names a host, not a URL: leave out the scheme and the path"},
        {"a1.test/8", "a rule names a host, not a URL: leave out the scheme and the path"},
        {"10.0.0/8", "`10.0.0/8` is not an address or a range (four decimal numbers, or IPv6)"},
        {"2001:db8::1", "an IPv6 address stands in brackets: `[2001:db8::1]`"},
        {"[a.test]", "brackets are for IPv6 addresses only"},
        {"[10.0.0.1]", "brackets are for IPv6 addresses only"},
        {"[::1", "`[` without `]`"},
        {"[::1]/128", "only a port may follow `]` (a prefix length stands inside)"},
        {"[::1]x", "only a port may follow `]` (a prefix length stands inside)"},
        {"[fe80::1%eth0]", "an IPv6 address in a rule has no zone"},
        {"10.0.0.1/8",
         "`10.0.0.1/8` has address bits behind its prefix length, or a length that is too long"},
        {"10.0.0.0/33",
         "`10.0.0.0/33` has address bits behind its prefix length, or a length that is too long"},
        {"10.0.0.0/x", "`10.0.0.0/x` is not an address or a range (four decimal numbers, or IPv6)"},
        {"[2001:db8::1/32]", "`2001:db8::1/32` has address bits behind its prefix length, or a "
                             "length that is too long"},
        {"[::1/129]", "`::1/129` is not an address or a range (four decimal numbers, or IPv6)"},
        {"[::g]", "`::g` is not an address or a range (four decimal numbers, or IPv6)"},
        {"127.1", "`127.1` is not a host name: a name that ends in a number is neither a host name "
                  "nor an IPv4 address in its one form"},
        {"0x7f.1", "`0x7f.1` is not a host name: a name that ends in a number is neither a host "
                   "name nor an IPv4 address in its one form"},
        {"a..test", "`a..test` is not a host name: a label is empty"},
        {"-a.test", "`-a.test` is not a host name: a label starts or ends with '-'"},
        {"user@a.test", "`user@a.test` is not a host name: only letters, digits, '-', '_' and '.' "
                        "can be in a host name"},
        {"a%2e.test", "`a%2e.test` is not a host name: only letters, digits, '-', '_' and '.' can "
                      "be in a host name"},
        {"ä_b.test", "`ä_b.test` is not a host name: the name is not a valid internationalized "
                     "name (IDNA2008)"},
        {"a.test:99999", "`99999` is not a port from 1 to 65535 nor a range of them"},
        {"a.test:0", "`0` is not a port from 1 to 65535 nor a range of them"},
        {"a.test:x", "`x` is not a port from 1 to 65535 nor a range of them"},
        {"a.test:", "`` is not a port from 1 to 65535 nor a range of them"},
        {"a.test:90-80", "the range 90-80 is empty; did you mean 80-90?"},
        {"a.test ports=1,x", "`x` is not a port from 1 to 65535 nor a range of them"},
        {"a.test ports=", "`` is not a port from 1 to 65535 nor a range of them"},
        {"a.test:1 ports=2", "the port is given twice, behind the host and in ports="},
        {"a.test front=tcp", "`tcp` is not a front: connect, http, socks5 or transparent"},
        {"a.test method=get", "`get` is not a method (upper case, such as GET)"},
        {"a.test method=CONNECT", "the CONNECT method is a front: write front=connect"},
        {"a.test method=GET front=connect", "method= and path= are only visible with front=http"},
        {"a.test path=/x front=socks5,transparent",
         "method= and path= are only visible with front=http"},
        {"a.test path=x", "path=x begins with neither `/` nor `*`"},
        {"a.test path=/../x", "path=/../x matches no request: dot segments, encoded slashes, "
                              "backslashes and broken %XX never match"},
        {"a.test path=", "path= begins with neither `/` nor `*`"},
        {"10.0.0.1 to=10.0.0.0/8",
         "to= limits what a name may resolve to; this rule names addresses"},
        {"a.test to=x", "`x` is not an address or a range (four decimal numbers, or IPv6)"},
        {"a.test to=", "to= names no address"},
        {"a.test to=10.0.0.1/8",
         "`10.0.0.1/8` has address bits behind its prefix length, or a length that is too long"},
        {"a.test to=,", "`` is not an address or a range (four decimal numbers, or IPv6)"},
        {"a.test sni=yes", "sni=yes is neither match nor off"},
        {"a.test mode=x", "mode=x is not enforce, report or ask"},
        {"a.test until=soon", "until=soon is not a time such as 2030-01-31T12:00:00Z"},
        {"a.test id=\"x\"", "id= is one word of at most 64 letters, digits and ._-:/@+"},
        {"a.test id=", "id= is one word of at most 64 letters, digits and ._-:/@+"},
        {"a.test id=a/b!", "id= is one word of at most 64 letters, digits and ._-:/@+"},
        {"a.test reason=x", "reason= needs quotes: reason=\"TEXT\""},
        {"a.test reason=\"x\"y", "something follows the closing quote of reason="},
        {"a.test reason=\"\"", "reason=\"\" says nothing"},
        {"a.test b.test", "`b.test` is not an attribute (NAME=VALUE)"},
        {":80", "the host is missing"},
        {"a.test ports=90-80", "the range 90-80 is empty; did you mean 80-90?"},
        {"a.test front=http,tcp", "`tcp` is not a front: connect, http, socks5 or transparent"},
        {"a.test path=/é", "path= holds a byte that no path has; write it as %XX"},
        {"a.test path=/a\"b\"", "path= holds a byte that no path has; write it as %XX"},
        {"a.test reason=\"x", "reason=\" is not closed"},
        {"", "a rule needs a host"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_fault(RULE_ALLOW, RULE_INI, rows[i].text, rows[i].fault);
    assert_string_equal(said(RULE_ALLOW, RULE_INI, "a\nb"),
                        "f.ini:7: rule `a\\x0ab`: control characters have no place in a rule");
}

static void test_faults_of_deny_rules(void **state)
{
    (void)state;
    assert_fault(RULE_DENY, RULE_INI, "a.test to=10.0.0.0/8", "to= has no meaning in a deny rule");
    assert_fault(RULE_DENY, RULE_INI, "a.test sni=off", "sni= has no meaning in a deny rule");
    assert_fault(RULE_DENY, RULE_INI, "a.test mode=ask", "mode=ask has no meaning in a deny rule");
    assert_fault(RULE_DENY, RULE_INI, "*.com",
                 "`*.com` covers a whole public suffix, under which anybody can register; name the "
                 "domains that are meant");
    assert_string_equal(said(RULE_DENY, RULE_INI, "*"), "");
}

static void test_faults_of_settings(void **state)
{
    (void)state;
    assert_fault(RULE_ALLOW, RULE_SETTINGS, "*:22",
                 "`*` can only be denied; name the hosts that are allowed");
    assert_fault(RULE_ALLOW, RULE_SETTINGS, "10.0.0.0/8",
                 "an entry of settings names a host: no URL, no path, no range");
    assert_fault(RULE_ALLOW, RULE_SETTINGS, "a.test id=x",
                 "an entry of settings is host or host:port, nothing else");
    assert_string_equal(said(RULE_DENY, RULE_SETTINGS, "*:22"), "");
}

/* "a.test KEY=" and `count` items. */
static const char *said_of_list(const char *key, unsigned count)
{
    static char text[8192];
    size_t len = (size_t)snprintf(text, sizeof(text), "a.test %s=", key);
    for (unsigned i = 0; i < count; i++) {
        const char *comma = i > 0 ? "," : "";
        char *end = text + len;
        size_t room = sizeof(text) - len;
        if (strcmp(key, "ports") == 0)
            len += (size_t)snprintf(end, room, "%s%u", comma, i + 1);
        else if (strcmp(key, "method") == 0)
            len += (size_t)snprintf(end, room, "%sM%u", comma, i);
        else
            len += (size_t)snprintf(end, room, "%s10.%u.%u.0/24", comma, i / 256, i % 256);
    }
    assert_true(len < sizeof(text));
    return said(RULE_ALLOW, RULE_INI, text);
}

static void test_lists_and_globs_have_an_end(void **state)
{
    (void)state;
    static const struct {
        const char *key, *fault;
    } rows[] = {
        {"ports", "more than 256 ports in one list"},
        {"method", "more than 256 methods in one list"},
        {"to", "more than 256 ranges in one list"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_string_equal(said_of_list(rows[i].key, 256), "");
        assert_says(said_of_list(rows[i].key, 257), rows[i].fault);
    }

    char text[600] = "a.test path=/";
    size_t len = strlen(text);
    memset(text + len, 'x', 511);
    assert_string_equal(said(RULE_ALLOW, RULE_INI, text), "");
    memset(text + len, 'x', 512);
    assert_says(said(RULE_ALLOW, RULE_INI, text), "path= is longer than 512 bytes");
}

/* An entry of an address list is told what it is not. */
static void test_faults_of_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *fault;
    } rows[] = {
        {"10.0.0.1/8",
         "`10.0.0.1/8` has address bits behind its prefix length, or a length that is "
         "too long"},
        {"[10.0.0.1]", "`[10.0.0.1]` is not an address or a range (four decimal numbers, or IPv6)"},
        {"a.test", "`a.test` is not an address or a range (four decimal numbers, or IPv6)"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct faults faults = {0};
        struct rule rule;
        char message[1024], want[1024];
        origin = (struct rule_origin){.suffix = ""};
        assert_false(rule_parse_address(&rule, RULE_DENY, RULE_ADDRESSES, rows[i].text, &origin, 7,
                                        (struct place){"f.ini", 7, 0}, &faults));
        snprintf(want, sizeof(want), "f.ini:7: rule `%s`: %s", rows[i].text, rows[i].fault);
        assert_string_equal(fault_format(&faults.items[0], message, sizeof(message)), want);
        faults_free(&faults);
    }
}

static void test_a_private_suffix_is_a_warning(void **state)
{
    (void)state;
    assert_string_equal(said(RULE_ALLOW, RULE_INI, "*.github.io"),
                        "f.ini:7: warning: rule `*.github.io`: `*.github.io` is a public suffix of "
                        "one provider: anybody can have a name below it");
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
    assert_int_equal(rule_extra(&rule)->until, 1896091200);
    assert_true(rule_has_port(&rule, 8010) && !rule_has_port(&rule, 443));
    assert_true(rule_has_front(&rule, FRONT_HTTP) && !rule_has_front(&rule, FRONT_CONNECT));
    assert_true(rule_has_method(&rule, STR("M-SEARCH")) && !rule_has_method(&rule, STR("POST")));
    assert_int_equal(rule_extra(&rule)->to_count, 3);
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
        cmocka_unit_test(test_faults_of_deny_rules),
        cmocka_unit_test(test_faults_of_settings),
        cmocka_unit_test(test_faults_of_addresses),
        cmocka_unit_test(test_lists_and_globs_have_an_end),
        cmocka_unit_test(test_a_private_suffix_is_a_warning),
        cmocka_unit_test(test_attributes_become_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
