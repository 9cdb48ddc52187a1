/*
 * Opens for reading, done by the warden: where something is hidden and could be replaced from
 * outside.
 *
 * A mount hides what it lies on. Somebody outside who replaces the hidden file, as whoever renews a
 * token does by renaming, takes the mount away with it, and the new one lies bare under the same
 * name. Names that are to be hidden and are not there yet can have no mount at all. So what is
 * opened is judged by its name, and it is the very object judged that the caller gets: by the time
 * the kernel looked itself, the path could lead elsewhere.
 *
 * That costs each open for reading some microseconds, so it is not done where nothing but
 * directories is hidden, which hardly anybody replaces as a whole. What a process that lets nobody
 * look into it opens by its own descriptors in /proc is refused.
 *
 * Process: the warden. Failure: a negative errno for the caller.
 */
#ifndef LAUNCHER_WARDEN_SECRETS_H
#define LAUNCHER_WARDEN_SECRETS_H

#include "launcher/warden/call.h"

/* Whether there is anything for which the mounts are not enough. */
bool secrets_watch(const struct fence *fence);

/* The result as of an answer (answers.h). */
int64_t secrets_open(struct call *call, int dir_fd, uint64_t address, uint64_t flags);

/* Whether what is open may be read under the name that it has now; otherwise that is reported. */
bool secrets_judge(struct call *call, int fd, const struct stat *st, char path[PATH_MAX]);

#endif
