/*
 * Files of a rebase or cherry-pick that is under way, read as data: whether git runs a command that
 * one of them names when somebody goes on with it.
 *
 * Pure; thread: any. Failure: none.
 */
#ifndef LAUNCHER_REBASE_H
#define LAUNCHER_REBASE_H

#include <stdbool.h>
#include <stddef.h>

/* Of the list (`rebase-merge/git-rebase-todo`). `command` gets the first one, printable and cut to
 * `size`. */
bool rebase_finds_command(const char *bytes, size_t len, char *command, size_t size);

/* A way to merge that git does not have is a program of that name, git-merge-NAME, which may be a
 * path. `rebase_names_program` is of the file of one line, `rebase_sequence_names_program` of the
 * options of a cherry-pick or a revert, which are a configuration. */
bool rebase_names_program(const char *bytes, size_t len, char *command, size_t size);
bool rebase_sequence_names_program(const char *bytes, size_t len, char *command, size_t size);

/* Options for git apply (`rebase-apply/apply-opt`) that git am does not hand on: with one of those
 * git apply writes to any file. */
bool rebase_has_odd_option(const char *bytes, size_t len, char *command, size_t size);

#endif
