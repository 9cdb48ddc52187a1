/*
 * Work inside a sandbox from outside: a child of ours joins the sandbox's user namespace (in which
 * our uid then has every capability) and its network or mount namespace, does one thing and ends,
 * or stays. It never joins the pid namespace and begins before the command does, so nothing inside
 * can touch it.
 *
 * Ownership: the caller owns descriptors that come back. Thread: the launcher's only one, as it
 * forks. Failure: -1, or what the work says, with `err`.
 */
#ifndef LAUNCHER_INSIDE_H
#define LAUNCHER_INSIDE_H

#include "srt/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { INSIDE_MAX_FDS = 8 };

/* The namespaces of a sandbox, as descriptors; -1 = not known. The last stage sends them out
 * itself, so no process id has to be trusted. */
struct inside {
    int mount_ns, net_ns;
    int host_proc; /* the host's /proc, opened before */
};

struct inside_gift {
    int fds[INSIDE_MAX_FDS];
    size_t count;
};

/* Runs in the child; descriptors put into `gift` are handed to the caller. The result is what
 * inside_do() returns: 0, or anything else with `err`. */
typedef int inside_work(void *context, const struct inside *inside, struct inside_gift *gift,
                        struct srt_err *err);

enum inside_where { INSIDE_NET, INSIDE_MOUNTS };

int inside_do(const struct inside *inside, enum inside_where where, inside_work *work,
              void *context, struct inside_gift *gift, struct srt_err *err);

/* What a child that stays goes on as; `sock` is its end of a SOCK_SEQPACKET pair. Never returns. */
typedef void inside_rest(void *context, int sock);

/* A child that stays, and our end of the pair. */
struct inside_resident {
    pid_t pid;
    int sock;
};

/* As inside_do() in the mount namespace, by a child that goes on as `rest` when its work is done.
 * Nobody stays where the result is not 0. */
int inside_settle(struct inside_resident *resident, const struct inside *inside, inside_work *work,
                  inside_rest *rest, void *context, struct inside_gift *gift, struct srt_err *err);

/* Makes the calling process a member; for children that need no work done before they are told of.
 */
int inside_join(const struct inside *inside, enum inside_where where, struct srt_err *err);

/* One message of at most `size` bytes with descriptors on a SOCK_SEQPACKET pair. Receiving returns
 * the number of bytes, 0 at the end, -1 with errno; `*count` is the room and then the number
 * received, which is all that came, or 0 where they were more than this process may have open. */
bool fds_send(int sock, const void *bytes, size_t len, const int *fds, size_t count);
ssize_t fds_receive(int sock, void *bytes, size_t size, int *fds, size_t *count);

#endif
