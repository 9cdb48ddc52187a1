/*
 * Standard streams that are files or sockets. A descriptor of the caller's lies on a mount of the host's, so
 * it is a door beside the fence: whoever holds it can open it again for writing, change its mode,
 * or, where it is a directory, go on from there. So directories are refused, and a file that was
 * opened for reading is opened again on the sandbox's own, read-only mount, at the same offset.
 * Sockets are refused, too, but for connected Unix sockets that are no datagrams: any other can be
 * connected anew, and leads to the network or the services of the host.
 *
 * So is a device like /dev/null whose node is the caller's own, which is root's as a rule. A file
 * that the caller opened for writing stays what it is: that is what it was given for.
 *
 * Ownership: streams_give_back() closes what was opened. Thread: the launcher's only one. Failure:
 * -1 with `err`.
 */
#ifndef LAUNCHER_STREAMS_H
#define LAUNCHER_STREAMS_H

#include "launcher/inside.h"

#include <stdbool.h>

struct streams {
    char *paths[3]; /* of those to be opened again; NULL = stays as it is */
    int fds[3];     /* what the command gets instead, or -1 */
    int flags[3];   /* of the caller's, at the start; -1 = closed */
};

/* Before anything is started. */
int streams_look(struct streams *streams, const bool closed[3], struct srt_err *err);
/* An inside_work for the mount namespace before anything in it is hidden; the context is a struct
 * streams, and the gift is for streams_take(), which takes it. */
int streams_reopen(void *streams, const struct inside *inside, struct inside_gift *gift,
                   struct srt_err *err);
void streams_take(struct streams *streams, const struct inside_gift *gift);
/* The command is gone: what it has done to the flags of an open file, such as O_NONBLOCK, would be
 * the caller's to find, and what is said now would be lost. */
void streams_restore_flags(const struct streams *streams);
/* After the end: the caller goes on reading where the command stopped. */
void streams_give_back(struct streams *streams);

#endif
