/*
 * ClientHellos: recorded ones (hellos/, see record.py there) split at every byte and over records,
 * and made ones for what no client sends. Cases are named by their id.
 */
#include "wire/hello.h"

#include "pieces.h"

#include <stdio.h>

static struct hello hello;

static enum hello_result parse(struct str bytes)
{
    struct hello_scan scan = {0};
    return hello_parse(bytes, &scan, &hello);
}

/* Byte by byte: MORE up to the first other answer, which the whole gives too. */
static enum hello_result parse_in_pieces(struct str bytes, size_t *at)
{
    struct hello_scan scan = {0};
    enum hello_result result = HELLO_MORE;
    for (*at = 0; *at <= bytes.len; ++*at) {
        autofree char *copy = exact_copy((struct str){bytes.p, *at});
        result = hello_parse((struct str){copy, *at}, &scan, &hello);
        if (result != HELLO_MORE)
            break;
    }
    return result;
}

static enum hello_result parse_both_ways(struct str bytes)
{
    size_t at;
    enum hello_result in_pieces = parse_in_pieces(bytes, &at);
    assert_int_equal(parse(bytes), in_pieces);
    return in_pieces;
}

/* A message under construction; vectors are opened and closed. */
struct maker {
    uint8_t bytes[HELLO_MAX + 4096];
    size_t len;
};

static void put(struct maker *maker, const void *bytes, size_t len)
{
    assert_true(maker->len + len <= sizeof(maker->bytes));
    memcpy(maker->bytes + maker->len, bytes, len);
    maker->len += len;
}

static void put_number(struct maker *maker, size_t value, size_t size)
{
    while (size-- > 0) {
        uint8_t byte = (uint8_t)(value >> 8 * size);
        put(maker, &byte, 1);
    }
}

static size_t open_vector(struct maker *maker, size_t size)
{
    put_number(maker, 0, size);
    return maker->len;
}

static void close_vector(struct maker *maker, size_t start, size_t size)
{
    size_t len = maker->len - start, end = maker->len;
    maker->len = start - size;
    put_number(maker, len, size);
    maker->len = end;
}

static void put_extension(struct maker *maker, size_t type, struct str data)
{
    put_number(maker, type, 2);
    put_number(maker, data.len, 2);
    put(maker, data.p, data.len);
}

/* The handshake message with these raw extensions. */
static void make_message(struct maker *maker, struct str extensions)
{
    maker->len = 0;
    put_number(maker, 1, 1);
    size_t body = open_vector(maker, 3);
    put(maker, "\x03\x03", 2);
    for (int i = 0; i < 32; i++)
        put_number(maker, (size_t)i, 1);
    put(maker, "\0\0\x02\x13\x01\x01\0", 7);
    if (extensions.p != NULL) {
        put_number(maker, extensions.len, 2);
        put(maker, extensions.p, extensions.len);
    }
    close_vector(maker, body, 3);
}

static void put_record(struct maker *out, struct str fragment)
{
    put(out, "\x16\x03\x01", 3);
    put_number(out, fragment.len, 2);
    put(out, fragment.p, fragment.len);
}

static struct str view(const struct maker *maker)
{
    return (struct str){(const char *)maker->bytes, maker->len};
}

static void split_into_records(struct maker *out, struct str message, size_t size)
{
    out->len = 0;
    while (message.len > 0) {
        size_t len = message.len < size ? message.len : size;
        put_record(out, (struct str){message.p, len});
        message = str_from(message, len);
    }
}

static enum hello_result parse_with_extensions(struct str extensions)
{
    static struct maker message, records;
    make_message(&message, extensions);
    split_into_records(&records, view(&message), 1 << 14);
    return parse_both_ways(view(&records));
}

/* `list`: the raw server_name_list with its length. */
static enum hello_result parse_with_server_name(struct str list)
{
    static struct maker extensions;
    extensions.len = 0;
    put_extension(&extensions, 23, STR(""));
    put_extension(&extensions, 0, list);
    put_extension(&extensions, 43, STR("\x02\x03\x04"));
    return parse_with_extensions(view(&extensions));
}

static enum hello_result parse_with_name(struct str name)
{
    static struct maker list;
    list.len = 0;
    size_t start = open_vector(&list, 2);
    put_number(&list, 0, 1);
    put_number(&list, name.len, 2);
    put(&list, name.p, name.len);
    close_vector(&list, start, 2);
    return parse_with_server_name(view(&list));
}

static struct str load(const char *name)
{
    static char bytes[HELLO_MAX];
    char path[256];
    snprintf(path, sizeof(path), "unit/gateway/wire/hellos/%s.bin", name);
    autofclose FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("%s", path);
    return (struct str){bytes, fread(bytes, 1, sizeof(bytes), file)};
}

static const char *const recorded[] = {"openssl", "openssl-tls12", "curl",
                                       "wget",    "node",          "python",
                                       "java",    "chromium-like", "go-like"};

static void assert_good_test(const char *client)
{
    if (!hello.has_name || !hello.name_is_valid)
        fail_msg("%s: no valid name", client);
    assert_string_equal(hello.name.text, "good.test");
    assert_int_equal(hello.has_ech, strcmp(client, "chromium-like") == 0);
}

static void test_recorded_hellos_split_at_every_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(recorded) / sizeof(recorded[0]); i++) {
        struct str bytes = load(recorded[i]);
        for (size_t at = 0; at < bytes.len; at++) {
            struct hello_scan scan = {0};
            autofree char *copy = exact_copy((struct str){bytes.p, at});
            assert_int_equal(hello_parse((struct str){copy, at}, &scan, &hello), HELLO_MORE);
            assert_int_equal(hello_parse(bytes, &scan, &hello), HELLO_PARSED);
            assert_good_test(recorded[i]);
        }
        size_t at;
        assert_int_equal(parse_in_pieces(bytes, &at), HELLO_PARSED);
        assert_int_equal(at, bytes.len);
        assert_good_test(recorded[i]);
    }
}

static void test_recorded_hellos_split_over_records(void **state)
{
    (void)state;
    static struct maker records;
    for (size_t i = 0; i < sizeof(recorded) / sizeof(recorded[0]); i++) {
        struct str bytes = load(recorded[i]), message = str_from(bytes, 5);
        for (size_t at = 1; at < message.len; at++) {
            records.len = 0;
            put_record(&records, (struct str){message.p, at});
            put_record(&records, str_from(message, at));
            assert_int_equal(parse(view(&records)), HELLO_PARSED);
            assert_good_test(recorded[i]);
        }
        for (size_t size = 1; size <= 9; size++) {
            split_into_records(&records, message, size);
            assert_int_equal(parse_both_ways(view(&records)), HELLO_PARSED);
            assert_good_test(recorded[i]);
        }
    }
}

static void test_what_follows_the_hello_is_left_alone(void **state)
{
    (void)state;
    char bytes[4096];
    struct str whole = load("node");
    memcpy(bytes, whole.p, whole.len);
    memcpy(bytes + whole.len, "\x17\x03\x03\x00\x05hello", 10); /* early data */
    assert_int_equal(parse_both_ways((struct str){bytes, whole.len + 10}), HELLO_PARSED);
    assert_good_test("node");
    memcpy(bytes + whole.len, "junk", 4);
    assert_int_equal(parse_both_ways((struct str){bytes, whole.len + 4}), HELLO_PARSED);
}

static void test_t07_names(void **state)
{
    (void)state;
    static const struct {
        struct str name;
        bool is_valid;
    } rows[] = {
        {STR("good.test"), true},
        {STR("GOOD.Test"), true},
        {STR("good.test."), false},
        {STR("."), false},
        {STR(""), false},
        {STR("evil.test\0.good.test"), false},
        {STR("good.test\0"), false},
        {STR("127.0.0.1"), false},
        {STR("127.1"), false},
        {STR("::1"), false},
        {STR("[::1]"), false},
        {STR("good test"), false},
        {STR("good.test:443"), false},
        {STR("g\xc3\xb6.test"), false},
        {STR("xn--g-eka.test"), true},
        {STR("_a.good.test"), true},
        {STR("*.good.test"), false},
        {STR("good..test"), false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(parse_with_name(rows[i].name), HELLO_PARSED);
        assert_true(hello.has_name);
        if (hello.name_is_valid != rows[i].is_valid)
            fail_msg("%.*s", STR_ARG(rows[i].name));
    }
    assert_int_equal(parse_with_name(STR("GOOD.Test")), HELLO_PARSED);
    assert_string_equal(hello.name.text, "good.test");
    char longest[1000];
    memset(longest, 'a', sizeof(longest));
    assert_int_equal(parse_with_name((struct str){longest, sizeof(longest)}), HELLO_PARSED);
    assert_false(hello.name_is_valid);
}

static void test_t07_several_names(void **state)
{
    (void)state;
    assert_int_equal(parse_with_server_name(STR("\0\x08\0\0\x01"
                                                "a\0\0\x01"
                                                "b")),
                     HELLO_PARSED);
    assert_true(hello.has_name && !hello.name_is_valid);
    assert_int_equal(parse_with_server_name(STR("\0\x08\0\0\x01"
                                                "a\0\0\x01"
                                                "a")),
                     HELLO_PARSED);
    assert_true(hello.has_name && !hello.name_is_valid);
    /* of a type that nobody has defined */
    assert_int_equal(parse_with_server_name(STR("\0\x04\x01\0\x01"
                                                "a")),
                     HELLO_PARSED);
    assert_true(hello.has_name && !hello.name_is_valid);
    assert_int_equal(parse_with_server_name(STR("\0\x08\0\0\x01"
                                                "a\x01\0\x01"
                                                "b")),
                     HELLO_PARSED);
    assert_true(hello.has_name && !hello.name_is_valid);
    /* two extensions */
    assert_int_equal(parse_with_extensions(STR("\0\0\0\x06\0\x04\0\0\x01"
                                               "a"
                                               "\0\0\0\x06\0\x04\0\0\x01"
                                               "a")),
                     HELLO_BAD);
}

static void test_t07_lengths_that_lie(void **state)
{
    (void)state;
    static const struct str lists[] = {
        STR(""),
        STR("\0"),
        STR("\0\0"),
        STR("\0\x04\0\0\x01"),
        STR("\0\x05\0\0\x01"
            "a"),
        STR("\0\x03\0\0\x01"
            "a"),
        STR("\0\x04\0\0\x02"
            "a"),
        STR("\0\x04\0\xff\xff"
            "a"),
        STR("\xff\xff\0\0\x01"
            "a"),
        STR("\0\x01\0"),
        STR("\0\x02\0\0"),
        STR("\0\x04\0\0\x01"
            "ab"),
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        if (parse_with_server_name(lists[i]) != HELLO_BAD)
            fail_msg("list %zu", i);
    static const struct str extensions[] = {
        STR("\0"),
        STR("\0\0\0"),
        STR("\0\x17\0\x01"),
        STR("\0\x17\xff\xff"),
        STR("\0\x17\0\0\0"),
        STR("\0\0\0\x07\0\x04\0\0\x01"
            "a"),
    };
    for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++)
        if (parse_with_extensions(extensions[i]) != HELLO_BAD)
            fail_msg("extensions %zu", i);
}

static void test_t02_no_name(void **state)
{
    (void)state;
    assert_int_equal(parse_with_extensions(STR_NULL), HELLO_PARSED);
    assert_false(hello.has_name || hello.name_is_valid || hello.has_ech);
    assert_int_equal(parse_with_extensions(STR("")), HELLO_PARSED);
    assert_false(hello.has_name);
    assert_int_equal(parse_with_extensions(STR("\0\x17\0\0")), HELLO_PARSED);
    assert_false(hello.has_name);
}

static void test_encrypted_hellos(void **state)
{
    (void)state;
    static const struct str extensions[] = {STR("\xfe\x0d\0\x01x"), STR("\xfe\x08\0\x01x"),
                                            STR("\xff\xce\0\x01x")};
    for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
        assert_int_equal(parse_with_extensions(extensions[i]), HELLO_PARSED);
        assert_true(hello.has_ech);
    }
}

/* Every byte of a hello set to every value, every truncation with the record's length made to fit:
 * an answer, and under the sanitizers no other. */
static void test_t20_mutated_hellos(void **state)
{
    (void)state;
    struct str whole = load("openssl");
    for (size_t at = 0; at < whole.len; at++) {
        autofree char *copy = exact_copy(whole);
        for (int byte = 0; byte < 256; byte++) {
            copy[at] = (char)byte;
            enum hello_result result = parse((struct str){copy, whole.len});
            assert_true(result <= HELLO_BAD);
        }
    }
    for (size_t len = 1; len + 5 < whole.len; len++) {
        autofree char *copy = exact_copy((struct str){whole.p, 5 + len});
        copy[3] = (char)(len >> 8);
        copy[4] = (char)len;
        assert_int_equal(parse((struct str){copy, 5 + len}), HELLO_MORE); /* the message goes on */
        if (len < 4)
            continue;
        copy[7] = (char)((len - 4) >> 8);
        copy[8] = (char)(len - 4);
        enum hello_result result = parse((struct str){copy, 5 + len});
        assert_true(result == HELLO_BAD || (result == HELLO_PARSED && !hello.has_name));
    }
}

static void test_t20_tls_that_is_no_hello(void **state)
{
    (void)state;
    static const struct str bad[] = {
        STR("\x15\x03\x01\0\x02\x02\x28"),             /* an alert */
        STR("\x14\x03\x03\0\x01\x01"),                 /* change cipher spec */
        STR("\x17\x03\x03\0\x01\x01"),                 /* application data */
        STR("\x18\x03"),                               /* heartbeat */
        STR("\x16\x03\x01\0\x04\x02\0\0\0"),           /* a ServerHello */
        STR("\x16\x03\x01\0\0"),                       /* an empty record */
        STR("\x16\x03\x01\x40\x01"),                   /* longer than records may be */
        STR("\x16\x04\x01\0\x04\x01\0\0\0"),           /* a version that never was */
        STR("\x16\x03\x01\0\x04\x01\xff\xff\xff"),     /* 16 MiB */
        STR("\x16\x03\x01\0\x04\x01\x01\0\0"),         /* 64 KiB, just too long with its headers */
        STR("\x16\x03\x01\0\x05\x01\0\0\0\0"),         /* a message behind the message */
        STR("\x16\x03\x01\0\x01\x01\x17\x03"),         /* another record within */
        STR("\x16\x03\x01\0\x01\x01\x16\x03\x01\0\0"), /* an empty record within */
        STR("\x80\x2e\x01\x03\x01\0\x15"),             /* SSLv2 framing of TLS 1.0 */
        STR("\x80\x2e\x01\0\x02\0\x15"),               /* SSLv2 */
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (parse_both_ways(bad[i]) != HELLO_BAD)
            fail_msg("row %zu", i);
}

static void test_t05_other_protocols(void **state)
{
    (void)state;
    static const struct str other[] = {
        STR("SSH-2.0-OpenSSH_9.2p1\r\n"),
        STR("GET / HTTP/1.1\r\n"),
        STR("\0\0\0\x08\x04\xd2\x16\x2f"),
        STR("\x10\x0c\0\x04MQTT"),
        STR("\x15\x02"),
        STR("\x80\0\0"),
        STR("\xff\xfe\x02"),
    };
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
        if (parse_both_ways(other[i]) != HELLO_NOT_TLS)
            fail_msg("row %zu", i);
    assert_int_equal(parse_both_ways(STR("")), HELLO_MORE);
    assert_int_equal(parse_both_ways(STR("\x16")), HELLO_MORE);
    assert_int_equal(parse_both_ways(STR("\x80\x2e")), HELLO_MORE);
}

/* The longest hello that fits is read, one byte more is not; one-byte records reach the end early.
 */
static void test_t04_the_limit(void **state)
{
    (void)state;
    static struct maker extensions, message, records;
    static char padding[HELLO_MAX];
    enum { RECORDS = 4, HEAD = 4 + 2 + 32 + 1 + 4 + 2 + 2, EXTENSION_HEAD = 4 };
    size_t room = HELLO_MAX - 5 * RECORDS - HEAD - EXTENSION_HEAD;
    for (size_t extra = 0; extra <= 1; extra++) {
        extensions.len = 0;
        put_extension(&extensions, 21, (struct str){padding, room + extra});
        make_message(&message, view(&extensions));
        split_into_records(&records, view(&message), 1 << 14);
        assert_int_equal(records.len, HELLO_MAX + extra);
        assert_int_equal(parse(view(&records)), extra == 0 ? HELLO_PARSED : HELLO_BAD);
    }
    extensions.len = 0;
    put_extension(&extensions, 21, (struct str){padding, 12000});
    make_message(&message, view(&extensions));
    split_into_records(&records, (struct str){(const char *)message.bytes, 10500}, 1);
    assert_int_equal(records.len, 63000);
    assert_int_equal(parse(view(&records)), HELLO_MORE);
    split_into_records(&records, (struct str){(const char *)message.bytes, 10940}, 1);
    assert_true(records.len > HELLO_MAX);
    assert_int_equal(parse(view(&records)), HELLO_BAD);
}

static void test_the_alert(void **state)
{
    (void)state;
    uint8_t out[7];
    hello_alert(out, HELLO_UNRECOGNIZED_NAME);
    assert_memory_equal(out, "\x15\x03\x03\x00\x02\x02\x70", 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded_hellos_split_at_every_byte),
        cmocka_unit_test(test_recorded_hellos_split_over_records),
        cmocka_unit_test(test_what_follows_the_hello_is_left_alone),
        cmocka_unit_test(test_t07_names),
        cmocka_unit_test(test_t07_several_names),
        cmocka_unit_test(test_t07_lengths_that_lie),
        cmocka_unit_test(test_t02_no_name),
        cmocka_unit_test(test_encrypted_hellos),
        cmocka_unit_test(test_t20_mutated_hellos),
        cmocka_unit_test(test_t20_tls_that_is_no_hello),
        cmocka_unit_test(test_t05_other_protocols),
        cmocka_unit_test(test_t04_the_limit),
        cmocka_unit_test(test_the_alert),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
