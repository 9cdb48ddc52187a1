#include "session/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the above first */
#include <cmocka.h>

/* sha256("secret") */
#define SECRET "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"

static const char TEXT[] =
    "[listen plain]\naddress = 127.0.0.1:3128\npolicy = fixed\n"
    "[listen guarded]\naddress = 127.0.0.1:3129\npolicy = fixed\nauth = token\n"
    "[listen shared]\naddress = 127.0.0.1:3130\n"
    "[client by-source]\nsource = 10.1.0.0/16\npolicy = other\n"
    "[client by-token]\ntoken-sha256 = " SECRET "\npolicy = other\n"
    "[client by-uid]\nuid = 1001\npolicy = fixed\n"
    "[client both]\nuid = 1002\ntoken-sha256 = " SECRET "\npolicy = other\n"
    "[policy fixed]\n[policy other]\n";

enum { PLAIN, GUARDED, SHARED };

static struct snapshot *snapshot;
static struct peer peer;
static struct credentials *credentials;
static struct identity who;

static int load(void **state)
{
    (void)state;
    struct faults faults = {0};
    snapshot = snapshot_load_text("test.ini", STR(TEXT), &faults);
    if (snapshot == NULL)
        faults_print(&faults, stderr);
    faults_free(&faults);
    return snapshot != NULL ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    snapshot_release(snapshot);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    peer = (struct peer){0};
    credentials_clear(&credentials);
    return 0;
}

static void come_from(const char *text)
{
    assert_true(addr_parse(&peer.addr, str_of(text)));
}

static void come_as(uint32_t uid)
{
    peer.has_uid = true;
    peer.uid = uid;
}

static enum outcome ask(size_t listen)
{
    return identity_find(snapshot, &snapshot->config->listens[listen], NULL, &peer, credentials,
                         &who);
}

static void assert_is(size_t listen, const char *client, const char *policy)
{
    assert_int_equal(ask(listen), OUTCOME_ALLOWED);
    if (client == NULL)
        assert_null(who.client_name);
    else
        assert_string_equal(who.client_name, client);
    assert_string_equal(policy_name(who.policy), policy);
}

static void a_listeners_policy_is_final(void **state)
{
    (void)state;
    come_from("10.1.2.3");
    credentials_set(&credentials, STR("secret"));
    assert_is(PLAIN, NULL, "fixed");
    credentials_set(&credentials, STR("wrong"));
    assert_is(PLAIN, NULL, "fixed");
}

static void a_guarded_listener_wants_a_token_and_keeps_its_policy(void **state)
{
    (void)state;
    come_from("10.1.2.3");
    assert_int_equal(ask(GUARDED), OUTCOME_AUTH_REQUIRED);
    credentials_set(&credentials, STR("wrong"));
    assert_int_equal(ask(GUARDED), OUTCOME_AUTH_FAILED);
    credentials_set(&credentials, STR("secret"));
    assert_is(GUARDED, "by-token", "fixed");
}

static void uid_before_token_before_source(void **state)
{
    (void)state;
    come_from("10.1.2.3");
    assert_is(SHARED, "by-source", "other");
    credentials_set(&credentials, STR("secret"));
    assert_is(SHARED, "by-token", "other");
    peer.addr = (struct addr){0};
    come_as(1001);
    assert_is(SHARED, "by-uid", "fixed");
}

static void everything_that_a_client_asks_for_has_to_be_true(void **state)
{
    (void)state;
    come_as(1002);
    assert_int_equal(ask(SHARED), OUTCOME_AUTH_REQUIRED);
    credentials_set(&credentials, STR("secret"));
    assert_is(SHARED, "both", "other");
}

static void nobody_matches(void **state)
{
    (void)state;
    come_from("10.2.0.1");
    assert_int_equal(ask(SHARED), OUTCOME_AUTH_REQUIRED);
    credentials_set(&credentials, STR("wrong"));
    assert_int_equal(ask(SHARED), OUTCOME_AUTH_FAILED);
    come_as(1003);
    assert_int_equal(ask(SHARED), OUTCOME_AUTH_FAILED);
}

static void a_sandbox_is_what_it_was_attached_as(void **state)
{
    (void)state;
    const struct attached attached = {.client = "by-uid", .policy = "other", .uid = 1001};
    const struct attached gone = {.policy = "no such", .uid = 1001};
    const struct attached private = {.uid = 0};
    credentials_set(&credentials, STR("secret"));
    assert_int_equal(identity_find(snapshot, NULL, &attached, &peer, credentials, &who),
                     OUTCOME_ALLOWED);
    assert_string_equal(who.client_name, "by-uid");
    assert_string_equal(policy_name(who.policy), "other");
    identity_find(snapshot, NULL, &gone, &peer, credentials, &who);
    assert_null(who.policy);
    assert_false(who.narrowed_only);
    identity_find(snapshot, NULL, &private, &peer, credentials, &who);
    assert_null(who.policy);
    assert_true(who.narrowed_only);
}

static void socks_asks_for_a_login_only_where_it_could_matter(void **state)
{
    (void)state;
    const struct config_listen *listens = snapshot->config->listens;
    assert_false(identity_uses_tokens(snapshot, &listens[PLAIN]));
    assert_true(identity_uses_tokens(snapshot, &listens[GUARDED]));
    assert_true(identity_uses_tokens(snapshot, &listens[SHARED]));
    assert_false(identity_uses_tokens(snapshot, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_listeners_policy_is_final, begin),
        cmocka_unit_test_setup(a_guarded_listener_wants_a_token_and_keeps_its_policy, begin),
        cmocka_unit_test_setup(uid_before_token_before_source, begin),
        cmocka_unit_test_setup(everything_that_a_client_asks_for_has_to_be_true, begin),
        cmocka_unit_test_setup(nobody_matches, begin),
        cmocka_unit_test_setup(a_sandbox_is_what_it_was_attached_as, begin),
        cmocka_unit_test_setup(socks_asks_for_a_login_only_where_it_could_matter, begin),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
