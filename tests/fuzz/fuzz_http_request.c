/*
 * Request heads: the same verdict however the bytes are split, and what is forwarded from a head
 * that was taken is read back with the same method, target and body.
 */
#include "tests/forwarded.h"

enum { MAX = 64 << 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum http_result parse(struct str bytes, size_t step, struct http_request *out,
                              struct http_fault *fault)
{
    struct http_scan scan = {0};
    enum http_result result = HTTP_MORE;
    for (size_t at = 0; result == HTTP_MORE; at += step) {
        struct str piece = {bytes.p, at < bytes.len ? at : bytes.len};
        result = http_parse_request(piece, MAX, &scan, out, fault);
        if (piece.len == bytes.len)
            break;
    }
    return result;
}

static const struct http_field *host_of(const struct http_request *request)
{
    const struct http_field *host = NULL;
    for (size_t i = 0; i < request->field_count; i++) {
        if (!str_ieq(request->fields[i].name, STR("Host")))
            continue;
        assert(host == NULL);
        host = &request->fields[i];
    }
    return host;
}

static void check_forwarded(const struct http_request *request)
{
    static struct http_request again;
    static struct forwarded forwarded;
    struct http_fault fault;
    struct http_scan scan = {0};
    struct target host;
    struct str head = forwarded_head(&forwarded, request);
    enum http_result result = http_parse_request(head, 2 * MAX, &scan, &again, &fault);
    if (result == HTTP_REFUSED && fault.status == 431)
        return; /* Host and framing were one field too many */
    assert(result == HTTP_PARSED && again.size == head.len);
    assert(str_eq(again.method, request->method));
    assert(again.form == HTTP_ORIGIN_FORM || again.form == HTTP_ASTERISK_FORM);
    if (again.form == HTTP_ORIGIN_FORM)
        assert(str_eq(again.path, request->path) && str_eq(again.query, request->query));
    assert(again.body == request->body && again.length == request->length);
    assert(host_of(&again) != NULL);
    assert(target_parse_default(&host, host_of(&again)->value, 80, NULL));
    assert(target_eq(&host, &request->to));
    for (size_t i = 0; i < again.field_count; i++)
        assert(!again.fields[i].hop_by_hop || http_is_own(again.fields[i].name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http_request whole, pieces;
    struct http_fault fault = {0}, fault_in_pieces = {0};
    struct str bytes = {(const char *)data, size};
    enum http_result result = parse(bytes, size + 1, &whole, &fault);
    for (size_t step = 1; step <= 13; step += 12) {
        assert(parse(bytes, step, &pieces, &fault_in_pieces) == result);
        assert(fault_in_pieces.status == fault.status && fault_in_pieces.why == fault.why);
    }
    if (result != HTTP_PARSED)
        return 0;
    assert(whole.size <= size && whole.size == pieces.size);
    assert(whole.form != HTTP_AUTHORITY_FORM || whole.body == HTTP_BODY_NONE);
    if (whole.form == HTTP_ABSOLUTE_FORM)
        check_forwarded(&whole);
    return 0;
}
