/*
 * A message body on its way through: decoded by the framing it came with, encoded by the framing it
 * goes on with, so that no odd spelling of the one survives into the other.
 *
 * Ownership: the caller's struct. Thread: any.
 */
#ifndef SESSION_HTTP_BODY_H
#define SESSION_HTTP_BODY_H

#include "transport/buf.h"
#include "wire/http_chunked.h"
#include "wire/http_head.h"

struct http_body_in {
    enum http_body kind;
    uint64_t left; /* HTTP_BODY_LENGTH */
    struct chunked chunked;
    bool done;
};

void http_body_begin(struct http_body_in *body, enum http_body kind, uint64_t length);

/* Takes the front of `in`: how much was used, and the data among it. False: malformed. Call again
 * while it uses something and the body is not done. */
bool http_body_feed(struct http_body_in *body, struct str in, size_t *used, struct str *data);

/* Writes data as it is, or as one chunk. */
void http_body_write(struct buf *out, enum http_body kind, struct str data);
/* The end, which only a chunked body shows. */
void http_body_finish(struct buf *out, enum http_body kind);

/* Of a head. */
void http_write_field(struct buf *out, struct str name, struct str value);
void http_write_length(struct buf *out, uint64_t length);
/* Via: who has passed it on so far, as `fields` say, and the gateway; with `token`, unless NULL, by
 * which it knows itself again. */
void http_write_via(struct buf *out, const struct http_field *fields, size_t count,
                    const char *token);

#endif
