/*
 * From a refusal, as the warden or the gateway tells it, to a violation in words: what was refused,
 * by which setting, and what to do instead.
 *
 * Thread: the launcher's only one. Failure: none; what cannot be understood is left out.
 */
#ifndef LAUNCHER_REFUSALS_H
#define LAUNCHER_REFUSALS_H

#include "launcher/hints.h"
#include "launcher/violations.h"
#include "launcher/warden/warden.h"

#include <jansson.h>

/* The texts of the report need not be terminated. */
void refusals_report(struct violations *violations, const struct hints_place *place,
                     struct warden_report *report);
/* A frame of type "denial". */
void refusals_denial(struct violations *violations, const json_t *frame);

/* How a program is meant to get out, for who tried another way. */
enum refusals_way { REFUSALS_PORT, REFUSALS_TRANSPARENT, REFUSALS_SOCKET, REFUSALS_NONE };
/* `strays`: a set of enum strays (strays.h). */
void refusals_strays(struct violations *violations, unsigned strays, enum refusals_way way);

#endif
