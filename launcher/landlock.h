/*
 * The second wall: the kernel's Landlock holds the command's writes inside the writable roots,
 * and its signals and abstract sockets to its own processes, whatever becomes of the mounts and
 * the filter. It knows no "but not this" inside a root, so it stands beside the mounts and never
 * instead of them. Reads are not its business: everything that is not hidden can be read, also
 * what comes to be later.
 *
 * Thread: any; binds the calling thread and its children for ever. Failure: -1 with `err`; a kernel
 * without it is no failure.
 */
#ifndef LAUNCHER_LANDLOCK_H
#define LAUNCHER_LANDLOCK_H

#include "srt/err.h"

#include <stdbool.h>

/* The version that is used of it; 0 = the kernel has none, or one that is too old to be of use. */
int landlock_version(void);

/* Why there is none, and what that means; NULL where there is one. */
const char *landlock_missing(void);

/* `roots` are the places that may be written to; NULL ends. Without `files` only signals and
 * sockets are held: a Landlock that knows files forbids mounts, which a nested sandbox makes. */
int landlock_install(char *const *roots, bool files, struct srt_err *err);

#endif
