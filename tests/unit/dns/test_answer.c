#include "dns/answer.h"

#include "message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct message message;
static struct answer answer;

static enum answer_status read_as(const char *asked, uint8_t family)
{
    struct name name;
    assert_int_equal(name_parse(&name, str_of(asked)), NAME_OK);
    uint8_t *exact = malloc(message.len > 0 ? message.len : 1); /* so that ASan sees its end */
    memcpy(exact, message.bytes, message.len);
    answer_read(&answer, exact, message.len, &name, family);
    free(exact);
    return answer.status;
}

static void start_a(void)
{
    message_start(&message, 1, RCODE_OK, "good.test", TYPE_A);
}

static void assert_addr(uint32_t index, const char *text)
{
    char out[ADDR_TEXT_MAX];
    assert_true(index < answer.count);
    assert_string_equal(addr_format(out, &answer.addrs[index]), text);
}

static void test_addresses_in_the_order_received(void **state)
{
    (void)state;
    start_a();
    put_addr(&message, "good.test", 300, "192.0.2.9");
    put_addr(&message, "good.test", 60, "192.0.2.1");
    assert_int_equal(read_as("good.test", 4), ANSWER_OK);
    assert_int_equal(answer.count, 2);
    assert_int_equal(answer.ttl_s, 60);
    assert_addr(0, "192.0.2.9");
    assert_addr(1, "192.0.2.1");
}

static void test_aaaa(void **state)
{
    (void)state;
    static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 9};
    message_start(&message, 1, RCODE_OK, "good.test", TYPE_AAAA);
    put_addr(&message, "good.test", 300, "2001:db8::1");
    put_record(&message, "good.test", TYPE_AAAA, 300, mapped, sizeof(mapped));
    put_addr(&message, "good.test", 300, "192.0.2.1"); /* not what was asked for */
    assert_int_equal(read_as("good.test", 6), ANSWER_OK);
    assert_int_equal(answer.count, 2);
    assert_addr(0, "2001:db8::1");
    assert_addr(1, "127.0.0.9");
}

static void test_case_does_not_matter(void **state)
{
    (void)state;
    message_start(&message, 1, RCODE_OK, "GOOD.test", TYPE_A);
    put_addr(&message, "gOOd.TEST", 300, "192.0.2.1");
    assert_int_equal(read_as("good.test", 4), ANSWER_OK);
}

static void test_compressed_names(void **state)
{
    (void)state;
    static const uint8_t record[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 7, 0, 4, 192, 0, 2, 1};
    start_a();
    put_bytes(&message, record, sizeof(record));
    count_answer(&message);
    assert_int_equal(read_as("good.test", 4), ANSWER_OK);
    assert_int_equal(answer.ttl_s, 7);
}

/* D05 */
static void test_the_least_ttl_of_a_chain_counts(void **state)
{
    (void)state;
    start_a();
    put_cname(&message, "good.test", 86400, "b.test");
    put_cname(&message, "b.test", 1, "c.test");
    put_addr(&message, "C.test", 86400, "192.0.2.1");
    assert_int_equal(read_as("good.test", 4), ANSWER_OK);
    assert_int_equal(answer.ttl_s, 1);
    assert_addr(0, "192.0.2.1");
}

static void test_a_chain_in_any_order(void **state)
{
    (void)state;
    start_a();
    put_addr(&message, "c.test", 300, "192.0.2.1");
    put_cname(&message, "b.test", 300, "c.test");
    put_cname(&message, "good.test", 300, "b.test");
    assert_int_equal(read_as("good.test", 4), ANSWER_OK);
    assert_addr(0, "192.0.2.1");
}

static void test_addresses_beside_the_chain_do_not_count(void **state)
{
    (void)state;
    start_a();
    put_addr(&message, "evil.test", 300, "192.0.2.66");
    put_cname(&message, "good.test", 300, "b.test");
    put_addr(&message, "good.test", 300, "192.0.2.67");
    put_addr(&message, "b.test", 300, "192.0.2.1");
    assert_int_equal(read_as("good.test", 4), ANSWER_OK);
    assert_int_equal(answer.count, 1);
    assert_addr(0, "192.0.2.1");

    start_a();
    put_addr(&message, "evil.test", 300, "192.0.2.66");
    assert_int_equal(read_as("good.test", 4), ANSWER_NONE);
}

static void test_loops_of_cnames(void **state)
{
    (void)state;
    start_a();
    put_cname(&message, "good.test", 300, "good.test");
    assert_int_equal(read_as("good.test", 4), ANSWER_FAILURE);

    start_a();
    put_cname(&message, "good.test", 300, "b.test");
    put_cname(&message, "b.test", 300, "c.test");
    put_cname(&message, "c.test", 300, "b.test");
    put_addr(&message, "b.test", 300, "192.0.2.1");
    assert_int_equal(read_as("good.test", 4), ANSWER_FAILURE);
}

static void put_long_chain(unsigned links)
{
    start_a();
    for (unsigned i = 0; i < links; i++) {
        char from[32], to[32];
        snprintf(from, sizeof(from), i == 0 ? "good.test" : "n%u.test", i);
        snprintf(to, sizeof(to), "n%u.test", i + 1);
        put_cname(&message, from, 300, to);
    }
    char last[32];
    snprintf(last, sizeof(last), "n%u.test", links);
    put_addr(&message, last, 300, "192.0.2.1");
}

static void test_chains_are_bounded(void **state)
{
    (void)state;
    put_long_chain(16);
    assert_int_equal(read_as("good.test", 4), ANSWER_OK);
    put_long_chain(17);
    assert_int_equal(read_as("good.test", 4), ANSWER_FAILURE);
}

static void test_nothing_there(void **state)
{
    (void)state;
    start_a();
    assert_int_equal(read_as("good.test", 4), ANSWER_NONE);

    start_a();
    put_cname(&message, "good.test", 300, "b.test");
    assert_int_equal(read_as("good.test", 4), ANSWER_NONE);

    message_start(&message, 1, RCODE_NXDOMAIN, "good.test", TYPE_A);
    assert_int_equal(read_as("good.test", 4), ANSWER_NO_NAME);
    assert_int_equal(answer.count, 0);
}

static void test_every_other_code_is_a_failure(void **state)
{
    (void)state;
    for (unsigned rcode = 1; rcode < 16; rcode++) {
        message_start(&message, 1, rcode, "good.test", TYPE_A);
        put_addr(&message, "good.test", 300, "192.0.2.1");
        assert_int_equal(read_as("good.test", 4),
                         rcode == RCODE_NXDOMAIN ? ANSWER_NO_NAME : ANSWER_FAILURE);
        assert_int_equal(answer.count, 0);
    }
}

/* D16 */
static void test_another_question(void **state)
{
    (void)state;
    start_a();
    put_addr(&message, "good.test", 300, "192.0.2.1");
    assert_int_equal(read_as("other.test", 4), ANSWER_FAILURE);
    assert_int_equal(read_as("good.test", 6), ANSWER_FAILURE);
    assert_int_equal(read_as("a.good.test", 4), ANSWER_FAILURE);
    assert_int_equal(read_as("test", 4), ANSWER_FAILURE);

    set_u16(&message, 4, 0);
    assert_int_equal(read_as("good.test", 4), ANSWER_FAILURE);
    set_u16(&message, 4, 2);
    assert_int_equal(read_as("good.test", 4), ANSWER_FAILURE);
}

static void test_a_query_is_not_an_answer(void **state)
{
    (void)state;
    start_a();
    put_addr(&message, "good.test", 300, "192.0.2.1");
    set_u16(&message, 2, 0x0100);
    assert_int_equal(read_as("good.test", 4), ANSWER_FAILURE);
    set_u16(&message, 2, 0x8180 | 5 << 11); /* an update */
    assert_int_equal(read_as("good.test", 4), ANSWER_FAILURE);
    set_u16(&message, 2, 0x8380); /* cut */
    assert_int_equal(read_as("good.test", 4), ANSWER_FAILURE);
}

static void test_cut_at_every_byte(void **state)
{
    (void)state;
    start_a();
    put_cname(&message, "good.test", 300, "b.test");
    put_addr(&message, "b.test", 300, "192.0.2.1");
    size_t whole = message.len;
    for (size_t len = 0; len < whole; len++) {
        message.len = len;
        assert_int_equal(read_as("good.test", 4), ANSWER_FAILURE);
    }
    message.len = whole;
    assert_int_equal(read_as("good.test", 4), ANSWER_OK);
}

static void test_compression_that_loops(void **state)
{
    (void)state;
    start_a();
    unsigned here = (unsigned)message.len;
    put_u16(&message, 0xc000 | here);
    put_u16(&message, TYPE_A);
    put_u16(&message, 1);
    put_u32(&message, 300);
    put_u16(&message, 4);
    put_u32(&message, 0x7f000001);
    count_answer(&message);
    assert_int_equal(read_as("good.test", 4), ANSWER_FAILURE);
}

static void test_lengths_that_lie(void **state)
{
    (void)state;
    start_a();
    put_record(&message, "good.test", TYPE_A, 300, "\x7f\0\0\1\0", 5);
    assert_int_equal(read_as("good.test", 4), ANSWER_FAILURE);

    start_a();
    put_record(&message, "good.test", TYPE_A, 300, "", 0);
    assert_int_equal(read_as("good.test", 4), ANSWER_FAILURE);

    start_a();
    put_record(&message, "good.test", TYPE_CNAME, 300, "\1b\0\0", 4);
    assert_int_equal(read_as("good.test", 4), ANSWER_FAILURE);

    start_a();
    put_addr(&message, "good.test", 300, "192.0.2.1");
    set_u16(&message, 6, 2);
    assert_int_equal(read_as("good.test", 4), ANSWER_FAILURE);
}

static void test_other_classes_and_types_are_passed_over(void **state)
{
    (void)state;
    start_a();
    put_record(&message, "good.test", 16, 1, "\3txt", 4);
    put_addr(&message, "good.test", 300, "192.0.2.66");
    set_u16(&message, message.len - 12, 3); /* class CH */
    put_addr(&message, "good.test", 300, "192.0.2.1");
    assert_int_equal(read_as("good.test", 4), ANSWER_OK);
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.ttl_s, 300);
}

static void test_a_ttl_with_the_high_bit_is_none(void **state)
{
    (void)state;
    start_a();
    put_addr(&message, "good.test", 0x80000000, "192.0.2.1");
    assert_int_equal(read_as("good.test", 4), ANSWER_OK);
    assert_int_equal(answer.ttl_s, 0);
}

static void test_many_addresses_are_cut(void **state)
{
    (void)state;
    start_a();
    for (int i = 0; i < 300; i++)
        put_addr(&message, "good.test", 300, "192.0.2.1");
    assert_int_equal(read_as("good.test", 4), ANSWER_OK);
    assert_int_equal(answer.count, RESOLVER_MAX_ADDRS);

    message.len = sizeof(message.bytes); /* larger than what is read at all */
    assert_int_equal(read_as("good.test", 4), ANSWER_FAILURE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_in_the_order_received),
        cmocka_unit_test(test_aaaa),
        cmocka_unit_test(test_case_does_not_matter),
        cmocka_unit_test(test_compressed_names),
        cmocka_unit_test(test_the_least_ttl_of_a_chain_counts),
        cmocka_unit_test(test_a_chain_in_any_order),
        cmocka_unit_test(test_addresses_beside_the_chain_do_not_count),
        cmocka_unit_test(test_loops_of_cnames),
        cmocka_unit_test(test_chains_are_bounded),
        cmocka_unit_test(test_nothing_there),
        cmocka_unit_test(test_every_other_code_is_a_failure),
        cmocka_unit_test(test_another_question),
        cmocka_unit_test(test_a_query_is_not_an_answer),
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_compression_that_loops),
        cmocka_unit_test(test_lengths_that_lie),
        cmocka_unit_test(test_other_classes_and_types_are_passed_over),
        cmocka_unit_test(test_a_ttl_with_the_high_bit_is_none),
        cmocka_unit_test(test_many_addresses_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
