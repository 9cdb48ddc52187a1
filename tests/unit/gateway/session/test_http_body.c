#include "session/http_body.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the above first */
#include <cmocka.h>

/* Feeds `in` in pieces of at most `piece` bytes and writes what comes out with another coding. */
static size_t recode(struct http_body_in *body, enum http_body coding, struct str in, size_t piece,
                     struct buf *out)
{
    size_t total = 0;
    while (total < in.len && !body->done) {
        struct str rest = str_from(in, total), data;
        size_t used = 0;
        if (rest.len > piece)
            rest.len = piece;
        assert_true(http_body_feed(body, rest, &used, &data));
        http_body_write(out, coding, data);
        total += used;
    }
    if (body->done)
        http_body_finish(out, coding);
    return total;
}

static void assert_becomes(enum http_body from, uint64_t length, const char *in,
                           enum http_body coding, size_t piece, const char *expected, size_t left)
{
    struct http_body_in body;
    struct buf out = {0};
    http_body_begin(&body, from, length);
    size_t used = recode(&body, coding, str_of(in), piece, &out);
    assert_int_equal(strlen(in) - used, left);
    assert_int_equal(buf_view(&out).len, strlen(expected));
    assert_memory_equal(buf_view(&out).p, expected, strlen(expected));
    buf_free(&out);
}

static void odd_spellings_do_not_survive(void **state)
{
    (void)state;
    const char *in = "005;ext=1\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\nGET /";
    assert_becomes(HTTP_BODY_CHUNKED, 0, in, HTTP_BODY_CHUNKED, 1000, "5\r\nhello\r\n0\r\n\r\n", 5);
    assert_becomes(HTTP_BODY_CHUNKED, 0, in, HTTP_BODY_UNTIL_CLOSE, 1000, "hello", 5);
    assert_becomes(HTTP_BODY_CHUNKED, 0, in, HTTP_BODY_UNTIL_CLOSE, 1, "hello", 5);
}

static void a_length_takes_exactly_its_bytes(void **state)
{
    (void)state;
    assert_becomes(HTTP_BODY_LENGTH, 5, "helloGET /", HTTP_BODY_LENGTH, 1000, "hello", 5);
    assert_becomes(HTTP_BODY_LENGTH, 5, "helloGET /", HTTP_BODY_LENGTH, 1, "hello", 5);
    assert_becomes(HTTP_BODY_LENGTH, 9, "hello", HTTP_BODY_LENGTH, 1000, "hello", 0);
    assert_becomes(HTTP_BODY_LENGTH, 0, "GET /", HTTP_BODY_LENGTH, 1000, "", 5);
}

static void until_close_becomes_chunks(void **state)
{
    (void)state;
    assert_becomes(HTTP_BODY_UNTIL_CLOSE, 0, "hello", HTTP_BODY_CHUNKED, 3,
                   "3\r\nhel\r\n2\r\nlo\r\n", 0);
}

static void no_body_is_done_at_once(void **state)
{
    (void)state;
    struct http_body_in body;
    http_body_begin(&body, HTTP_BODY_NONE, 0);
    assert_true(body.done);
    http_body_begin(&body, HTTP_BODY_LENGTH, 0);
    assert_true(body.done);
    http_body_begin(&body, HTTP_BODY_CHUNKED, 0);
    assert_false(body.done);
    http_body_begin(&body, HTTP_BODY_UNTIL_CLOSE, 0);
    assert_false(body.done);
}

static void broken_chunks_are_noticed(void **state)
{
    (void)state;
    struct http_body_in body;
    struct str data;
    size_t used;
    http_body_begin(&body, HTTP_BODY_CHUNKED, 0);
    assert_false(http_body_feed(&body, STR("0x5\r\nhello\r\n"), &used, &data));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_spellings_do_not_survive),
        cmocka_unit_test(a_length_takes_exactly_its_bytes),
        cmocka_unit_test(until_close_becomes_chunks),
        cmocka_unit_test(no_body_is_done_at_once),
        cmocka_unit_test(broken_chunks_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
