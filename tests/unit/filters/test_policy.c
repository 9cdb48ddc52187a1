#include "filters/policy.h"
#include "lines.h"

#include <stdio.h>

static struct ruling ask(const struct policy *policy, const char *asked)
{
    static struct target target;
    assert_true(target_parse(&target, str_of(asked), NULL));
    struct question question = {.target = &target};
    return policy_judge(policy, &question);
}

static const char *rule_of(const struct policy *policy, const char *asked)
{
    static char id[RULE_ID_MAX];
    struct ruling ruling = ask(policy, asked);
    return ruling.rule != NULL ? rule_id(ruling.rule, id) : "-";
}

/* -- inheritance -- */

static struct config_text text(const char *value, const char *file, unsigned line)
{
    return (struct config_text){str_of(value), {file, line, 0}};
}

/* What the addresses that a name leads to meet. */
static struct address_rules meet(const struct policy *policy, const char *asked,
                                 const char *address)
{
    static struct target target;
    struct addr addr;
    struct ruling ruling = ask(policy, asked);
    assert_true(target_parse(&target, str_of(asked), NULL) && addr_parse(&addr, str_of(address)));
    return policy_address_rules(&ruling, &target, &addr);
}

static void test_inherited_rules_come_first_and_once(void **state)
{
    (void)state;
    struct config_text root_allow[] = {text("root.test", "gw.ini", 3)};
    struct config_text left_allow[] = {text("left.test", "gw.ini", 13),
                                       text("listed.test", "lists/pypi.txt", 2)};
    struct config_text right_deny[] = {text("bad.test", "gw.ini", 23)};
    struct config_text leaf_allow[] = {text("root.test", "gw.ini", 33),
                                       text("bad.test", "gw.ini", 34)};
    struct config_text to_root[] = {text("root", "gw.ini", 2)};
    struct config_text to_both[] = {text("left", "gw.ini", 32), text("right", "gw.ini", 32)};
    struct config_text loopback[] = {text("127.0.0.0/8", "gw.ini", 4)};
    struct config_text closed[] = {text("198.51.100.0/24", "gw.ini", 5),
                                   text("203.0.113.0/24", "gw.ini", 5)};
    struct config_policy policies[] = {
        {.name = "leaf",
         .place = {"gw.ini", 31, 0},
         .inherit = {to_both, 2},
         .allow = {leaf_allow, 2}},
        {.name = "left",
         .place = {"gw.ini", 11, 0},
         .inherit = {to_root, 1},
         .allow = {left_allow, 2}},
        {.name = "right",
         .place = {"gw.ini", 21, 0},
         .inherit = {to_root, 1},
         .deny = {right_deny, 1},
         .fallback = DEFAULT_ALLOW},
        {.name = "root",
         .place = {"gw.ini", 1, 0},
         .allow = {root_allow, 1},
         .private_addresses = true,
         .allow_addresses = {loopback, 1},
         .deny_addresses = {closed, 2}},
    };
    struct gateway_config all = {.policies = policies, .policy_count = 4};
    struct faults faults = {0};
    struct policy *leaf = policy_compile(&policies[0], &all, &faults);
    assert_non_null(leaf);
    assert_int_equal(policy_rule_count(leaf), 8);
    assert_string_equal(rule_of(leaf, "root.test:443"), "root:3");
    assert_string_equal(rule_of(leaf, "left.test:443"), "left:13");
    assert_string_equal(rule_of(leaf, "listed.test:443"), "pypi.txt:2");
    assert_string_equal(rule_of(leaf, "bad.test:443"), "right:23");
    /* So are denials of addresses, once, however many ways lead there. */
    char id[RULE_ID_MAX];
    struct address_rules met = meet(leaf, "root.test:443", "203.0.113.9");
    assert_non_null(met.deny);
    assert_string_equal(rule_id(met.deny, id), "root:5");
    assert_string_equal(rule_key(met.deny), "deny-addresses");
    assert_null(meet(leaf, "root.test:443", "203.0.114.9").deny);
    /* What opens something is not, nor is the rest of a policy. */
    assert_false(meet(leaf, "root.test:443", "127.0.0.1").excepted);
    assert_false(policy_private_allowed(leaf));
    assert_int_equal(ask(leaf, "other.test:443").outcome, OUTCOME_NOT_ALLOWED);
    policy_free(leaf);
    faults_free(&faults);
}

/* -- settings -- */

static void test_settings_have_reasons_and_places(void **state)
{
    (void)state;
    struct settings_text allowed[] = {{.text = (char[]){"*.test"}, .line = 2, .column = 5}};
    struct settings_text denied[] = {
        {.text = (char[]){"a.test"}}, {.text = (char[]){"*.B.test"}}, {.text = (char[]){"c.test"}}};
    struct settings_reason reasons[] = {
        {(char[]){"zzz"}, (char[]){"inert"}},
        {(char[]){"*.B.test"}, (char[]){"b is retired"}},
        {(char[]){"a.test"}, (char[]){"a is down"}},
    };
    struct settings_network network = {
        .allowed_domains = {allowed, 1, true},
        .denied_domains = {denied, 3, true},
        .reasons = reasons,
        .reason_count = 3,
    };
    struct faults faults = {0};
    struct policy *policy = policy_compile_settings(&network, NULL, "s.json", &faults);
    assert_non_null(policy);
    assert_string_equal(policy_name(policy), "settings");
    assert_string_equal(rule_reason(ask(policy, "a.test:1").rule), "a is down");
    assert_string_equal(rule_reason(ask(policy, "x.b.test:1").rule), "b is retired");
    assert_null(rule_reason(ask(policy, "c.test:1").rule));
    assert_string_equal(rule_of(policy, "c.test:1"), "settings:deniedDomains[2]");
    assert_int_equal(ask(policy, "d.test:1").outcome, OUTCOME_ALLOWED);
    policy_free(policy);

    allowed[0].text = (char[]){"*.com"};
    assert_null(policy_compile_settings(&network, "mine", "s.json", &faults));
    char message[512];
    assert_non_null(
        strstr(fault_format(&faults.items[0], message, sizeof(message)), "s.json:2:5: "));
    faults_free(&faults);
}

static void test_settings_without_lists_allow_nothing(void **state)
{
    (void)state;
    struct settings_network network = {0};
    struct faults faults = {0};
    struct policy *policy = policy_compile_settings(&network, NULL, "s.json", &faults);
    assert_int_equal(ask(policy, "a.test:443").outcome, OUTCOME_NOT_ALLOWED);
    assert_int_equal(ask(policy, "8.8.8.8:443").outcome, OUTCOME_NOT_ALLOWED);
    policy_free(policy);
    faults_free(&faults);
}

/* -- against a slow reference -- */

static uint32_t dice_state;

static uint32_t dice(uint32_t sides)
{
    dice_state = dice_state * 1664525 + 1013904223;
    return (dice_state >> 8) % sides;
}

static void random_name(char *out, size_t size)
{
    static const char *const labels[] = {"a", "b", "ab", "a-b"};
    size_t len = 0;
    for (uint32_t i = 0, depth = dice(4); i < depth; i++)
        len += (size_t)snprintf(out + len, size - len, "%s.", labels[dice(4)]);
    snprintf(out + len, size - len, "%s", dice(2) ? "test" : "x.test");
}

static void random_host(char *out, size_t size, bool wildcard)
{
    char name[64];
    random_name(name, sizeof(name));
    switch (dice(6)) {
    case 0:
        snprintf(out, size, "10.%u.%u.%u", dice(2), dice(2), dice(3));
        return;
    case 1:
        snprintf(out, size, "[fd00::%u]", dice(3));
        return;
    default:
        snprintf(out, size, "%s%s", wildcard && dice(2) ? "*." : "", name);
    }
}

struct plain_rule {
    bool deny;
    char host[80];
    unsigned first, last;
};

static void random_rule(struct plain_rule *rule)
{
    rule->deny = dice(3) == 0;
    random_host(rule->host, sizeof(rule->host), true);
    if (dice(8) == 0)
        snprintf(rule->host, sizeof(rule->host), "10.%u.0.0/16", dice(2));
    if (dice(20) == 0 && rule->deny)
        snprintf(rule->host, sizeof(rule->host), "*");
    rule->first = 440 + dice(4);
    rule->last = rule->first + dice(3);
}

/* The reference: ten lines, no index, no order of precedence but the one that is written down. */
static bool plain_match(const struct plain_rule *rule, const char *host, unsigned port)
{
    size_t rule_len = strlen(rule->host), len = strlen(host);
    if (port < rule->first || port > rule->last)
        return false;
    if (strcmp(rule->host, "*") == 0)
        return true;
    if (strncmp(rule->host, "10.", 3) == 0 && strchr(rule->host, '/') != NULL)
        return strncmp(rule->host, host, 5) == 0;
    if (strncmp(rule->host, "*.", 2) != 0)
        return strcmp(rule->host, host) == 0;
    return len > rule_len - 1 && strcmp(host + len - (rule_len - 1), rule->host + 1) == 0;
}

static int plain_judge(const struct plain_rule *rules, int count, const char *host, unsigned port,
                       enum outcome *outcome)
{
    *outcome = OUTCOME_DENIED_BY_RULE;
    for (int pass = 1; pass >= 0; pass--) {
        for (int i = 0; i < count; i++)
            if (rules[i].deny == (pass == 1) && plain_match(&rules[i], host, port))
                return i;
        *outcome = pass == 1 ? OUTCOME_ALLOWED : OUTCOME_NOT_ALLOWED;
    }
    return -1;
}

static void test_random_policies_agree_with_the_reference(void **state)
{
    (void)state;
    enum { RULES = 24, ROUNDS = 400, QUESTIONS = 50 };
    unsigned outcomes[OUTCOME_COUNT] = {0};
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct plain_rule rules[RULES];
        char lines_text[8192];
        size_t len = 0;
        dice_state = round * 7919 + 1;
        int count = 1 + (int)dice(RULES);
        for (int i = 0; i < count; i++) {
            random_rule(&rules[i]);
            len += (size_t)snprintf(lines_text + len, sizeof(lines_text) - len,
                                    "%s = %s:%u-%u id=r%d\n", rules[i].deny ? "deny" : "allow",
                                    rules[i].host, rules[i].first, rules[i].last, i);
        }
        struct policy *policy = good_policy(lines_text);
        for (int i = 0; i < QUESTIONS; i++) {
            char host[80], asked[96], want[16] = "-";
            enum outcome outcome;
            random_host(host, sizeof(host), false);
            unsigned port = 440 + dice(5);
            int rule = plain_judge(rules, count, host, port, &outcome);
            if (rule >= 0)
                snprintf(want, sizeof(want), "r%d", rule);
            snprintf(asked, sizeof(asked), "%s:%u", host, port);
            assert_string_equal(rule_of(policy, asked), want);
            assert_int_equal(ask(policy, asked).outcome, outcome);
            outcomes[outcome]++;
        }
        policy_free(policy);
    }
    /* The dice do ask questions of every kind. */
    assert_true(outcomes[OUTCOME_ALLOWED] > 500);
    assert_true(outcomes[OUTCOME_DENIED_BY_RULE] > 500);
    assert_true(outcomes[OUTCOME_NOT_ALLOWED] > 500);
}

/* -- the index -- */

static void test_every_rule_of_a_large_policy_is_found(void **state)
{
    (void)state;
    enum { NAMES = 20000 };
    struct config_text *allow = calloc(NAMES, sizeof(*allow));
    char(*names)[32] = calloc(NAMES, sizeof(*names));
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(names[i], sizeof(names[i]), i % 2 ? "*.h%u.test" : "h%u.test", i);
        allow[i] = text(names[i], "gw.ini", i + 1);
    }
    struct config_policy config = {.name = "p", .place = {"gw.ini", 1, 0}, .allow = {allow, NAMES}};
    struct gateway_config all = {.policies = &config, .policy_count = 1};
    struct faults faults = {0};
    struct policy *policy = policy_compile(&config, &all, &faults);
    for (unsigned i = 0; i < NAMES; i++) {
        char asked[64], want[32];
        snprintf(asked, sizeof(asked), i % 2 ? "x.y.h%u.test:443" : "h%u.test:443", i);
        snprintf(want, sizeof(want), "p:%u", i + 1);
        assert_string_equal(rule_of(policy, asked), want);
        snprintf(asked, sizeof(asked), i % 2 ? "h%u.test:443" : "x.h%u.test:443", i);
        assert_string_equal(rule_of(policy, asked), "-");
    }
    policy_free(policy);
    faults_free(&faults);
    free(names);
    free(allow);
}

static void test_the_longest_name_has_all_its_suffixes(void **state)
{
    (void)state;
    char name[NAME_MAX_LEN + 1], rules[1024], asked[NAME_MAX_LEN + 8];
    for (size_t i = 0; i < NAME_MAX_LEN; i++)
        name[i] = i % 2 ? '.' : 'a';
    name[NAME_MAX_LEN] = '\0';
    snprintf(asked, sizeof(asked), "%s:443", name);
    for (size_t at = 2; at < NAME_MAX_LEN; at += 50) {
        snprintf(rules, sizeof(rules), "allow = *.%s", name + at);
        struct policy *policy = good_policy(rules);
        assert_string_equal(rule_of(policy, asked), "p:1");
        policy_free(policy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inherited_rules_come_first_and_once),
        cmocka_unit_test(test_settings_have_reasons_and_places),
        cmocka_unit_test(test_settings_without_lists_allow_nothing),
        cmocka_unit_test(test_random_policies_agree_with_the_reference),
        cmocka_unit_test(test_every_rule_of_a_large_policy_is_found),
        cmocka_unit_test(test_the_longest_name_has_all_its_suffixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
