/*
 * git's configuration files, read as data: git itself is never run on a tree that is not trusted.
 *
 * Ownership: everything is borrowed; what the visitor sees is valid during the call. Thread: any.
 * Failure: as stated; nothing is allocated.
 */
#ifndef LAUNCHER_GITCONFIG_H
#define LAUNCHER_GITCONFIG_H

#include <stdbool.h>
#include <stddef.h>

struct gitconfig_entry {
    const char *section;    /* in lower case */
    const char *subsection; /* as written; NULL = there is none */
    const char *name;       /* in lower case */
    const char *value;      /* NULL: the name stands alone, which means true */
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

/* Whether git does nothing for this configuration but what it does in every repository: runs no
 * program that it names and reads no file that it names. Otherwise `why` gets the name at fault,
 * such as "core.fsmonitor". The repository's own content may be anybody's. */
bool gitconfig_harmless(const char *bytes, size_t len, char *why, size_t why_size);

#endif
