/*
 * Whether a path leads to something that nobody but root and we ourselves could have put there or
 * could exchange: code that is to be loaded, the socket of a process that is to be asked.
 *
 * It is absolute and without symlinks; it and every directory above it belong to root or to our own
 * user and are not writable by others (a directory with the sticky bit may be, for there nobody can
 * replace what is not his).
 *
 * Thread: any; it looks the path up, as open() and connect() do. Failure: -1, and `err` says what
 * is wrong with which part.
 */
#ifndef FILTERS_TRUSTED_PATH_H
#define FILTERS_TRUSTED_PATH_H

#include "srt/err.h"

#include <sys/stat.h>

/* `type` is S_IFREG or S_IFSOCK. */
int trusted_path_check(const char *path, mode_t type, struct srt_err *err);

#endif
