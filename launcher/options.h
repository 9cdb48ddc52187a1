/*
 * The command line of srt-launch. Options end at the first word that is not one; what follows is
 * the command, untouched.
 *
 * Ownership: everything points into argv. Thread: any. Failure: -1 with `err`.
 */
#ifndef LAUNCHER_OPTIONS_H
#define LAUNCHER_OPTIONS_H

#include "launcher/publish.h"

#include <stdbool.h>

enum options_action {
    OPTIONS_RUN,
    OPTIONS_HELP,
    OPTIONS_VERSION,
    OPTIONS_DOCTOR,
    OPTIONS_EXPLAIN_PATH,
    OPTIONS_CONNECT
};

struct options {
    enum options_action action;
    const char *settings, *gateway, *policy, *egress, *name, *violations, *ask, *shell_string;
    int control_fd, violations_fd; /* -1 = not given */
    bool dry_run, verbose, wait;
    struct publish publish;
    char **rest; /* the command, or the words of a subcommand; ends with NULL */
};

int options_parse(struct options *options, char **argv, struct srt_err *err);
void options_usage(FILE *out);

#endif
