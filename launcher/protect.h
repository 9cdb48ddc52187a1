/*
 * Names that are protected inside every writable root, whether they exist or not, at any depth:
 * files that somebody outside the sandbox will run or obey later.
 *
 * Thread: any; constant data. Failure: only an unknown name in launch.protect.
 */
#ifndef LAUNCHER_PROTECT_H
#define LAUNCHER_PROTECT_H

#include "srt/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Which groups of the table are on: one bit per group. */
struct protect {
    uint32_t groups;
};

struct protect protect_default(bool allow_git_config);
/* One word of launch.protect: a group's name turns it on, `-NAME` off. */
int protect_apply(struct protect *protect, const char *word, struct srt_err *err);

/* What protects `path` (clean, absolute) from writing, such as "protected: git hooks", or NULL. The
 * protected name itself must lie below the first `root_len` bytes, so a writable root that the
 * settings name ".vscode" themselves is meant, while hooks below a root ".git" are not. */
const char *protect_match(const struct protect *protect, const char *path, size_t root_len);

/* Whether a directory of this name can begin a protected path (".git" of ".git/hooks"). */
bool protect_begins(const struct protect *protect, const char *name);

/* The next row from `*row` on whose pattern begins with a directory of this name: what follows in
 * the pattern, and what protects it. False where there is no more. */
bool protect_next_below(const struct protect *protect, const char *name, size_t *row,
                        const char **rest, const char **what);

/* Whether some file system takes this name for `.git`. */
bool protect_is_git(const char *name, size_t len);

/* Whether the directory holds nothing but a repository's own data: objects, references and their
 * logs, which nobody runs or obeys whatever they are called. There may be very many. */
bool protect_barren(const char *path);

/* What speaks against a symbolic link (or, where `link` is false, a file) at `path`, or NULL: a
 * link on the way to a protected name puts any directory in its place, and a file ".git" names one.
 */
const char *protect_lead(const struct protect *protect, const char *path, bool link);

/* What of a repository is protected when its directory has another name than `.git`: relative
 * paths, and what protects each, NULL where its group is off. */
enum { PROTECT_PARTS = 5 };
extern const char *const protect_parts[PROTECT_PARTS];
const char *protect_part_of_any(const struct protect *protect, size_t part);

/* The protected parts of a repository that git makes when it makes the repository. */
enum protect_part {
    PROTECT_NO_PART,
    PROTECT_HOOKS,  /* the directory of hooks */
    PROTECT_SAMPLE, /* an example in it: git runs no hook of this name */
    PROTECT_CONFIG,
    PROTECT_COMMON, /* `commondir` of a linked worktree */
};

/* `what` is what protect_match() said of the path. */
enum protect_part protect_part(const char *what, const char *path);

/* The name under which the next version of a protected file is written, with a number behind it.
 * Protected, so that nobody in the sandbox ever holds that file. */
extern const char protect_new_name[];

#endif
