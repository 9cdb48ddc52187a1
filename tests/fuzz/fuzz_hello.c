/*
 * ClientHellos: the same answer however the bytes are split, whole or joined into one record, and a
 * name that is called valid is canonical.
 */
#include "wire/hello.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum hello_result parse(struct str bytes, size_t step, struct hello *out)
{
    struct hello_scan scan = {0};
    enum hello_result result = HELLO_MORE;
    for (size_t at = 0; result == HELLO_MORE; at += step) {
        struct str piece = {bytes.p, at < bytes.len ? at : bytes.len};
        result = hello_parse(piece, &scan, out);
        if (piece.len == bytes.len)
            break;
    }
    return result;
}

static void assert_same(const struct hello *a, const struct hello *b)
{
    assert(a->has_name == b->has_name && a->name_is_valid == b->name_is_valid);
    assert(a->has_ech == b->has_ech);
    assert(!a->name_is_valid || name_eq(&a->name, &b->name));
}

/* The same message with each byte of it in a record of its own, where that is not too long. */
static void check_in_tiny_records(struct str bytes, const struct hello *whole)
{
    static char records[HELLO_MAX];
    struct hello hello;
    size_t len = 0;
    size_t first = (size_t)(uint8_t)bytes.p[3] << 8 | (uint8_t)bytes.p[4];
    size_t message = 4 + ((size_t)(uint8_t)bytes.p[7] << 8 | (uint8_t)bytes.p[8]);
    if (first < 9 || first != message || bytes.p[6] != 0 || message > HELLO_MAX / 6)
        return;
    for (size_t i = 0; i < message; i++) {
        memcpy(records + len, "\x16\x03\x03\0\x01", 5);
        records[len + 5] = bytes.p[5 + i];
        len += 6;
    }
    assert(parse((struct str){records, len}, len, &hello) == HELLO_PARSED);
    assert_same(whole, &hello);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hello whole, pieces;
    struct str bytes = {(const char *)data, size};
    enum hello_result result = parse(bytes, size + 1, &whole);
    for (size_t step = 1; step <= 13; step += 12)
        assert(parse(bytes, step, &pieces) == result);
    if (result != HELLO_PARSED)
        return 0;
    assert_same(&whole, &pieces);
    assert(whole.has_name || !whole.name_is_valid);
    if (whole.name_is_valid) {
        struct name again;
        assert(name_parse(&again, name_str(&whole.name)) == NAME_OK);
        assert(name_eq(&again, &whole.name));
    }
    check_in_tiny_records(bytes, &whole);
    return 0;
}
