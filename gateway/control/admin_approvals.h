/*
 * The operators' side of approvals: what waits, what is granted, and the answers. Rows of
 * admin_routes; see control/admin.h.
 */
#ifndef CONTROL_ADMIN_APPROVALS_H
#define CONTROL_ADMIN_APPROVALS_H

#include "control/admin.h"

void get_pending(const struct admin_request *request);
void get_grants(const struct admin_request *request);
/* ?for=DURATION: also what the same one asks later, for so long. */
void post_approve(const struct admin_request *request);
void post_refuse(const struct admin_request *request);
/* ?target=HOST:PORT&for=DURATION and one of policy=, client=, listener=, sandbox=; the middle two
 * with policy=, too; verdict=refuse turns it round. */
void post_grant(const struct admin_request *request);
void post_revoke(const struct admin_request *request);

#endif
