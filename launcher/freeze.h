/*
 * Holds everything inside the sandbox still, and lets it go on, so that nothing inside writes to
 * the terminal or reads from it while the user is asked something there.
 *
 * SIGSTOP, from outside, to process 1 inside and all below it, until a look at /proc finds nobody
 * else; nobody inside can undo it, as nobody inside runs. What was stopped before stays stopped
 * afterwards. Parents are held before their children and go on after them, so that no shell sees
 * its jobs stopped.
 *
 * Ownership: freeze_end() before the struct goes. Thread: the launcher's only one. Failure: false,
 * and everything goes on.
 */
#ifndef LAUNCHER_FREEZE_H
#define LAUNCHER_FREEZE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct frozen {
    pid_t pid;
    int pidfd;
};

struct freeze {
    struct frozen *items; /* parents before their children */
    size_t count;
};

/* Everything below `root`, and `root` itself when it is process 1 of the sandbox. */
bool freeze_begin(struct freeze *freeze, pid_t root, bool with_root);
void freeze_end(struct freeze *freeze);
/* Whether one of those that are held is in this process group. */
bool freeze_has_group(const struct freeze *freeze, pid_t group);

#endif
