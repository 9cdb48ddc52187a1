#include "dns/query.h"

#include "dns/answer.h"
#include "message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { TYPE_PTR = 12, TYPE_MX = 15, TYPE_OPT = 41, TYPE_HTTPS = 65, TYPE_ANY = 255 };
enum { RECURSION_DESIRED = 0x0100, CLASS_CHAOS = 3 };

static struct message message;
static struct query query;
static uint8_t answer[QUERY_ANSWER_MAX];

static void ask(const char *name, unsigned type)
{
    message_start(&message, 0xabcd, RCODE_OK, name, type);
    set_u16(&message, 2, RECURSION_DESIRED);
}

static void put_opt(unsigned version)
{
    set_u16(&message, 10, get_u16(message.bytes + 10) + 1);
    put_bytes(&message, "", 1);
    put_u16(&message, TYPE_OPT);
    put_u16(&message, 4096);
    put_u32(&message, version << 16);
    put_u16(&message, 0);
}

/* Every byte of it lies in memory of exactly its size, so that ASan sees its end. */
static enum query_result read_len(size_t len)
{
    static uint8_t *exact;
    free(exact);
    exact = malloc(len > 0 ? len : 1);
    memcpy(exact, message.bytes, len);
    return query_read(&query, exact, len);
}

static enum query_result read_it(void)
{
    return read_len(message.len);
}

static void assert_wrong(enum query_rcode rcode)
{
    assert_int_equal(read_it(), QUERY_WRONG);
    assert_int_equal(query.rcode, rcode);
    size_t len = query_refuse(answer, &query, query.rcode);
    assert_true(len >= 12);
    assert_int_equal(get_u16(answer), 0xabcd);
    assert_int_equal(get_u16(answer + 2) & 0x8000, 0x8000);
    assert_int_equal(get_u16(answer + 2) & 0xf, rcode & 0xf);
}

static void test_a_name_is_read(void **state)
{
    (void)state;
    ask("Good.TEST", TYPE_A);
    assert_int_equal(read_it(), QUERY_ASKS);
    assert_int_equal(query.about, QUERY_A);
    assert_true(query.has_name);
    assert_string_equal(query.name.text, "good.test");
    ask("good.test", TYPE_AAAA);
    assert_int_equal(read_it(), QUERY_ASKS);
    assert_int_equal(query.about, QUERY_AAAA);
    static const unsigned others[] = {TYPE_MX, TYPE_HTTPS, TYPE_ANY};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        ask("good.test", others[i]);
        assert_int_equal(read_it(), QUERY_ASKS);
        assert_int_equal(query.about, QUERY_OTHER);
    }
}

static void test_what_is_no_host_name_has_no_name(void **state)
{
    (void)state;
    static const char *const names[] = {"", "a b.test", "1.2.3.4", "x.0x7f", "-a.test", "a@b.test"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        ask(names[i], TYPE_A);
        assert_int_equal(read_it(), QUERY_ASKS);
        assert_false(query.has_name);
    }
}

static void test_a_dot_in_a_label_is_not_one_between_two(void **state)
{
    (void)state;
    ask("goodXtest", TYPE_A);
    message.bytes[12 + 1 + 4] = '.';
    assert_int_equal(read_it(), QUERY_ASKS);
    assert_false(query.has_name);
    ask("goodXtest", TYPE_A);
    message.bytes[12 + 1 + 4] = '\0';
    assert_int_equal(read_it(), QUERY_ASKS);
    assert_false(query.has_name);
}

static void test_answers_and_fragments_are_not_answered(void **state)
{
    (void)state;
    message_start(&message, 1, RCODE_OK, "good.test", TYPE_A);
    assert_int_equal(read_it(), QUERY_IGNORED);
    ask("good.test", TYPE_A);
    for (size_t len = 0; len < 12; len++)
        assert_int_equal(read_len(len), QUERY_IGNORED);
    for (size_t len = 12; len < message.len; len++) {
        assert_int_equal(read_len(len), QUERY_WRONG);
        assert_int_equal(query.rcode, QUERY_MALFORMED);
        assert_null(query.question);
    }
}

static void test_malformed_ones_are_called_so(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        unsigned value;
        enum query_rcode rcode;
    } rows[] = {
        {2, 0x0800, QUERY_NOT_DONE},  /* opcode 1 */
        {2, 0x2800, QUERY_NOT_DONE},  /* an update */
        {2, 0x0200, QUERY_MALFORMED}, /* truncated */
        {4, 0, QUERY_MALFORMED},      /* questions */
        {4, 2, QUERY_MALFORMED},
        {6, 1, QUERY_MALFORMED}, /* answers */
        {8, 1, QUERY_MALFORMED},
        {10, 1, QUERY_MALFORMED},      /* an additional record that is not there */
        {12, 0xc00c, QUERY_MALFORMED}, /* a pointer to itself */
        {12, 0x4061, QUERY_MALFORMED}, /* a label of a kind that there is not */
        {25, CLASS_CHAOS, QUERY_REFUSED},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ask("good.test", TYPE_A);
        set_u16(&message, rows[i].at, rows[i].value);
        assert_wrong(rows[i].rcode);
    }
}

static void test_a_name_of_255_bytes_and_one_more(void **state)
{
    (void)state;
    char name[256];
    snprintf(name, sizeof(name), "x%062d.%063d.%063d.%060dy", 0, 0, 0, 0);
    assert_int_equal(strlen(name), 253);
    ask(name, TYPE_A);
    assert_int_equal(read_it(), QUERY_ASKS);
    assert_true(query.has_name);
    assert_string_equal(query.name.text, name);
    assert_true(query_give_addr(answer, &query, &(struct addr){.family = 4}, 1) < 512);
    snprintf(name, sizeof(name), "x%062d.%063d.%063d.%061dy", 0, 0, 0, 0);
    ask(name, TYPE_A);
    assert_wrong(QUERY_MALFORMED);
}

static void test_edns(void **state)
{
    (void)state;
    ask("good.test", TYPE_A);
    put_opt(0);
    assert_int_equal(read_it(), QUERY_ASKS);
    assert_true(query.extended);
    size_t len = query_refuse(answer, &query, QUERY_OK);
    assert_int_equal(get_u16(answer + 10), 1);
    assert_int_equal(get_u16(answer + len - 10), TYPE_OPT);

    ask("good.test", TYPE_A);
    put_opt(1);
    assert_wrong(QUERY_BAD_VERSION);
    len = query_refuse(answer, &query, query.rcode);
    assert_int_equal(answer[len - 6], QUERY_BAD_VERSION >> 4);

    ask("good.test", TYPE_A);
    put_opt(0);
    put_opt(0);
    assert_wrong(QUERY_MALFORMED);
}

static void test_what_is_additional_is_passed_over_within_its_bounds(void **state)
{
    (void)state;
    ask("good.test", TYPE_A);
    put_addr(&message, "other.test", 1, "192.0.2.1");
    set_u16(&message, 6, 0); /* not an answer, but additional */
    set_u16(&message, 10, 1);
    assert_int_equal(read_it(), QUERY_ASKS);
    for (size_t len = message.len - 1; len > message.len - 20; len--) {
        assert_int_equal(read_len(len), QUERY_WRONG);
        assert_int_equal(query.rcode, QUERY_MALFORMED);
    }
}

static void test_an_answer_is_understood(void **state)
{
    (void)state;
    static struct answer read;
    struct addr addr;
    char text[ADDR_TEXT_MAX];
    static const struct {
        unsigned type;
        uint8_t family;
        const char *addr;
    } rows[] = {{TYPE_A, 4, "198.18.1.2"}, {TYPE_AAAA, 6, "fd3c::1"}};
    for (size_t i = 0; i < 2; i++) {
        ask("Good.test", rows[i].type);
        put_opt(0);
        assert_int_equal(read_it(), QUERY_ASKS);
        assert_true(addr_parse(&addr, str_of(rows[i].addr)));
        size_t len = query_give_addr(answer, &query, &addr, 5);
        assert_int_equal(get_u16(answer), 0xabcd);
        assert_int_equal(get_u16(answer + 2), 0x8180);
        answer_read(&read, answer, len, &query.name, rows[i].family);
        assert_int_equal(read.status, ANSWER_OK);
        assert_int_equal(read.count, 1);
        assert_int_equal(read.ttl_s, 5);
        assert_string_equal(addr_format(text, &read.addrs[0]), rows[i].addr);
    }
    size_t len = query_refuse(answer, &query, QUERY_OK);
    answer_read(&read, answer, len, &query.name, 6);
    assert_int_equal(read.status, ANSWER_NONE);
    len = query_refuse(answer, &query, QUERY_NO_NAME);
    answer_read(&read, answer, len, &query.name, 6);
    assert_int_equal(read.status, ANSWER_NO_NAME);
}

static void assert_reverse(const char *name, const char *addr)
{
    char text[ADDR_TEXT_MAX];
    ask(name, TYPE_PTR);
    assert_int_equal(read_it(), QUERY_ASKS);
    assert_int_equal(query.about, QUERY_PTR);
    assert_int_equal(query.has_addr, addr != NULL);
    if (addr != NULL)
        assert_string_equal(addr_format(text, &query.addr), addr);
}

static void test_names_of_addresses(void **state)
{
    (void)state;
    struct name name;
    assert_reverse("4.3.18.198.in-addr.arpa", "198.18.3.4");
    assert_reverse("255.0.0.10.IN-ADDR.ARPA", "10.0.0.255");
    assert_reverse("1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.c.3.d.f.ip6.arpa",
                   "fd3c::1");
    static const char *const others[] = {"good.test",
                                         "3.18.198.in-addr.arpa",
                                         "5.4.3.18.198.in-addr.arpa",
                                         "256.3.18.198.in-addr.arpa",
                                         "04.3.18.198.in-addr.arpa",
                                         "x.3.18.198.in-addr.arpa",
                                         "1.0.c.3.d.f.ip6.arpa",
                                         "in-addr.arpa",
                                         "4.3.18.198.in-addr.arpa.test"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_reverse(others[i], NULL);

    assert_reverse("4.3.18.198.in-addr.arpa", "198.18.3.4");
    assert_int_equal(name_parse(&name, STR("a.good.test")), NAME_OK);
    static const uint8_t data[] = {0, 13, 1, 'a', 4, 'g', 'o', 'o', 'd', 4, 't', 'e', 's', 't', 0};
    size_t len = query_give_name(answer, &query, &name, 5);
    assert_int_equal(get_u16(answer + 6), 1);
    assert_memory_equal(answer + len - sizeof(data), data, sizeof(data));
}

static void test_flags_come_back(void **state)
{
    (void)state;
    ask("good.test", TYPE_A);
    set_u16(&message, 2, 0x0030); /* authentic data wanted, checking disabled */
    assert_int_equal(read_it(), QUERY_ASKS);
    (void)query_refuse(answer, &query, QUERY_OK);
    assert_int_equal(get_u16(answer + 2), 0x8090);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_is_read),
        cmocka_unit_test(test_what_is_no_host_name_has_no_name),
        cmocka_unit_test(test_a_dot_in_a_label_is_not_one_between_two),
        cmocka_unit_test(test_answers_and_fragments_are_not_answered),
        cmocka_unit_test(test_malformed_ones_are_called_so),
        cmocka_unit_test(test_a_name_of_255_bytes_and_one_more),
        cmocka_unit_test(test_edns),
        cmocka_unit_test(test_what_is_additional_is_passed_over_within_its_bounds),
        cmocka_unit_test(test_an_answer_is_understood),
        cmocka_unit_test(test_names_of_addresses),
        cmocka_unit_test(test_flags_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
