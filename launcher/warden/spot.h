/*
 * The place that a path argument leads to: a name in a directory that is held open, found as the
 * kernel would find it for the caller.
 *
 * Once found, nothing that happens to the string, to links or to directories above changes what the
 * spot is. Process: the warden. Failure: a negative errno.
 */
#ifndef LAUNCHER_WARDEN_SPOT_H
#define LAUNCHER_WARDEN_SPOT_H

#include "launcher/warden/call.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

struct spot {
    int dir;
    bool held;                          /* somebody else closes it */
    char name[NAME_MAX + 1];            /* "" = the directory itself; "." and ".." stay names */
    bool slash;                         /* a slash followed the name */
    char path[PATH_MAX + NAME_MAX + 2]; /* for judging and reporting */
};

static inline void spot_close(struct spot *spot)
{
    if (spot->dir >= 0 && !spot->held)
        close(spot->dir);
    spot->dir = -1;
}

#define autospot __attribute__((cleanup(spot_close)))
/* Declares one; its names need no bytes yet. */
#define SPOT(variable)             \
    autospot struct spot variable; \
    spot_init(&(variable))

static inline void spot_init(struct spot *spot)
{
    spot->dir = -1;
    spot->held = spot->slash = false;
    spot->name[0] = spot->path[0] = '\0';
}

/* The directory that `path` starts from: -1 where it is absolute. False with errno. */
bool spot_base(struct call *call, int dir_fd, const char *path, int *base);
/* The spot of a path argument, relative to `dir_fd` of the caller. */
int spot_of(struct call *call, int dir_fd, uint64_t address, struct spot *spot);
/* The same for one that has been read; `path` is cut. */
int spot_of_path(struct call *call, int dir_fd, char *path, struct spot *spot);
/* The spots of two: `args` are two pairs of a descriptor and an address. */
int spot_pair(struct call *call, const uint64_t args[4], struct spot *first, struct spot *second);
/* The same for a path that is at hand. Takes `base`, which is -1 for an absolute path. */
int spot_find(struct call *call, int base, const char *path, struct spot *spot);
/* Where a path leads with its last link followed, as O_PATH descriptor. Takes `base` as before; -1
 * with errno. */
int spot_walk(struct call *call, int base, const char *path);

/* What the kernel would find for the caller, as an O_PATH descriptor; `nofollow`: O_NOFOLLOW, which
 * leaves the last link, or 0. -1 with errno. Takes `base`. */
int spot_object(struct call *call, int base, const char *path, uint64_t nofollow);

bool spot_is_special(const struct spot *spot); /* no name that could be made or removed */
bool spot_exists(const struct spot *spot);
mode_t spot_type(const struct spot *spot); /* S_IFREG where there is nothing */
bool spot_is_mount_point(const struct spot *spot);
bool spot_same_mount(int a, int b);
bool spot_on_proc(int fd);
bool spot_is_proc_root(int fd);

#endif
