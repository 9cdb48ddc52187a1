/*
 * Which part of a repository a path means, by its names alone, and the paths that git writes into
 * files of one line: `.git` of linked worktrees and submodules, `commondir`.
 *
 * What is judged here are names, so it stays true whatever is moved or linked later: below `.git`
 * the protected parts are called the same wherever the directory above it lies.
 *
 * Pure; thread: any. Failure: as stated.
 */
#ifndef LAUNCHER_GITPLACE_H
#define LAUNCHER_GITPLACE_H

#include <stdbool.h>
#include <stddef.h>

enum gitplace {
    GITPLACE_NONE,
    GITPLACE_MAIN,     /* TOP/.git */
    GITPLACE_MODULE,   /* TOP/.git/modules/NAME, or of a worktree:
                        * TOP/.git/worktrees/NAME/modules/NAME
                        */
    GITPLACE_WORKTREE, /* TOP/.git/worktrees/NAME, or of a module: .../modules/NAME/worktrees/NAME
                        */
};

/* What git directory the first `len` bytes of the path name. */
enum gitplace gitplace_of(const char *path, size_t len);

/* The directory that a file `.git` names, exactly as git writes it: "gitdir: PATH" and the end of
 * the line. `*path` is not terminated. */
bool gitplace_read_link(const char *bytes, size_t len, const char **path, size_t *path_len);

/* Whether this is what `commondir` of TOP/.git/worktrees/NAME has to say. */
bool gitplace_is_common(const char *bytes, size_t len);

#endif
