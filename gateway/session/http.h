/*
 * HTTP/1.1 on a session: the state of the connection, of the request at hand and of its exchange.
 *
 * Ownership: the session's; http_free(). Thread: its worker's.
 */
#ifndef SESSION_HTTP_H
#define SESSION_HTTP_H

#include "config/gateway_config.h"
#include "session/http_body.h"

struct session;

/* What has to be the same for a next request to go by the connection to the upstream. */
struct kept_upstream {
    struct target target;
    struct addr addr;
    struct config_bind bind;
    char *via; /* the upstream proxy that it goes by, or NULL */
};

struct http {
    struct http_scan scan; /* of the head that is being read, the request's or the response's */

    /* The body of a request that was refused: read over, so that the next head is found. */
    struct http_body_in skip;
    uint64_t skipped;

    /* The request at hand. */
    bool parsed; /* false: it could not be, so nothing after it can be trusted */
    bool connect, head, keep_alive, expects, wants_upgrade;
    bool retryable; /* no body and idempotent: may go out again when a kept upstream was dead */
    bool loops;     /* it has been through here before */
    int minor;
    struct buf forward;  /* its head, rewritten for the upstream */
    struct buf original; /* the same before filters edited it; empty: none did */
    struct http_body_in body;
    enum http_body body_coding;

    /* Its exchange. */
    bool reused;        /* the upstream served an earlier request */
    bool asks_for_url;  /* the upstream is a proxy, and its 407 would be about us */
    bool body_given_up; /* the upstream takes no more of the request's body */
    bool head_passed;
    bool closes;         /* the client was told that the connection ends with this response */
    bool upstream_stays; /* the upstream can take another request */
    struct kept_upstream *kept; /* NULL: none */
    struct http_body_in response;
    enum http_body response_coding;
};

void http_free(struct http *http);

/* Made when it is first needed: a CONNECT, which may become a long tunnel, never does. */
struct kept_upstream *http_kept(struct http *http);

#endif
