#include "transport/reach.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
/* cmocka wants the above first */
#include <cmocka.h>

static struct addr address(const char *text)
{
    struct addr addr;
    assert_true(addr_parse(&addr, str_of(text)));
    return addr;
}

/* In the order of an answer: two of each family, AAAA first. */
static struct approved four(void)
{
    return (struct approved){.count = 4,
                             .port = 443,
                             .addrs = {address("2001:db8::1"), address("192.0.2.1"),
                                       address("2001:db8::2"), address("192.0.2.2")}};
}

static void answered(struct reach *reach, const char *text, double at_s, double after_s)
{
    struct addr addr = address(text);
    reach_note_answer(reach, &addr, 443, at_s, after_s);
}

static void failed(struct reach *reach, const char *text, double at_s)
{
    struct addr addr = address(text);
    reach_note_failure(reach, &addr, 443, at_s);
}

#define assert_order(reach, approved, now_s, ...)                                    \
    do {                                                                             \
        uint32_t order[RESOLVER_MAX_ADDRS];                                          \
        const uint32_t expected[] = {__VA_ARGS__};                                   \
        assert_int_equal(sizeof(expected) / sizeof(expected[0]), (approved)->count); \
        reach_order(reach, approved, now_s, order);                                  \
        assert_memory_equal(order, expected, sizeof(expected));                      \
    } while (0)

/* RFC 8305 4: the family of the first address first, then in turns; the order within stays. */
static void families_take_turns(void **state)
{
    (void)state;
    const struct approved approved = {.count = 5,
                                      .addrs = {address("2001:db8::1"), address("2001:db8::2"),
                                                address("2001:db8::3"), address("192.0.2.1"),
                                                address("192.0.2.2")}};
    assert_order(NULL, &approved, 0, 0, 3, 1, 4, 2);
    const struct approved one_family = {
        .count = 3, .addrs = {address("192.0.2.3"), address("192.0.2.1"), address("192.0.2.2")}};
    assert_order(NULL, &one_family, 0, 0, 1, 2);
}

static void the_nearest_known_address_is_first_and_its_family(void **state)
{
    (void)state;
    struct reach *reach = reach_create(64);
    const struct approved approved = four();
    assert_order(reach, &approved, 1, 0, 1, 2, 3);
    answered(reach, "2001:db8::2", 1, .200);
    assert_order(reach, &approved, 2, 2, 1, 0, 3);
    answered(reach, "192.0.2.2", 2, .010);
    assert_order(reach, &approved, 3, 3, 2, 1, 0);
    reach_destroy(reach);
}

static void times_of_one_magnitude_leave_the_servers_order(void **state)
{
    (void)state;
    struct reach *reach = reach_create(64);
    struct approved approved = {
        .count = 2, .port = 443, .addrs = {address("192.0.2.1"), address("192.0.2.2")}};
    answered(reach, "192.0.2.1", 1, .031);
    answered(reach, "192.0.2.2", 1, .017);
    assert_order(reach, &approved, 2, 0, 1);
    approved.addrs[0] = address("192.0.2.2");
    approved.addrs[1] = address("192.0.2.1");
    assert_order(reach, &approved, 2, 0, 1);
    reach_destroy(reach);
}

static void what_failed_is_last_whatever_its_family(void **state)
{
    (void)state;
    struct reach *reach = reach_create(64);
    const struct approved approved = four();
    failed(reach, "2001:db8::1", 1);
    assert_order(reach, &approved, 2, 1, 2, 3, 0);
    failed(reach, "2001:db8::2", 1);
    assert_order(reach, &approved, 2, 1, 3, 0, 2);
    failed(reach, "192.0.2.1", 1);
    failed(reach, "192.0.2.2", 1);
    assert_order(reach, &approved, 2, 0, 1, 2, 3); /* all of them: as if nothing were known */
    reach_destroy(reach);
}

static void facts_are_forgotten_failures_sooner(void **state)
{
    (void)state;
    struct reach *reach = reach_create(64);
    const struct approved approved = four();
    failed(reach, "2001:db8::1", 1000);
    answered(reach, "192.0.2.2", 1000, .010);
    assert_order(reach, &approved, 1000 + REACH_FAILURE_S, 3, 2, 1, 0);
    assert_order(reach, &approved, 1001 + REACH_FAILURE_S, 3, 0, 1, 2);
    assert_order(reach, &approved, 1001 + REACH_ANSWER_S, 0, 1, 2, 3);
    assert_order(reach, &approved, 999, 0, 1, 2, 3); /* the clock was set back */
    reach_destroy(reach);
}

static void the_latest_word_counts(void **state)
{
    (void)state;
    struct reach *reach = reach_create(64);
    const struct approved approved = four();
    answered(reach, "192.0.2.2", 1, .001);
    failed(reach, "192.0.2.2", 2);
    assert_order(reach, &approved, 3, 0, 1, 2, 3);
    answered(reach, "192.0.2.2", 3, .001);
    assert_order(reach, &approved, 4, 3, 0, 1, 2);
    reach_destroy(reach);
}

static void another_port_is_another_server(void **state)
{
    (void)state;
    struct reach *reach = reach_create(64);
    struct approved approved = four();
    failed(reach, "2001:db8::1", 1);
    approved.port = 80;
    assert_order(reach, &approved, 2, 0, 1, 2, 3);
    reach_destroy(reach);
}

/* However many addresses come by, the order stays one of all that are approved. */
static void a_full_table_forgets(void **state)
{
    (void)state;
    struct reach *reach = reach_create(64);
    const struct approved approved = four();
    failed(reach, "2001:db8::1", 1);
    for (uint32_t i = 0; i < 10000; i++) {
        const uint8_t bytes[4] = {10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i};
        struct addr addr = addr_of_v4(bytes);
        reach_note_failure(reach, &addr, 443, 2);
    }
    assert_order(reach, &approved, 3, 0, 1, 2, 3);
    reach_destroy(reach);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_take_turns),
        cmocka_unit_test(the_nearest_known_address_is_first_and_its_family),
        cmocka_unit_test(times_of_one_magnitude_leave_the_servers_order),
        cmocka_unit_test(what_failed_is_last_whatever_its_family),
        cmocka_unit_test(facts_are_forgotten_failures_sooner),
        cmocka_unit_test(the_latest_word_counts),
        cmocka_unit_test(another_port_is_another_server),
        cmocka_unit_test(a_full_table_forgets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
