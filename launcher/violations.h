/*
 * What the sandbox was refused, told to whoever started it: as JSON lines, or as a short summary on
 * standard error when the command fails, so that an agent learns what to do instead.
 *
 * Equal violations are counted, not repeated: a JSON line at the first, and one with the count at
 * the end. What is kept is bounded. Ownership: violations_close() frees all. Thread: one; it never
 * waits for a reader before violations_finish(). Failure: a line that cannot be written is lost and
 * the count says so.
 */
#ifndef LAUNCHER_VIOLATIONS_H
#define LAUNCHER_VIOLATIONS_H

#include "config/settings.h"

#include <stdint.h>
#include <stdio.h>

struct violation {
    const char *kind; /* file, network, unix-socket, syscall */
    const char *operation;
    const char *path, *host; /* NULL = not of this kind */
    unsigned port;
    int pid;                    /* 0 = not known */
    const char *comm, *command; /* of whoever tried; NULL = not known */
    const char *errno_word, *reason, *rule, *setting;
    const char *message, *hint;
};

enum { VIOLATIONS_KEPT = 1000, VIOLATIONS_SLOTS = 4096 };

struct violations {
    const char *sandbox;
    char *command;                   /* the whole command line */
    const struct settings *settings; /* ignoreViolations */
    int fd;                          /* of the JSON lines; -1 = summary only */
    int failed;                      /* errno of the write after which it was given up; 0 = none */
    struct violations_seen {
        char *line, *json; /* `json` lacks its end: the count */
        const char *kind;
        uint64_t count;
    } seen[VIOLATIONS_KEPT];
    size_t seen_count;
    uint16_t slots[VIOLATIONS_SLOTS]; /* hash of a line: its place in `seen` plus 1 */
    uint64_t total;                   /* refusals, whether listed or not */
    uint64_t unlisted;                /* those of them that no line tells of */
    char *out;                        /* JSON lines that the reader has not taken yet */
    size_t out_len;
};

void violations_open(struct violations *violations, const char *sandbox, char *const *argv,
                     const struct settings *settings, int fd);
/* Whether nobody wants to hear of any violation whose line begins so: "deny " is how all of them
 * do, "deny read /" those about files that are hidden. */
bool violations_ignored(const struct violations *violations, const char *beginning);
void violations_add(struct violations *violations, const struct violation *violation);
/* Refusals that nobody could describe. */
void violations_add_unlisted(struct violations *violations, uint64_t count);
/* Whether lines wait for `fd` to be writable, and writes what it takes without waiting. */
bool violations_pending(const struct violations *violations);
void violations_flush(struct violations *violations);
/* The last lines, which the reader has a little time to take. */
void violations_finish(struct violations *violations);
/* At most ten lines between <sandbox_violations> marks, or nothing when there was none. */
void violations_summary(const struct violations *violations, FILE *out);
void violations_close(struct violations *violations);

#endif
