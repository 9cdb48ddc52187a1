#include "launcher/warden/spot.h"

#include "launcher/warden/held.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

enum { LINKS_MAX = 40, PROC_ROOT_INODE = 1 };

bool spot_on_proc(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

bool spot_is_proc_root(int fd)
{
    struct stat st;
    return spot_on_proc(fd) && fstat(fd, &st) == 0 && st.st_ino == PROC_ROOT_INODE;
}

/* A walk by components, for paths that go through /proc, whose links mean the one who looks at
 * them. */
struct walk {
    struct call *call;
    int at;
    bool own; /* below the caller's own directory of /proc */
    unsigned links;
    char rest[2 * PATH_MAX];
};

static int walk_to(struct walk *walk, int next)
{
    if (next < 0)
        return -errno;
    close(walk->at);
    walk->at = next;
    return 0;
}

static int walk_prepend(struct walk *walk, const char *target)
{
    if (++walk->links > LINKS_MAX)
        return -ELOOP;
    char joined[sizeof(walk->rest)];
    int len = snprintf(joined, sizeof(joined), "%s/%s", target, walk->rest);
    if (len < 0 || (size_t)len >= sizeof(joined))
        return -ENAMETOOLONG;
    memcpy(walk->rest, joined, (size_t)len + 1);
    return target[0] == '/' ? walk_to(walk, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) : 0;
}

static int walk_link(struct walk *walk, const char *name, int link)
{
    bool root = spot_is_proc_root(walk->at);
    if (root && (strcmp(name, "self") == 0 || strcmp(name, "thread-self") == 0)) {
        char target[64];
        if (name[0] == 's')
            snprintf(target, sizeof(target), "%d", call_caller(walk->call)->inner_pid);
        else
            snprintf(target, sizeof(target), "%d/task/%d", call_caller(walk->call)->inner_pid,
                     call_caller(walk->call)->inner_tid);
        return walk_prepend(walk, target);
    }
    if (!root && spot_on_proc(walk->at)) {
        /* A link of the kernel's, to an object and not to a name. We may follow more of them than
         * the caller, so only its own are followed. */
        return walk->own ? walk_to(walk, openat(walk->at, name, O_PATH | O_CLOEXEC)) : -EACCES;
    }
    char target[PATH_MAX];
    ssize_t len = readlinkat(link, "", target, sizeof(target) - 1);
    if (len < 0)
        return -errno;
    target[len] = '\0';
    return walk_prepend(walk, target);
}

static int walk_step(struct walk *walk, const char *name)
{
    if (strcmp(name, ".") == 0)
        return 0;
    autoclose int next = openat(walk->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (next < 0 || fstat(next, &st) != 0)
        return -errno;
    if (S_ISLNK(st.st_mode))
        return walk_link(walk, name, next);
    char own[16];
    snprintf(own, sizeof(own), "%d", call_caller(walk->call)->inner_pid);
    if (!spot_on_proc(next))
        walk->own = false;
    else if (spot_is_proc_root(walk->at))
        walk->own = strcmp(name, own) == 0;
    return walk_to(walk, steal_fd(&next));
}

int spot_walk(struct call *call, int base, const char *path)
{
    struct walk walk = {.call = call, .at = base};
    if (path[0] == '/') {
        call_close_base(call, base);
        walk.at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    } else {
        walk.at = call_own_base(call, base);
    }
    if (walk.at < 0)
        return -1;
    snprintf(walk.rest, sizeof(walk.rest), "%s", path);
    int result = 0;
    while (result == 0 && walk.rest[0] != '\0') {
        size_t skip = strspn(walk.rest, "/");
        size_t len = strcspn(walk.rest + skip, "/");
        char name[NAME_MAX + 1];
        if (len > NAME_MAX) {
            result = -ENAMETOOLONG;
            break;
        }
        memcpy(name, walk.rest + skip, len);
        name[len] = '\0';
        memmove(walk.rest, walk.rest + skip + len, strlen(walk.rest + skip + len) + 1);
        if (len > 0)
            result = walk_step(&walk, name);
    }
    if (result == 0)
        return walk.at;
    close(walk.at);
    errno = -result;
    return -1;
}

/* What the kernel resolves here it resolves alike for the caller, as long as no link of /proc is in
 * it: we share its root, its mounts and its rights. Takes `base`. */
static int open_dir(struct call *call, int base, const char *path)
{
    if (path[0] == '\0')
        return base;
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, base, path, &how, sizeof(how));
    if (fd >= 0 || (errno != ELOOP && errno != ENOENT)) {
        int error = errno;
        call_close_base(call, base);
        errno = error;
        return fd;
    }
    fd = spot_walk(call, base, path);
    struct stat st;
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISDIR(st.st_mode))) {
        close(fd);
        errno = ENOTDIR;
        return -1;
    }
    return fd;
}

/* The kernel tells the path of a working directory faster than that of a descriptor. */
static bool path_of_dir(struct ward *ward, int dir, char path[PATH_MAX])
{
    if (held_go(ward, dir) && syscall(SYS_getcwd, path, PATH_MAX) > 0 && path[0] == '/')
        return true;
    return ward_path_of(ward, dir, path, PATH_MAX) > 0;
}

/* A directory whose path is too long to be told cannot be judged by it. */
static int describe(struct ward *ward, struct spot *spot)
{
    if (!path_of_dir(ward, spot->dir, spot->path))
        return -ENAMETOOLONG;
    size_t len = strcmp(spot->path, "/") == 0 ? 0 : strlen(spot->path);
    spot->path[len] = '/';
    memcpy(spot->path + len + 1, spot->name, strlen(spot->name) + 1);
    return 0;
}

/* Cuts a path into the name that is meant and what leads to it, which it ends: `path` keeps that.
 */
static int split(char *path, struct spot *spot)
{
    size_t end = strlen(path);
    if (end == 0)
        return -ENOENT;
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    spot->slash = path[end] == '/';
    if (end - start > NAME_MAX)
        return -ENAMETOOLONG;
    if (path[start] == '/')
        start = end; /* the root itself */
    memcpy(spot->name, path + start, end - start);
    spot->name[end - start] = '\0';
    path[start] = '\0';
    return 0;
}

/* `dir` is taken, unless it is -1 with errno. */
static int settle(struct call *call, int dir, struct spot *spot)
{
    if (dir < 0)
        return -errno;
    spot->dir = dir;
    spot->held = held_has(call->ward, dir);
    return describe(call->ward, spot);
}

int spot_find(struct call *call, int base, const char *path, struct spot *spot)
{
    char parent[PATH_MAX];
    spot_close(spot);
    snprintf(parent, sizeof(parent), "%s", path);
    int result = split(parent, spot);
    if (result == 0)
        return settle(call, open_dir(call, base, parent), spot);
    call_close_base(call, base);
    return result;
}

/* `path` has been split, and is what leads to the spot. */
static int settle_below(struct call *call, int dir_fd, const char *path, struct spot *spot)
{
    int dir = held_find(call, dir_fd, path), base;
    if (dir >= 0)
        return settle(call, dir, spot);
    if (!spot_base(call, dir_fd, path, &base))
        return -errno;
    dir = open_dir(call, base, path);
    if (dir < 0)
        return -errno;
    held_keep(call, dir);
    return settle(call, dir, spot);
}

int spot_of_path(struct call *call, int dir_fd, char *path, struct spot *spot)
{
    int result = split(path, spot);
    return result == 0 ? settle_below(call, dir_fd, path, spot) : result;
}

int spot_of(struct call *call, int dir_fd, uint64_t address, struct spot *spot)
{
    char path[PATH_MAX];
    int result = call_read_string(call, address, path, sizeof(path));
    return result == 0 ? spot_of_path(call, dir_fd, path, spot) : result;
}

/* Another name in the directory of a spot. */
static int settle_beside(const struct spot *other, struct spot *spot)
{
    spot->dir = other->dir;
    spot->held = true;
    size_t len = strlen(other->path) - strlen(other->name);
    memcpy(spot->path, other->path, len);
    memcpy(spot->path + len, spot->name, strlen(spot->name) + 1);
    return 0;
}

int spot_pair(struct call *call, const uint64_t args[4], struct spot *first, struct spot *second)
{
    char one[PATH_MAX], other[PATH_MAX];
    int result = call_read_strings(call, (const uint64_t[2]){args[1], args[3]},
                                   (char *const[2]){one, other});
    if (result == 0)
        result = split(one, first);
    if (result == 0)
        result = split(other, second);
    if (result == 0)
        result = settle_below(call, (int)args[0], one, first);
    if (result != 0)
        return result;
    bool beside = strcmp(one, other) == 0 && (one[0] == '/' || (int)args[0] == (int)args[2]);
    return beside ? settle_beside(first, second) : settle_below(call, (int)args[2], other, second);
}

static int find(int base, const char *path, uint64_t nofollow, uint64_t resolve)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | nofollow, .resolve = resolve};
    return (int)syscall(SYS_openat2, base, path, &how, sizeof(how));
}

/* By way of /proc, whose links mean the one who looks at them; a slash after a link asks for what
 * it leads to. Takes `base`. */
static int find_in_proc(struct call *call, int base, const char *path, uint64_t nofollow)
{
    if (nofollow == 0 || path[strlen(path) - 1] == '/')
        return spot_walk(call, base, path);
    SPOT(spot);
    int result = spot_find(call, base, path, &spot);
    if (result != 0)
        return errno = -result, -1;
    return openat(spot.dir, spot_is_special(&spot) ? "." : spot.name,
                  O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

/* What is missing is missing for the caller, too, where no link was on the way to it: links of
 * /proc that are its own do not lead us anywhere. */
int spot_object(struct call *call, int base, const char *path, uint64_t nofollow)
{
    int fd = find(base, path, nofollow, RESOLVE_NO_SYMLINKS);
    if (fd < 0 && errno == ELOOP) {
        fd = find(base, path, nofollow, RESOLVE_NO_MAGICLINKS);
        if (fd < 0 && (errno == ELOOP || errno == ENOENT))
            return find_in_proc(call, base, path, nofollow);
    }
    int error = errno;
    call_close_base(call, base);
    errno = error;
    return fd;
}

bool spot_base(struct call *call, int dir_fd, const char *path, int *base)
{
    *base = path[0] == '/' ? -1 : call_open_base(call, dir_fd);
    return path[0] == '/' || *base >= 0;
}

bool spot_is_special(const struct spot *spot)
{
    return spot->name[0] == '\0' || strcmp(spot->name, ".") == 0 || strcmp(spot->name, "..") == 0;
}

bool spot_exists(const struct spot *spot)
{
    struct stat st;
    return fstatat(spot->dir, spot->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

mode_t spot_type(const struct spot *spot)
{
    struct stat st;
    bool there = fstatat(spot->dir, spot->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    return there ? st.st_mode & S_IFMT : S_IFREG;
}

bool spot_is_mount_point(const struct spot *spot)
{
    struct statx st;
    return statx(spot->dir, spot->name, AT_SYMLINK_NOFOLLOW, 0, &st) == 0 &&
           (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

bool spot_same_mount(int a, int b)
{
    struct statx x, y;
    return statx(a, "", AT_EMPTY_PATH, STATX_MNT_ID, &x) == 0 &&
           statx(b, "", AT_EMPTY_PATH, STATX_MNT_ID, &y) == 0 && x.stx_mnt_id == y.stx_mnt_id;
}
