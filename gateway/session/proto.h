/*
 * How a front end plugs into a session: bytes to a request, and what the client is told.
 *
 * A proto keeps its state in the session and works on session->client: it reads `in`, answers with
 * stream_send(). It decides nothing. Thread: the session's worker.
 */
#ifndef SESSION_PROTO_H
#define SESSION_PROTO_H

#include <stdbool.h>

struct session;

enum proto_result {
    PROTO_MORE,     /* more bytes are needed */
    PROTO_REQUEST,  /* session->request asks for something */
    PROTO_ANSWERED, /* dealt with here; read on */
    PROTO_REFUSED,  /* session->request.outcome says why */
    PROTO_CLOSE,    /* nothing sensible can be answered */
};

struct proto {
    const char *name;
    enum proto_result (*read)(struct session *session);
    /* The request is granted and its record is written: tell the client, if it is to be told. */
    void (*accept)(struct session *session);
    /* The request ends as session->request.outcome. True: the connection can take another one. */
    bool (*refuse)(struct session *session);
    /* Only a connection's first request is one, and it needs no byte of the client's: where the
     * connection leads says it all. Enough of what the client says is here to refuse it in its own
     * language; NULL for others, whose requests are in theirs. */
    bool (*understands)(const struct session *session);
};

extern const struct proto proto_http, proto_socks5, proto_transparent, proto_dns;

/* The protocol of a connection whose listener takes any, by its first byte. */
const struct proto *proto_guess(unsigned char first);

#endif
