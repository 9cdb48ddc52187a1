#include "dns/addr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct addr addr_of(const char *text)
{
    struct addr addr;
    assert_true(addr_parse(&addr, str_of(text)));
    return addr;
}

static void assert_reads(const char *text, const char *canonical)
{
    char out[ADDR_TEXT_MAX];
    struct addr addr = addr_of(text);
    assert_string_equal(addr_format(out, &addr), canonical);
}

static void test_addresses_have_one_text(void **state)
{
    (void)state;
    assert_reads("0.0.0.0", "0.0.0.0");
    assert_reads("255.255.255.255", "255.255.255.255");
    assert_reads("::", "::");
    assert_reads("2001:DB8:0:0:0:0:0:1", "2001:db8::1");
    assert_reads("2001:db8::0:1", "2001:db8::1");
    assert_reads("64:ff9b::192.0.2.1", "64:ff9b::c000:201");
    assert_reads("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255",
                 "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
}

static void test_every_byte_of_an_ipv4_address_is_written(void **state)
{
    (void)state;
    char wanted[ADDR_TEXT_MAX];
    for (unsigned value = 0; value < 256; value++) {
        snprintf(wanted, sizeof(wanted), "%u.%u.0.%u", value, 255 - value, value);
        assert_reads(wanted, wanted);
    }
}

static void test_mapped_is_ipv4(void **state)
{
    (void)state;
    assert_reads("::ffff:203.0.113.7", "203.0.113.7");
    assert_reads("::FFFF:cb00:7107", "203.0.113.7");
    assert_reads("0:0:0:0:0:ffff:1.2.3.4", "1.2.3.4");
    assert_int_equal(addr_of("::ffff:0:0").family, 4);
    assert_int_equal(addr_of("::fffe:0:0").family, 6);
}

static void test_other_spellings_are_refused(void **state)
{
    (void)state;
    const char *bad[] = {"",
                         "127.1",
                         "0x7f.0.0.1",
                         "0177.0.0.1",
                         "127.0.0.01",
                         "2130706433",
                         "256.0.0.1",
                         "1.2.3.4.",
                         "1.2.3.4.5",
                         "1.2.3",
                         " 1.2.3.4",
                         "1.2.3.4 ",
                         "+1.2.3.4",
                         "1.2.3.-4",
                         "[::1]",
                         "::1%lo",
                         "fe80::1%1",
                         ":::",
                         "1::2::3",
                         "12345::",
                         "::1.2.3",
                         "::1.2.3.04",
                         "1:2:3:4:5:6:7",
                         "1:2:3:4:5:6:7:8:9",
                         ":1",
                         "1:",
                         "1.2.3.4/32",
                         "::1/128",
                         "1:2:3:4:5:6:7:1.2.3.4",
                         "::g",
                         "1.2.3.4::",
                         "localhost",
                         "::ffff:127.1"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct addr addr;
        assert_false(addr_parse(&addr, str_of(bad[i])));
    }
    struct addr addr;
    assert_false(addr_parse(&addr, STR("1.2.3.4\0")));
    assert_false(addr_parse(&addr, STR("::1\0x")));
    assert_false(addr_parse(&addr, STR_NULL));
}

static void test_eq(void **state)
{
    (void)state;
    struct addr a = addr_of("127.0.0.1"), b = addr_of("::ffff:7f00:1"), c = addr_of("::127.0.0.1");
    assert_true(addr_eq(&a, &b));
    assert_false(addr_eq(&a, &c));
}

static bool cidr_has(const char *range, const char *addr)
{
    struct cidr cidr;
    assert_true(cidr_parse(&cidr, str_of(range)));
    struct addr a = addr_of(addr);
    return cidr_contains(&cidr, &a);
}

static void assert_loopback(const char *text, bool is)
{
    const struct addr addr = addr_of(text);
    assert_int_equal(addr_is_loopback(&addr), is);
}

static void test_loopback_in_every_spelling(void **state)
{
    (void)state;
    static const char *const loopback[] = {"127.0.0.1", "127.255.255.255", "::1", "0:0:0:0:0:0:0:1",
                                           "::ffff:127.0.0.1"};
    static const char *const others[] = {
        "126.255.255.255", "128.0.0.0", "0.0.0.0", "::", "::2", "1::1", "::127.0.0.1"};
    for (size_t i = 0; i < COUNT(loopback); i++)
        assert_loopback(loopback[i], true);
    for (size_t i = 0; i < COUNT(others); i++)
        assert_loopback(others[i], false);
}

static void test_ranges_end_where_they_end(void **state)
{
    (void)state;
    assert_true(cidr_has("10.0.0.0/8", "10.0.0.0"));
    assert_true(cidr_has("10.0.0.0/8", "10.255.255.255"));
    assert_false(cidr_has("10.0.0.0/8", "11.0.0.0"));
    assert_false(cidr_has("10.0.0.0/8", "9.255.255.255"));
    assert_true(cidr_has("172.16.0.0/12", "172.31.255.255"));
    assert_false(cidr_has("172.16.0.0/12", "172.32.0.0"));
    assert_true(cidr_has("192.0.2.7", "192.0.2.7"));
    assert_false(cidr_has("192.0.2.7", "192.0.2.6"));
    assert_true(cidr_has("0.0.0.0/0", "255.255.255.255"));
    assert_true(cidr_has("fe80::/10", "febf:ffff::1"));
    assert_false(cidr_has("fe80::/10", "fec0::"));
    assert_true(cidr_has("2001:db8::1", "2001:db8::1"));
    assert_false(cidr_has("2001:db8::1/128", "2001:db8::2"));
    assert_true(cidr_has("::/0", "ffff::"));
}

static void test_families_do_not_mix(void **state)
{
    (void)state;
    assert_false(cidr_has("::/0", "1.2.3.4"));
    assert_false(cidr_has("0.0.0.0/0", "::1.2.3.4"));
    assert_true(cidr_has("::ffff:10.0.0.0/104", "10.9.9.9"));
    assert_false(cidr_has("::ffff:10.0.0.0/104", "11.0.0.0"));
    assert_true(cidr_has("::ffff:0:0/96", "1.2.3.4"));
    assert_true(cidr_has("::ffff:1.2.3.4", "1.2.3.4"));
}

static void test_bad_ranges(void **state)
{
    (void)state;
    const char *bad[] = {"",
                         "/8",
                         "10.0.0.0/",
                         "10.0.0.0/33",
                         "10.0.0.0/08",
                         "10.0.0.0/+8",
                         "10.0.0.0/-8",
                         "10.0.0.0/ 8",
                         "10.0.0.1/8",
                         "10.0.0.0/8/8",
                         "10/8",
                         "::/129",
                         "2001:db8::1/64",
                         "[::]/0",
                         "::ffff:0:0/95",
                         "10.0.0.0/8 ",
                         "::ffff:10.0.0.0/32",
                         "0.0.0.0/1000",
                         "::ffff:10.0.0.1/104",
                         "128.0.0.0/0"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct cidr cidr;
        assert_false(cidr_parse(&cidr, str_of(bad[i])));
    }
}

/* P05 */
static void test_embedded_ipv4(void **state)
{
    (void)state;
    static const struct {
        const char *v6, *v4;
    } cases[] = {
        {"::127.0.0.9", "127.0.0.9"},
        {"::2", "0.0.0.2"},
        {"::ffff:0:127.0.0.9", "127.0.0.9"},
        {"64:ff9b::169.254.169.254", "169.254.169.254"},
        {"64:ff9b:1::10.1.2.3", "10.1.2.3"},
        {"64:ff9b:1:2:3:4:10.1.2.3", "10.1.2.3"},
        {"2002:7f00:9::", "127.0.0.9"},
        {"2002:a9fe:a9fe:1:2:3:4:5", "169.254.169.254"},
        {"2001:0:4136:e378:8000:63bf:80ff:fff6", "127.0.0.9"},
        {"2001:db8::5efe:10.0.0.1", "10.0.0.1"},
        {"2001:db8::200:5efe:10.0.0.1", "10.0.0.1"},
        {"fe80::5efe:127.0.0.9", "127.0.0.9"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct addr v6 = addr_of(cases[i].v6), expected = addr_of(cases[i].v4), v4;
        assert_true(addr_embedded_v4(&v6, &v4));
        assert_true(addr_eq(&v4, &expected));
    }
    /* addr_parse() never leaves a mapped address, yet one made by hand is seen through. */
    struct addr mapped = {.family = 6, .bytes = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 9}}, v4;
    assert_true(addr_embedded_v4(&mapped, &v4));
    assert_int_equal(v4.bytes[3], 9);
}

static void test_nothing_embedded(void **state)
{
    (void)state;
    const char *plain[] = {"127.0.0.1",
                           "::",
                           "::1",
                           "2001:db8::1",
                           "64:ff9c::1",
                           "64:ff9b:2::1",
                           "2003::1",
                           "2001:1::1",
                           "::1:0:0:0:1",
                           "64:ff9b::1:0:1",
                           "2001:db8::100:5efe:10.0.0.1"};
    for (size_t i = 0; i < COUNT(plain); i++) {
        struct addr addr = addr_of(plain[i]), v4;
        assert_false(addr_embedded_v4(&addr, &v4));
    }
}

static void test_sockaddr_and_back(void **state)
{
    (void)state;
    const char *texts[] = {"192.0.2.1", "2001:db8::1"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct addr addr = addr_of(texts[i]), back;
        struct sockaddr_storage sa;
        uint16_t port = 0;
        socklen_t len = addr_to_sockaddr(&addr, 8443, &sa);
        assert_int_equal(len, i == 0 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
        assert_true(addr_from_sockaddr((const struct sockaddr *)&sa, &back, &port));
        assert_true(addr_eq(&addr, &back));
        assert_int_equal(port, 8443);
    }
}

static void test_mapped_sockaddr_is_ipv4(void **state)
{
    (void)state;
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = 0x5000};
    memcpy(in6.sin6_addr.s6_addr, (uint8_t[16]){[10] = 0xff, [11] = 0xff, 10, 1, 2, 3}, 16);
    struct addr addr, expected = addr_of("10.1.2.3");
    uint16_t port;
    assert_true(addr_from_sockaddr((const struct sockaddr *)&in6, &addr, &port));
    assert_true(addr_eq(&addr, &expected));

    struct sockaddr other = {.sa_family = AF_UNIX};
    assert_false(addr_from_sockaddr(&other, &addr, &port));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_have_one_text),
        cmocka_unit_test(test_every_byte_of_an_ipv4_address_is_written),
        cmocka_unit_test(test_mapped_is_ipv4),
        cmocka_unit_test(test_other_spellings_are_refused),
        cmocka_unit_test(test_eq),
        cmocka_unit_test(test_loopback_in_every_spelling),
        cmocka_unit_test(test_ranges_end_where_they_end),
        cmocka_unit_test(test_families_do_not_mix),
        cmocka_unit_test(test_bad_ranges),
        cmocka_unit_test(test_embedded_ipv4),
        cmocka_unit_test(test_nothing_embedded),
        cmocka_unit_test(test_sockaddr_and_back),
        cmocka_unit_test(test_mapped_sockaddr_is_ipv4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
