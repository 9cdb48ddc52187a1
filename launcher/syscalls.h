/*
 * The system call filter of the sandbox, built by libseccomp for the running architecture.
 *
 * The table in syscalls.c is the policy, one reason a row. Everything not named is allowed: mounts
 * and namespaces are the fence, the filter takes away what leads around them or widens the kernel's
 * surface. Thread: any. Failure: -1 with `err`; the caller must not go on.
 */
#ifndef LAUNCHER_SYSCALLS_H
#define LAUNCHER_SYSCALLS_H

#include "srt/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum syscalls_option {
    SYSCALLS_UNIX_SOCKETS = 1 << 0,    /* network.allowAllUnixSockets */
    SYSCALLS_NESTED_USERNS = 1 << 1,   /* allowNestedUserNamespaces */
    SYSCALLS_NAMED_SOCKETS = 1 << 2,   /* network.allowUnixSockets: the warden connects them */
    SYSCALLS_NAMED_DATAGRAMS = 1 << 4, /* one of them takes datagrams: the warden sends these */
    SYSCALLS_WATCH_READS = 1 << 3, /* filesystem.denyRead: what is asked for and hidden is told, or
                                    * what is hidden could be replaced (warden/secrets.h) */
};

/* Why a call is refused. */
struct syscalls_refusal {
    const char *name;
    const char *detail; /* the argument that matters, "" where none does */
    const char *reason;
    int error;
    unsigned unless; /* enum syscalls_option that allows it */
};

/* Installs it on this thread and its children for ever. Needs no_new_privs. */
int syscalls_install(unsigned options, struct srt_err *err);

/* The same filter with a warden, on the calling thread and its children for ever: calls that can
 * put a name into the tree, and those that change what exists, wait for an answer on the returned
 * descriptor (warden/table.h). So do calls that are refused, but for those that pretend not to
 * exist (ENOSYS), so that they are told about. Nothing is installed when it fails. -2: there is a
 * listener already, as in a sandbox inside a sandbox. */
int syscalls_install_notify(unsigned options, struct srt_err *err);

/* Which row refuses a call; false when none does. */
bool syscalls_find_refusal(unsigned options, int number, const uint64_t *args,
                           struct syscalls_refusal *refusal);

/* For --dry-run: one line a row that would be in force, `NAME: REASON`. */
void syscalls_print(unsigned options, FILE *out);

#endif
