/*
 * Asking an upstream proxy for a tunnel: CONNECT (RFC 9110 9.3.6), or SOCKS5 (RFC 1928, RFC 1929).
 * TLS to the proxy itself comes before it and is the stream's.
 *
 * Between two queues, whoever fills and empties them. Reads no byte beyond the proxy's answer: what
 * follows is the tunnel's and stays in `in`. Ownership: borrows upstream and target until it is
 * over. Thread: one at a time. Failure: an outcome and a phrase about the proxy.
 */
#ifndef TRANSPORT_HANDSHAKE_H
#define TRANSPORT_HANDSHAKE_H

#include "config/upstream.h"
#include "filters/outcome.h"
#include "transport/buf.h"
#include "wire/http_head.h"

enum { HANDSHAKE_HEAD_MAX = 16 << 10 };

enum handshake_phase {
    HANDSHAKE_HEAD, /* the answer to a CONNECT */
    HANDSHAKE_METHOD,
    HANDSHAKE_LOGIN,
    HANDSHAKE_REPLY,
};

struct handshake {
    const struct config_upstream *upstream;
    const struct target *target;
    enum handshake_phase phase;
    struct http_scan scan;
    enum outcome outcome; /* why not */
    const char *why;      /* a fixed phrase that goes on after the proxy's name */
    uint16_t status;      /* that an HTTP proxy answered; 0: none */
};

enum handshake_result { HANDSHAKE_MORE, HANDSHAKE_DONE, HANDSHAKE_FAILED };

/* Queues the first words. `token` stands in the Via field, so that a request that comes round is
 * known; or NULL. */
void handshake_begin(struct handshake *handshake, const struct config_upstream *upstream,
                     const struct target *target, const char *token, struct buf *out);

/* Takes what has come. `ended`: nothing will follow. `head` is free during the call. */
enum handshake_result handshake_turn(struct handshake *handshake, struct buf *in, bool ended,
                                     struct buf *out, struct http_response *head);

#endif
