/*
 * What follows a ClientHello: told apart from a second one, whole and in every split.
 */
#include "wire/hello_watch.h"

#include "pieces.h"

/* A hello for `evil.test` as a client could send it after a HelloRetryRequest. */
#define EVIL_MESSAGE                   \
    "\x01\0\0\x3d\x03\x03"             \
    "0123456789abcdef0123456789abcdef" \
    "\0\0\x02\x13\x01\x01\0"           \
    "\0\x12\0\0\0\x0e\0\x0c\0\0\x09"   \
    "evil.test"
#define EVIL "\x16\x03\x03\0\x41" EVIL_MESSAGE
#define CCS "\x14\x03\x03\0\x01\x01"
#define ALERT "\x15\x03\x03\0\x02\x01\x5a"
#define DATA "\x17\x03\x03\0\x04\x16\x03\x03\0"

static struct hello second;
static size_t passed; /* before the verdict */

/* As a relay does: what may pass is dropped, what has come in pieces of `step` is fed. */
static enum hello_watch_result watch_in_steps(struct str bytes, bool has_early_data, size_t step)
{
    struct hello first = {.has_early_data = has_early_data};
    struct hello_watch watch;
    enum hello_watch_result result = HELLO_WATCH_MORE;
    size_t come = 0, pass = 0;
    hello_watch_init(&watch, &first);
    passed = 0;
    while (result == HELLO_WATCH_MORE && (come < bytes.len || pass > 0)) {
        if (pass == 0)
            come = bytes.len - come < step ? bytes.len : come + step;
        autofree char *copy = exact_copy((struct str){bytes.p + passed, come - passed});
        result = hello_watch_feed(&watch, (struct str){copy, come - passed}, &pass, &second);
        assert_true(pass <= come - passed);
        if (result == HELLO_WATCH_MORE)
            passed += pass;
    }
    if (result == HELLO_WATCH_HELLO)
        assert_int_equal(pass, sizeof(EVIL) - 1);
    return result;
}

static enum hello_watch_result watch_early(struct str bytes, bool has_early_data)
{
    enum hello_watch_result whole = watch_in_steps(bytes, has_early_data, bytes.len);
    for (size_t step = 1; step <= 7; step++) {
        enum hello_watch_result in_steps = watch_in_steps(bytes, has_early_data, step);
        if (in_steps != whole)
            fail_msg("%d in steps of %zu, %d as a whole", in_steps, step, whole);
    }
    return whole;
}

static enum hello_watch_result watch(struct str bytes)
{
    return watch_early(bytes, false);
}

static void finds_evil(struct str bytes, bool has_early_data, size_t before)
{
    assert_int_equal(watch_early(bytes, has_early_data), HELLO_WATCH_HELLO);
    assert_int_equal(passed, before);
    assert_true(second.has_name && second.name_is_valid);
    assert_string_equal(second.name.text, "evil.test");
}

static void test_a_second_hello_is_found(void **state)
{
    (void)state;
    finds_evil(STR(EVIL), false, 0);
    finds_evil(STR(CCS EVIL), false, sizeof(CCS) - 1);
    finds_evil(STR(ALERT CCS EVIL DATA), false, sizeof(ALERT CCS) - 1);
    finds_evil(STR(DATA DATA CCS EVIL), true, sizeof(DATA DATA CCS) - 1);
}

static void test_a_second_hello_in_tiny_records_is_found(void **state)
{
    (void)state;
    struct str message = STR(EVIL_MESSAGE);
    char bytes[6 * sizeof(EVIL_MESSAGE)];
    for (size_t i = 0; i < message.len; i++) {
        memcpy(bytes + 6 * i, "\x16\x03\x03\0\x01", 5);
        bytes[6 * i + 5] = message.p[i];
    }
    struct hello_watch watch;
    struct hello first = {.has_early_data = false};
    size_t pass;
    hello_watch_init(&watch, &first);
    for (size_t len = 1; len < 6 * message.len; len++) {
        assert_int_equal(hello_watch_feed(&watch, (struct str){bytes, len}, &pass, &second),
                         HELLO_WATCH_MORE);
        assert_int_equal(pass, 0);
    }
    assert_int_equal(hello_watch_feed(&watch, (struct str){bytes, 6 * message.len}, &pass, &second),
                     HELLO_WATCH_HELLO);
    assert_int_equal(pass, 6 * message.len);
    assert_string_equal(second.name.text, "evil.test");
}

static void test_an_ordinary_handshake_goes_on(void **state)
{
    (void)state;
    /* TLS 1.3: change_cipher_spec, encrypted records */
    assert_int_equal(watch(STR(CCS DATA DATA)), HELLO_WATCH_OVER);
    assert_int_equal(watch(STR(DATA)), HELLO_WATCH_OVER);
    /* TLS 1.2: ClientKeyExchange; resumed: change_cipher_spec, an encrypted Finished */
    assert_int_equal(watch(STR("\x16\x03\x03\0\x25\x10\0\0\x21")), HELLO_WATCH_OVER);
    assert_int_equal(watch(STR(CCS "\x16\x03\x03\0\x28\x00\0\0\0\0\0\0\0")), HELLO_WATCH_OVER);
    assert_int_equal(watch(STR(CCS "\x16\x03\x03\0\x28\x01\x03\0\0\0\0\0\0")), HELLO_WATCH_OVER);
    /* whatever is no TLS ends it at the server too */
    assert_int_equal(watch(STR("GET / HTTP/1.1\r\n")), HELLO_WATCH_OVER);
    assert_int_equal(watch(STR(CCS)), HELLO_WATCH_MORE);
    assert_int_equal(passed, sizeof(CCS) - 1);
}

/* An encrypted record that starts like a hello is known by what comes behind it. */
static void test_an_unlucky_finished_goes_on(void **state)
{
    (void)state;
    static const struct str starts[] = {
        STR("\x16\x03\x03\0\x20\x01\0\x11"),   /* of a long one */
        STR("\x16\x03\x03\0\x20\x01\x01\x11"), /* of a too long one */
        STR("\x16\x03\x03\0\x20\x01\0\0\x01"), /* of a short one */
    };
    enum { SIZE = 5 + 0x20 };
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        char bytes[SIZE + sizeof(DATA)];
        memset(bytes, 'x', sizeof(bytes));
        memcpy(bytes, starts[i].p, starts[i].len);
        memcpy(bytes + SIZE, DATA, sizeof(DATA));
        assert_int_equal(watch((struct str){bytes, SIZE}), HELLO_WATCH_MORE);
        assert_int_equal(passed, 0);
        assert_int_equal(watch((struct str){bytes, sizeof(bytes)}), HELLO_WATCH_OVER);
        bytes[SIZE] = 0x16;
        if (watch((struct str){bytes, sizeof(bytes)}) == HELLO_WATCH_OVER)
            fail_msg("row %zu", i);
    }
}

static void test_bad_second_hellos(void **state)
{
    (void)state;
    assert_int_equal(watch(STR("\x16\x03\x03\0\x04\x01\0\0\0\x16")), HELLO_WATCH_BAD);
    assert_int_equal(watch(STR("\x16\x04\x03\0\x04\x01\0\0\0\x16")), HELLO_WATCH_BAD);
    assert_int_equal(watch(STR("\x16\x03\x03\xff\xff\x01\0\0\0\x16")), HELLO_WATCH_BAD);
    /* 64 KiB and more, as no judge reads it but OpenSSL would */
    assert_int_equal(watch(STR("\x16\x03\x03\0\x04\x01\x01\x80\0\x16\x03")), HELLO_WATCH_BAD);
}

static void test_what_is_passed_over_is_bounded(void **state)
{
    (void)state;
    static char bytes[(1 << 20) + 4096];
    for (int early = 0; early <= 1; early++) {
        size_t len = 0;
        while (len + 1000 + 5 <= sizeof(bytes)) {
            memcpy(bytes + len, early ? "\x17\x03\x03\x03\xe8" : "\x14\x03\x03\x03\xe8", 5);
            len += 1000 + 5;
        }
        assert_int_equal(watch_in_steps((struct str){bytes, len}, true, len),
                         early ? HELLO_WATCH_OVER : HELLO_WATCH_BAD);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_second_hello_is_found),
        cmocka_unit_test(test_a_second_hello_in_tiny_records_is_found),
        cmocka_unit_test(test_an_ordinary_handshake_goes_on),
        cmocka_unit_test(test_an_unlucky_finished_goes_on),
        cmocka_unit_test(test_bad_second_hellos),
        cmocka_unit_test(test_what_is_passed_over_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
