/*
 * One HTTP exchange: the request's head and body to the upstream, interim and final responses back,
 * framing rewritten, both ways at once and bounded.
 *
 * Thread: the session's worker.
 */
#ifndef SESSION_EXCHANGE_H
#define SESSION_EXCHANGE_H

#include <stdbool.h>

struct session;
struct stream;

enum exchange_result {
    EXCHANGE_WAIT,
    EXCHANGE_NEXT,     /* through; the connection takes the next request */
    EXCHANGE_LEAVE,    /* through; the connection ends */
    EXCHANGE_UPGRADED, /* 101: both sides speak something else from here on */
    EXCHANGE_RETRY,    /* the kept upstream was dead before it answered */
    EXCHANGE_REFUSED,  /* nothing was answered yet: session->request.outcome says why */
    EXCHANGE_ABORTED,  /* in the middle: session->cause says by whom */
};

void exchange_begin(struct session *session);
enum exchange_result exchange_turn(struct session *session);
/* Whether a stream of it is to be watched for input. */
bool exchange_reads(const struct session *session, const struct stream *stream);

/* The end of the connection would be the end of the answer's body, which it is not yet: it has to
 * be a reset. */
bool exchange_would_look_whole(const struct session *session);
/* It is the client's turn to send more of its body. */
bool exchange_waits_for_client(const struct session *session);

#endif
