/*
 * Notices that files have changed, however: written in place, renamed over, deleted and made anew,
 * or reached through a symlink that was swapped (as a Kubernetes ConfigMap is).
 *
 * inotify on every directory that takes part in a path says when to look; what counts is whether
 * the files look different (device, inode, size, times) and have stopped changing for 200 ms. A
 * look every two seconds finds what inotify cannot see, such as an ancestor directory that was
 * replaced.
 *
 * Ownership: the caller's. Thread: the loop's. Failure: without inotify only the slow look is left.
 */
#ifndef CONTROL_WATCH_H
#define CONTROL_WATCH_H

#include <stddef.h>

struct ev_loop;
struct watch;

struct watch *watch_create(struct ev_loop *loop, void (*changed)(void *arg), void *arg);
void watch_free(struct watch *watch); /* NULL is allowed */

/* Called before the files are read: what changes from here on is reported after the next
 * watch_set(), since the reading may have missed it. */
void watch_mark(struct watch *watch);

/* From now on these paths (copied). Directories count by what is in them. */
void watch_set(struct watch *watch, const char *const *paths, size_t count);

#endif
