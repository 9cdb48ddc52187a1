/*
 * What is told about a request to those who watch: its records in the audit log (record/event.h),
 * the denial to its sandbox's launcher, the counters. Thread: the session's worker.
 */
#ifndef SESSION_REPORT_H
#define SESSION_REPORT_H

#include "session/request.h"

struct session;

enum { PEER_TEXT_MAX = ADDR_TEXT_MAX + 16 };
/* `ip:port` or `uid=,pid=`, in `out`; or NULL. */
const char *report_peer(const struct session *session, char out[PEER_TEXT_MAX]);

/* The request is allowed: hands its record over. False: the log does not take it. With `ticket` not
 * 0 the session is told when it is written. */
bool report_admission(struct session *session, uint64_t ticket);

/* The request ends as request.outcome, before or after it was admitted. The result and `ticket` as
 * above. */
bool report_refusal(struct session *session, uint64_t ticket);

/* What was found in the tunnel of an admitted request, `why`, is not for denying in report mode. */
void report_in_tunnel(struct session *session, const char *why);

/* The end of an admitted request. */
void report_close(struct session *session, enum close_cause cause);

#endif
