/*
 * A request that an upstream proxy carries: who that is, which of its addresses are dialled, what
 * is said to it before the client's bytes flow, and what a client is told when it fails.
 *
 * Thread: the session's worker. Failure: an outcome of the request that names the upstream; never
 * another way.
 */
#ifndef SESSION_VIA_H
#define SESSION_VIA_H

#include "transport/handshake.h"

struct request;
struct session;

/* For a request that is allowed: sets attempt->via, unless the target is dialled. */
void via_choose(struct session *session);
/* What is to be resolved and dialled: the upstream, or the target. */
const struct target *via_dialled(const struct session *session);
/* Judges the addresses that attempt->answer has, into attempt->approved. A target that is an
 * address is judged although it is not dialled here. */
enum outcome via_approve(struct session *session);

/* The address by which a request that was let through can be judged again: the one that was
 * dialled, or is the target. NULL: an upstream has found it. */
const struct addr *via_judged_addr(const struct request *request);

/* The connection of an earlier request went the same way. */
bool via_is_kept(const struct session *session);
void via_keep(struct session *session);

/* A plain request to an HTTP proxy needs none, but for TLS: it is asked for the whole URL. */
bool via_needs_handshake(const struct session *session);
bool via_asks_for_url(const struct session *session);
void via_begin(struct session *session);
enum handshake_result via_turn(struct session *session);
/* Of what via_choose() took. */
void via_leave(struct session *session);

/* The head in session->http->forward, as such a proxy wants it. */
void via_write_head(const struct session *session, struct buf *out);

/* The upstream, not the target, is why the request ends. */
void via_blame(struct session *session, const char *why, uint16_t status);
/* False: it is not. */
bool via_texts(const struct request *request, char *message, size_t message_size, char *next_step,
               size_t next_step_size);

#endif
