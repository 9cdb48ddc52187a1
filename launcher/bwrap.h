/*
 * bubblewrap: found, distrusted, and started with our last stage as process 1, for machines that
 * let nobody else make namespaces.
 *
 * Thread: the launcher's only one. Failure: -1 with `err`, which names the remedy.
 */
#ifndef LAUNCHER_BWRAP_H
#define LAUNCHER_BWRAP_H

#include "launcher/cell.h"
#include "launcher/fence.h"

/* Where the system has it. */
extern const char bwrap_system[];

/* An absolute path that the sandbox and other users cannot write to. `asked` may be NULL: from
 * PATH. */
char *bwrap_find(const char *asked, const struct fence *fence, struct srt_err *err);

/* Returns when the stage is ready. */
int bwrap_start(struct cell *cell, const struct cell_options *options, struct srt_err *err);

#endif
