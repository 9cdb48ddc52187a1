/*
 * bubblewrap: found, distrusted, and started with our last stage as process 1. It makes the
 * namespaces, a read-only view of everything, /dev and /proc; launcher/mounts.c does the rest from
 * inside.
 *
 * Thread: the launcher's only one. Failure: -1 with `err`, which names the remedy.
 */
#ifndef LAUNCHER_BWRAP_H
#define LAUNCHER_BWRAP_H

#include "launcher/fence.h"
#include "launcher/inside.h"

#include <sys/types.h>

struct bwrap {
    const char *program;
    pid_t pid;      /* of bubblewrap itself, outside */
    int sock;       /* to the last stage (stage.h) */
    int complaints; /* what bubblewrap prints, until the stage is there */
    struct inside inside;
};

#define BWRAP_LOG_SOCKET "/dev/log"

struct bwrap_options {
    const char *program;    /* from bwrap_find() */
    const char *self;       /* this program, to be run as the last stage */
    bool closed_streams[3]; /* the caller had them closed */
    bool log_socket;        /* the host's, in a /dev that is otherwise the sandbox's own */
    bool weaker_proc;       /* enableWeakerNestedSandbox: the host's /proc */
};

/* An absolute path that the sandbox and other users cannot write to. `asked` may be NULL: from
 * PATH. */
char *bwrap_find(const char *asked, const struct fence *fence, struct srt_err *err);

/* Returns when the stage is ready. */
int bwrap_start(struct bwrap *bwrap, const struct bwrap_options *options, struct srt_err *err);

/* Waits for its end; everything inside is gone then. Returns the wait status. */
int bwrap_wait(struct bwrap *bwrap);
/* Ends everything inside at once. */
void bwrap_kill(struct bwrap *bwrap);

#endif
