#include "config/gateway_config.h"

#include "said.h"

static struct gateway_config *read_text(const char *text, struct faults *faults)
{
    return gateway_config_read_text("g.ini", str_of(text), faults);
}

static void a_small_gateway_is_read(void **state)
{
    (void)state;
    struct faults faults = {0};
    struct gateway_config *config = read_text("[gateway]\n"
                                              "workers = 2 ; comment\n"
                                              "audit-log = none\n"
                                              "[listen main]\n"
                                              "address = 127.0.0.1:0\n"
                                              "policy = build\n"
                                              "[policy build]\n"
                                              "allow = a.test:443\n"
                                              "    *.b.test:8080-8090 method=GET\n"
                                              "deny = c.test reason=\"no; never\"\n",
                                              &faults);
    assert_string_equal(said(&faults), "");
    assert_non_null(config);
    assert_int_equal(config->workers, 2);
    assert_string_equal(config->audit_log, "none");
    assert_int_equal(config->listens[0].address.addr.family, 4);
    assert_string_equal(config->listens[0].policy, "build");
    assert_int_equal(config->policies[0].allow.count, 2);
    assert_true(
        str_eq(config->policies[0].allow.items[1].text, STR("*.b.test:8080-8090 method=GET")));
    assert_int_equal(config->policies[0].allow.items[1].place.line, 9);
    assert_true(str_eq(config->policies[0].deny.items[0].text, STR("c.test reason=\"no; never\"")));
    gateway_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_gateway_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
