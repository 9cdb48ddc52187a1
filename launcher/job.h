/*
 * What process 1 inside is to run, and how; packed by srt-launch and handed over in a memfd that
 * nobody can change.
 *
 * Ownership: the pointers of a job are borrowed; those of an unpacked one live as long as the
 * process. Thread: any.
 */
#ifndef LAUNCHER_JOB_H
#define LAUNCHER_JOB_H

#include "srt/err.h"

#include <stdbool.h>
#include <stdint.h>

struct job {
    unsigned syscalls;        /* enum syscalls_option */
    uint64_t ignored_signals; /* bit N-1: signal N was ignored when srt-launch started */
    uint32_t umask;
    bool supervised;
    bool wait;      /* for everything that the command leaves running */
    bool own_group; /* on a terminal that is all ours: a process group in its foreground */
    bool nested;    /* the command may make namespaces and mounts */
    const char *cwd;
    char *const *argv, *const *env;
    char *const *roots; /* what may be written to, for the second wall (landlock.h) */
};

/* A sealed memfd that holds the job, or -1 with `err`. */
int job_pack(const struct job *job, struct srt_err *err);
/* False, with errno: there is no memory for it. The launcher packed it, so a fault in it is a bug
 * and ends the process. */
bool job_unpack(struct job *job, int fd);

#endif
