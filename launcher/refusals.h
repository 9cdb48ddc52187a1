/*
 * From a refusal, as the warden or the gateway tells it, to a violation in words: what was refused,
 * by which setting, and what to do instead.
 *
 * Thread: the launcher's only one. Failure: none; what cannot be understood is left out.
 */
#ifndef LAUNCHER_REFUSALS_H
#define LAUNCHER_REFUSALS_H

#include "launcher/violations.h"
#include "launcher/warden/warden.h"

#include <jansson.h>

/* The texts of the report need not be terminated. `home` may be NULL. */
void refusals_report(struct violations *violations, const struct fence *fence, const char *home,
                     struct warden_report *report);
/* A frame of type "denial". */
void refusals_denial(struct violations *violations, const json_t *frame);

#endif
