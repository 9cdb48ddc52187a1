/*
 * A gateway from its start to its end: its parts are made in the order in which they need each
 * other, and ended the other way round; in between the control thread's loop.
 *
 * Thread: main, which becomes the control thread. Failure: an exit status; why has been said on
 * stderr.
 */
#ifndef CONTROL_RUN_H
#define CONTROL_RUN_H

#include "control/exit_status.h"

#include <stdbool.h>

struct run_options {
    const char *config_path; /* NULL: private */
    int private_fd;          /* the launcher's connection; -1: not private */
    int take_over_fd;        /* of a process whose place this one takes; -1: of none */
    const char *audit_log;   /* of a private one; NULL: none */
    bool trace;
};

/* Returns when it has ended. Takes the descriptors. */
enum exit_status gateway_run(const struct run_options *options);

#endif
