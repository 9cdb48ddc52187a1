#include "filters/route.h"

#include "lines.h"

#include <jansson.h>

/* The policy `p` of a configuration with an upstream `corp` and one `other`. */
static struct gateway_config *config;

static struct policy *policy_of(const char *lines, struct faults *faults)
{
    autofree char *text = NULL;
    assert_true(asprintf(&text,
                         "[upstream corp]\naddress = http://proxy.test:3128\n"
                         "[upstream other]\naddress = socks5://10.0.0.1:1080\n[policy p]\n%s",
                         lines) > 0);
    config = gateway_config_read_text("g.ini", str_of(text), faults);
    assert_non_null(config);
    return policy_compile(&config->policies[0], config, faults);
}

/* The upstream's name for a request, "direct", or "denied". */
static const char *way(const struct policy *policy, enum front front, const char *asked)
{
    struct target target;
    struct decision decision;
    const struct chain chain = {.policy = policy};
    assert_true(target_parse(&target, str_of(asked), NULL));
    const struct question question = {.target = &target, .front = front};
    if (chain_judge(&chain, &question, &decision) != OUTCOME_ALLOWED)
        return "denied";
    const struct config_upstream *upstream = route_choose(&decision, &target);
    return upstream != NULL ? upstream->name : "direct";
}

static void a_rule_beats_the_policy(void **state)
{
    (void)state;
    struct faults faults = {0};
    struct policy *policy =
        policy_of("upstream = corp\nallow = a.test\nallow = b.test via=other\n"
                  "allow = c.test via=direct\nallow = d.test to=10.0.0.0/8 via=direct\n",
                  &faults);
    assert_non_null(policy);
    assert_string_equal(way(policy, FRONT_CONNECT, "a.test:443"), "corp");
    assert_string_equal(way(policy, FRONT_CONNECT, "b.test:443"), "other");
    assert_string_equal(way(policy, FRONT_HTTP, "b.test:80"), "other");
    assert_string_equal(way(policy, FRONT_SOCKS5, "c.test:443"), "direct");
    assert_string_equal(way(policy, FRONT_SOCKS5, "d.test:443"), "direct");
    assert_string_equal(way(policy, FRONT_SOCKS5, "e.test:443"), "denied");
    policy_free(policy);
    gateway_config_free(config);
}

static void what_is_allowed_without_a_rule_goes_the_policys_way(void **state)
{
    (void)state;
    struct faults faults = {0};
    struct policy *policy = policy_of("upstream = corp\ndefault = allow\n", &faults);
    assert_string_equal(way(policy, FRONT_CONNECT, "a.test:443"), "corp");
    policy_free(policy);
    gateway_config_free(config);
}

static void loopback_stays_here(void **state)
{
    (void)state;
    static const char *const here[] = {"localhost:80", "a.localhost:80", "127.0.0.1:80",
                                       "127.8.9.1:80", "[::1]:80",       "[::ffff:127.0.0.1]:80"};
    struct faults faults = {0};
    struct policy *policy = policy_of("upstream = corp\ndefault = allow\n", &faults);
    for (size_t i = 0; i < sizeof(here) / sizeof(here[0]); i++)
        assert_string_equal(way(policy, FRONT_HTTP, here[i]), "direct");
    assert_string_equal(way(policy, FRONT_HTTP, "10.0.0.1:80"), "corp");
    assert_string_equal(way(policy, FRONT_HTTP, "localhost.test:80"), "corp");
    policy_free(policy);
    gateway_config_free(config);
}

static void an_heir_takes_over_rules_and_nothing_else(void **state)
{
    (void)state;
    struct faults faults = {0};
    struct policy *policy =
        policy_of("inherit = q\nallow = a.test\n"
                  "[policy q]\nupstream = corp\nallow = b.test via=other\nallow = c.test\n",
                  &faults);
    assert_string_equal(way(policy, FRONT_CONNECT, "a.test:443"), "direct");
    assert_string_equal(way(policy, FRONT_CONNECT, "b.test:443"), "other");
    assert_string_equal(way(policy, FRONT_CONNECT, "c.test:443"), "direct");
    policy_free(policy);
    gateway_config_free(config);
}

static void ways_that_cannot_be_are_faults(void **state)
{
    (void)state;
    static const struct {
        const char *lines, *said;
    } rows[] = {
        {"allow = a.test via=crop\n", "there is no [upstream crop]; did you mean `corp`?"},
        {"allow = a.test via=nowhere-near\n", "there is no [upstream nowhere-near]"},
        {"allow = a.test via=\n", "via= names no upstream"},
        {"allow = a.test via=corp via=other\n", "via= is given twice"},
        {"deny = a.test via=corp\n", "via= has no meaning in a deny rule"},
        {"allow = a.test via=corp to=10.0.0.0/8\n", "to= cannot be kept with via=corp"},
        {"upstream = corp\nallow = a.test to=10.0.0.0/8\n", "add via=direct"},
        {"upstream = corp\ninherit = q\n[policy q]\nallow = a.test to=10.0.0.0/8\n",
         "add via=direct"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct faults faults = {0};
        assert_null(policy_of(rows[i].lines, &faults));
        assert_int_equal(faults.errors, 1);
        if (strstr(faults.items[0].text, rows[i].said) == NULL)
            fail_msg("%s", faults.items[0].text);
        faults_free(&faults);
        gateway_config_free(config);
    }
}

static void lists_of_exceptions(void **state)
{
    (void)state;
    static const struct {
        const char *list, *target;
        bool excepted;
    } rows[] = {
        {"", "a.test:80", false},
        {"*", "a.test:80", true},
        {"*", "10.0.0.1:80", true},
        {"a.test", "a.test:80", true},
        {"A.Test.", "a.test:80", true},
        {"a.test", "x.a.test:80", true},
        {".a.test", "a.test:80", true},
        {".a.test", "x.y.a.test:80", true},
        {"*.a.test", "x.a.test:80", true},
        {"a.test", "ba.test:80", false},
        {"a.test", "a.test.evil:80", false},
        {"x.a.test", "a.test:80", false},
        {"test", "a.test:80", true},
        {".", "a.test:80", false},
        {"b.test, a.test:8080", "a.test:80", true},
        {"b.test\ta.test", "a.test:80", true},
        {" ,, ,a.test", "a.test:80", true},
        {"10.0.0.1", "10.0.0.1:80", true},
        {"10.0.0.1:8080", "10.0.0.1:80", true},
        {"10.0.0.0/8", "10.9.9.9:80", true},
        {"10.0.0.0/8", "11.0.0.1:80", false},
        {"10.0.0.1", "a10.0.0.1.test:80", false},
        {"0.0.1", "10.0.0.1:80", false},
        {"2001:db8::1", "[2001:db8::1]:80", true},
        {"[2001:db8::1]:80", "[2001:db8::1]:443", true},
        {"2001:db8::/32", "[2001:db8::99]:443", true},
        {"[", "a.test:80", false},
        {":", "a.test:80", false},
        {"[]", "10.0.0.1:80", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct target target;
        assert_true(target_parse(&target, str_of(rows[i].target), NULL));
        if (route_is_excepted(str_of(rows[i].list), &target) != rows[i].excepted)
            fail_msg("%s: %s", rows[i].list, rows[i].target);
    }
}

static struct policy *policy_of_settings(const char *network, struct faults *faults)
{
    struct settings_network settings;
    struct policy *policy = NULL;
    json_t *json = json_loads(network, 0, NULL);
    const bool good = settings_network_read(&settings, "network", json, faults);
    json_decref(json);
    if (!good)
        return NULL;
    policy = policy_compile_settings(&settings, NULL, "network", faults);
    settings_network_free(&settings);
    return policy;
}

/* A parent for plain requests alone leaves tunnels to itself too, but not the other way round. */
static void parents_of_settings(void **state)
{
    (void)state;
    static const struct {
        const char *parent, *plain, *tunnel, *excepted;
    } rows[] = {
        {"{}", "direct", "direct", "direct"},
        {"{\"http\": \"proxy.test:1\"}", "parentProxy.http", "parentProxy.https",
         "parentProxy.https"},
        {"{\"https\": \"proxy.test:1\"}", "direct", "parentProxy.https", "parentProxy.https"},
        {"{\"http\": \"\", \"https\": \"proxy.test:1\", \"noProxy\": \"b.test\"}", "direct",
         "parentProxy.https", "direct"},
        {"{\"http\": \"proxy.test:1\", \"https\": \"\"}", "parentProxy.http", "direct", "direct"},
        {"{\"noProxy\": \"b.test\"}", "direct", "direct", "direct"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct faults faults = {0};
        autofree char *network = NULL;
        assert_true(asprintf(&network,
                             "{\"allowedDomains\": [\"a.test\", \"b.test\", \"localhost\"], "
                             "\"parentProxy\": %s}",
                             rows[i].parent) > 0);
        struct policy *policy = policy_of_settings(network, &faults);
        assert_non_null(policy);
        assert_string_equal(way(policy, FRONT_HTTP, "a.test:80"), rows[i].plain);
        assert_string_equal(way(policy, FRONT_CONNECT, "a.test:443"), rows[i].tunnel);
        assert_string_equal(way(policy, FRONT_SOCKS5, "b.test:443"), rows[i].excepted);
        assert_string_equal(way(policy, FRONT_HTTP, "localhost:80"), "direct");
        policy_free(policy);
    }
}

static void an_upstream_is_judged_by_nobody_but_is_not_us(void **state)
{
    (void)state;
    struct config_address own = {.port = 3128};
    struct addr addrs[2];
    struct approved approved;
    assert_true(addr_parse(&own.addr, STR("127.0.0.1")));
    assert_true(addr_parse(&addrs[0], STR("10.0.0.1")));
    addrs[1] = own.addr;
    const struct guard_host host = {.own_listeners = &own, .own_listener_count = 1};
    assert_int_equal(chain_approve_upstream(&host, 3129, addrs, 2, &approved), OUTCOME_ALLOWED);
    assert_int_equal(approved.count, 2);
    assert_int_equal(approved.port, 3129);
    assert_int_equal(chain_approve_upstream(&host, 3128, addrs, 2, &approved), OUTCOME_LOOP);
    assert_int_equal(chain_approve_upstream(&host, 3128, addrs, 0, &approved),
                     OUTCOME_CONNECT_UNREACHABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_beats_the_policy),
        cmocka_unit_test(what_is_allowed_without_a_rule_goes_the_policys_way),
        cmocka_unit_test(loopback_stays_here),
        cmocka_unit_test(an_heir_takes_over_rules_and_nothing_else),
        cmocka_unit_test(ways_that_cannot_be_are_faults),
        cmocka_unit_test(lists_of_exceptions),
        cmocka_unit_test(parents_of_settings),
        cmocka_unit_test(an_upstream_is_judged_by_nobody_but_is_not_us),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
