/*
 * SOCKS5 messages, whole and one byte at a time. Cases are named by their id.
 */
#include "wire/socks5.h"

#include "pieces.h"

static struct socks5_greeting greeting;
static struct socks5_request request;
static struct str user, password;
static size_t used;

static enum socks5_result greet(struct str bytes)
{
    return socks5_parse_greeting(bytes, &greeting, &used);
}

static enum socks5_result log_in(struct str bytes)
{
    return socks5_parse_userpass(bytes, &user, &password, &used);
}

static enum socks5_result ask(struct str bytes)
{
    return socks5_parse_request(bytes, &request, &used);
}

/* S04: MORE for every prefix until the first other answer, which the whole gives too. */
static enum socks5_result in_pieces(enum socks5_result (*parse)(struct str), struct str bytes)
{
    enum socks5_result result = SOCKS5_MORE;
    size_t at;
    for (at = 0; at <= bytes.len && result == SOCKS5_MORE; at++) {
        autofree char *copy = exact_copy((struct str){bytes.p, at});
        result = parse((struct str){copy, at});
    }
    assert_int_equal(parse(bytes), result);
    if (result == SOCKS5_PARSED)
        assert_int_equal(used, at - 1);
    return result;
}

static void target_is(const char *text)
{
    char out[TARGET_TEXT_MAX];
    assert_true(request.type_is_known);
    if (!request.target_is_valid)
        fail_msg("%s: %s", text, request.why);
    assert_null(request.why);
    assert_string_equal(target_format(out, &request.target), text);
}

static void test_s04_greetings(void **state)
{
    (void)state;
    assert_int_equal(in_pieces(greet, STR("\x05\x01\x00")), SOCKS5_PARSED);
    assert_true(greeting.no_auth && !greeting.userpass);
    assert_int_equal(in_pieces(greet, STR("\x05\x03\x01\x02\x80 tail")), SOCKS5_PARSED);
    assert_true(!greeting.no_auth && greeting.userpass);
    assert_int_equal(used, 5);
    assert_int_equal(in_pieces(greet, STR("\x05\x02\x02\x00")), SOCKS5_PARSED);
    assert_true(greeting.no_auth && greeting.userpass);
    assert_int_equal(in_pieces(greet, STR("\x05\x00")), SOCKS5_PARSED);
    assert_true(!greeting.no_auth && !greeting.userpass);
    char all[2 + 255] = {5, (char)255};
    memset(all + 2, 0x7f, 255);
    assert_int_equal(in_pieces(greet, (struct str){all, sizeof(all)}), SOCKS5_PARSED);
}

static void test_s11_other_protocols(void **state)
{
    (void)state;
    assert_int_equal(in_pieces(greet, STR("\x04\x01\x00\x50\x7f\x00\x00\x01\x00")), SOCKS5_BAD);
    assert_int_equal(in_pieces(greet, STR("GET / HTTP/1.1\r\n")), SOCKS5_BAD);
    assert_int_equal(in_pieces(greet, STR("\x16\x03\x01")), SOCKS5_BAD);
    assert_memory_equal(socks4_refusal, "\x00\x5b\0\0\0\0\0\0", 8);
}

static void test_s04_credentials(void **state)
{
    (void)state;
    assert_int_equal(in_pieces(log_in, STR("\x01\x03joe\x06s3cret\x05")), SOCKS5_PARSED);
    assert_str(user, "joe");
    assert_str(password, "s3cret");
    assert_int_equal(used, 12);
    assert_int_equal(in_pieces(log_in, STR("\x01\x00\x00")), SOCKS5_PARSED);
    assert_str(user, "");
    assert_str(password, "");
    assert_int_equal(in_pieces(log_in, STR("\x05\x03joe\x06s3cret")), SOCKS5_BAD);
    char longest[1 + 2 * 256];
    memset(longest, 0xff, sizeof(longest));
    longest[0] = 1;
    assert_int_equal(in_pieces(log_in, (struct str){longest, sizeof(longest)}), SOCKS5_PARSED);
    assert_int_equal(user.len, 255);
    assert_int_equal(password.len, 255);
}

static void test_s04_address_types(void **state)
{
    (void)state;
    assert_int_equal(in_pieces(ask, STR("\x05\x01\x00\x01\x7f\x00\x00\x02\x01\xbb tail")),
                     SOCKS5_PARSED);
    assert_int_equal(request.command, SOCKS5_CONNECT);
    assert_null(request.host.p);
    target_is("127.0.0.2:443");
    assert_int_equal(used, 10);

    assert_int_equal(in_pieces(ask, STR("\x05\x01\x00\x03\x09Good.Test\x00\x50")), SOCKS5_PARSED);
    assert_str(request.host, "Good.Test");
    target_is("good.test:80");

    assert_int_equal(
        in_pieces(ask, STR("\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\xff\xff")),
        SOCKS5_PARSED);
    target_is("[2001:db8::1]:65535");
}

static void test_mapped_addresses_are_the_ipv4_address(void **state)
{
    (void)state;
    assert_int_equal(
        in_pieces(ask, STR("\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01\x00\x50")),
        SOCKS5_PARSED);
    target_is("127.0.0.1:80");
}

static void test_literals_in_the_domain_type(void **state)
{
    (void)state;
    assert_int_equal(in_pieces(ask, STR("\x05\x01\x00\x03\x09"
                                        "127.0.0.2\x00\x50")),
                     SOCKS5_PARSED);
    assert_true(request.target.is_addr);
    target_is("127.0.0.2:80");
    assert_int_equal(in_pieces(ask, STR("\x05\x01\x00\x03\x03::1\x00\x50")), SOCKS5_PARSED);
    target_is("[::1]:80");
    assert_int_equal(in_pieces(ask, STR("\x05\x01\x00\x03\x05[::1]\x00\x50")), SOCKS5_PARSED);
    target_is("[::1]:80");
}

static void asks_for_nothing_valid(struct str domain, const char *port)
{
    char bytes[4 + 1 + 255 + 2] = {5, 1, 0, 3, (char)domain.len};
    memcpy(bytes + 5, domain.p, domain.len);
    memcpy(bytes + 5 + domain.len, port, 2);
    assert_int_equal(in_pieces(ask, (struct str){bytes, 5 + domain.len + 2}), SOCKS5_PARSED);
    assert_true(request.type_is_known);
    if (request.target_is_valid)
        fail_msg("valid: %.*s", STR_ARG(domain));
    assert_non_null(request.why);
    assert_true(str_eq(request.host, domain));
}

static void test_s01_a_name_with_a_nul(void **state)
{
    (void)state;
    asks_for_nothing_valid(STR("evil.test\0.good.test"), "\x01\xbb");
    asks_for_nothing_valid(STR("good.test\0"), "\x01\xbb");
}

static void test_s02_every_byte_in_a_name(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        char bytes[] = "\x05\x01\x00\x03\x10good?x.good.test\x00\x50";
        bytes[5 + strlen("good")] = (char)byte;
        bool is_taken = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                        (byte >= '0' && byte <= '9') || byte == '_' || byte == '-' || byte == '.';
        assert_int_equal(in_pieces(ask, (struct str){bytes, sizeof(bytes) - 1}), SOCKS5_PARSED);
        if (request.target_is_valid != is_taken)
            fail_msg("byte %02x", (unsigned)byte);
    }
}

static void test_targets_that_are_none(void **state)
{
    (void)state;
    asks_for_nothing_valid(STR(""), "\x00\x50");
    asks_for_nothing_valid(STR("good.test"), "\x00\x00");
    asks_for_nothing_valid(STR("good.test:80"), "\x00\x50");
    asks_for_nothing_valid(STR("127.1"), "\x00\x50");
    asks_for_nothing_valid(STR("0x7f000001"), "\x00\x50");
    asks_for_nothing_valid(STR("[good.test]"), "\x00\x50");
    char longest[255];
    memset(longest, 'a', sizeof(longest));
    asks_for_nothing_valid((struct str){longest, sizeof(longest)}, "\x00\x50");
    assert_int_equal(in_pieces(ask, STR("\x05\x01\x00\x01\x7f\x00\x00\x02\x00\x00")),
                     SOCKS5_PARSED);
    assert_false(request.target_is_valid);
}

static void test_s07_commands_and_types(void **state)
{
    (void)state;
    assert_int_equal(in_pieces(ask, STR("\x05\x02\x00\x01\0\0\0\0\0\0")), SOCKS5_PARSED);
    assert_int_equal(request.command, SOCKS5_BIND);
    assert_true(request.type_is_known);
    assert_int_equal(in_pieces(ask, STR("\x05\x03\x00\x01\0\0\0\0\0\0")), SOCKS5_PARSED);
    assert_int_equal(request.command, SOCKS5_UDP_ASSOCIATE);
    assert_int_equal(in_pieces(ask, STR("\x05\x01\x00\x02\0\0\0\0\0\0")), SOCKS5_PARSED);
    assert_false(request.type_is_known);
    assert_int_equal(used, 4);
    assert_int_equal(in_pieces(ask, STR("\x05\x01\x01\x01")), SOCKS5_BAD);
    assert_int_equal(in_pieces(ask, STR("\x04\x01\x00\x01")), SOCKS5_BAD);
}

static void test_s08_replies(void **state)
{
    (void)state;
    uint8_t out[SOCKS5_REPLY_MAX];
    assert_int_equal(socks5_reply(out, 2, NULL, 80), 10);
    assert_memory_equal(out, "\x05\x02\x00\x01\0\0\0\0\0\0", 10);
    struct addr v4, v6;
    assert_true(addr_parse(&v4, STR("127.0.0.2")) && addr_parse(&v6, STR("2001:db8::1")));
    assert_int_equal(socks5_reply(out, 0, &v4, 0x1234), 10);
    assert_memory_equal(out, "\x05\x00\x00\x01\x7f\x00\x00\x02\x12\x34", 10);
    assert_int_equal(socks5_reply(out, 0, &v6, 80), 22);
    assert_memory_equal(out, "\x05\x00\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x50",
                        22);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_s04_greetings),
        cmocka_unit_test(test_s11_other_protocols),
        cmocka_unit_test(test_s04_credentials),
        cmocka_unit_test(test_s04_address_types),
        cmocka_unit_test(test_mapped_addresses_are_the_ipv4_address),
        cmocka_unit_test(test_literals_in_the_domain_type),
        cmocka_unit_test(test_s01_a_name_with_a_nul),
        cmocka_unit_test(test_s02_every_byte_in_a_name),
        cmocka_unit_test(test_targets_that_are_none),
        cmocka_unit_test(test_s07_commands_and_types),
        cmocka_unit_test(test_s08_replies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
