#include "filters/lint.h"
#include "lines.h"

enum { NOW = 1000 };

/* Everything lint says about one configuration, one line each, as `check` would print it. */
static char *said(const char *text)
{
    struct faults faults = {0};
    struct gateway_config *config = gateway_config_read_text("gw.ini", str_of(text), &faults);
    assert_non_null(config);
    struct policy **policies = calloc(config->policy_count, sizeof(*policies));
    for (size_t i = 0; i < config->policy_count; i++)
        assert_non_null(policies[i] = policy_compile(&config->policies[i], config, &faults));
    lint_configuration(config, policies, NOW, &faults);
    char *out = NULL;
    size_t size;
    FILE *file = open_memstream(&out, &size);
    faults_print(&faults, file);
    fclose(file);
    assert_int_equal(faults.errors, 0);
    faults_free(&faults);
    for (size_t i = 0; i < config->policy_count; i++)
        policy_free(policies[i]);
    free(policies);
    gateway_config_free(config);
    return out;
}

#define USED "[listen l]\naddress = 127.0.0.1:1\npolicy = p\n[policy p]\n"

static void assert_said(const char *rules, const char *want)
{
    char *text, *out;
    assert_true(asprintf(&text, USED "%s\n", rules) > 0);
    out = said(text);
    if (want[0] == '\0' ? out[0] != '\0' : strstr(out, want) == NULL)
        fail_msg("%s\nsaid: %s\nwanted: %s", rules, out, want);
    free(out);
    free(text);
}

static void test_nothing_to_say(void **state)
{
    (void)state;
    assert_said("allow = a.test\nallow = *.a.test\ndeny = b.a.test\ndeny = *:25", "");
    assert_said("allow = 127.0.0.1:80\nallow = [::1]:80\nallow = 8.8.8.8", "");
    assert_said("allow-addresses = 127.0.0.0/8\ndeny-addresses = 10.0.0.0/8\nallow = a.test", "");
}

static void test_rules_that_can_never_match(void **state)
{
    (void)state;
    assert_said("allow = a.test\ndeny = a.test",
                "gw.ini:5: warning: rule `allow = a.test`: it never allows anything: "
                "`deny = a.test` (p:6) beats it");
    assert_said("allow = a.b.test:443\ndeny = *.test:400-500", "`deny = *.test:400-500`");
    assert_said("allow = a.test\ndeny = *", "`deny = *` (p:6)");
    assert_said("allow = *.b.a.test\nallow = b.a.test\ndeny = *.a.test",
                "rule `allow = *.b.a.test`");
    assert_said("allow = *.b.a.test\nallow = b.a.test\ndeny = *.b.a.test",
                "`allow = *.b.a.test`: it n");
    assert_said("allow = 8.8.8.8\ndeny = 8.8.8.0/24", "never allows");
    assert_said("allow = a.test until=1970-01-01T00:16:40Z", "until= has passed");
    /* What the address guard never lets pass. */
    assert_said("allow = 10.0.0.1\ndeny-addresses = 10.0.0.0/8",
                "`allow = 10.0.0.1`: it never allows anything: `deny-addresses = 10.0.0.0/8`");
    assert_said("allow = *.localhost:8080", "never allows anything: that is loopback");
    assert_said("allow = localhost to=10.0.0.0/8", "never allows anything: that is loopback");
    assert_said("allow = localhost\ndeny-addresses = 127.0.0.0/8, ::1",
                "`allow = localhost`: it never allows anything: `deny-addresses = 127.0.0.0/8`");
    assert_said("allow = localhost:80\nallow = a.localhost\ndeny-addresses = 127.0.0.0/8", "");
    assert_said("allow = *.localhost\nallow-addresses = 127.0.0.1", "");
    assert_said("allow = *.localhost to=127.0.0.1", "");
    assert_said("allow = 10.0.0.1\ndeny-addresses = 10.1.0.0/16", "");
    /* Not beaten: another port, another front, a condition, a report, a narrower host. */
    assert_said("allow = a.test\ndeny = a.test:443", "");
    assert_said("allow = a.test\ndeny = a.test front=socks5", "");
    assert_said("allow = a.test\ndeny = a.test mode=report", "");
    assert_said("allow = a.test\ndeny = a.test until=2030-01-01T00:00:00Z", "");
    assert_said("allow = b.a.test\nallow = *.b.a.test\ndeny = a.b.a.test", "");
    assert_said("allow = a.test until=2030-01-01T00:00:00Z", "");
}

static void assert_said_of(const char *text, const char *words)
{
    char *out = said(text);
    if (words[0] == '\0')
        assert_string_equal(out, "");
    else
        assert_non_null(strstr(out, words));
    free(out);
}

static void test_rules_that_lead_to_the_gateway_itself(void **state)
{
    (void)state;
    static const char here[] = "never allows anything: the gateway itself is there ([listen l])";
#define LISTENS(address, rule) \
    "[listen l]\naddress = " address "\npolicy = p\n[policy p]\nallow = " rule "\n"
    assert_said_of(LISTENS("127.0.0.1:3128", "127.0.0.1:3128"), here);
    assert_said_of(LISTENS("127.0.0.1:3128", "localhost:3128"), here);
    assert_said_of(LISTENS("[::1]:3128", "localhost:3128"), here);
    assert_said_of(LISTENS("0.0.0.0:3128", "127.0.0.1:3128"), here);
    assert_said_of(LISTENS("192.0.2.1:3128", "192.0.2.1:3128"), here);
    assert_said_of(LISTENS("unix:/l.sock", "127.0.0.1:9095\n[gateway]\nadmin = 127.0.0.1:9095"),
                   "the gateway itself is there (admin)");
    assert_said_of(LISTENS("127.0.0.1:3128", "127.0.0.1:3129"), "");
    assert_said_of(LISTENS("127.0.0.1:3128", "127.0.0.2:3128"), "");
    assert_said_of(LISTENS("192.0.2.1:3128", "localhost:3128"), "");
    assert_said_of(LISTENS("127.0.0.1:3128", "127.0.0.1:3000-3200"), "");
    assert_said_of(LISTENS("127.0.0.1:0", "127.0.0.1:3128"), "");
}

static void test_clients_that_are_never_reached(void **state)
{
    (void)state;
#define CLIENTS(a, b) USED "[client a]\npolicy = p\n" a "\n[client b]\npolicy = p\n" b "\n"
#define TOKEN "token-sha256 = " TOKEN_DIGITS
#define TOKEN_DIGITS "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    static const char never[] =
        "gw.ini:8: warning: [client b] is never reached: [client a] stands before it";
    assert_said_of(CLIENTS("source = 10.0.0.0/8", "source = 10.1.0.0/16"), never);
    assert_said_of(CLIENTS("source = 10.0.0.1", "source = 10.0.0.1"), never);
    assert_said_of(CLIENTS(TOKEN, TOKEN), never);
    assert_said_of(CLIENTS(TOKEN, TOKEN "\nsource = 10.0.0.0/8"), never);
    assert_said_of(CLIENTS("source = 10.1.0.0/16", "source = 10.0.0.0/8"), "");
    assert_said_of(CLIENTS("source = 0.0.0.0/0", "source = 2001:db8::/32"), "");
    assert_said_of(CLIENTS(TOKEN "\nsource = 10.0.0.0/8", TOKEN), "");
    assert_said_of(CLIENTS("source = 10.0.0.0/8", TOKEN "\nsource = 10.1.0.0/16"), "");
    assert_said_of(CLIENTS("uid = 1", "uid = 1"), ""); /* launchers choose */
}

static void test_clear_requests_are_mentioned_once(void **state)
{
    (void)state;
    char *out = said(USED "allow = a.test method=GET\nallow = b.test path=/x\n[policy q]\n"
                          "allow = c.test method=GET\n[client c]\nuid = 1\npolicy = q\n");
    assert_non_null(
        strstr(out, "gw.ini:5: warning: rule `allow = a.test method=GET`: method= and "));
    assert_null(strstr(strstr(out, "method= and") + 1, "method= and"));
    free(out);
    assert_said("allow = a.test\ndeny = a.test method=POST", "such a rule denies nothing");
}

static void test_rules_that_seem_to_do_something_else(void **state)
{
    (void)state;
    assert_said("allow = *.a.test",
                "leaves out a.test itself; if that is meant too, add `allow = a.test`");
    assert_said("allow = *.test", "everything below the top-level name test");
    assert_said("allow = *:443", "every host name");
    assert_said("allow = 169.254.169.254", "cloud metadata");
    assert_said("allow-addresses = 169.254.169.254", "cloud metadata");
    assert_said("allow = 10.0.0.0/8", "guard still denies a private address");
    assert_said("allow = 8.8.0.0/16", "never names that resolve into it");
    assert_said("private-addresses = allow\nallow = 10.0.0.0/8", "never names that resolve");
    assert_said("allow = a.test to=0.0.0.0/0", "loopback included");
    assert_said("allow = a.test to=10.0.0.0/8,169.254.169.254", "to= opens a cloud metadata");
    assert_said("default = allow", "gw.ini:4: warning: [policy p] default = allow");
}

/* All of what is said about a rule in line 5, and nothing else. */
static void test_every_warning_has_its_line_and_words(void **state)
{
    (void)state;
    static const struct {
        const char *rule, *more, *words;
    } rows[] = {
        {"allow = x.a.test", "\ndeny = *.a.test id=all",
         "it never allows anything: `deny = *.a.test id=all` (all) beats it"},
        {"allow = a.test until=1970-01-01T00:16:40Z", "",
         "its until= has passed, so it matches nothing"},
        {"allow = a.test method=GET", "",
         "method= and path= are only judged on requests in clear: on a CONNECT or SOCKS5 tunnel "
         "(all "
         "of https) such a rule allows nothing"},
        {"deny = a.test path=/x", "",
         "method= and path= are only judged on requests in clear: on a CONNECT or SOCKS5 tunnel "
         "(all "
         "of https) such a rule denies nothing"},
        {"allow = *:443", "", "it covers every host name there is"},
        {"allow = *.test", "", "it covers everything below the top-level name test"},
        {"allow = *.a.test", "",
         "`*.a.test` leaves out a.test itself; if that is meant too, add `allow = a.test`"},
        {"allow = 169.254.169.254", "",
         "it opens a cloud metadata address, where credentials are to be had"},
        {"allow = 10.0.0.0/8", "",
         "the address guard still denies a private address in it: only a single address, "
         "allow-addresses or private-addresses make an exception"},
        {"allow = 8.8.8.0/24", "",
         "a range matches requests for addresses, never names that resolve into it (see to=)"},
        {"allow = a.test to=0.0.0.0/0", "",
         "its to= makes an exception for every address, loopback included"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512], want[512];
        snprintf(text, sizeof(text), USED "%s%s\n", rows[i].rule, rows[i].more);
        snprintf(want, sizeof(want), "gw.ini:5: warning: rule `%s`: %s\n", rows[i].rule,
                 rows[i].words);
        char *out = said(text);
        assert_string_equal(out, want);
        free(out);
    }
    char *out = said(USED "default = allow\n[policy lonely]\n");
    assert_string_equal(
        out, "gw.ini:4: warning: [policy p] default = allow: every host is reachable "
             "that no rule denies\n"
             "gw.ini:6: warning: [policy lonely] is used by no listener, client or other "
             "policy\n");
    free(out);
}

static void test_policies_that_launchers_may_name_are_used(void **state)
{
    (void)state;
    static const char control[] = "[gateway]\ncontrol = /run/c.sock\n[policy p]\nallow = a.test\n";
    static const char one[] = "[client c]\nuid = 1\npolicy = p\n[policy lonely]\n";
    char *out = said(control);
    assert_string_equal(out, "");
    free(out);
    char text[512];
    snprintf(text, sizeof(text), "%s%s", control, one);
    out = said(text);
    assert_string_equal(out, "gw.ini:8: warning: [policy lonely] is used by no listener, client or "
                             "other policy\n");
    free(out);
}

static void test_denials_that_an_upstream_undoes(void **state)
{
    (void)state;
    static const char *const denials[] = {"deny-addresses = 10.0.0.0/8", "deny = 8.8.8.0/24"};
    for (size_t i = 0; i < 2; i++) {
        char *rules;
        assert_true(asprintf(&rules,
                             "upstream = u\nallow = a.test\n%s\n[upstream u]\n"
                             "address = http://u.test:1",
                             denials[i]) > 0);
        assert_said(rules, "gw.ini:4: warning: [policy p] goes by the upstream u, where names are "
                           "resolved: its denials of addresses hold only");
        free(rules);
    }
    assert_said("upstream = u\nallow = a.test\ndeny = b.test\n[upstream u]\n"
                "address = http://u.test:1",
                "");
}

static void test_policies_that_nobody_uses(void **state)
{
    (void)state;
    char *out = said(USED "inherit = base\n[policy base]\nallow = *.a.test\n[policy lonely]\n");
    assert_non_null(strstr(out, "gw.ini:8: warning: [policy lonely] is used by no"));
    assert_null(strstr(out, "[policy base]"));
    /* Of inherited rules only the policy that wrote them speaks. */
    char *first = strstr(out, "leaves out");
    assert_non_null(first);
    assert_null(strstr(first + 1, "leaves out"));
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_to_say),
        cmocka_unit_test(test_rules_that_can_never_match),
        cmocka_unit_test(test_rules_that_lead_to_the_gateway_itself),
        cmocka_unit_test(test_clients_that_are_never_reached),
        cmocka_unit_test(test_clear_requests_are_mentioned_once),
        cmocka_unit_test(test_rules_that_seem_to_do_something_else),
        cmocka_unit_test(test_every_warning_has_its_line_and_words),
        cmocka_unit_test(test_policies_that_launchers_may_name_are_used),
        cmocka_unit_test(test_denials_that_an_upstream_undoes),
        cmocka_unit_test(test_policies_that_nobody_uses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
