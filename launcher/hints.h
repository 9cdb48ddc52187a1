/*
 * What to say to somebody who was refused a write that a tool cannot do without: the line for the
 * settings that would allow it.
 *
 * Ownership: the caller's. Thread: any. Failure: none; running out of memory ends the process.
 */
#ifndef LAUNCHER_HINTS_H
#define LAUNCHER_HINTS_H

#include "launcher/fence.h"

/* Where the command was started. */
struct hints_place {
    const struct fence *fence;
    const char *home; /* NULL = not known */
    const char *cwd;
};

char *hints_for_write(const struct hints_place *place, const char *path);

#endif
