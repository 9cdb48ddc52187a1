/*
 * What a client asks for, how it was judged, and what goes into the records about it. One at a time
 * in a session. Ownership: request_reset() frees. Thread: the session's worker.
 */
#ifndef SESSION_REQUEST_H
#define SESSION_REQUEST_H

#include "filters/chain.h"
#include "session/approval.h"

/* INTERFACE 1.6, in the order of close_words in report.c. */
enum close_cause {
    CLOSE_CLIENT,
    CLOSE_UPSTREAM,
    CLOSE_IDLE,
    CLOSE_LIFETIME,
    CLOSE_POLICY,
    CLOSE_CUT,
    CLOSE_DRAIN,
    CLOSE_LIMIT,
    CLOSE_DETACH,
    CLOSE_ERROR,
};

/* What the client's first bytes in a tunnel were found to be. */
enum first_bytes {
    FIRST_UNREAD, /* nothing came yet, or nobody had to look */
    FIRST_HELLO,  /* of TLS; its server name, or that there was none, was judged */
    FIRST_PLAIN,
};

struct request {
    char id[REQUEST_ID_LEN + 1];
    bool has_target, has_addr;
    uint16_t port_text;
    struct target target;
    struct addr addr;     /* dialled, or denied */
    bool prefers_text;    /* the refusal's body */
    bool has_no_body;     /* the refusal of one, as to HEAD */
    bool via_failed;      /* `via` is to blame for the outcome */
    bool admitted;        /* from handing the allow to the audit log until the close record */
    bool no_address;      /* with OUTCOME_DNS_NXDOMAIN: the name is there, and has none */
    enum front front : 8; /* FRONT_COUNT: not known (yet) */
    enum outcome outcome : 8;
    enum first_bytes first_bytes : 8;
    uint8_t tried, approved;  /* addresses, of the latest attempt to connect */
    uint16_t upstream_status; /* of the answer that was passed on; 0: none, or a tunnel */
    uint16_t via_status;      /* that the upstream proxy answered; 0: none */
    uint16_t http_status;     /* of its refusal; 0: the outcome's */
    uint32_t retry_after_s;   /* 0: not said */
    uint32_t host_text_len;
    char *host_text;     /* what was asked for where it is no target, any bytes; or NULL */
    char *method, *path; /* NULL: not visible */
    const char *why;     /* what was wrong with it, a fixed phrase; of a limit its key; or NULL */
    char *message;       /* what its record says and its client is told; or NULL */

    struct decision decision;
    struct approval *approval; /* NULL: nobody had to be asked */
    char *filter_reason;       /* what decision.filter_reason shows, or NULL */
    char *sni;                 /* server name seen, or NULL */

    char *via;           /* its name; NULL: the target is dialled */
    const char *via_why; /* a fixed phrase that goes on after its name; NULL: the outcome's */
    const char *via_tls; /* OpenSSL's phrase, where TLS to it failed; or NULL */

    /* While it is admitted. */
    uint64_t generation;
    double since; /* on the loop's clock, seconds since the epoch */
    uint64_t bytes_up, bytes_down;
};

/* A NUL-terminated copy; what is behind the view is not looked at. */
char *request_copy_text(struct str text);

/* What is said of its refusal; the next step is kept behind the message. */
void request_set_texts(struct request *request, const char *message, const char *next_step);
const char *request_next_step(const struct request *request);

void request_reset(struct request *request);
void request_set_host_text(struct request *request, struct str host, uint16_t port);

#endif
