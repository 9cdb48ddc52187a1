/*
 * One client connection, from accept to close: a row of steps (the table is in session.c).
 *
 * Watchers only note what happened and wake the session; session_run() lets the steps act, and then
 * computes once what has to be watched. Ownership: a session belongs to its worker and frees itself
 * in one place. Thread: its worker's. A session may be gone after any function that runs it.
 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include "dns/resolver.h"
#include "session/budget.h"
#include "session/core.h"
#include "session/http.h"
#include "session/identity.h"
#include "session/proto.h"
#include "session/request.h"
#include "session/socks5.h"
#include "session/via.h"
#include "transport/connector.h"
#include "transport/relay.h"
#include "wire/hello_watch.h"

enum step {
    STEP_READ,
    STEP_JUDGE,
    STEP_FILTER,
    STEP_RESOLVE,
    STEP_VET,
    STEP_CONNECT,
    STEP_HANDSHAKE,
    STEP_RECORD,
    STEP_ANSWER,
    STEP_HELLO,
    STEP_RELAY,
    STEP_EXCHANGE,
    STEP_REFUSE,
    STEP_HEAR,
    STEP_LEAVE,
    STEP_CLOSE,
    STEP_COUNT,
    STEP_WAIT = STEP_COUNT, /* stay */
};

/* What is only needed between the verdict and the connection; too big to keep in a long tunnel. */
struct attempt {
    struct name_service *names; /* that was asked; with `query` */
    struct resolver_query *query;
    struct connector *connector;
    bool resolved, connected;
    struct approved *approved; /* for a second try; NULL: there will be none */
    bool lapsed;               /* by another configuration than the one in force */
    struct connected connection;
    struct config_upstream *via; /* a copy: a reload may overtake us; NULL: the target is dialled */
    bool secured;                /* TLS to it is there, or it has none */
    struct handshake handshake;
    double began; /* to connect */
};

/* At a tunnel's first bytes; many tunnels never have any. */
struct first_look {
    struct hello_scan hello;
    struct hello_watch watch; /* behind the first hello, when that is `watched` */
    bool watched;
};

struct session {
    LIST_ENTRY(session) link;
    TAILQ_ENTRY(session) waiting_link; /* while `ticket` is not 0 */
    struct worker *worker;
    struct door *door;
    struct credentials *credentials;
    struct peer peer;
    uint32_t number; /* for the trace */
    enum step step : 8;
    enum outcome at_door : 8; /* not ALLOWED: accepted beyond a limit, to be told so */
    enum close_cause cause : 8;
    struct socks5 socks5;
    uint8_t turns;                      /* requests read in this run */
    bool yields;                        /* the rest is for the next turn of the loop */
    bool running;                       /* its steps act */
    bool resets;                        /* LEAVE ends with a reset instead of a FIN */
    bool record_written, record_failed; /* of `ticket` */
    bool proxy_header_done;
    bool watches_client; /* on a way that takes long (step_connect.c) */

    struct stream client, upstream;
    ev_io client_io, upstream_io;
    ev_timer timer;
    double entered;     /* the step at hand */
    int64_t entered_ns; /* the same by another clock, of steps that are timed */
    double active;      /* a byte moved */
    double began;       /* the head, handshake or hello at hand; 0 = its first byte has not come */
    double client_fin;  /* seen during an exchange; 0 = not */

    const struct proto *proto; /* NULL until the first byte has decided */
    struct http *http;         /* of proto_http; NULL for others and in tunnels */

    struct request request;
    struct tenure *tenure;       /* under which the request was judged; NULL between requests */
    struct narrowing *narrowing; /* the same of the sandbox */
    struct identity identity;
    struct budget *budget;             /* of which this request is one tunnel; NULL: none */
    uint64_t charged_bytes;            /* of bytes_up, so far */
    struct filtering_state *filtering; /* while filters are asked */

    struct attempt *attempt;
    uint64_t ticket; /* of the record that is waited for */

    struct relay relay;
    struct first_look *look; /* from the first byte in a tunnel until it was judged */
};

/* The loop's clock. */
static inline double session_now(const struct session *session)
{
    return ev_now(session->worker->loop);
}

/* Takes `fd` over, with a connection of `peer` that was accepted at `door`. `at_door` not ALLOWED:
 * its first request is refused so. `has_queued`: long enough that its request is probably here, and
 * is read before the loop is asked. */
void session_create(struct door *door, int fd, const struct sockaddr *peer, enum outcome at_door,
                    bool has_queued);
/* Something has happened: let the steps act. */
void session_run(struct session *session);
/* Ends it now; an admitted request gets its close record. */
void session_cut(struct session *session, enum close_cause cause);

/* Its record's ticket has been answered. */
void session_record_written(struct session *session, bool go);
/* A new snapshot or narrowing is in force: an admitted request that it denies is cut. */
void session_recheck(struct session *session);
/* While draining: a connection without a request is closed. */
void session_drain(struct session *session);

bool session_is_tunnel(const struct session *session);
void session_describe(const struct session *session, struct tunnel_info *out,
                      char host[NAME_MAX_LEN + 1], char addr[ADDR_TEXT_MAX]);

/* For protos: a new request begins (its id is made), with its front. */
void session_begin_request(struct session *session, enum front front);
/* The request is malformed or unsupported; `why` is a fixed phrase. Returns PROTO_REFUSED. */
enum proto_result session_refuse_request(struct session *session, enum outcome outcome,
                                         uint16_t http_status, const char *why);
const struct gateway_config *session_config(const struct session *session);
/* Of bytes read ahead for a head: one more than it may have, so that too long is seen. */
size_t session_head_limit(const struct session *session);
/* What judges the request at hand. */
struct chain session_chain(const struct session *session);
/* Who the client is under the snapshot in force. */
enum outcome session_identify(struct session *session, const struct snapshot *snapshot,
                              struct identity *out);

#endif
