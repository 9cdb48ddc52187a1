/*
 * git's configuration files, read as data: git itself is never run on a tree that is not trusted.
 *
 * Ownership: everything is borrowed; what the visitor sees is valid during the call. Thread: any.
 * Failure: as stated; running out of memory ends the process.
 */
#ifndef LAUNCHER_GITCONFIG_H
#define LAUNCHER_GITCONFIG_H

#include <stdbool.h>
#include <stddef.h>

/* The longest that is read, with the byte that ends it; what is longer is malformed. */
enum { GITCONFIG_KEY_SIZE = 1024, GITCONFIG_VALUE_SIZE = 8192 };

struct gitconfig_entry {
    const char *section;    /* in lower case */
    const char *subsection; /* as written; NULL = there is none */
    const char *name;       /* in lower case */
    const char *value;      /* NULL: the name stands alone, which means true */
    size_t start, end;      /* its line in the bytes, or its part of the line */
};

/* Returns whether to go on. */
typedef bool gitconfig_visitor(void *context, const struct gitconfig_entry *entry);

enum gitconfig_end {
    GITCONFIG_PLAIN, /* read to its end, and spelled as git itself would write it */
    GITCONFIG_ODD,   /* read to its end, with spellings that another parser might read otherwise */
    GITCONFIG_MALFORMED,
    GITCONFIG_STOPPED, /* by the visitor */
};

enum gitconfig_end gitconfig_read(const char *bytes, size_t len, gitconfig_visitor *visit,
                                  void *context);

/* Takes `core.worktree` out, wherever it leads, and returns what is left of `len`. A submodule's
 * git directory does not need it, as the file `.git` is found in the work tree; and a link that is
 * put in the work tree's place later would make git write anywhere. */
size_t gitconfig_without_worktree(char *bytes, size_t len);

#endif
