/*
 * Under which configuration a session's request stands: its tenure, narrowing and identity, what is
 * asked of them, and how a request that was let through moves to what a reload has put in force.
 *
 * Thread: the session's worker. session_config(), session_head_limit(), session_chain() and
 * session_identify() are here too; session/session.h offers them to the protocols.
 */
#ifndef SESSION_STANDING_H
#define SESSION_STANDING_H

#include "filters/chain.h"

#include <stdbool.h>

struct identity;
struct narrowing;
struct policy;
struct session;

/* Takes up what is in force now; the verdict that was found under something else is void. The
 * result says who the client is. */
enum outcome standing_adopt(struct session *session);
void standing_leave(struct session *session);
/* The policy that the client is under; a private gateway has none but the sandbox's settings. NULL:
 * neither. */
const struct policy *standing_policy(const struct session *session);
/* It stands under what is in force. */
bool standing_is_current(const struct session *session);
/* Takes up what is in force now if that allows the request too, or if it is to be told so. */
enum outcome standing_move(struct session *session, bool even_if_denied);

/* Addresses that were approved before it moved are not dialled any more: a second try asks anew. */
void standing_lapse(struct session *session);

/* Whether the decision's rules want to see the server name of a tunnel. */
bool standing_reads_hello(const struct decision *decision);

/* Of one that waits for an approval: what is in force now would have it wait, too. */
bool standing_still_asks(struct session *session);

/* A policy that was named and is gone denies everything. */
bool standing_has_chain(const struct identity *identity, const struct narrowing *narrowing);
/* What the request asks of it. */
struct question standing_question(const struct session *session);

#endif
