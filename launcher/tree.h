/*
 * A bounded walk over a directory tree that does not follow symbolic links and never fails half way
 * in silence: a directory that cannot be read is itself reported to the visitor.
 *
 * Thread: any. Failure: -1 with `err` when the deadline passes.
 */
#ifndef LAUNCHER_TREE_H
#define LAUNCHER_TREE_H

#include "launcher/paths.h"

#include <stdint.h>

struct tree_entry {
    const char *path;     /* absolute; valid during the call */
    const char *relative; /* the part below the walk's root */
    const char *name;
    enum path_type type; /* PATH_UNREADABLE: a directory that cannot be listed or entered, or not
                          * all of it, as paths in it are too long for the kernel */
};

/* Returns whether to go into this directory; for other types the answer does not matter. */
typedef bool tree_visitor(void *context, const struct tree_entry *entry);

/* Whether the directory that this is in can be listed, but not entered: what is in it can be
 * neither looked at nor mounted over. */
bool tree_is_shut_off(const char *path);

/* `deadline_ms` as clock_ms() counts. The root itself is not visited, except as PATH_UNREADABLE. */
int tree_walk(const char *root, int64_t deadline_ms, tree_visitor *visit, void *context,
              struct srt_err *err);

#endif
