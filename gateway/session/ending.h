/*
 * How an attempt, an admission, a request and a session end: each one function, reachable from
 * every step, that takes whatever there is. Thread: the session's worker.
 */
#ifndef SESSION_ENDING_H
#define SESSION_ENDING_H

#include "session/request.h"

struct session;

/* Whatever was under way between the verdict and the connection. */
void end_attempt(struct session *session);
/* The close record, if one is owed. */
void end_admission(struct session *session, enum close_cause cause);
void end_request(struct session *session, enum close_cause cause);
void end_upstream(struct session *session);
/* The client's connection outlives the session until what was said has arrived (or, `resets`, has
 * been reset after that). */
void end_client_slowly(struct session *session, bool resets);
/* All of it, and frees it. */
void end_session(struct session *session);

#endif
