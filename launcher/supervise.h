/*
 * From the moment the command may run until everything inside is gone: signals, the terminal, the
 * gateway's messages and its return after a loss, live policy, the exit status.
 *
 * Thread: the launcher's only one. Failure: the exit status says it (125) and standard error why.
 */
#ifndef LAUNCHER_SUPERVISE_H
#define LAUNCHER_SUPERVISE_H

#include "launcher/asking.h"
#include "launcher/cell.h"
#include "launcher/control.h"
#include "launcher/egress.h"
#include "launcher/job.h"
#include "launcher/violations.h"
#include "launcher/warden/warden.h"

struct supervise {
    struct cell *cell;
    struct egress *egress; /* NULL: no way out was asked for */
    struct control control;
    struct asking *asking;
    const struct warden_law *law;
    struct warden *warden; /* not running: nobody supervises the command's calls */
    const char *home;      /* for hints; may be NULL */
    struct violations *violations;
    const struct job *job;
    const int *streams; /* three: what the command gets instead of ours, or -1 */
    bool verbose;
};

/* The signals that were ignored when this program was started, for the job. */
uint64_t supervise_ignored_signals(void);
/* Whether the command may have the terminal to itself: all three streams are our terminal and we
 * are in its foreground, so nothing else of a pipeline is. */
bool supervise_owns_terminal(void);

/* Sends GO with the packed job, and returns the exit status for srt-launch. */
int supervise_run(struct supervise *supervise, int job_fd);

#endif
