/*
 * What the request at hand costs its client's budget (session/budget.h), from the verdict to its
 * end. Thread: the session's worker.
 */
#ifndef SESSION_SPENDING_H
#define SESSION_SPENDING_H

#include <stdbool.h>

struct session;

/* A request counts once, also when it is judged again because a reload overtook it. False: a limit
 * is reached. */
bool spending_begin(struct session *session);
/* What the client has sent since; false: there was more than it may. */
bool spending_charge(struct session *session);
void spending_end(struct session *session);

#endif
