/*
 * Paths as the fence means them: absolute, without `.`, `..`, doubled or trailing slashes, and with
 * every symbolic link resolved as far as the tree exists. Bytes, not characters.
 *
 * Ownership: returned strings are the caller's. Thread: any. Failure: NULL, -1 or false as stated;
 * running out of memory ends the process.
 */
#ifndef LAUNCHER_PATHS_H
#define LAUNCHER_PATHS_H

#include "srt/err.h"

#include <stdbool.h>
#include <stddef.h>

enum path_type { PATH_ABSENT, PATH_DIR, PATH_FILE, PATH_SYMLINK, PATH_UNREADABLE };

/* The place where a name leads. `type` describes `path`: PATH_ABSENT when its last part, or more,
 * does not exist; PATH_UNREADABLE when this user may not look into `path`, the last part that could
 * be seen. `links` are the symbolic links that were followed, each by its own canonical path. */
struct path_place {
    char *path;
    enum path_type type;
    char **links;
    size_t link_count;
};

/* `~`, `~/x` and relative names to an absolute name; `home` NULL leaves `~` an error. */
char *path_absolute(const char *name, const char *cwd, const char *home, struct srt_err *err);
/* On failure `place` is empty. */
int path_resolve(const char *absolute, struct path_place *place, struct srt_err *err);
void path_place_free(struct path_place *place);

/* Without touching the tree: `.`, `..`, `//` and a trailing slash taken out of an absolute name. */
char *path_clean(const char *absolute);
char *path_join(const char *dir, const char *name);

/* The program of this name in PATH, whose relative directories do not count; NULL. */
char *path_search(const char *program);

/* `inner` is `outer` or lies below it. Both clean. */
bool path_within(const char *inner, const char *outer);
/* What follows `outer` in `inner`, without the slash; "" for `outer` itself. */
const char *path_below(const char *inner, const char *outer);
/* Orders a directory before what it holds, and siblings by bytes ("/a/b" before "/a-b"). */
int path_compare(const char *a, const char *b);
char *path_parent(const char *path);

/* Globs: `*` and `?` stay inside one component, `[...]` is a set, `**` as a component stands for
 * any number of components, also none. A leading dot is nothing special, as in a deny list it must
 * be. */
bool path_is_glob(const char *name);
bool path_glob_match(const char *pattern, const char *relative);
/* Whether anything below this directory may match. */
bool path_glob_reaches(const char *pattern, const char *dir);
bool path_component_match(const char *pattern, size_t pattern_len, const char *name, size_t len);

#endif
