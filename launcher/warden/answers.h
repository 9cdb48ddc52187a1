/*
 * The answers: each does or judges one kind of system call. Calls that create names are done here,
 * on the caller's behalf (opens.c, names.c), and so are those that remove them (removes.c) and
 * those that change modes, owners, times and attributes (attributes.c); connect() and what names a
 * receiver are done on the caller's own socket (sockets.c, sends.c).
 *
 * `row` is the line of the table that led here; `args` are the arguments in the order of the
 * youngest relative of the call, such as renameat2 for rename. Process: the warden. The result is
 * 0, a negative errno for the caller, or one of enum answer.
 */
#ifndef LAUNCHER_WARDEN_ANSWERS_H
#define LAUNCHER_WARDEN_ANSWERS_H

#include "launcher/warden/call.h"
#include "launcher/warden/table.h"

#include <errno.h>
#include <sys/syscall.h>

/* Younger than the headers; since Linux 5.1 numbers are the same everywhere. */
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#define SYS_removexattrat 466
#endif
#ifndef SYS_file_setattr
#define SYS_file_setattr 469
#endif

enum answer {
    ANSWER_SENT = 1,   /* the reply is on its way already */
    ANSWER_RUN_IT = 2, /* the kernel is to run the call itself */
};

/* What a call of ours comes to as an answer. */
static inline int64_t errno_of(int result)
{
    return result < 0 ? -errno : result;
}

typedef int64_t answer_call(struct call *call, const struct table_row *row, const uint64_t *args);

answer_call answer_open, answer_openat2, answer_truncate;
/* Of answer_open, where reads are watched: reports what is asked for and hidden. */
int64_t answer_reading(struct call *call, int dir_fd, uint64_t address, uint64_t flags);
/* Of an object that has been found, for reading; `path` is what it is called. */
int64_t open_found(struct call *call, int found, const char *path, int flags,
                   const struct stat *st);
answer_call answer_make, answer_symlink, answer_link, answer_rename;
answer_call answer_remove;
answer_call answer_chmod, answer_chown, answer_utimes;
answer_call answer_setxattr, answer_removexattr, answer_setattr;
answer_call answer_ioctl; /* the flags of a file; others are refused */
answer_call answer_close; /* of what was given by the door (door.h) */
answer_call answer_umask; /* changes nothing in the tree; call_caller() has to know of it */
answer_call answer_connect, answer_bind;
answer_call answer_sendto, answer_sendmsg, answer_sendmmsg;
/* A call that the filter refuses, and that is reported (syscalls.h). */
int64_t answer_refused(struct call *call);

#endif
