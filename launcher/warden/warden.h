/*
 * The warden: a process of ours that joined the sandbox's user and mount namespaces, but neither
 * its filter nor its process namespace, and answers the system calls that can put a name into the
 * tree.
 *
 * A name that does not exist yet cannot be covered by a mount without leaving something on the
 * host. So calls that create names do not run in the kernel on the caller's behalf: the warden
 * reads their arguments once, judges the place that they lead to, and does the work itself, on
 * descriptors. A second thread that swaps the string, a link or a directory in between changes
 * nothing. Calls that only change what exists are judged and reported, and then run: mounts enforce
 * those.
 *
 * Process: a child of srt-launch; its death ends the sandbox. Failure: a call it cannot carry out
 * gets an error number, never a free pass.
 */
#ifndef LAUNCHER_WARDEN_WARDEN_H
#define LAUNCHER_WARDEN_WARDEN_H

#include "launcher/fence.h"
#include "launcher/inside.h"

#include <stdint.h>
#include <sys/types.h>

/* What it tells about a refused call, one SOCK_SEQPACKET message each. */
struct warden_report {
    int32_t pid; /* as the sandbox sees it */
    int32_t error;
    uint32_t missed; /* reports before this one that found no room */
    char comm[16];
    char operation[16];
    char setting[128];
    char path[4096];
};

struct warden {
    pid_t pid;   /* 0 = not running */
    int reports; /* -1 = not running */
};

/* Takes `listener`, the notification descriptor of the filter. `sockets` are absolute paths of Unix
 * sockets, or of directories of them, that may be connected to; NULL ends. */
int warden_start(struct warden *warden, const struct inside *inside, const struct fence *fence,
                 char *const *sockets, int listener, struct srt_err *err);
void warden_end(struct warden *warden);

#endif
