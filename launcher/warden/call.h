/*
 * One system call that waits for an answer, and what can be learned of the process that made it.
 *
 * Everything of the caller is read through its process id, which may have become another's by then:
 * call_waits() after the last look tells that all of it was the caller's. Its memory can change at
 * any time, so nothing in it is read twice.
 *
 * Process: the warden. Failure: a negative errno.
 */
#ifndef LAUNCHER_WARDEN_CALL_H
#define LAUNCHER_WARDEN_CALL_H

#include "launcher/fence.h"

#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/types.h>

/* What stays the same from call to call. */
struct ward {
    int listener, reports;
    int host_proc; /* the host's /proc */
    const struct fence *fence;
    char *const *sockets;
    uint32_t missed; /* reports that found no room */
};

struct call {
    struct ward *ward;
    const struct seccomp_notif *request;
    pid_t inner_pid, inner_tid; /* as the sandbox's own /proc names them; 0 = not looked up yet */
    mode_t umask;               /* valid after call_read_status() */
    bool reported;              /* once is enough */
    bool cuts;                  /* truncate(): what is opened is cut to `size` and not given */
    off_t size;
};

/* The rights of the user and nothing more, except to look into callers. Without this a file that
 * the caller may not open could be opened for it. */
bool call_set_rights(bool look_into_callers);

/* A file of the caller's directory in /proc. */
int call_open_proc(const struct call *call, const char *name, int flags);
void call_read_status(struct call *call);
bool call_waits(const struct call *call);

/* A terminated string, or exactly `len` bytes, of its memory. */
int call_read_string(const struct call *call, uint64_t address, char *out, size_t size);
int call_read_memory(const struct call *call, uint64_t address, void *out, size_t len);

/* The directory that `path` starts from: the root, or the caller's `dir_fd` (AT_FDCWD: its working
 * directory). -1 with errno. */
int call_open_base(const struct call *call, int dir_fd, const char *path);

/* The path of one of our own descriptors, "" where there is none; the number of bytes. */
size_t ward_path_of(const struct ward *ward, int fd, char *path, size_t size);
/* `self/fd/N`, for calls relative to host_proc that have to mean the very object. */
struct ward_link {
    char text[32];
};
struct ward_link ward_link_to(int fd);

#endif
