#include "filters/words.h"
#include "lines.h"

/* One sandbox under a policy and, perhaps, the narrowing of its settings. */
struct scene {
    struct policy *policy, *narrowing;
    struct chain chain;
    struct target target;
    struct question question;
    struct decision decision;
    struct approved approved;
};

static void open_scene(struct scene *scene, const char *policy, const char *narrowing)
{
    *scene = (struct scene){
        .policy = policy != NULL ? good_policy(policy) : NULL,
        .narrowing = narrowing != NULL ? good_policy(narrowing) : NULL,
    };
    scene->chain = (struct chain){scene->policy, scene->narrowing};
}

static void close_scene(struct scene *scene)
{
    policy_free(scene->policy);
    policy_free(scene->narrowing);
}

static enum outcome judge(struct scene *scene, const char *asked)
{
    assert_true(target_parse(&scene->target, str_of(asked), NULL));
    scene->question = (struct question){.target = &scene->target};
    return chain_judge(&scene->chain, &scene->question, &scene->decision);
}

static enum outcome approve(struct scene *scene, const char *addrs)
{
    static const struct guard_host host;
    struct addr list[8];
    size_t count = 0;
    autofree char *copy = strdup(addrs);
    for (char *rest = copy, *word; (word = strsep(&rest, ",")) != NULL;)
        if (*word != '\0')
            assert_true(addr_parse(&list[count++], str_of(word)));
    return chain_approve(&scene->chain, &host, &scene->target, list, count, &scene->decision,
                         &scene->approved);
}

static enum outcome judge_sni(struct scene *scene, const char *sni)
{
    struct name name;
    if (sni != NULL)
        assert_int_equal(name_parse(&name, str_of(sni)), NAME_OK);
    return chain_judge_sni(&scene->chain, &scene->question, &scene->decision,
                           sni != NULL ? &name : NULL);
}

static void assert_words(struct scene *scene, enum outcome outcome, const char *message,
                         const char *next_step)
{
    char text[512];
    decision_message(&scene->decision, &scene->target, outcome, text, sizeof(text));
    assert_string_equal(text, message);
    decision_next_step(&scene->decision, &scene->target, outcome, text, sizeof(text));
    assert_string_equal(text, next_step);
}

static void test_both_must_allow(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, "allow = *.test\ndeny = evil.test",
               "allowedDomains = a.test\nallowedDomains = evil.test\nallowedDomains = c.example");
    assert_int_equal(judge(&scene, "a.test:443"), OUTCOME_ALLOWED);
    assert_ptr_equal(scene.decision.ruling.policy, scene.policy);
    assert_ptr_equal(scene.decision.narrowed.policy, scene.narrowing);
    assert_int_equal(judge(&scene, "b.test:443"), OUTCOME_NOT_ALLOWED);
    assert_ptr_equal(scene.decision.ruling.policy, scene.narrowing);
    assert_words(&scene, OUTCOME_NOT_ALLOWED,
                 "b.test:443 is not on the allow list of policy settings",
                 "Ask for `b.test` in network.allowedDomains or use an allowed host");
    assert_int_equal(judge(&scene, "evil.test:443"), OUTCOME_DENIED_BY_RULE);
    assert_int_equal(judge(&scene, "c.example:443"), OUTCOME_NOT_ALLOWED);
    assert_ptr_equal(scene.decision.ruling.policy, scene.policy);
    close_scene(&scene);
}

/* A host alone is all of its ports in settings: where that is more than was meant, a port is named.
 */
static void test_no_more_is_asked_for_than_is_needed(void **state)
{
    (void)state;
    static const struct {
        const char *target, *step;
    } rows[] = {{"b.test:8443", "Ask for `b.test` in"},
                {"a.test:443", "Ask for `a.test:443` in"},
                {"localhost:5432", "Ask for `localhost:5432` in"},
                {"127.0.0.1:80", "Ask for `127.0.0.1:80` in"},
                {"[::1]:443", "Ask for `[::1]:443` in"}};
    struct scene scene;
    char text[512];
    open_scene(&scene, NULL, "allowedDomains = a.test:8443\nallowedDomains = localhost:3000");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(judge(&scene, rows[i].target), OUTCOME_NOT_ALLOWED);
        decision_next_step(&scene.decision, &scene.target, OUTCOME_NOT_ALLOWED, text, sizeof(text));
        if (strncmp(text, rows[i].step, strlen(rows[i].step)) != 0)
            fail_msg("%s: %s", rows[i].target, text);
    }
    assert_int_equal(judge(&scene, "a.test:8443"), OUTCOME_ALLOWED);
    assert_int_equal(approve(&scene, "127.0.0.1"), OUTCOME_ADDRESS_DENIED);
    assert_words(&scene, OUTCOME_ADDRESS_DENIED,
                 "a.test:8443 resolves to 127.0.0.1, which is a loopback address",
                 "If this address is meant, list `127.0.0.1:8443` in network.allowedDomains");
    close_scene(&scene);
}

static void test_one_alone_decides(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, NULL, "allowedDomains = a.test");
    assert_int_equal(judge(&scene, "a.test:443"), OUTCOME_ALLOWED);
    assert_int_equal(approve(&scene, "10.0.0.1"), OUTCOME_ALLOWED);
    assert_int_equal(judge(&scene, "b.test:443"), OUTCOME_NOT_ALLOWED);
    close_scene(&scene);
}

static void test_a_narrowing_denies_addresses_but_excepts_none(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, "allow = a.test\nallow-addresses = 127.0.0.2, 127.0.0.3",
               "allowedDomains = a.test\nallowedDomains = 127.0.0.4\ndeniedDomains = 127.0.0.3");
    assert_int_equal(judge(&scene, "a.test:443"), OUTCOME_ALLOWED);
    assert_int_equal(approve(&scene, "127.0.0.2"), OUTCOME_ALLOWED);
    assert_int_equal(judge(&scene, "a.test:443"), OUTCOME_ALLOWED);
    assert_int_equal(approve(&scene, "127.0.0.3"), OUTCOME_ADDRESS_DENIED);
    assert_ptr_equal(scene.decision.ruling.policy, scene.narrowing);
    assert_words(&scene, OUTCOME_ADDRESS_DENIED,
                 "a.test:443 resolves to 127.0.0.3, which is denied by rule "
                 "settings:deniedDomains[0] of policy settings",
                 "Use another host; the address is denied by `127.0.0.3` "
                 "(settings:deniedDomains[0])");
    assert_int_equal(judge(&scene, "a.test:443"), OUTCOME_ALLOWED);
    assert_int_equal(approve(&scene, "127.0.0.4"), OUTCOME_ADDRESS_DENIED);
    assert_ptr_equal(scene.decision.ruling.policy, scene.policy);
    close_scene(&scene);
}

static void test_only_what_passes_is_approved_in_order(void **state)
{
    (void)state;
    struct scene scene;
    char text[ADDR_TEXT_MAX], dropped[200];
    open_scene(&scene, "allow = a.test:8443", NULL);
    assert_int_equal(judge(&scene, "a.test:8443"), OUTCOME_ALLOWED);
    assert_int_equal(approve(&scene, "127.0.0.1,8.8.8.8,::1,2600::1,10.0.0.1"), OUTCOME_ALLOWED);
    assert_int_equal(scene.approved.count, 2);
    assert_int_equal(scene.approved.port, 8443);
    assert_string_equal(addr_format(text, &scene.approved.addrs[0]), "8.8.8.8");
    assert_string_equal(addr_format(text, &scene.approved.addrs[1]), "2600::1");
    decision_dropped(&scene.decision, dropped, sizeof(dropped));
    assert_string_equal(dropped, "not dialled: 127.0.0.1, a loopback address, and 2 more");

    assert_int_equal(judge(&scene, "a.test:8443"), OUTCOME_ALLOWED);
    assert_int_equal(approve(&scene, "8.8.8.8,10.0.0.1"), OUTCOME_ALLOWED);
    decision_dropped(&scene.decision, dropped, sizeof(dropped));
    assert_string_equal(dropped, "not dialled: 10.0.0.1, a private address");
    assert_int_equal(approve(&scene, "8.8.8.8"), OUTCOME_ALLOWED);
    decision_dropped(&scene.decision, dropped, sizeof(dropped));
    assert_string_equal(dropped, "");

    assert_int_equal(judge(&scene, "a.test:8443"), OUTCOME_ALLOWED);
    assert_int_equal(approve(&scene, "169.254.169.254,10.0.0.1"), OUTCOME_ADDRESS_DENIED);
    assert_int_equal(scene.approved.count, 0);
    assert_int_equal(scene.decision.addr_class, ADDR_METADATA);
    assert_words(
        &scene, OUTCOME_ADDRESS_DENIED,
        "a.test:8443 resolves to 169.254.169.254, which is a cloud metadata address",
        "If this address is meant, ask for `allow-addresses = 169.254.169.254` in policy p");

    assert_int_equal(judge(&scene, "a.test:8443"), OUTCOME_ALLOWED);
    assert_int_equal(approve(&scene, ""), OUTCOME_ADDRESS_DENIED);
    assert_int_equal(scene.approved.count, 0);
    close_scene(&scene);
}

static void test_refusals_say_which_rule_and_what_next(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene,
               "allow = *.test\ndeny = evil.test reason=\"no telemetry\"\ndeny = b.test\n"
               "allow = in.example to=192.0.2.0/24\nallow = 127.0.0.0/8",
               NULL);
    assert_int_equal(judge(&scene, "evil.test:443"), OUTCOME_DENIED_BY_RULE);
    assert_words(&scene, OUTCOME_DENIED_BY_RULE,
                 "evil.test:443 is denied by rule p:2 of policy p: no telemetry",
                 "Use another host; `deny = evil.test reason=\"no telemetry\"` (p:2) beats every "
                 "allow rule");
    assert_int_equal(judge(&scene, "evil.example:443"), OUTCOME_NOT_ALLOWED);
    assert_words(&scene, OUTCOME_NOT_ALLOWED,
                 "evil.example:443 is not on the allow list of policy p",
                 "Ask for a rule `allow = evil.example` or use an allowed host");
    assert_int_equal(judge(&scene, "a.test:22"), OUTCOME_NOT_ALLOWED);
    assert_words(
        &scene, OUTCOME_NOT_ALLOWED,
        "a.test:22 is not on the allow list of policy p: rule p:1 allows this host on other "
        "ports only",
        "Ask for a rule `allow = a.test:22` or use an allowed host");
    assert_int_equal(judge(&scene, "[2600::1]:22"), OUTCOME_NOT_ALLOWED);
    assert_words(&scene, OUTCOME_NOT_ALLOWED, "[2600::1]:22 is not on the allow list of policy p",
                 "Ask for a rule `allow = [2600::1]:22` or use an allowed host");
    assert_int_equal(judge(&scene, "in.example:443"), OUTCOME_ALLOWED);
    assert_int_equal(approve(&scene, "8.8.8.8"), OUTCOME_ADDRESS_DENIED);
    assert_words(
        &scene, OUTCOME_ADDRESS_DENIED,
        "in.example:443 resolves to 8.8.8.8, which is outside the addresses that the rule's "
        "to= allows",
        "Ask for 8.8.8.8 to be added to the to= of the rule `in.example to=192.0.2.0/24`");
    assert_int_equal(judge(&scene, "127.0.0.1:80"), OUTCOME_ALLOWED);
    assert_int_equal(approve(&scene, "127.0.0.1"), OUTCOME_ADDRESS_DENIED);
    assert_words(&scene, OUTCOME_ADDRESS_DENIED, "127.0.0.1:80 is a loopback address",
                 "If this address is meant, ask for `allow-addresses = 127.0.0.1` in policy p");
    close_scene(&scene);
}

static void assert_near_miss(const char *rules, enum front front, const char *path,
                             const char *want)
{
    struct scene scene;
    char text[512], whole[512];
    open_scene(&scene, rules, NULL);
    assert_true(target_parse(&scene.target, STR("a.test:80"), NULL));
    struct question question = {
        .target = &scene.target, .front = front, .path = str_of(path), .now = 1000};
    assert_int_equal(chain_judge(&scene.chain, &question, &scene.decision), OUTCOME_NOT_ALLOWED);
    decision_message(&scene.decision, &scene.target, OUTCOME_NOT_ALLOWED, text, sizeof(text));
    snprintf(whole, sizeof(whole), "a.test:80 is not on the allow list of policy p%s", want);
    assert_string_equal(text, whole);
    close_scene(&scene);
}

static void test_what_the_nearest_rule_lacks(void **state)
{
    (void)state;
    assert_near_miss("allow = b.test", FRONT_CONNECT, NULL, "");
    assert_near_miss("allow = a.test:9", FRONT_CONNECT, NULL,
                     ": rule p:1 allows this host on other ports only");
    assert_near_miss("allow = a.test:9\nallow = *.test:8", FRONT_CONNECT, NULL,
                     ": rule p:1 allows this host on other ports only");
    assert_near_miss("allow = a.test until=1970-01-01T00:16:40Z", FRONT_CONNECT, NULL,
                     ": rule p:1 allowed this host until its time was over");
    assert_near_miss("allow = a.test front=socks5", FRONT_CONNECT, NULL,
                     ": rule p:1 allows this host by another way of asking only (see its front=)");
    assert_near_miss("allow = a.test method=GET", FRONT_CONNECT, NULL,
                     ": rule p:1 allows this host for requests in clear only, and a tunnel hides "
                     "method and path");
    assert_near_miss("allow = a.test path=/x", FRONT_HTTP, "/y",
                     ": rule p:1 allows this host on other paths only");
    assert_near_miss("allow = a.test\ndeny = a.test path=/x", FRONT_HTTP, "/y/../x",
                     ": rule p:2 may deny this path, which can be read in two ways");
}

static void test_a_method_that_is_left_out(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, "allow = a.test method=GET,HEAD", NULL);
    assert_true(target_parse(&scene.target, STR("a.test:80"), NULL));
    struct question post = {
        .target = &scene.target, .front = FRONT_HTTP, .method = STR("POST"), .path = STR("/")};
    assert_int_equal(chain_judge(&scene.chain, &post, &scene.decision), OUTCOME_METHOD_NOT_ALLOWED);
    assert_words(&scene, OUTCOME_METHOD_NOT_ALLOWED,
                 "a.test:80 is allowed by rule p:1 of policy p for GET, HEAD only",
                 "Use GET, HEAD, or ask for the method to be added to rule p:1");
    close_scene(&scene);
}

/* Endings that come before any policy, and every outcome: there are always words, on one line. */
static void test_every_ending_has_words(void **state)
{
    (void)state;
    struct decision none = {0};
    struct target target;
    char text[512];
    assert_true(target_parse(&target, STR("a.test:443"), NULL));
    for (unsigned i = 0; i < OUTCOME_COUNT; i++) {
        decision_message(&none, NULL, (enum outcome)i, text, sizeof(text));
        assert_true(strlen(text) > 10 && strchr(text, '\n') == NULL);
        decision_message(&none, &target, (enum outcome)i, text, sizeof(text));
        assert_non_null(strstr(text, "a.test:443"));
        decision_next_step(&none, &target, (enum outcome)i, text, sizeof(text));
        assert_true(strlen(text) >= 5);
    }
}

static void test_report_mode_remembers_what_it_did_not_apply(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, "mode = report\nallow = a.test", "allowedDomains = b.test");
    assert_int_equal(judge(&scene, "b.test:443"), OUTCOME_ALLOWED);
    assert_true(scene.decision.report);
    assert_int_equal(scene.decision.would, OUTCOME_NOT_ALLOWED);
    /* The narrowing still holds. */
    assert_int_equal(judge(&scene, "c.test:443"), OUTCOME_NOT_ALLOWED);
    assert_false(scene.decision.report);
    /* And so does the guard. */
    assert_int_equal(judge(&scene, "b.test:443"), OUTCOME_ALLOWED);
    assert_int_equal(approve(&scene, "127.0.0.1"), OUTCOME_ADDRESS_DENIED);
    assert_false(scene.decision.report);
    close_scene(&scene);
}

static void test_server_names_are_judged_by_both(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, "allow = a.test\nallow = b.test\nallow = c.test sni=off",
               "allowedDomains = a.test\nallowedDomains = c.test");
    assert_int_equal(judge(&scene, "a.test:443"), OUTCOME_ALLOWED);
    assert_int_equal(judge_sni(&scene, "a.test"), OUTCOME_ALLOWED);
    assert_int_equal(judge_sni(&scene, "c.test"), OUTCOME_ALLOWED);
    assert_int_equal(judge_sni(&scene, "b.test"), OUTCOME_SNI_MISMATCH);
    assert_int_equal(judge_sni(&scene, NULL), OUTCOME_SNI_MISMATCH);
    assert_int_equal(judge(&scene, "c.test:443"), OUTCOME_ALLOWED);
    assert_int_equal(judge_sni(&scene, "b.test"), OUTCOME_SNI_MISMATCH); /* by the settings */
    close_scene(&scene);
}

static void test_strict_server_names_are_a_rules_own_wish(void **state)
{
    (void)state;
    struct scene scene;
    bool strict;
    open_scene(&scene, "allow = a.test\nallow = b.test sni=match\nallow = c.test sni=off", NULL);
    assert_int_equal(judge(&scene, "a.test:443"), OUTCOME_ALLOWED);
    assert_true(policy_sni_matters(&scene.decision.ruling, &strict));
    assert_false(strict);
    assert_int_equal(judge(&scene, "b.test:443"), OUTCOME_ALLOWED);
    assert_true(policy_sni_matters(&scene.decision.ruling, &strict));
    assert_true(strict);
    assert_int_equal(judge(&scene, "c.test:443"), OUTCOME_ALLOWED);
    assert_false(policy_sni_matters(&scene.decision.ruling, &strict));
    assert_false(strict);
    close_scene(&scene);
}

static void test_a_question_is_put_only_where_nobody_denies(void **state)
{
    (void)state;
    static const struct {
        const char *policy, *settings;
        enum outcome outcome;
        unsigned asks;
    } rows[] = {
        {"default = ask", NULL, OUTCOME_ASK_REFUSED, CHAIN_ASKS_POLICY},
        {"allow = a.test mode=ask", NULL, OUTCOME_ASK_REFUSED, CHAIN_ASKS_POLICY},
        {"default = ask\ndeny = a.test", NULL, OUTCOME_DENIED_BY_RULE, 0},
        {"default = ask\nallow = a.test", NULL, OUTCOME_ALLOWED, 0},
        {"default = ask\nmode = report", NULL, OUTCOME_ALLOWED, 0},
        {NULL, "asks = yes", OUTCOME_ASK_REFUSED, CHAIN_ASKS_SETTINGS},
        {NULL, "asks = yes\nstrictAllowlist = yes", OUTCOME_NOT_ALLOWED, 0},
        {NULL, "asks = yes\nallowedDomains = a.test", OUTCOME_ALLOWED, 0},
        {NULL, "asks = yes\ndeniedDomains = a.test", OUTCOME_DENIED_BY_RULE, 0},
        {"default = ask", "asks = yes", OUTCOME_ASK_REFUSED,
         CHAIN_ASKS_POLICY | CHAIN_ASKS_SETTINGS},
        {"default = ask", "allowedDomains = a.test", OUTCOME_ASK_REFUSED, CHAIN_ASKS_POLICY},
        {"default = ask", "deniedDomains = a.test", OUTCOME_DENIED_BY_RULE, 0},
        {"default = ask", "allowedDomains = b.test", OUTCOME_NOT_ALLOWED, 0},
        {"default = allow", "asks = yes", OUTCOME_ASK_REFUSED, CHAIN_ASKS_SETTINGS},
        {"default = deny", "asks = yes", OUTCOME_NOT_ALLOWED, 0},
        {"deny = a.test\ndefault = allow", "asks = yes", OUTCOME_DENIED_BY_RULE, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct scene scene;
        open_scene(&scene, rows[i].policy, rows[i].settings);
        assert_int_equal(judge(&scene, "a.test:443"), rows[i].outcome);
        assert_int_equal(scene.decision.asks, rows[i].asks);
        close_scene(&scene);
    }
}

static void test_consent_allows_names_and_no_addresses(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, "default = ask\ndeny-addresses = 9.9.9.9",
               "asks = yes\ndeniedDomains = 8.8.8.8");
    assert_int_equal(judge(&scene, "a.test:443"), OUTCOME_ASK_REFUSED);
    chain_consent(&scene.decision);
    assert_int_equal(scene.decision.asks, 0);
    assert_int_equal(approve(&scene, "1.1.1.1"), OUTCOME_ALLOWED);
    static const char *const denied[] = {"127.0.0.1", "10.0.0.1", "169.254.169.254", "9.9.9.9",
                                         "8.8.8.8"};
    for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++) {
        assert_int_equal(judge(&scene, "a.test:443"), OUTCOME_ASK_REFUSED);
        chain_consent(&scene.decision);
        assert_int_equal(approve(&scene, denied[i]), OUTCOME_ADDRESS_DENIED);
    }
    /* A literal that somebody says yes to is not a rule that names it. */
    assert_int_equal(judge(&scene, "127.0.0.1:80"), OUTCOME_ASK_REFUSED);
    chain_consent(&scene.decision);
    assert_int_equal(approve(&scene, "127.0.0.1"), OUTCOME_ADDRESS_DENIED);
    close_scene(&scene);
}

static void test_a_refusal_speaks_for_who_asked(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, "default = ask", "asks = yes");
    assert_int_equal(judge(&scene, "a.test:443"), OUTCOME_ASK_REFUSED);
    chain_refuse(&scene.decision, OUTCOME_ASK_REFUSED);
    assert_words(&scene, OUTCOME_ASK_REFUSED,
                 "a.test:443 needs an approval under policy p, and nobody gave it",
                 "Ask the operator for a rule, or use an allowed host");
    close_scene(&scene);
    open_scene(&scene, "default = allow", "asks = yes");
    assert_int_equal(judge(&scene, "a.test:443"), OUTCOME_ASK_REFUSED);
    chain_refuse(&scene.decision, OUTCOME_ASK_TIMEOUT);
    assert_int_equal(scene.decision.ruling.outcome, OUTCOME_ASK_TIMEOUT);
    assert_ptr_equal(scene.decision.ruling.policy, scene.narrowing);
    scene.decision.ask_why = "its client left";
    assert_words(&scene, OUTCOME_ASK_TIMEOUT,
                 "a.test:443 needs an approval under policy settings, and its client left",
                 "Ask for `a.test` in network.allowedDomains or use an allowed host");
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_must_allow),
        cmocka_unit_test(test_no_more_is_asked_for_than_is_needed),
        cmocka_unit_test(test_one_alone_decides),
        cmocka_unit_test(test_a_narrowing_denies_addresses_but_excepts_none),
        cmocka_unit_test(test_only_what_passes_is_approved_in_order),
        cmocka_unit_test(test_refusals_say_which_rule_and_what_next),
        cmocka_unit_test(test_what_the_nearest_rule_lacks),
        cmocka_unit_test(test_a_method_that_is_left_out),
        cmocka_unit_test(test_every_ending_has_words),
        cmocka_unit_test(test_report_mode_remembers_what_it_did_not_apply),
        cmocka_unit_test(test_server_names_are_judged_by_both),
        cmocka_unit_test(test_a_question_is_put_only_where_nobody_denies),
        cmocka_unit_test(test_consent_allows_names_and_no_addresses),
        cmocka_unit_test(test_a_refusal_speaks_for_who_asked),
        cmocka_unit_test(test_strict_server_names_are_a_rules_own_wish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
