/*
 * What the sandbox was refused, told to whoever started it: as JSON lines, or as a short summary on
 * standard error when the command fails, so that an agent learns what to do instead.
 *
 * Equal violations are counted, not repeated; what is kept is bounded. Ownership:
 * violations_close() frees all. Thread: one. Failure: a line that cannot be written is lost and the
 * count says so.
 */
#ifndef LAUNCHER_VIOLATIONS_H
#define LAUNCHER_VIOLATIONS_H

#include "config/settings.h"

#include <stdint.h>

struct violation {
    const char *kind; /* file, network, unix-socket, syscall */
    const char *operation;
    const char *path, *host; /* NULL = not of this kind */
    unsigned port;
    int pid; /* 0 = not known */
    const char *comm;
    const char *errno_word, *reason, *rule, *setting;
    const char *message, *hint;
};

struct violations {
    const char *sandbox, *command;
    const struct settings *settings; /* ignoreViolations */
    int fd;                          /* of the JSON lines; -1 = summary only */
    struct violations_seen {
        char *line;
        uint64_t count;
    } * seen;
    size_t seen_count;
    uint64_t total, dropped;
};

void violations_open(struct violations *violations, const char *sandbox, const char *command,
                     const struct settings *settings, int fd);
void violations_add(struct violations *violations, const struct violation *violation);
/* At most ten lines between <sandbox_violations> marks, or nothing when there was none. */
void violations_summary(const struct violations *violations, FILE *out);
void violations_close(struct violations *violations);

#endif
