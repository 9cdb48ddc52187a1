#include "dns/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void assert_reads(const char *authority, const char *canonical)
{
    struct target target, again;
    const char *why = NULL;
    char out[TARGET_TEXT_MAX];
    assert_true(target_parse(&target, str_of(authority), &why));
    assert_string_equal(target_format(out, &target), canonical);
    assert_true(target_parse(&again, str_of(out), NULL));
    assert_true(target_eq(&target, &again));
}

static void test_connect_targets(void **state)
{
    (void)state;
    assert_reads("Good.Test.:443", "good.test:443");
    assert_reads("127.0.0.2:1", "127.0.0.2:1");
    assert_reads("[2001:DB8:0::1]:65535", "[2001:db8::1]:65535");
    assert_reads("[::ffff:203.0.113.7]:80", "203.0.113.7:80");
    assert_reads("localhost:8080", "localhost:8080");
}

/* H31, H41, P02, P03, P04, P08, S01 and relatives: refused, and a phrase says why. */
static void test_malformed_connect_targets(void **state)
{
    (void)state;
    const char *bad[] = {"",
                         ":443",
                         "good.test",
                         "good.test:",
                         "good.test:0",
                         "good.test:65536",
                         "good.test:443abc",
                         "good.test:+443",
                         "good.test:-1",
                         "good.test: 443",
                         "good.test:443 ",
                         " good.test:443",
                         "good.test:0443",
                         "good.test:4 3",
                         "good.test:443/",
                         "good.test:443/path",
                         "good.test/:443",
                         "http://good.test:443",
                         "http://good.test",
                         "//good.test:443",
                         "good.test:443:443",
                         "good.test:99999999999",
                         "user@good.test:443",
                         "user:pw@good.test:443",
                         "good.test\\:443",
                         "good.test#:443",
                         "good.test?:443",
                         "%67ood.test:443",
                         "good.test..:443",
                         ".:443",
                         "..:443",
                         "[evil.test]:443",
                         "[good.test]:443",
                         "[127.0.0.2]:443",
                         "[::1",
                         "[::1]",
                         "[::1]:",
                         "[::1]443",
                         "[::1]:443:1",
                         "[::1%lo]:443",
                         "[fe80::1%25eth0]:443",
                         "[]:443",
                         "[",
                         "]:443",
                         "[::1]]:443",
                         "[[::1]]:443",
                         "::1:443",
                         "::1",
                         "2130706433:80",
                         "0177.0.0.1:80",
                         "0x7f.1:80",
                         "127.1:80",
                         "0:80",
                         "127.0.0.1.:80",
                         "1.2.3.4.5:80",
                         "good.test:\xd9\xa3",
                         "b\u00fccher.test:443",
                         "\u212a.test:443",
                         "good\u3002test:443",
                         "good\uff0etest:443",
                         "-x.test:443",
                         "*.test:443",
                         "good,evil.test:443",
                         "good.test,evil.test:443",
                         "good.test;:443",
                         "\"good.test\":443"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct target target;
        const char *why = NULL;
        assert_false(target_parse(&target, str_of(bad[i]), &why));
        assert_non_null(why);
        assert_true(strlen(why) > 0);
    }
    struct target target;
    assert_false(target_parse(&target, STR("evil.test\0.good.test:443"), NULL));
    assert_false(target_parse(&target, STR("good.test:443\0"), NULL));
    assert_false(target_parse(&target, STR("[::1\0]:443"), NULL));
    assert_false(target_parse(&target, STR_NULL, NULL));
}

static void test_the_port_of_a_url_may_be_missing(void **state)
{
    (void)state;
    struct target target;
    const char *with_default[] = {"good.test", "good.test:", "[::1]", "[::1]:", "127.0.0.2"};
    for (size_t i = 0; i < COUNT(with_default); i++) {
        assert_true(target_parse_default(&target, str_of(with_default[i]), 80, NULL));
        assert_int_equal(target.port, 80);
    }
    assert_true(target_parse_default(&target, STR("good.test:8080"), 80, NULL));
    assert_int_equal(target.port, 8080);

    const char *bad[] = {"",        ":",           ":80",           "[::1]x",
                         "[::1]80", "good.test:0", "a:b@good.test", "::1"};
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(target_parse_default(&target, str_of(bad[i]), 80, NULL));
}

static void test_hosts_of_socks(void **state)
{
    (void)state;
    struct target target;
    char host[NAME_MAX_LEN + 1];
    static const struct {
        const char *text, *host;
        bool is_addr;
    } good[] = {
        {"GOOD.test.", "good.test", false},
        {"127.0.0.2", "127.0.0.2", true},
        {"::1", "::1", true},
        {"[2001:db8::0]", "2001:db8::", true},
        {"::ffff:1.2.3.4", "1.2.3.4", true},
    };
    for (size_t i = 0; i < COUNT(good); i++) {
        assert_true(target_parse_host(&target, str_of(good[i].text), 443, NULL));
        assert_string_equal(target_host(host, &target), good[i].host);
        assert_int_equal(target.is_addr, good[i].is_addr);
        assert_int_equal(target.port, 443);
    }
    const char *bad[] = {
        "",         "[",           "[]",        "[::1",      "::1]",  "good.test:443",
        "[a.b]",    "[1.2.3.4]",   "1.2.3.4:5", "[::1]:443", "127.1", "2130706433",
        "a b.test", "good.test..", "::1%lo"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        const char *why = NULL;
        assert_false(target_parse_host(&target, str_of(bad[i]), 443, &why));
        assert_non_null(why);
    }
    assert_false(target_parse_host(&target, STR("good.test"), 0, NULL));
    assert_false(target_parse_host(&target, STR("evil.test\0.good.test"), 443, NULL));
}

static void test_the_longest_target_fits(void **state)
{
    (void)state;
    char text[NAME_MAX_LEN + 7];
    memset(text, 'a', sizeof(text));
    for (size_t dot = 63; dot < NAME_MAX_LEN; dot += 64)
        text[dot] = '.';
    memcpy(text + NAME_MAX_LEN, ":65535", 7);
    assert_reads(text, text);
}

static void test_eq_looks_at_everything(void **state)
{
    (void)state;
    const char *distinct[] = {"a.test:1",  "a.test:2",  "b.test:1",
                              "1.2.3.4:1", "1.2.3.5:1", "[::1]:1"};
    struct target a, b;
    for (size_t i = 0; i < COUNT(distinct); i++)
        for (size_t j = 0; j < COUNT(distinct); j++) {
            assert_true(target_parse(&a, str_of(distinct[i]), NULL));
            assert_true(target_parse(&b, str_of(distinct[j]), NULL));
            assert_int_equal(target_eq(&a, &b), i == j);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connect_targets),
        cmocka_unit_test(test_malformed_connect_targets),
        cmocka_unit_test(test_the_port_of_a_url_may_be_missing),
        cmocka_unit_test(test_hosts_of_socks),
        cmocka_unit_test(test_the_longest_target_fits),
        cmocka_unit_test(test_eq_looks_at_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
