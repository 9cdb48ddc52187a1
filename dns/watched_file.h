/*
 * Has a small system file changed since it was last read?
 *
 * Asked lazily, when somebody needs what the file says, and at most WATCHED_FILE_CHECKS_PER_S times
 * a second: one stat() then, nothing while idle. This sees rename-over, a swapped symlink, an edit
 * in place, a bind mount and a file that comes and goes, which inotify watches see only in part.
 *
 * Ownership: the caller's, as is the path. Thread: one.
 */
#ifndef DNS_WATCHED_FILE_H
#define DNS_WATCHED_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

enum { WATCHED_FILE_CHECKS_PER_S = 10 };

struct watched_file {
    const char *path;
    double checked_s;
    struct stat seen; /* zero while there is no file; no inode: whatever is there is a change */
};

/* What the file is now counts as seen; to be called before it is read. */
void watched_file_init(struct watched_file *file, const char *path);

/* True if the file is another one than at the last time this was true, or absent now and was not
 * then. `now_s` is ev_now(). */
bool watched_file_changed(struct watched_file *file, double now_s);

#endif
