/*
 * What a forwarder makes of a request head by the rules of wire/http_head.h: origin form, its own
 * Host and framing, no hop-by-hop field. For tests that read it back with another parser or with
 * the same.
 */
#ifndef TESTS_FORWARDED_H
#define TESTS_FORWARDED_H

#include "wire/http_head.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

struct forwarded {
    char bytes[128 << 10]; /* a head of 64 KiB with `: ` and CRLF for each field, and our own fields
                            */
    size_t len;
};

static inline void forwarded_add(struct forwarded *out, struct str bytes)
{
    assert(bytes.len <= sizeof(out->bytes) - out->len);
    if (bytes.len != 0)
        memcpy(out->bytes + out->len, bytes.p, bytes.len);
    out->len += bytes.len;
}

static inline void forwarded_add_field(struct forwarded *out, struct str name, struct str value)
{
    forwarded_add(out, name);
    forwarded_add(out, STR(": "));
    forwarded_add(out, value);
    forwarded_add(out, STR("\r\n"));
}

/* For a request in absolute form. */
static inline struct str forwarded_head(struct forwarded *out, const struct http_request *request)
{
    char host[TARGET_TEXT_MAX], length[32];
    out->len = 0;
    forwarded_add(out, request->method);
    forwarded_add(out, STR(" "));
    forwarded_add(out, request->path);
    forwarded_add(out, request->query);
    forwarded_add(out, STR(" HTTP/1.1\r\n"));
    forwarded_add_field(out, STR("Host"), str_of(target_format(host, &request->to)));
    for (size_t i = 0; i < request->field_count; i++)
        if (!request->fields[i].hop_by_hop && !http_is_own(request->fields[i].name))
            forwarded_add_field(out, request->fields[i].name, request->fields[i].value);
    snprintf(length, sizeof(length), "%" PRIu64, request->length);
    if (request->body == HTTP_BODY_LENGTH)
        forwarded_add_field(out, STR("Content-Length"), str_of(length));
    if (request->body == HTTP_BODY_CHUNKED)
        forwarded_add_field(out, STR("Transfer-Encoding"), STR("chunked"));
    forwarded_add(out, STR("\r\n"));
    return (struct str){out->bytes, out->len};
}

#endif
