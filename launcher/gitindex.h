/*
 * The index of a repository, read as data. git looks at the names in commits before it makes files
 * of them, and takes those in the index as they are: one that is made up has it write into
 * `.git/hooks`, or outside of the work tree, at the next `git checkout -- .` or `git restore .`
 *
 * Pure; thread: any. Failure: none; running out of memory ends the process.
 */
#ifndef LAUNCHER_GITINDEX_H
#define LAUNCHER_GITINDEX_H

#include <stdbool.h>
#include <stddef.h>

enum { GITINDEX_SHA1 = 20, GITINDEX_SHA256 = 32 };

enum gitindex_end {
    GITINDEX_PLAIN, /* every name is of the work tree; or it is no index, which git says as well */
    GITINDEX_STRAY, /* a name leads out of the work tree, or into a git directory */
    GITINDEX_ODD,   /* it is not as git writes it, and may be read in two ways */
};

/* `hash` is the length of a hash in this repository. `name` gets the stray one, cut to `size`. */
enum gitindex_end gitindex_look(const char *bytes, size_t len, size_t hash, char *name,
                                size_t size);

#endif
