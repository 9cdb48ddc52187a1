/*
 * One run of srt-launch, as far as it is decided before anything is started: from options,
 * settings, environment and the tree to the fence's plan, the way out, the command and what it
 * gets.
 *
 * Ownership: launch_free(); options are views of the caller's words. Thread: the only one, before
 * anything runs in the sandbox. Failure: EXIT_FAILED, and why has been said (say.h).
 */
#ifndef LAUNCHER_LAUNCH_H
#define LAUNCHER_LAUNCH_H

#include "launcher/asking.h"
#include "launcher/fence.h"
#include "launcher/options.h"
#include "launcher/rules.h"
#include "launcher/streams.h"
#include "launcher/violations.h"

struct launch {
    struct options options;
    char **words;             /* of main() */
    uint64_t ignored_signals; /* by the caller */
    struct settings *settings;
    struct fence fence;
    struct fence_plan plan;
    struct rules_notes notes;
    char *cwd, *home, *self, *settings_path, *name, *gateway_program, *violations_path;
    const char *gateway_socket, *policy, *tmpdir;
    bool way_out;
    bool way_out_is_socket; /* not a port of the sandbox's loopback */
    bool transparent;       /* also wherever else programs connect to */
    bool closed_streams[3];
    struct streams streams;
    int violations_fd;
    struct asking asking;
    bool planned;           /* warnings have been said */
    struct srt_err changed; /* with EXIT_CHANGED: what has */
    char **env;
    char **argv; /* of the command */
};

/* All of it, but for what only the run itself can know. */
int launch_prepare(struct launch *launch);
/* Fence, plan and environment by the tree as it is now; what was planned before is replaced. */
int launch_plan(struct launch *launch);
void launch_free(struct launch *launch);

/* --dry-run and explain-path: on standard output. */
int launch_dry_run(const struct launch *launch);
int launch_explain_paths(const struct launch *launch);

/* ---- what follows from it ---- */

/* A directory in the sandbox's own memory; `tmpdir` where the caller's cannot be written to. */
extern const char launch_private_tmpdir[];
/* Whether the private gateway's program may be run, which is outside: one that was found in PATH
 * could be an earlier sandbox's. -1 with `err`. */
int launch_check_gateway(const struct launch *launch, struct srt_err *err);
/* Where the way out is, inside. */
const char *launch_way_out_place(const struct launch *launch);
/* Paths of the Unix sockets that may be connected to, absolute; NULL ends. Where links lead is
 * looked at when something connects, as the service may come later. */
char **launch_sockets(const struct launch *launch);
bool launch_names_socket(const struct launch *launch, const char *path);
/* Whether something is hidden that the mounts alone cannot hide. */
bool launch_judges_reads(const struct launch *launch);
/* All else is watched only for somebody who wants to hear of it. */
bool launch_watches_reads(const struct launch *launch, const struct violations *violations);
/* enum syscalls_option. */
unsigned launch_syscalls(const struct launch *launch, bool watch_reads);

void launch_free_sockets(char ***list);
#define autofree_sockets __attribute__((cleanup(launch_free_sockets)))

/* What is said when settings are at fault, after the faults. */
int launch_refuse_settings(const struct launch *launch);

#endif
