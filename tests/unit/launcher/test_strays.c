#include "launcher/strays.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* As the kernel writes them, without most of the groups. */
#define SNMP(no_routes, no_ports)                                      \
    "Ip: Forwarding DefaultTTL OutDiscards OutNoRoutes ReasmTimeout\n" \
    "Ip: 2 64 7 " no_routes " 0\n"                                     \
    "Tcp: RtoAlgorithm ActiveOpens\n"                                  \
    "Tcp: 1 9\n"                                                       \
    "Udp: InDatagrams NoPorts InErrors\n"                              \
    "Udp: 5 " no_ports " 0\n"                                          \
    "UdpLite: InDatagrams NoPorts InErrors\n"                          \
    "UdpLite: 0 8 0\n"

static void test_nothing_went_astray(void **state)
{
    (void)state;
    assert_int_equal(strays_of(SNMP("0", "0"), "Ip6InReceives 3\nIp6OutNoRoutes 0\n"), 0);
}

static void test_what_found_no_route(void **state)
{
    (void)state;
    assert_int_equal(strays_of(SNMP("12", "0"), ""), STRAYS_ROUTE);
    assert_int_equal(strays_of(SNMP("0", "0"), "Ip6InReceives 3\nIp6OutNoRoutes    \t1\n"),
                     STRAYS_ROUTE);
}

static void test_datagrams_to_nobody(void **state)
{
    (void)state;
    assert_int_equal(strays_of(SNMP("0", "1"), ""), STRAYS_DATAGRAM);
    assert_int_equal(strays_of(SNMP("0", "0"), "Udp6NoPorts 2\n"), STRAYS_DATAGRAM);
    assert_int_equal(strays_of(SNMP("3", "1"), ""), STRAYS_ROUTE | STRAYS_DATAGRAM);
}

/* A kernel without a family, or one that has a file cut short, is asked in vain. */
static void test_texts_that_lack_something(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "Ip: OutNoRoutes",
                                        "Ip: OutNoRoutes\n",
                                        "Ip: OutNoRoutes\nIp:",
                                        "Ip: OutNoRoutes\nIp: ",
                                        "Ip: A B OutNoRoutes\nIp: 1 2\n",
                                        "Ip: OutNoRoutesOfAll\nIp: 1\n",
                                        "Udp: 1\n\n\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(strays_of(texts[i], texts[i]), 0);
    assert_int_equal(strays_of(NULL, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_went_astray),
                                       cmocka_unit_test(test_what_found_no_route),
                                       cmocka_unit_test(test_datagrams_to_nobody),
                                       cmocka_unit_test(test_texts_that_lack_something)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
