/*
 * A queue of bytes: appended at the end, taken from the front.
 *
 * Storage is taken when there is something to hold and given back when the queue is empty, so an
 * idle connection owns none. A zeroed struct is an empty queue. Bounds are the caller's business;
 * none reaches 4 GiB.
 * Ownership: the struct owns its storage; buf_free(). Thread: one at a time.
 * Failure: running out of memory ends the process.
 */
#ifndef TRANSPORT_BUF_H
#define TRANSPORT_BUF_H

#include "srt/str.h"
#include "srt/text.h"

#include <stdint.h>

struct buf {
    char *data;
    uint32_t start, len, cap;
};

/* The bytes queued; valid until the next change. */
static inline struct str buf_view(const struct buf *buf)
{
    return (struct str){buf->len > 0 ? buf->data + buf->start : "", buf->len};
}

void buf_append(struct buf *buf, struct str bytes);
/* What most heads are made of: texts, those that are NULL left out, and numbers. */
void buf_join(struct buf *buf, const char *const parts[], size_t count);
#define BUF_JOIN(buf, ...) \
    buf_join((buf), TEXT_PARTS(__VA_ARGS__), sizeof(TEXT_PARTS(__VA_ARGS__)) / sizeof(char *))
void buf_number(struct buf *buf, uint64_t value);
__attribute__((format(printf, 2, 3))) void buf_printf(struct buf *buf, const char *format, ...);

/* Room for `n` more bytes behind the queue; buf_added() then says how many were written there. */
char *buf_room(struct buf *buf, size_t n);
void buf_added(struct buf *buf, size_t n);

/* Removes `n` bytes from the front. */
void buf_take(struct buf *buf, size_t n);

/* Appends everything in `from` and leaves it empty; without copying when `to` is empty. */
void buf_move(struct buf *to, struct buf *from);

void buf_free(struct buf *buf);
/* Empties it, and keeps the storage. */
void buf_clear(struct buf *buf);

#endif
