/*
 * The environment that the command gets: the caller's, less what the settings deny, with the way
 * out set for the tools that look for it there.
 *
 * Ownership: the list and its strings are the caller's, environ_free(). Thread: any. Failure: none.
 */
#ifndef LAUNCHER_ENVIRON_H
#define LAUNCHER_ENVIRON_H

#include "config/settings.h"

struct environ_options {
    bool proxy;         /* there is a listener at 127.0.0.1:3128 */
    bool socket;        /* it is at ATTACH_SOCKET */
    const char *tmpdir; /* replaces TMPDIR, TMP and TEMP */
    const char
        *connect_prog; /* this program as it is seen inside, for GIT_SSH_COMMAND; NULL = not */
};

char **environ_build(char *const *from, const struct settings *settings,
                     const struct environ_options *options);
void environ_free(char **env);

#endif
