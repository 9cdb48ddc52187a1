/*
 * The list of a rebase that is under way (`rebase-merge/git-rebase-todo`), read as data: whether it
 * has a line by which git runs a command.
 *
 * Pure; thread: any. Failure: none.
 */
#ifndef LAUNCHER_REBASE_H
#define LAUNCHER_REBASE_H

#include <stdbool.h>
#include <stddef.h>

/* `command` gets the first one, printable and cut to `size`. */
bool rebase_finds_command(const char *bytes, size_t len, char *command, size_t size);

#endif
