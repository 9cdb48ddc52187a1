/*
 * A look at the writable roots when everything inside has ended: protected names that are new, and
 * new symbolic links that lead out of every writable root. Both are reported, neither is touched.
 */
#ifndef LAUNCHER_AFTERWARDS_H
#define LAUNCHER_AFTERWARDS_H

#include "launcher/fence.h"
#include "launcher/violations.h"

#include <time.h>

/* `started` on CLOCK_REALTIME_COARSE, before the command ran. False when the roots were too large
 * to search. */
bool afterwards_report(const struct fence *fence, struct timespec started,
                       struct violations *violations);

#endif
