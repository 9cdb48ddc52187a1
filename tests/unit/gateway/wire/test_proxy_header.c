/*
 * The PROXY header, versions 1 and 2, whole and one byte at a time.
 */
#include "wire/proxy_header.h"

#include "pieces.h"

static struct proxy_header header;
static size_t used;

static enum proxy_header_result parse(struct str bytes)
{
    enum proxy_header_result result = PROXY_HEADER_MORE;
    size_t at;
    for (at = 0; at <= bytes.len && result == PROXY_HEADER_MORE; at++) {
        autofree char *copy = exact_copy((struct str){bytes.p, at});
        result = proxy_header_parse((struct str){copy, at}, &header, &used);
    }
    if (result == PROXY_HEADER_PARSED)
        assert_int_equal(used, at - 1);
    assert_int_equal(proxy_header_parse(bytes, &header, &used), result);
    return result;
}

static void source_is(const char *want, uint16_t port)
{
    char text[ADDR_TEXT_MAX];
    assert_true(header.has_source);
    assert_string_equal(addr_format(text, &header.source), want);
    assert_int_equal(header.source_port, port);
}

static void test_version_1(void **state)
{
    (void)state;
    struct str bytes = STR("PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\nGET / HTTP/1.1\r\n");
    assert_int_equal(parse(bytes), PROXY_HEADER_PARSED);
    source_is("192.0.2.1", 56324);
    assert_int_equal(used, bytes.len - strlen("GET / HTTP/1.1\r\n"));
    assert_int_equal(parse(STR("PROXY TCP6 2001:db8::1 ::1 0 65535\r\n")), PROXY_HEADER_PARSED);
    source_is("2001:db8::1", 0);
    assert_int_equal(parse(STR("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n")), PROXY_HEADER_PARSED);
    source_is("192.0.2.1", 1);
    assert_int_equal(parse(STR("PROXY UNKNOWN\r\n")), PROXY_HEADER_PARSED);
    assert_false(header.has_source);
    assert_int_equal(
        parse(STR("PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n\x05")),
        PROXY_HEADER_PARSED);
    assert_false(header.has_source);
}

static void test_version_1_malformed(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "PROXY TCP4 192.0.2.1 198.51.100.2 56324\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443 \r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443 x\r\n",
        "PROXY TCP4  192.0.2.1 198.51.100.2 56324 443\r\n",
        "PROXY  TCP4 192.0.2.1 198.51.100.2 56324 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 65536 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 056 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 +56 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 -1 443\r\n",
        "PROXY TCP4 192.0.2 198.51.100.2 56324 443\r\n",
        "PROXY TCP4 192.0.2.01 198.51.100.2 56324 443\r\n",
        "PROXY TCP4 ::1 ::1 56324 443\r\n",
        "PROXY TCP6 192.0.2.1 198.51.100.2 56324 443\r\n",
        "PROXY TCP6 [::1] ::1 56324 443\r\n",
        "PROXY TCP4 good.test 198.51.100.2 56324 443\r\n",
        "PROXY UDP4 192.0.2.1 198.51.100.2 56324 443\r\n",
        "PROXY tcp4 192.0.2.1 198.51.100.2 56324 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\n\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\rx",
        "PROXY TCP4 192.0.2.1\n198.51.100.2 56324 443\r\n",
        "PROXY\r\n",
        "PROXY \r\n",
        "PROXY UNKNOWN\n",
        "proxy TCP4 192.0.2.1 198.51.100.2 56324 443\r\n",
        "GET / HTTP/1.1\r\n",
        "\x05\x01",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        if (parse(str_of(lines[i])) != PROXY_HEADER_BAD)
            fail_msg("not refused: %s", lines[i]);
}

static void test_version_1_is_bounded(void **state)
{
    (void)state;
    char line[110] = "PROXY UNKNOWN ";
    memset(line + 14, 'x', sizeof(line) - 14);
    memcpy(line + 105, "\r\n", 2);
    assert_int_equal(parse((struct str){line, 107}), PROXY_HEADER_PARSED);
    line[105] = 'x';
    memcpy(line + 106, "\r\n", 2);
    assert_int_equal(parse((struct str){line, 108}), PROXY_HEADER_BAD);
    line[106] = 'x';
    assert_int_equal(parse((struct str){line, 106}), PROXY_HEADER_MORE);
    assert_int_equal(parse((struct str){line, 107}), PROXY_HEADER_BAD);
}

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define TCP4 "\xc0\0\x02\x01\xc6\x33\x64\x02\xdc\x04\x01\xbb"

static void test_version_2(void **state)
{
    (void)state;
    assert_int_equal(parse(STR(SIGNATURE "\x21\x11\0\x0c" TCP4 "GET")), PROXY_HEADER_PARSED);
    source_is("192.0.2.1", 56324);
    assert_int_equal(used, 28);
    assert_int_equal(parse(STR(SIGNATURE "\x21\x11\0\x10" TCP4 "\x04\0\x01\0")),
                     PROXY_HEADER_PARSED);
    source_is("192.0.2.1", 56324);
    assert_int_equal(parse(STR(SIGNATURE "\x21\x21\0\x24"
                                         "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"
                                         "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01"
                                         "\x12\x34\x01\xbb")),
                     PROXY_HEADER_PARSED);
    source_is("2001:db8::1", 0x1234);
    assert_int_equal(used, 52);
}

static void test_version_2_without_a_source(void **state)
{
    (void)state;
    assert_int_equal(parse(STR(SIGNATURE "\x20\0\0\0")), PROXY_HEADER_PARSED);
    assert_false(header.has_source);
    assert_int_equal(parse(STR(SIGNATURE "\x20\x11\0\x0c" TCP4)), PROXY_HEADER_PARSED);
    assert_false(header.has_source);
    assert_int_equal(parse(STR(SIGNATURE "\x21\0\0\x03xyz")), PROXY_HEADER_PARSED);
    assert_false(header.has_source);
    assert_int_equal(used, 19);
}

static void test_version_2_malformed(void **state)
{
    (void)state;
    static const struct str headers[] = {
        STR(SIGNATURE "\x11\x11\0\x0c" TCP4), /* version 1 in this framing */
        STR(SIGNATURE "\x22\x11\0\x0c" TCP4), /* an unassigned command */
        STR(SIGNATURE "\x21\x12\0\x0c" TCP4), /* UDP */
        STR(SIGNATURE "\x21\x31\0\x0c" TCP4), /* a Unix socket */
        STR(SIGNATURE "\x21\x41\0\x0c" TCP4), /* no such family */
        STR(SIGNATURE "\x21\x11\0\x0b" TCP4), /* too short for its family */
        STR(SIGNATURE "\x21\x21\0\x0c" TCP4),
        STR(SIGNATURE "\x21\x11\x10\x01"), /* longer than taken here */
        STR("\r\n\r\n\0\r\nQUIT\r"),
        STR("\r\n\r\n\0\r\nquit\n"),
    };
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        if (parse(headers[i]) != PROXY_HEADER_BAD)
            fail_msg("row %zu", i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_1),
        cmocka_unit_test(test_version_1_malformed),
        cmocka_unit_test(test_version_1_is_bounded),
        cmocka_unit_test(test_version_2),
        cmocka_unit_test(test_version_2_without_a_source),
        cmocka_unit_test(test_version_2_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
