/*
 * Directories that stay open from call to call. To look where a path leads now takes one system
 * call; to open it, to ask for its name and to close it again takes four.
 *
 * A directory is known by what it is (its mount and its inode, whose number nobody else gets as
 * long as it is open), never by the path that led to it: each call looks anew. So what is held
 * decides only that nothing has to be opened. Where the directory is called, by which everything is
 * judged, is asked of the very descriptor, each time.
 *
 * Process: the warden. Failure: what cannot be held is opened.
 */
#ifndef LAUNCHER_WARDEN_HELD_H
#define LAUNCHER_WARDEN_HELD_H

#include "launcher/warden/call.h"

/* The number below which descriptors stay open: half of what the limit of this process allows is
 * for the call at hand. */
int held_below(void);
/* The directory that `path` leads to from the caller's `dir_fd`, if it is held; -1. It stays open
 * until the call is answered. */
int held_find(struct call *call, int dir_fd, const char *path);
/* Keeps a directory for later calls, if there is room: then it is no longer the giver's to close.
 */
void held_keep(struct call *call, int dir);
bool held_has(const struct ward *ward, int fd);
/* It is about to be removed: as long as it is open, whoever watches it would not hear of it. */
void held_drop(struct ward *ward, const struct stat *st);

/* Makes `dir` our working directory. */
bool held_go(struct ward *ward, int dir);

#endif
