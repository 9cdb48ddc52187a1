/*
 * A git repository that is there already, read as data: where its parts are, and which places
 * outside `.git` its configuration makes git run or obey. git is never run for it: in a tree that
 * is not trusted that alone could run something.
 *
 * Ownership: as stated. Thread: any. Failure: what cannot be read names nothing, as git itself
 * would stop there.
 */
#ifndef LAUNCHER_REPOSITORY_H
#define LAUNCHER_REPOSITORY_H

#include <stdbool.h>

/* Linked worktrees and submodules have a file `.git` that names the directory; a worktree's own one
 * names the directory that it shares with the others. Without links both are `.git`. */
struct repository {
    char *git_dir, *common_dir;
    bool linked; /* by a file */
};

bool repository_open(struct repository *repository, const char *dot_git);
void repository_free(struct repository *repository);

enum repository_place {
    REPOSITORY_HOOKS,  /* core.hooksPath */
    REPOSITORY_CONFIG, /* a file that is included */
    REPOSITORY_MONITOR /* the program of core.fsmonitor */
};

/* `path` is absolute, or begins at the top of the work tree. */
typedef void repository_visitor(void *context, enum repository_place place, const char *path);

/* What this configuration file and those it includes name, whatever the conditions. `home` may be
 * NULL. */
void repository_read_config(const char *file, const char *home, repository_visitor *visit,
                            void *context);

#endif
