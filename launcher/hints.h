/*
 * What to say to somebody who was refused a write that a tool cannot do without: the line for the
 * settings that would allow it.
 *
 * Ownership: the caller's. Thread: any. Failure: none; running out of memory aborts.
 */
#ifndef LAUNCHER_HINTS_H
#define LAUNCHER_HINTS_H

#include "launcher/fence.h"

/* NULL where there is nothing better to say than in general. `home` may be NULL. */
char *hints_for_write(const struct fence *fence, const char *home, const char *path);

#endif
