#include "transport/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
/* cmocka wants the above first */
#include <cmocka.h>

static void assert_holds(const struct buf *buf, const char *text)
{
    struct str view = buf_view(buf);
    assert_int_equal(view.len, strlen(text));
    assert_memory_equal(view.p, text, view.len);
}

static void owns_nothing_while_empty(void **state)
{
    (void)state;
    struct buf buf = {0};
    buf_append(&buf, STR(""));
    assert_null(buf.data);
    buf_append(&buf, STR("tail"));
    assert_non_null(buf.data);
    buf_take(&buf, 4);
    assert_null(buf.data);
    buf_room(&buf, 100);
    buf_added(&buf, 0);
    assert_null(buf.data);
}

static void keeps_the_order(void **state)
{
    (void)state;
    struct buf buf = {0};
    buf_append(&buf, STR("one "));
    buf_printf(&buf, "%s %d", "two", 3);
    assert_holds(&buf, "one two 3");
    buf_take(&buf, 4);
    assert_holds(&buf, "two 3");
    memcpy(buf_room(&buf, 5), " four", 5);
    buf_added(&buf, 5);
    assert_holds(&buf, "two 3 four");
    buf_free(&buf);
}

static void moves_without_copying_into_an_empty_one(void **state)
{
    (void)state;
    struct buf from = {0}, to = {0};
    buf_append(&from, STR("payload"));
    const char *storage = from.data;
    buf_move(&to, &from);
    assert_ptr_equal(to.data, storage);
    assert_null(from.data);
    buf_append(&from, STR(" and more"));
    buf_move(&to, &from);
    assert_holds(&to, "payload and more");
    assert_null(from.data);
    buf_free(&to);
}

static void texts_and_numbers_are_joined(void **state)
{
    (void)state;
    struct buf buf = {0};
    BUF_JOIN(&buf, "HTTP/1.1 ", NULL, "", "403");
    buf_number(&buf, 0);
    buf_number(&buf, UINT64_MAX);
    assert_holds(&buf, "HTTP/1.1 403018446744073709551615");
    const char *storage = buf.data;
    buf_clear(&buf);
    assert_int_equal(buf_view(&buf).len, 0);
    BUF_JOIN(&buf, "again");
    assert_holds(&buf, "again");
    assert_ptr_equal(buf.data, storage);
    buf_free(&buf);
}

/* A queue that stays full while bytes pass through one at a time: order holds, storage is bounded.
 */
static void bytes_pass_through_a_full_queue(void **state)
{
    (void)state;
    enum { FULL = 5000, PASS = 200000 };
    struct buf buf = {0};
    unsigned char in = 0, out = 0;
    for (int i = 0; i < FULL; i++, in++)
        buf_append(&buf, (struct str){(const char *)&in, 1});
    for (int i = 0; i < PASS; i++, in++, out++) {
        assert_int_equal((unsigned char)buf_view(&buf).p[0], out);
        buf_take(&buf, 1);
        buf_append(&buf, (struct str){(const char *)&in, 1});
    }
    assert_int_equal(buf.len, FULL);
    assert_true(buf.cap <= (size_t)4 * FULL);
    buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owns_nothing_while_empty),
        cmocka_unit_test(keeps_the_order),
        cmocka_unit_test(moves_without_copying_into_an_empty_one),
        cmocka_unit_test(texts_and_numbers_are_joined),
        cmocka_unit_test(bytes_pass_through_a_full_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
