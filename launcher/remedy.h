/*
 * What keeps bubblewrap from building a sandbox on this machine, and what lifts it: the kernel's
 * switches are looked at, and those that stand in the way are named with the commands that change
 * them.
 *
 * Ownership: the text is the caller's buffer, or this file's. Thread: one. Failure: none; where
 * nothing is found the usual suspects are listed.
 */
#ifndef LAUNCHER_REMEDY_H
#define LAUNCHER_REMEDY_H

#include <stdbool.h>
#include <stddef.h>

/* Lines that go behind a complaint of bubblewrap's, each after a newline; "" when it is not about
 * namespaces or /proc. `bwrap` is the program's path, `root` where /proc/... is looked for ("" but
 * in tests), `nested` that this runs inside a sandbox of ours. */
const char *remedy_for(char *out, size_t size, const char *complaint, const char *bwrap,
                       const char *root, bool nested);

/* As strerror(), and behind it the limit of the caller's process that is the likely cause, if one
 * is. The text is there until the next call. */
const char *remedy_error(int error);

#endif
