#include "session/http_body.h"

void http_body_begin(struct http_body_in *body, enum http_body kind, uint64_t length)
{
    *body = (struct http_body_in){.kind = kind, .left = length};
    chunked_init(&body->chunked);
    body->done = kind == HTTP_BODY_NONE || (kind == HTTP_BODY_LENGTH && length == 0);
}

static bool feed_chunked(struct http_body_in *body, struct str in, size_t *used, struct str *data)
{
    const enum chunked_result result = chunked_feed(&body->chunked, in, used, data);
    body->done = result == CHUNKED_DONE;
    return result != CHUNKED_BAD;
}

bool http_body_feed(struct http_body_in *body, struct str in, size_t *used, struct str *data)
{
    if (body->kind == HTTP_BODY_CHUNKED)
        return feed_chunked(body, in, used, data);
    size_t n = in.len;
    if (body->kind == HTTP_BODY_LENGTH && n > body->left)
        n = (size_t)body->left;
    *used = n;
    *data = (struct str){in.p, n};
    if (body->kind == HTTP_BODY_LENGTH) {
        body->left -= n;
        body->done = body->left == 0;
    }
    return true;
}

static void write_chunk_size(struct buf *out, size_t size)
{
    static const char hex[] = "0123456789abcdef";
    char digits[2 * sizeof(size)], *first = digits + sizeof(digits);
    for (; size > 0; size >>= 4)
        *--first = hex[size & 15];
    buf_append(out, (struct str){first, (size_t)(digits + sizeof(digits) - first)});
    buf_append(out, STR("\r\n"));
}

void http_body_write(struct buf *out, enum http_body kind, struct str data)
{
    if (data.len == 0)
        return; /* a chunk of size zero would be the end */
    if (kind != HTTP_BODY_CHUNKED) {
        buf_append(out, data);
        return;
    }
    write_chunk_size(out, data.len);
    buf_append(out, data);
    buf_append(out, STR("\r\n"));
}

void http_body_finish(struct buf *out, enum http_body kind)
{
    if (kind == HTTP_BODY_CHUNKED)
        buf_append(out, STR("0\r\n\r\n"));
}

void http_write_field(struct buf *out, struct str name, struct str value)
{
    buf_append(out, name);
    buf_append(out, STR(": "));
    buf_append(out, value);
    buf_append(out, STR("\r\n"));
}

void http_write_length(struct buf *out, uint64_t length)
{
    buf_append(out, STR("Content-Length: "));
    buf_number(out, length);
    buf_append(out, STR("\r\n"));
}

void http_write_via(struct buf *out, const struct http_field *fields, size_t count,
                    const char *token)
{
    buf_append(out, STR("Via: "));
    for (size_t i = 0; i < count; i++) {
        if (!str_ieq(fields[i].name, STR("Via")) || fields[i].value.len == 0)
            continue;
        buf_append(out, fields[i].value);
        buf_append(out, STR(", "));
    }
    BUF_JOIN(out, "1.1 srt-gateway", token != NULL ? " (" : NULL, token, token != NULL ? ")" : NULL,
             "\r\n");
}
