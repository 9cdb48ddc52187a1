/*
 * The command line: what every command shares. One file each for what they do.
 *
 * A command gets its own words (argv[0] is the program's name, for getopt's messages) and returns
 * the exit status. Messages go to stderr, results to stdout. Thread: main.
 */
#ifndef COMMANDS_COMMAND_H
#define COMMANDS_COMMAND_H

#include "control/exit_status.h"

#include <getopt.h>

struct command {
    const char *name;
    int (*run)(const struct command *self, int argc, char **argv);
    const char *synopsis; /* behind the name */
    const char *summary;
};

int command_run(const struct command *self, int argc, char **argv);
int command_check(const struct command *self, int argc, char **argv);
int command_explain(const struct command *self, int argc, char **argv);
int command_options(const struct command *self, int argc, char **argv);
int command_ask(const struct command *self, int argc, char **argv);    /* status and the like */
int command_answer(const struct command *self, int argc, char **argv); /* approve, refuse */
int command_grant(const struct command *self, int argc, char **argv);
int command_cut(const struct command *self, int argc, char **argv);
int command_tail(const struct command *self, int argc, char **argv);
int command_replay(const struct command *self, int argc, char **argv);
int command_learn(const struct command *self, int argc, char **argv);
int command_summary(const struct command *self, int argc, char **argv);

/* Ends the list of a command's own long options. */
#define COMMAND_COMMON_OPTIONS                                             \
    {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, \
    {                                                                      \
        NULL, 0, NULL, 0                                                   \
    }

/* The next option, or -1 behind the last. Help and version are printed here and end the program,
 * and so does an option that nobody knows (EXIT_USAGE). `shorts` must hold "hV". */
int command_option(const struct command *self, int argc, char **argv, const char *shorts,
                   const struct option *longs);

/* A message with a hint at the command's usage; returns EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int command_misused(const struct command *self,
                                                          const char *format, ...);

void command_print_version(void);

/* The file that is read without -c: /etc/srt-gateway/gateway.ini; without it and not root,
 * $XDG_CONFIG_HOME/srt-gateway/gateway.ini. The result lives as long as the program. */
const char *command_default_config(void);

#endif
