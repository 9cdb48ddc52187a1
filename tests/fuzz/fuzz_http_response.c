/*
 * Response heads: the same verdict however the bytes are split, refused with 502 only, and never
 * two framings. The first byte says whether the request was HEAD.
 */
#include "wire/http_head.h"

#include <assert.h>

enum { MAX = 64 << 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum http_result parse(struct str bytes, bool head, size_t step, struct http_response *out,
                              struct http_fault *fault)
{
    struct http_scan scan = {0};
    enum http_result result = HTTP_MORE;
    for (size_t at = 0; result == HTTP_MORE; at += step) {
        struct str piece = {bytes.p, at < bytes.len ? at : bytes.len};
        result = http_parse_response(piece, MAX, head, &scan, out, fault);
        if (piece.len == bytes.len)
            break;
    }
    return result;
}

static size_t count_fields(const struct http_response *response, struct str name)
{
    size_t count = 0;
    for (size_t i = 0; i < response->field_count; i++)
        count += str_ieq(response->fields[i].name, name);
    return count;
}

static void check(const struct http_response *response, bool head)
{
    size_t lengths = count_fields(response, STR("Content-Length"));
    size_t codings = count_fields(response, STR("Transfer-Encoding"));
    assert(response->status >= 100 && response->status <= 599);
    assert(lengths + codings <= 1);
    assert(response->has_length ==
           (lengths == 1 && response->status >= 200 && response->status != 204));
    if (head || response->status < 200 || response->status == 204 || response->status == 304)
        assert(response->body == HTTP_BODY_NONE);
    else
        assert(response->body == (codings == 1   ? HTTP_BODY_CHUNKED
                                  : lengths == 1 ? HTTP_BODY_LENGTH
                                                 : HTTP_BODY_UNTIL_CLOSE));
    assert(response->body != HTTP_BODY_UNTIL_CLOSE || !response->keep_alive);
    for (size_t i = 0; i < response->field_count; i++)
        for (size_t k = 0; k < response->fields[i].value.len; k++)
            assert(response->fields[i].value.p[k] != '\r' &&
                   response->fields[i].value.p[k] != '\n' &&
                   response->fields[i].value.p[k] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http_response whole, pieces;
    struct http_fault fault = {0}, fault_in_pieces = {0};
    if (size == 0)
        return 0;
    bool head = data[0] == 'H';
    struct str bytes = {(const char *)data + 1, size - 1};
    enum http_result result = parse(bytes, head, size, &whole, &fault);
    for (size_t step = 1; step <= 13; step += 12) {
        assert(parse(bytes, head, step, &pieces, &fault_in_pieces) == result);
        assert(fault_in_pieces.status == fault.status && fault_in_pieces.why == fault.why);
    }
    if (result == HTTP_REFUSED)
        assert(fault.status == 502);
    if (result == HTTP_PARSED) {
        assert(whole.size <= bytes.len && whole.size == pieces.size);
        check(&whole, head);
    }
    return 0;
}
