/*
 * What of git's configuration may come from the sandbox: names that are known to do no harm, each
 * with the values that do none. Everything else is refused.
 *
 * Pure; thread: any. Failure: false, with what is at fault in `why`, such as "core.fsmonitor".
 */
#ifndef LAUNCHER_GITCONFIG_HARMLESS_H
#define LAUNCHER_GITCONFIG_HARMLESS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether git does nothing for this configuration but what it does in every repository: runs no
 * program that it names and reads no file that it names. The repository's own content may be
 * anybody's. */
bool gitconfig_harmless(const char *bytes, size_t len, char *why, size_t why_size);

/* The same for the file `.gitmodules` of a work tree, from which git takes less. */
bool gitconfig_modules_harmless(const char *bytes, size_t len, char *why, size_t why_size);

/* Whether the new configuration of a repository says what the old one says, but for which branches
 * follow which of its remotes and which submodules it has. */
bool gitconfig_changes_harmless(const char *old_bytes, size_t old_len, const char *bytes,
                                size_t len, char *why, size_t why_size);

#endif
