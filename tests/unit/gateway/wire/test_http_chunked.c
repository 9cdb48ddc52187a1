/*
 * The chunked coding, fed whole and in every number of pieces. Cases are named by their id.
 */
#include "wire/http_chunked.h"

#include "pieces.h"

static char body[64 << 10];
static size_t body_len;

/* Feeds `bytes` in pieces of `step`; what came out is in `body`. `*used`: up to the end or the
 * fault. */
static enum chunked_result decode_in_steps(struct str bytes, size_t step, size_t *used)
{
    struct chunked chunked;
    enum chunked_result result = CHUNKED_MORE;
    chunked_init(&chunked);
    body_len = 0;
    for (*used = 0; result == CHUNKED_MORE && *used < bytes.len;) {
        size_t len = bytes.len - *used < step ? bytes.len - *used : step;
        autofree char *copy = exact_copy((struct str){bytes.p + *used, len});
        struct str piece = {copy, len}, data;
        size_t taken;
        while ((result = chunked_feed(&chunked, piece, &taken, &data)) == CHUNKED_DATA) {
            assert_true(data.len > 0 && body_len + data.len <= sizeof(body));
            memcpy(body + body_len, data.p, data.len);
            body_len += data.len;
            *used += taken;
            piece = str_from(piece, taken);
        }
        *used += taken;
        if (result == CHUNKED_MORE)
            assert_int_equal(taken, piece.len);
    }
    return result;
}

static enum chunked_result decode(struct str bytes, size_t *used)
{
    enum chunked_result whole = decode_in_steps(bytes, bytes.len, used);
    for (size_t step = 1; step <= 7; step++) {
        size_t used_in_steps, whole_len = body_len;
        assert_int_equal(decode_in_steps(bytes, step, &used_in_steps), whole);
        assert_int_equal(used_in_steps, *used);
        assert_int_equal(body_len, whole_len);
    }
    return whole;
}

static void decodes(const char *bytes, const char *want)
{
    size_t used;
    if (decode(str_of(bytes), &used) != CHUNKED_DONE)
        fail_msg("not decoded: %s", bytes);
    assert_int_equal(used, strlen(bytes));
    assert_str((struct str){body, body_len}, want);
}

static void refused_bytes(struct str bytes)
{
    size_t used;
    if (decode(bytes, &used) != CHUNKED_BAD)
        fail_msg("not refused: %.*s", STR_ARG(bytes));
}

static void refused(const char *bytes)
{
    refused_bytes(str_of(bytes));
}

static void test_bodies(void **state)
{
    (void)state;
    decodes("0\r\n\r\n", "");
    decodes("5\r\nhello\r\n0\r\n\r\n", "hello");
    decodes("5\r\nhello\r\n1\r\n \r\n005\r\nworld\r\n000\r\n\r\n", "hello world");
    decodes("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789");
    decodes("0000000000000001\r\nx\r\n0\r\n\r\n", "x");
    decodes("4\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n");
}

static void test_extensions_are_dropped(void **state)
{
    (void)state;
    decodes("5;a\r\nhello\r\n0;b=c;d=\"e f\" ; g\t\r\n\r\n", "hello");
    refused("5;a\nhello\r\n0\r\n\r\n");
    refused("5;a\rb\r\nhello\r\n0\r\n\r\n");
    refused("5;\x01\r\nhello\r\n0\r\n\r\n");
    refused_bytes(STR("5;\0\r\nhello\r\n0\r\n\r\n"));
    char long_line[1024] = "1;";
    memset(long_line + 2, 'x', 256);
    strcpy(long_line + 2 + 256, "\r\ny\r\n0\r\n\r\n");
    decodes(long_line, "y");
    memset(long_line + 2, 'x', 257);
    strcpy(long_line + 2 + 257, "\r\ny\r\n0\r\n\r\n");
    refused(long_line);
}

static void test_h37_trailers_are_dropped(void **state)
{
    (void)state;
    decodes("1\r\nx\r\n0\r\nX-Sum: abc\r\nContent-Length: 5\r\n\r\n", "x");
    decodes("0\r\nA:\r\n\r\n", "");
    refused("0\r\nA\r\n\r\n");
    refused("0\r\nA : b\r\n\r\n");
    refused("0\r\n: b\r\n\r\n");
    refused("0\r\nA: b\r\n c\r\n\r\n");
    refused("0\r\nA: b\n\r\n");
    refused("0\r\nA: b\r\n\n");
    refused("0\r\nA: \x01\r\n\r\n");
    refused("0\r\n\n");
    refused("0\r\n\rx");
}

static void test_trailers_are_bounded(void **state)
{
    (void)state;
    char bytes[16 << 10] = "0\r\nA: ";
    size_t at = strlen(bytes);
    memset(bytes + at, 'x', 8000);
    strcpy(bytes + at + 8000, "\r\n\r\n");
    decodes(bytes, "");
    memset(bytes + at, 'x', 8200);
    strcpy(bytes + at + 8200, "\r\n\r\n");
    refused(bytes);
}

static void test_what_follows_is_left_alone(void **state)
{
    (void)state;
    size_t used;
    assert_int_equal(decode(STR("1\r\nx\r\n0\r\n\r\nGET / HTTP/1.1\r\n"), &used), CHUNKED_DONE);
    assert_int_equal(used, strlen("1\r\nx\r\n0\r\n\r\n"));
}

static void test_h10_lenient_spellings(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello\r0\r\n\r\n",
        "5\r\nhello!\r\n0\r\n\r\n",
        "5\r\nhell\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "\t5\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "5\t\r\nhello\r\n0\r\n\r\n",
        "5 ;a\r\nhello\r\n0\r\n\r\n",
        "5,5\r\nhello\r\n0\r\n\r\n",
        "\r\n5\r\nhello\r\n0\r\n\r\n",
        ";a\r\nhello\r\n0\r\n\r\n",
        "\r\n",
        "g\r\n",
        "5\r\r\nhello",
        "5\rhello",
        "00000000000000005\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "0\n\n",
        "0\r\n0\r\n\r\n",
        "5\r\nhello\r\n\r\n0\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        refused(odd[i]);
    refused_bytes(STR("5\0\r\nhello\r\n0\r\n\r\n"));
}

static void test_the_largest_chunk_is_no_negative_one_for_anybody(void **state)
{
    (void)state;
    size_t used;
    assert_int_equal(decode(STR("7fffffffffffffff\r\nabc"), &used), CHUNKED_MORE);
    assert_str((struct str){body, body_len}, "abc");
    refused("8000000000000000\r\n");
    refused("FFFFFFFFFFFFFFFF\r\n");
    refused("fffffffffffffffe\r\n");
    refused("FFFFFFFFFFFFFFFF0\r\n");
}

static void test_the_end_and_a_fault_stay(void **state)
{
    (void)state;
    struct chunked chunked;
    struct str data;
    size_t used;
    chunked_init(&chunked);
    assert_int_equal(chunked_feed(&chunked, STR_NULL, &used, &data), CHUNKED_MORE);
    assert_int_equal(chunked_feed(&chunked, STR("0\r\n\r\n"), &used, &data), CHUNKED_DONE);
    assert_int_equal(chunked_feed(&chunked, STR("0\r\n\r\n"), &used, &data), CHUNKED_DONE);
    assert_int_equal(used, 0);
    chunked_init(&chunked);
    assert_int_equal(chunked_feed(&chunked, STR("x"), &used, &data), CHUNKED_BAD);
    assert_int_equal(chunked_feed(&chunked, STR("0\r\n\r\n"), &used, &data), CHUNKED_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_extensions_are_dropped),
        cmocka_unit_test(test_h37_trailers_are_dropped),
        cmocka_unit_test(test_trailers_are_bounded),
        cmocka_unit_test(test_what_follows_is_left_alone),
        cmocka_unit_test(test_h10_lenient_spellings),
        cmocka_unit_test(test_the_largest_chunk_is_no_negative_one_for_anybody),
        cmocka_unit_test(test_the_end_and_a_fault_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
