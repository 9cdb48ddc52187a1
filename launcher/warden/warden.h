/*
 * The warden: a process of ours that joined the sandbox's user and mount namespaces, but neither
 * its filter nor its process namespace. It puts up the mounts, and then answers the system calls
 * that can put a name into the tree.
 *
 * A name that does not exist yet cannot be covered by a mount without leaving something on the
 * host. So calls that create names do not run in the kernel on the caller's behalf: the warden
 * reads their arguments once, judges the place that they lead to, and does the work itself, on
 * descriptors. A second thread that swaps the string, a link or a directory in between changes
 * nothing. Calls that only change what exists are judged and reported, and then run: mounts enforce
 * those.
 *
 * Every refusal is reported to srt-launch, with whoever made the call.
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

enum warden_kind {
    WARDEN_FILE,
    WARDEN_SOCKET,
    WARDEN_SYSCALL,
    /* No report: a file of the warden's in a directory, which comes along with a socket for the
     * error number, is to replace one that is a mount point inside (`setting`, `path`: names); or,
     * with an empty `setting`, that one is to go. */
    WARDEN_REPLACE,
};

/* What it tells about a refused call, one SOCK_SEQPACKET message each. */
struct warden_report {
    int32_t kind;    /* enum warden_kind */
    int32_t pid;     /* as the sandbox sees it */
    int32_t error;   /* 0: the call succeeds, but shows nothing of what is there */
    uint32_t unless; /* enum syscalls_option that would allow a refused system call */
    char comm[16];
    char command[256]; /* the command line, printable, cut to this */
    char operation[24];
    char setting[128]; /* or the reason of a refused system call */
    char path[4096];   /* or the argument that matters */
};

/* What the warden judges by. All of it outlives the warden. */
struct warden_law {
    const struct fence *fence;
    const struct fence_plan *plan; /* for the places that are hidden */
    char *const *sockets; /* absolute paths of Unix sockets, or of directories of them, that may be
                           * connected to; NULL ends */
    unsigned syscalls;    /* enum syscalls_option */
    bool silent;          /* nobody wants to hear of a refusal: it only enforces */
};

struct warden {
    pid_t pid;        /* 0 = not running */
    int reports;      /* -1 = not running */
    uint64_t *missed; /* reports that found no room for too long, shared with the process */
};

/* Returns when `furnish` is done, with its result, and the warden waits for the listener: 0, or
 * anything else with `err` and without a warden. */
int warden_start(struct warden *warden, const struct inside *inside, const struct warden_law *law,
                 inside_work *furnish, void *furniture, struct inside_gift *gift,
                 struct srt_err *err);
/* Takes `listener`, the notification descriptor of the filter. False: there is no warden any more.
 */
bool warden_give(const struct warden *warden, int listener);
/* How many refusals were not reported. */
uint64_t warden_missed(const struct warden *warden);
/* At any time, also when it was never started. */
void warden_end(struct warden *warden);
/* Does what WARDEN_REPLACE asks for. Takes the descriptors. */
void warden_replace(const struct warden_report *report, int dir, int reply);

#endif
