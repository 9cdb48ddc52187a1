#include "transport/buf.h"

#include "srt/must.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { SMALLEST = 512, MOSTLY = 128 /* enough for what is formatted */ };

char *buf_room(struct buf *buf, size_t n)
{
    if (buf->cap - buf->start - buf->len >= n && buf->data != NULL)
        return buf->data + buf->start + buf->len;

    /* Sliding down costs `len`; only when at least as much was taken since, so that a byte in, a
     * byte out on a full queue stays cheap. */
    if (buf->start >= buf->len && buf->cap - buf->len >= n && buf->data != NULL) {
        memcpy(buf->data, buf->data + buf->start, buf->len);
        buf->start = 0;
        return buf->data + buf->len;
    }

    size_t cap = buf->cap > 0 ? buf->cap : SMALLEST;
    while (cap - buf->len < n)
        cap *= 2;
    assert(cap <= UINT32_MAX);
    char *data = must(malloc(cap));
    if (buf->data != NULL)
        memcpy(data, buf->data + buf->start, buf->len);
    free(buf->data);
    buf->data = data;
    buf->start = 0;
    buf->cap = (uint32_t)cap;
    return data + buf->len;
}

void buf_added(struct buf *buf, size_t n)
{
    assert(n <= buf->cap - buf->start - buf->len);
    buf->len += (uint32_t)n;
    if (buf->len == 0)
        buf_free(buf);
}

void buf_append(struct buf *buf, struct str bytes)
{
    if (bytes.len == 0)
        return;
    memcpy(buf_room(buf, bytes.len), bytes.p, bytes.len);
    buf->len += (uint32_t)bytes.len;
}

void buf_join(struct buf *buf, const char *const parts[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        buf_append(buf, str_of(parts[i]));
}

void buf_number(struct buf *buf, uint64_t value)
{
    buf_added(buf, text_number(buf_room(buf, TEXT_NUMBER_MAX), value));
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args;
    char *room = buf_room(buf, MOSTLY);
    va_start(args, format);
    int len = vsnprintf(room, MOSTLY, format, args);
    va_end(args);
    assert(len >= 0);
    if (len >= MOSTLY) {
        va_start(args, format);
        vsnprintf(buf_room(buf, (size_t)len + 1), (size_t)len + 1, format, args);
        va_end(args);
    }
    buf_added(buf, (size_t)len);
}

void buf_take(struct buf *buf, size_t n)
{
    assert(n <= buf->len);
    buf->start += (uint32_t)n;
    buf->len -= (uint32_t)n;
    if (buf->len == 0)
        buf_free(buf);
}

void buf_move(struct buf *to, struct buf *from)
{
    if (to->len == 0) {
        buf_free(to);
        *to = *from;
        *from = (struct buf){0};
        return;
    }
    buf_append(to, buf_view(from));
    buf_free(from);
}

void buf_free(struct buf *buf)
{
    free(buf->data);
    *buf = (struct buf){0};
}

void buf_clear(struct buf *buf)
{
    buf->start = buf->len = 0;
}
