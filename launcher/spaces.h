/*
 * A sandbox's namespaces, made by ourselves: everything that the host has, visible and read-only;
 * /dev and /proc of its own; a loopback that is up; no capabilities. The last stage then goes on as
 * process 1, without a program being executed.
 *
 * Thread: the launcher's only one. Failure: -1 with `err`, nothing is left of it but what
 * cell_kill() and cell_wait() end.
 */
#ifndef LAUNCHER_SPACES_H
#define LAUNCHER_SPACES_H

#include "launcher/cell.h"

/* Returns when the stage is ready. */
int spaces_start(struct cell *cell, const struct cell_options *options, struct srt_err *err);

#endif
