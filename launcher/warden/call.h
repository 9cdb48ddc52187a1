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

#include "launcher/warden/warden.h"

#include <limits.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* What is known of a task that called before. `dir` is its directory in the host's /proc, which
 * never becomes another task's: when the task is gone, nothing is found in it. */
struct caller {
    pid_t tid; /* 0 = free */
    int dir;
    pid_t inner_pid, inner_tid; /* as the sandbox's own /proc names them */
    mode_t umask;
    int64_t read_ms;      /* when its status was read; 0 = never, or it may have changed since */
    uint64_t read_serial; /* by which call */
};

/* A directory that stays open (held.h). */
struct held {
    int fd; /* 0 = free */
    struct held_place {
        uint64_t inode, mount;
        uint32_t major, minor;
    } place;
    uint64_t serial; /* the call that used it last */
};

enum { CALLERS = 64, HELD_DIRS = 64, HELD_FDS = 1024 };

/* What stays from call to call. */
struct ward {
    int listener, reports;
    int host_proc; /* the host's /proc */
    int own_fds;   /* our own directory of descriptors in it */
    const struct warden_law *law;
    uid_t uid; /* whom the sandbox knows: we are called otherwise in our namespace */
    gid_t gid;
    uint64_t *missed; /* reports that found no room */
    int64_t slow_ms;  /* when srt-launch last had no time to read them */
    uint64_t *masks;  /* the mounts that hide something */
    size_t mask_count;
    bool secrets;          /* what is opened for reading is opened by us (secrets.h) */
    dev_t plain_dev;       /* a file system that is not /proc; 0 = none seen yet */
    pid_t umask_by;        /* who was told to change its umask and may not have yet; 0 = nobody */
    int64_t umask_ms;      /* when that was */
    uint64_t umask_serial; /* the first call after the last change */
    struct caller callers[CALLERS];
    struct held held[HELD_DIRS];
    uint64_t held_fds[HELD_FDS / 64]; /* which descriptors are held */
    int kept_below;                   /* the number from which on no descriptor stays open */
    int here;                         /* the one that is our working directory, -1 = none of them */
    mode_t umask;                     /* ours: whatever the last caller with a new name had */
    bool expects_new;                 /* what was last asked for, if need be made, had to be made */
    bool expects_dir;                 /* the directory that was last to be made was there */
};

struct call {
    struct ward *ward;
    const struct seccomp_notif *request;
    uint64_t serial;       /* of this call, never 0 */
    struct caller *caller; /* once it is certain that its directory is this caller's */
    bool reported;         /* once is enough, and where nobody listens it is not told at all */
    bool cuts;             /* truncate(): what is opened is cut to `size` and not given */
    off_t size;
};

/* The rights of the user and nothing more, except to look into callers. Without this a file that
 * the caller may not open could be opened for it. */
bool call_set_rights(bool look_into_callers);

/* A file of the caller's directory in /proc. */
int call_open_proc(struct call *call, const char *name, int flags);
/* Whoever calls, with `inner_pid`, `inner_tid` and a umask that is at most UMASK_MS old where a
 * thread of the same process changes it at this very moment, and up to date otherwise. */
const struct caller *call_caller(struct call *call);
/* What is made now gets the caller's umask. */
void call_use_umask(struct call *call);
/* The caller is about to change its umask. */
void call_umask_changes(const struct call *call);
/* What `path` leads to from the caller's `dir_fd`, or absolute. Links of /proc are not followed as
 * the caller would, and might be though the caller may not: so what is learned here is only ever
 * compared with something that was found otherwise. */
bool call_look(struct call *call, int dir_fd, const char *path, int at_flags, struct statx *st);
/* The object of the caller's descriptor (AT_FDCWD: its working directory) as O_PATH descriptor, to
 * close. `as_file`: not of one that is O_PATH itself. -1 with errno. */
int call_open_descriptor(struct call *call, int fd, bool as_file);
/* The caller's process as a pidfd, for its descriptors; or a negative errno. */
int call_process(struct call *call);
/* What the caller has open, for us too, to close; or a negative errno. */
int call_take(struct call *call, int fd);
bool call_waits(const struct call *call);
/* Answers with a negative errno, 0, or one of enum answer. */
void call_answer(const struct call *call, int64_t result);
/* Gives the caller what `fd` is, with O_CLOEXEC of `flags`: as `number`, or as the lowest that is
 * free where that is -1. Then it is answered with ANSWER_SENT; the result is that or a negative
 * errno. */
int64_t call_give(const struct call *call, int fd, int number, uint64_t flags);
/* The same without an answer; the caller's number of it. */
int call_add_descriptor(const struct call *call, int fd, uint64_t flags);
/* Answers with a number. */
void call_return(const struct call *call, int64_t value);
/* It is answered, or somebody else will do so. */
void call_end(const struct call *call);

/* A terminated string, or exactly `len` bytes, of its memory. */
int call_read_string(const struct call *call, uint64_t address, char *out, size_t size);
/* Two of them, PATH_MAX bytes of room each. */
int call_read_strings(const struct call *call, const uint64_t addresses[2], char *const outs[2]);
int call_read_memory(const struct call *call, uint64_t address, void *out, size_t len);
int call_write_memory(const struct call *call, uint64_t address, const void *bytes, size_t len);

/* The caller's `dir_fd` (AT_FDCWD: its working directory), to be given back. -1 with errno. */
int call_open_base(struct call *call, int dir_fd);
/* -1 is nothing. */
void call_close_base(const struct call *call, int base);
/* The same directory, to close. Gives `base` back. */
int call_own_base(const struct call *call, int base);

/* Whether the mount is one that hides something. */
bool ward_is_mask(const struct ward *ward, uint64_t mount);
/* The path of one of our own descriptors, "" where there is none; the number of bytes. */
size_t ward_path_of(const struct ward *ward, int fd, char *path, size_t size);
/* `self/fd/N`, for calls relative to host_proc that have to mean the very object. */
struct ward_link {
    char text[32];
};
struct ward_link ward_link_to(int fd);

#endif
