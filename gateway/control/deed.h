/*
 * Who did what to the gateway: the audit log's `admin` records, which all have the same fields.
 *
 * Thread: control. Cannot fail.
 */
#ifndef CONTROL_DEED_H
#define CONTROL_DEED_H

#include "control/gateway.h"

enum { DEED_WAITS_NOBODY = -1 };

/* NULL: null. */
struct deed {
    const char *action, *target, *peer, *result;
    const char *message; /* why it failed */
    /* Of approvals (control/desk.h). */
    const char *by, *scope, *name, *policy, *request, *grant;
    bool limited; /* with `until_ms` */
    int64_t until_ms;
    int64_t waiting; /* requests that it let go on or ended, or DEED_WAITS_NOBODY */
};

void deed_record(struct gateway *gateway, const struct deed *deed);

#endif
