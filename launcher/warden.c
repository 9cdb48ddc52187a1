#include "launcher/warden.h"

#include "launcher/clock.h"
#include "launcher/tree.h"
#include "srt/cleanup.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

enum {
    LINKS_MAX = 40,
    RETRIES = 16, /* of a creation that lost a race against another one */
    PROC_ROOT_INODE = 1,
    TTY_MAJOR = 5,         /* /dev/tty, /dev/console, /dev/ptmx */
    MOVE_SEARCH_MS = 2000, /* for a directory that gets a name which begins a protected one */
};

/* Answers besides 0 and errors: the reply has been sent, and the kernel is to run the call itself.
 */
enum { ANSWERED = 1, RUN_IT = 2 };

/* One call that is being answered. Everything it needs of the caller is taken before `check`. */
struct call {
    struct ward *ward;
    const struct seccomp_notif *request;
    pid_t inner_pid, inner_tid; /* as the sandbox's own /proc names them; 0 = not looked up yet */
    mode_t umask;
    bool reported; /* once is enough */
};

struct ward {
    int listener, reports, host_proc;
    const struct fence *fence;
    char *const *sockets;
    uint32_t missed;
};

/* The place that a path argument leads to: a name in a directory that is held open. */
struct spot {
    int dir;
    char name[NAME_MAX + 1];
    bool slash;                         /* a slash followed the name */
    char path[PATH_MAX + NAME_MAX + 2]; /* for judging and reporting */
};

static void spot_close(struct spot *spot)
{
    if (spot->dir >= 0)
        close(spot->dir);
    spot->dir = -1;
}

#define autospot __attribute__((cleanup(spot_close)))
#define SPOT_NONE ((struct spot){.dir = -1})

/* The rights of the user and nothing more, except to look into the caller. Without this a file that
 * the caller may not open could be opened for it. */
static bool set_rights(bool look_into_callers)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {0};
    if (look_into_callers)
        caps[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective = CAP_TO_MASK(CAP_SYS_PTRACE);
    caps[CAP_TO_INDEX(CAP_SYS_PTRACE)].permitted = CAP_TO_MASK(CAP_SYS_PTRACE);
    return syscall(SYS_capset, &header, caps) == 0;
}

/* ---- the caller ---- */

static int proc_open(const struct call *call, const char *name, int flags)
{
    char path[64];
    snprintf(path, sizeof(path), "%d/%s", (int)call->request->pid, name);
    return openat(call->ward->host_proc, path, flags | O_CLOEXEC);
}

/* The arguments stay what they were while the caller waits; only after this is it certain that all
 * that was read belonged to this call and not to a process that got the same number later. */
static bool still_waiting(const struct call *call)
{
    return ioctl(call->ward->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &call->request->id) == 0;
}

/* A terminated string of the caller's memory, read once. Page by page, as the next one may not
 * exist. */
static int read_string(const struct call *call, uint64_t address, char *out, size_t size)
{
    size_t have = 0;
    while (have < size) {
        size_t page_left = 4096 - (address + have) % 4096;
        size_t want = page_left < size - have ? page_left : size - have;
        struct iovec local = {.iov_base = out + have, .iov_len = want};
        struct iovec remote = {.iov_base = (void *)(uintptr_t)(address + have), .iov_len = want};
        ssize_t n = process_vm_readv((pid_t)call->request->pid, &local, 1, &remote, 1, 0);
        if (n <= 0)
            return -EFAULT;
        if (memchr(out + have, '\0', (size_t)n) != NULL)
            return 0;
        have += (size_t)n;
    }
    return -ENAMETOOLONG;
}

static void read_status(struct call *call)
{
    char text[4096];
    autoclose int fd = proc_open(call, "status", O_RDONLY);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (len <= 0)
        return;
    text[len] = '\0';
    const char *umask_line = strstr(text, "\nUmask:");
    const char *tgid_line = strstr(text, "\nNStgid:");
    const char *tid_line = strstr(text, "\nNSpid:");
    unsigned mask = 0;
    if (umask_line != NULL && sscanf(umask_line, "\nUmask: %o", &mask) == 1)
        call->umask = (mode_t)mask;
    /* The last number of the line is the one of the innermost namespace. */
    for (int i = 0; i < 2; i++) {
        const char *line = i == 0 ? tgid_line : tid_line;
        if (line == NULL)
            continue;
        size_t end = 1 + strcspn(line + 1, "\n");
        while (end > 0 && line[end - 1] != '\t' && line[end - 1] != ' ')
            end--;
        *(i == 0 ? &call->inner_pid : &call->inner_tid) = (pid_t)strtol(line + end, NULL, 10);
    }
}

static int base_of(const struct call *call, int dir_fd, const char *path)
{
    if (path[0] == '/')
        return open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char name[32] = "cwd";
    if (dir_fd != AT_FDCWD)
        snprintf(name, sizeof(name), "fd/%d", dir_fd);
    int fd = proc_open(call, name, O_PATH | O_DIRECTORY);
    if (fd < 0 && errno == ENOENT)
        errno = dir_fd == AT_FDCWD ? ENOENT : EBADF;
    return fd;
}

/* ---- where a path leads ---- */

static bool on_proc(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

static bool is_proc_root(int fd)
{
    struct stat st;
    return on_proc(fd) && fstat(fd, &st) == 0 && st.st_ino == PROC_ROOT_INODE;
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
    bool root = is_proc_root(walk->at);
    if (root && (strcmp(name, "self") == 0 || strcmp(name, "thread-self") == 0)) {
        char target[64];
        if (name[0] == 's')
            snprintf(target, sizeof(target), "%d", walk->call->inner_pid);
        else
            snprintf(target, sizeof(target), "%d/task/%d", walk->call->inner_pid,
                     walk->call->inner_tid);
        return walk_prepend(walk, target);
    }
    if (!root && on_proc(walk->at)) {
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
    snprintf(own, sizeof(own), "%d", walk->call->inner_pid);
    if (!on_proc(next))
        walk->own = false;
    else if (is_proc_root(walk->at))
        walk->own = strcmp(name, own) == 0;
    return walk_to(walk, steal_fd(&next));
}

/* Takes `base`. Returns a directory (or, where the last link leads to one, another object). */
static int walk_path(struct call *call, int base, const char *path)
{
    struct walk walk = {.call = call, .at = base};
    if (call->inner_pid == 0)
        read_status(call);
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
        close(base);
        errno = error;
        return fd;
    }
    fd = walk_path(call, base, path);
    struct stat st;
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISDIR(st.st_mode))) {
        close(fd);
        errno = ENOTDIR;
        return -1;
    }
    return fd;
}

static void describe(const struct ward *ward, struct spot *spot)
{
    char link[32];
    snprintf(link, sizeof(link), "self/fd/%d", spot->dir);
    char dir[PATH_MAX];
    ssize_t len = readlinkat(ward->host_proc, link, dir, sizeof(dir) - 1);
    dir[len > 0 ? len : 0] = '\0';
    snprintf(spot->path, sizeof(spot->path), "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, spot->name);
}

/* Takes `base`. A name of "" stands for the base itself, "." and ".." stay names. */
static int find_spot(struct call *call, int base, const char *path, struct spot *spot)
{
    spot_close(spot);
    if (path[0] == '\0') {
        close(base);
        return -ENOENT;
    }
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    spot->slash = path[end] == '/';
    if (end - start > NAME_MAX) {
        close(base);
        return -ENAMETOOLONG;
    }
    if (path[start] == '/')
        start = end; /* the root itself */
    memcpy(spot->name, path + start, end - start);
    spot->name[end - start] = '\0';
    autofree char *parent = strndup(path, start);
    assert(parent != NULL);
    spot->dir = open_dir(call, base, parent);
    if (spot->dir < 0)
        return -errno;
    describe(call->ward, spot);
    return 0;
}

/* The spot of a path argument. Relative to `dir_fd` of the caller. */
static int spot_of(struct call *call, int dir_fd, uint64_t address, struct spot *spot)
{
    char path[PATH_MAX];
    int result = read_string(call, address, path, sizeof(path));
    if (result != 0)
        return result;
    int base = base_of(call, dir_fd, path);
    if (base < 0)
        return -errno;
    return find_spot(call, base, path, spot);
}

/* ---- judging ---- */

static void report(struct call *call, const char *operation, const char *path, int error,
                   const char *setting)
{
    struct ward *ward = call->ward;
    if (call->reported)
        return;
    call->reported = true;
    struct warden_report message = {.error = error, .missed = ward->missed};
    if (call->inner_pid == 0)
        read_status(call);
    message.pid = call->inner_pid;
    autoclose int fd = proc_open(call, "comm", O_RDONLY);
    ssize_t len = fd < 0 ? 0 : read(fd, message.comm, sizeof(message.comm) - 1);
    if (len > 0 && message.comm[len - 1] == '\n')
        message.comm[len - 1] = '\0';
    snprintf(message.operation, sizeof(message.operation), "%s", operation);
    snprintf(message.setting, sizeof(message.setting), "%s", setting);
    snprintf(message.path, sizeof(message.path), "%s", path);
    size_t size = offsetof(struct warden_report, path) + strlen(message.path) + 1;
    if (send(ward->reports, &message, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size)
        ward->missed = 0;
    else
        ward->missed++;
}

/* The sandbox's own /dev and /proc are not the fence's business. */
static bool is_private(const char *path)
{
    return path_within(path, "/dev") || path_within(path, "/proc");
}

/* Whether a new name may come to be at this path; otherwise the refusal has been reported. */
static bool may_create(struct call *call, const char *operation, const char *path, mode_t type)
{
    if (is_private(path))
        return true;
    const struct fence *fence = call->ward->fence;
    struct fence_view view = fence_view(fence, path);
    const char *lead = S_ISDIR(type) ? NULL : protect_lead(&fence->protect, path, S_ISLNK(type));
    if (view.writable && lead == NULL)
        return true;
    report(call, operation, path, EROFS, view.writable ? lead : view.write_setting);
    return false;
}

static mode_t type_at(const struct spot *spot)
{
    struct stat st;
    bool there = fstatat(spot->dir, spot->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    return there ? st.st_mode & S_IFMT : S_IFREG;
}

/* Failures of a call that was let through tell of the walls, too. */
static int64_t judged(struct call *call, const char *operation, const struct spot *spot,
                      int64_t result)
{
    if (result == -EROFS && !is_private(spot->path))
        report(call, operation, spot->path, EROFS,
               fence_view(call->ward->fence, spot->path).write_setting);
    return result;
}

struct moved {
    const struct fence *fence;
    const char *to;
    bool allowed;
};

static bool on_moved(void *context, const struct tree_entry *entry)
{
    struct moved *moved = context;
    autofree char *path = path_join(moved->to, entry->relative);
    /* What could not be written before the move is guarded by mounts that do not move. */
    if (fence_view(moved->fence, entry->path).writable && !fence_view(moved->fence, path).writable)
        moved->allowed = false;
    if (entry->type == PATH_SYMLINK && protect_lead(&moved->fence->protect, path, true) != NULL)
        moved->allowed = false;
    return moved->allowed && entry->type == PATH_DIR;
}

/* A directory that gets a new name takes everything in it along: nothing below may become a name
 * that could not have been created there. */
static bool may_move_into(struct call *call, const struct spot *from, const char *to)
{
    struct stat st;
    if (fstatat(from->dir, from->name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode))
        return true;
    if (protect_lead(&call->ward->fence->protect, to, true) == NULL &&
        !fence_differs_below(call->ward->fence, to))
        return true;
    struct moved moved = {.fence = call->ward->fence, .to = to, .allowed = true};
    return tree_walk(from->path, clock_ms() + MOVE_SEARCH_MS, on_moved, &moved, NULL) == 0 &&
           moved.allowed;
}

/* ---- guards without mounts ----
 *
 * A mount goes with the file that it lies on: when somebody outside replaces a guarded file, as git
 * and editors do by renaming, the new one lies bare. So what exists is judged here, too, and not
 * only by the mounts. */

static bool is_mount_point(const struct spot *spot)
{
    struct statx st;
    return statx(spot->dir, spot->name, AT_SYMLINK_NOFOLLOW, 0, &st) == 0 &&
           (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

static bool same_mount(int a, int b)
{
    struct statx x, y;
    return statx(a, "", AT_EMPTY_PATH, STATX_MNT_ID, &x) == 0 &&
           statx(b, "", AT_EMPTY_PATH, STATX_MNT_ID, &y) == 0 && x.stx_mnt_id == y.stx_mnt_id;
}

/* Where an open file is, and whether it may be changed there. What has no name left, or is one of
 * the streams that the caller of srt-launch gave, is not guarded. */
static bool may_change(const struct ward *ward, int fd, char path[PATH_MAX],
                       struct fence_view *view)
{
    char link[32];
    struct stat st, stream;
    *view = (struct fence_view){.writable = true};
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink == 0)
        return true;
    for (int i = 0; i < 3; i++)
        if (fstat(i, &stream) == 0 && stream.st_dev == st.st_dev && stream.st_ino == st.st_ino)
            return true;
    snprintf(link, sizeof(link), "self/fd/%d", fd);
    ssize_t len = readlinkat(ward->host_proc, link, path, PATH_MAX - 1);
    path[len > 0 ? len : 0] = '\0';
    if (path[0] != '/' || is_private(path))
        return true;
    *view = fence_view(ward->fence, path);
    return view->writable;
}

/* ---- open ---- */

static int64_t errno_of(int result)
{
    return result < 0 ? -errno : result;
}

static int64_t give(const struct call *call, int fd, uint64_t flags)
{
    struct seccomp_notif_addfd gift = {.id = call->request->id,
                                       .flags = SECCOMP_ADDFD_FLAG_SEND,
                                       .srcfd = (uint32_t)fd,
                                       .newfd_flags = (flags & O_CLOEXEC) != 0 ? O_CLOEXEC : 0};
    int given = ioctl(call->ward->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &gift);
    return given < 0 ? -errno : ANSWERED;
}

/* Opening one end of a FIFO waits for the other: not here, where everybody would wait with it. */
static int64_t open_waiting(struct call *call, const struct spot *spot, int flags, int nofollow)
{
    pid_t warden = getpid();
    pid_t pid = fork();
    if (pid < 0)
        return -EAGAIN;
    if (pid > 0)
        return ANSWERED;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != warden)
        _exit(0);
    int fd = openat(spot->dir, spot->name, flags | nofollow | O_CLOEXEC);
    if (fd < 0 || give(call, fd, (uint64_t)flags) < 0) {
        struct seccomp_notif_resp answer = {.id = call->request->id,
                                            .error = fd < 0 ? -errno : -EMFILE};
        ioctl(call->ward->listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
    _exit(0);
}

/* What /proc says of a process that does not let others look into it belongs to root. */
static bool is_closed_process(const struct ward *ward, int fd)
{
    char link[32], path[PATH_MAX];
    struct stat st;
    snprintf(link, sizeof(link), "self/fd/%d", fd);
    ssize_t len = readlinkat(ward->host_proc, link, path, sizeof(path) - 1);
    path[len > 0 ? len : 0] = '\0';
    bool process = strncmp(path, "/proc/", 6) == 0 && path[6] >= '0' && path[6] <= '9';
    return process && (fstat(fd, &st) != 0 || st.st_uid != geteuid());
}

/* The right to look into callers must not open anything for them: with it even the memory of
 * process 1 could be opened, by its name in /proc or by a link to a descriptor of that file. Giving
 * it up for a moment is not enough where the caller is in a user namespace below ours, which then
 * is ours to look into. */
static int open_plainly(const struct ward *ward, const struct spot *spot, int flags)
{
    if (!on_proc(spot->dir))
        return openat(spot->dir, spot->name, flags);
    if (!set_rights(false))
        _exit(1);
    autoclose int fd = openat(spot->dir, spot->name, flags);
    int error = errno;
    if (!set_rights(true))
        _exit(1);
    if (fd >= 0 && on_proc(fd) && is_closed_process(ward, fd)) {
        error = EACCES;
        close(steal_fd(&fd));
    }
    errno = error;
    return steal_fd(&fd);
}

/* `nofollow` is 0 only for the kernel's own links in /proc. */
static int64_t open_existing(struct call *call, const struct spot *spot, int flags, mode_t type,
                             dev_t device, int nofollow)
{
    /* A device may be bound to the session of the one who opens it. Without O_CREAT the kernel can
     * do that: whatever the path leads to by then, no name comes to be. */
    if ((flags & O_CREAT) == 0 && !S_ISREG(type))
        return RUN_IT;
    flags &= ~(O_CREAT | O_EXCL);
    if (S_ISDIR(type))
        return -EISDIR;
    if (S_ISFIFO(type) && (flags & O_NONBLOCK) == 0)
        return open_waiting(call, spot, flags, nofollow);
    if (S_ISCHR(type) && major(device) == TTY_MAJOR && minor(device) == 0) {
        /* /dev/tty is the terminal of the one who opens it. Ours is the caller's unless it left the
         * session, and then it has none or one of its own making. */
        autoclose int stat_fd = proc_open(call, "stat", O_RDONLY);
        autoclose int own_fd = openat(call->ward->host_proc, "self/stat", O_RDONLY | O_CLOEXEC);
        char theirs[512] = "", ours[512] = "";
        int sessions[2] = {-1, -2};
        if (stat_fd >= 0 && own_fd >= 0 && read(stat_fd, theirs, sizeof(theirs) - 1) > 0 &&
            read(own_fd, ours, sizeof(ours) - 1) > 0) {
            const char *a = strrchr(theirs, ')'), *b = strrchr(ours, ')');
            if (a == NULL || b == NULL || sscanf(a, ") %*c %*d %*d %d", &sessions[0]) != 1 ||
                sscanf(b, ") %*c %*d %*d %d", &sessions[1]) != 1)
                return -ENXIO;
        }
        if (sessions[0] != sessions[1])
            return -ENXIO;
    }
    bool changes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
    autoclose int fd =
        open_plainly(call->ward, spot, (flags & ~O_TRUNC) | nofollow | O_NOCTTY | O_CLOEXEC);
    char path[PATH_MAX];
    struct fence_view view;
    struct statvfs fs;
    if (fd < 0 && errno == EACCES && (flags & O_TRUNC) != 0 && fstatvfs(spot->dir, &fs) == 0 &&
        (fs.f_flag & ST_RDONLY) != 0)
        return -EROFS; /* which the kernel looks at first where it is asked to cut */
    if (fd < 0)
        return -errno;
    if (changes && !may_change(call->ward, fd, path, &view)) {
        report(call, "write", path, EROFS, view.write_setting);
        return -EROFS;
    }
    if ((flags & O_TRUNC) != 0) {
        /* Now that it is judged, through the kernel's link to the very file. */
        char link[32];
        snprintf(link, sizeof(link), "self/fd/%d", fd);
        int cut = openat(call->ward->host_proc, link, (flags & ~O_NOFOLLOW) | O_NOCTTY | O_CLOEXEC);
        if (cut < 0)
            return -errno;
        close(fd);
        fd = cut;
    }
    return give(call, fd, (uint64_t)flags);
}

static int64_t open_new(struct call *call, const struct spot *spot, int flags, mode_t mode)
{
    if (!may_create(call, "create", spot->path, S_IFREG))
        return -EROFS;
    read_status(call);
    umask(call->umask);
    autoclose int fd = openat(spot->dir, spot->name,
                              flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 07777);
    int error = errno;
    umask(0);
    if (fd < 0)
        return -error;
    return give(call, fd, (uint64_t)flags);
}

/* One look at the spot. `*again` when it changed meanwhile or was a link that has been followed. */
static int64_t open_once(struct call *call, struct spot *spot, int flags, mode_t mode, bool *again)
{
    struct stat st;
    if (spot->name[0] == '\0' || strcmp(spot->name, ".") == 0 || strcmp(spot->name, "..") == 0 ||
        spot->slash)
        return -EISDIR;
    if (fstatat(spot->dir, spot->name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT || (flags & O_CREAT) == 0)
            return -errno;
        int64_t result = open_new(call, spot, flags, mode);
        *again = result == -EEXIST && (flags & O_EXCL) == 0;
        return result;
    }
    if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        return -EEXIST;
    if (!S_ISLNK(st.st_mode)) {
        int64_t result = open_existing(call, spot, flags, st.st_mode, st.st_rdev, O_NOFOLLOW);
        *again = result == -ENOENT || result == -ELOOP;
        return result;
    }
    if ((flags & O_NOFOLLOW) != 0)
        return -ELOOP;
    if (on_proc(spot->dir) && !is_proc_root(spot->dir)) {
        char own[32];
        if (call->inner_pid == 0)
            read_status(call);
        snprintf(own, sizeof(own), "/proc/%d", call->inner_pid);
        if (!path_within(spot->path, own) || fstatat(spot->dir, spot->name, &st, 0) != 0)
            return -EACCES;
        return open_existing(call, spot, flags, st.st_mode, st.st_rdev, 0);
    }
    char target[PATH_MAX];
    ssize_t len = readlinkat(spot->dir, spot->name, target, sizeof(target) - 1);
    if (len < 0)
        return -errno;
    target[len] = '\0';
    int base = target[0] == '/' ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)
                                : fcntl(spot->dir, F_DUPFD_CLOEXEC, 0);
    struct spot next = SPOT_NONE;
    int result = base < 0 ? -errno : find_spot(call, base, target, &next);
    spot_close(spot);
    *spot = next;
    *again = result == 0;
    return result == 0 ? -ELOOP : result;
}

static int64_t do_open(struct call *call, int dir_fd, uint64_t address, uint64_t flags, mode_t mode)
{
    autospot struct spot spot = SPOT_NONE;
    int result = spot_of(call, dir_fd, address, &spot);
    if (result != 0)
        return result;
    if (!still_waiting(call))
        return -EINTR;
    int64_t answer = -ELOOP;
    bool again = true;
    for (unsigned i = 0; again && i < LINKS_MAX + RETRIES; i++) {
        again = false;
        answer = open_once(call, &spot, (int)flags, mode, &again);
    }
    return judged(call, "write", &spot, answer);
}

/* ---- the other calls that make names ---- */

static bool name_is_special(const struct spot *spot)
{
    return spot->name[0] == '\0' || strcmp(spot->name, ".") == 0 || strcmp(spot->name, "..") == 0;
}

static bool exists(const struct spot *spot)
{
    struct stat st;
    return fstatat(spot->dir, spot->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int64_t do_make(struct call *call, int dir_fd, uint64_t address, mode_t mode, dev_t device,
                       bool dir)
{
    autospot struct spot spot = SPOT_NONE;
    int result = spot_of(call, dir_fd, address, &spot);
    if (result != 0)
        return result;
    if (!still_waiting(call))
        return -EINTR;
    if (name_is_special(&spot) || exists(&spot))
        return -EEXIST;
    if (spot.slash && !dir)
        return -ENOENT;
    const char *operation = dir ? "mkdir" : "mknod";
    if (!may_create(call, operation, spot.path, dir ? S_IFDIR : S_IFREG))
        return -EROFS;
    read_status(call);
    umask(call->umask);
    int made =
        dir ? mkdirat(spot.dir, spot.name, mode) : mknodat(spot.dir, spot.name, mode, device);
    int64_t answer = errno_of(made);
    umask(0);
    return judged(call, operation, &spot, answer);
}

static int64_t do_symlink(struct call *call, uint64_t target_address, int dir_fd, uint64_t address)
{
    char target[PATH_MAX];
    autospot struct spot spot = SPOT_NONE;
    int result = read_string(call, target_address, target, sizeof(target));
    if (result == 0)
        result = spot_of(call, dir_fd, address, &spot);
    if (result != 0)
        return result;
    if (!still_waiting(call))
        return -EINTR;
    if (name_is_special(&spot) || exists(&spot))
        return -EEXIST;
    if (spot.slash)
        return -ENOENT;
    if (!may_create(call, "symlink", spot.path, S_IFLNK))
        return -EROFS;
    return judged(call, "symlink", &spot, errno_of(symlinkat(target, spot.dir, spot.name)));
}

/* The object that is to get another name, as a descriptor: of the caller's (AT_EMPTY_PATH), or
 * where the path leads with or without its last link. */
static int64_t open_linked(struct call *call, int dir_fd, uint64_t address, uint64_t flags)
{
    char path[PATH_MAX];
    int result = read_string(call, address, path, sizeof(path));
    if (result != 0)
        return result;
    if (path[0] == '\0') {
        char name[32];
        snprintf(name, sizeof(name), "fd/%d", dir_fd);
        return (flags & AT_EMPTY_PATH) != 0 ? errno_of(proc_open(call, name, O_PATH)) : -ENOENT;
    }
    int base = base_of(call, dir_fd, path);
    if (base < 0)
        return -errno;
    if ((flags & AT_SYMLINK_FOLLOW) != 0)
        return errno_of(walk_path(call, base, path));
    autospot struct spot spot = SPOT_NONE;
    result = find_spot(call, base, path, &spot);
    if (result != 0)
        return result;
    return errno_of(openat(spot.dir, name_is_special(&spot) ? "." : spot.name,
                           O_PATH | O_NOFOLLOW | O_CLOEXEC));
}

static int64_t do_link(struct call *call, int old_fd, uint64_t old, int new_fd, uint64_t new,
                       uint64_t flags)
{
    autospot struct spot spot = SPOT_NONE;
    int64_t opened = open_linked(call, old_fd, old, flags);
    if (opened < 0)
        return opened;
    autoclose int object = (int)opened;
    int result = spot_of(call, new_fd, new, &spot);
    if (result != 0)
        return result;
    if (!still_waiting(call))
        return -EINTR;
    if (name_is_special(&spot) || exists(&spot))
        return -EEXIST;
    if (spot.slash)
        return -ENOENT;
    struct stat st;
    if (fstat(object, &st) != 0)
        return -errno;
    if (!may_create(call, "link", spot.path, st.st_mode))
        return -EROFS;
    /* As the kernel says where a mount lies on the guarded file. */
    char guarded[PATH_MAX];
    struct fence_view view;
    if (!may_change(call->ward, object, guarded, &view))
        return -EXDEV;
    char link[32];
    snprintf(link, sizeof(link), "self/fd/%d", object);
    return judged(
        call, "link", &spot,
        errno_of(linkat(call->ward->host_proc, link, spot.dir, spot.name, AT_SYMLINK_FOLLOW)));
}

static int64_t do_rename(struct call *call, int old_fd, uint64_t old, int new_fd, uint64_t new,
                         uint64_t flags)
{
    autospot struct spot from = SPOT_NONE, to = SPOT_NONE;
    int result = spot_of(call, old_fd, old, &from);
    if (result == 0)
        result = spot_of(call, new_fd, new, &to);
    if (result != 0)
        return result;
    if (!still_waiting(call))
        return -EINTR;
    if (name_is_special(&from) || name_is_special(&to))
        return -EBUSY;
    bool exchange = (flags & RENAME_EXCHANGE) != 0;
    if (!may_create(call, "rename", to.path, type_at(&from)) ||
        (exchange && !may_create(call, "rename", from.path, type_at(&to))))
        return -EROFS;
    /* Between two mounts the kernel says EXDEV, which lets mv copy instead. */
    struct fence_view source = fence_view(call->ward->fence, from.path);
    if (!source.writable && !is_private(from.path) && exists(&from) &&
        same_mount(from.dir, to.dir)) {
        report(call, "rename", from.path, EROFS, source.write_setting);
        return is_mount_point(&from) ? -EBUSY : -EROFS;
    }
    if (!may_move_into(call, &from, to.path) ||
        (exchange && !may_move_into(call, &to, from.path))) {
        report(call, "rename", to.path, EROFS, "protected: what the directory holds");
        return -EROFS;
    }
    /* A trailing slash asks for a directory; the kernel judges that by the name it is given. */
    char from_name[NAME_MAX + 2], to_name[NAME_MAX + 2];
    snprintf(from_name, sizeof(from_name), "%s%s", from.name, from.slash ? "/" : "");
    snprintf(to_name, sizeof(to_name), "%s%s", to.name, to.slash ? "/" : "");
    return judged(call, "rename", &to,
                  errno_of((int)syscall(SYS_renameat2, from.dir, from_name, to.dir, to_name,
                                        (unsigned)flags)));
}

/* ---- calls that change what exists: judged, then run by the kernel ---- */

static int64_t look_at(struct call *call, const char *operation, int dir_fd, uint64_t address,
                       bool follow)
{
    autospot struct spot spot = SPOT_NONE;
    struct stat st;
    if (address == 0 || spot_of(call, dir_fd, address, &spot) != 0 || name_is_special(&spot) ||
        is_private(spot.path) || fstatat(spot.dir, spot.name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return RUN_IT;
    struct path_place place = {0};
    if (S_ISLNK(st.st_mode) && follow &&
        (path_resolve(spot.path, &place, NULL) != 0 || fstatat(spot.dir, spot.name, &st, 0) != 0))
        return RUN_IT;
    const char *path = place.path != NULL ? place.path : spot.path;
    /* A device or a FIFO is not changed by writing into it. */
    bool into = follow && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
    int64_t result = RUN_IT;
    if (!into && !is_private(path)) {
        struct fence_view view = fence_view(call->ward->fence, path);
        if (!view.writable) {
            report(call, operation, path, EROFS, view.write_setting);
            /* Where a mount stands the kernel knows the better error. */
            result = !follow && is_mount_point(&spot) ? RUN_IT : -EROFS;
        }
    }
    path_place_free(&place);
    return result;
}

/* ---- Unix sockets by name ---- */

/* The private memory directory holds no socket of the host's. */
static bool may_connect(const struct ward *ward, const char *path)
{
    if (path_within(path, "/dev/shm"))
        return true;
    for (size_t i = 0; ward->sockets[i] != NULL; i++) {
        struct path_place place;
        if (path_resolve(ward->sockets[i], &place, NULL) != 0)
            continue;
        bool within = path_within(path, place.path);
        path_place_free(&place);
        if (within)
            return true;
    }
    return false;
}

/* The address that was judged is the one used: the socket is held open, and its name below our own
 * descriptors is what connect() gets. */
static int64_t aim_at_path(struct call *call, const char *path, struct sockaddr_un *address,
                           socklen_t *len, int *held)
{
    int base = base_of(call, AT_FDCWD, path);
    if (base < 0)
        return -errno;
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
    *held = (int)syscall(SYS_openat2, base, path, &how, sizeof(how));
    int error = errno;
    close(base);
    if (*held < 0)
        return -error;
    char link[32], real[PATH_MAX];
    snprintf(link, sizeof(link), "self/fd/%d", *held);
    ssize_t real_len = readlinkat(call->ward->host_proc, link, real, sizeof(real) - 1);
    if (real_len <= 0)
        return -EACCES;
    real[real_len] = '\0';
    if (!may_connect(call->ward, real)) {
        report(call, "connect", real, EPERM, "network.allowUnixSockets");
        return -EPERM;
    }
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof(address->sun_path), "%s", link);
    *len = sizeof(*address);
    return 0;
}

static pid_t leader_of(const struct call *call)
{
    char text[2048];
    int leader = 0;
    autoclose int fd = proc_open(call, "status", O_RDONLY);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    text[len > 0 ? len : 0] = '\0';
    const char *line = strstr(text, "\nTgid:");
    return line != NULL && sscanf(line, "\nTgid: %d", &leader) == 1 ? leader : -1;
}

/* Every connect() comes here, as neither the kind of socket nor the address is in a register: all
 * are done by us on the caller's own socket. One that may wait does so in a process of its own. */
static int64_t do_connect(struct call *call, int fd, uint64_t address, uint64_t len)
{
    union {
        struct sockaddr any;
        struct sockaddr_un un;
        struct sockaddr_storage storage;
        char bytes[sizeof(struct sockaddr_storage) + 1];
    } to = {.bytes = {0}};
    if (len > sizeof(struct sockaddr_storage))
        return -EINVAL;
    struct iovec local = {.iov_base = &to, .iov_len = len};
    struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = len};
    if (len > 0 &&
        process_vm_readv((pid_t)call->request->pid, &local, 1, &remote, 1, 0) != (ssize_t)len)
        return -EFAULT;
    pid_t leader = leader_of(call);
    autoclose int process = (int)syscall(SYS_pidfd_open, leader, 0);
    autoclose int sock = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, fd, 0);
    autoclose int held = -1;
    if (sock < 0)
        return process < 0 ? -EINTR : -errno;
    socklen_t to_len = (socklen_t)len;
    /* An empty path or a leading zero is a name that only this network namespace knows. */
    if (len > offsetof(struct sockaddr_un, sun_path) && to.any.sa_family == AF_UNIX &&
        to.un.sun_path[0] != '\0') {
        char path[sizeof(to.un.sun_path) + 1] = "";
        memcpy(path, to.un.sun_path,
               len - offsetof(struct sockaddr_un, sun_path) < sizeof(path)
                   ? len - offsetof(struct sockaddr_un, sun_path)
                   : sizeof(path) - 1);
        int64_t aimed = aim_at_path(call, path, &to.un, &to_len, &held);
        if (aimed != 0)
            return aimed;
    }
    if (!still_waiting(call))
        return -EINTR;
    if ((fcntl(sock, F_GETFL) & O_NONBLOCK) != 0)
        return fchdir(call->ward->host_proc) == 0 ? errno_of(connect(sock, &to.any, to_len))
                                                  : -EACCES;
    pid_t warden = getpid();
    pid_t pid = fork();
    if (pid != 0)
        return pid < 0 ? -EAGAIN : ANSWERED;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != warden)
        _exit(0);
    int64_t result =
        fchdir(call->ward->host_proc) == 0 ? errno_of(connect(sock, &to.any, to_len)) : -EACCES;
    struct seccomp_notif_resp response = {.id = call->request->id, .error = (int)result};
    ioctl(call->ward->listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
    _exit(0);
}

/* openat2 takes its flags from memory, so nothing about it can be left to the kernel. What asks for
 * a special kind of resolution is refused as a kernel without the call would; callers have a second
 * way. */
static int64_t do_openat2(struct call *call, const uint64_t *args)
{
    struct open_how how = {0};
    struct iovec local = {.iov_base = &how, .iov_len = sizeof(how)};
    struct iovec remote = {.iov_base = (void *)(uintptr_t)args[2], .iov_len = sizeof(how)};
    if (args[3] < sizeof(how))
        return -EINVAL;
    if (process_vm_readv((pid_t)call->request->pid, &local, 1, &remote, 1, 0) !=
        (ssize_t)sizeof(how))
        return -EFAULT;
    if (how.resolve != 0 || (how.flags & O_CREAT) == 0)
        return -ENOSYS;
    return do_open(call, (int)args[0], args[1], how.flags, (mode_t)how.mode);
}

static int64_t open_or_look(struct call *call, int dir_fd, uint64_t address, uint64_t flags,
                            mode_t mode)
{
    /* The flags came in a register, so they cannot change. Neither of these opens what exists for
     * writing; the unnamed file of O_TMPFILE gets its name by a call that is judged. */
    if ((flags & O_PATH) != 0 || (flags & (O_DIRECTORY | O_CREAT)) == O_DIRECTORY)
        return RUN_IT;
    if ((flags & O_DIRECTORY) != 0)
        return -EINVAL; /* as since Linux 6.4; before that a file was made */
    return do_open(call, dir_fd, address, flags, mode);
}

static int64_t dispatch(struct call *call)
{
    const uint64_t *a = (const uint64_t *)call->request->data.args;
    switch (call->request->data.nr) {
#ifdef SYS_open
    case SYS_open:
        return open_or_look(call, AT_FDCWD, a[0], a[1], (mode_t)a[2]);
    case SYS_creat:
        return do_open(call, AT_FDCWD, a[0], O_CREAT | O_WRONLY | O_TRUNC, (mode_t)a[1]);
    case SYS_mkdir:
        return do_make(call, AT_FDCWD, a[0], (mode_t)a[1], 0, true);
    case SYS_mknod:
        return do_make(call, AT_FDCWD, a[0], (mode_t)a[1], (dev_t)a[2], false);
    case SYS_symlink:
        return do_symlink(call, a[0], AT_FDCWD, a[1]);
    case SYS_link:
        return do_link(call, AT_FDCWD, a[0], AT_FDCWD, a[1], 0);
    case SYS_rename:
        return do_rename(call, AT_FDCWD, a[0], AT_FDCWD, a[1], 0);
    case SYS_unlink:
        return look_at(call, "unlink", AT_FDCWD, a[0], false);
    case SYS_rmdir:
        return look_at(call, "rmdir", AT_FDCWD, a[0], false);
    case SYS_chmod:
        return look_at(call, "chmod", AT_FDCWD, a[0], true);
    case SYS_chown:
        return look_at(call, "chown", AT_FDCWD, a[0], true);
#endif
    case SYS_openat:
        return open_or_look(call, (int)a[0], a[1], a[2], (mode_t)a[3]);
    case SYS_openat2:
        return do_openat2(call, a);
    case SYS_mkdirat:
        return do_make(call, (int)a[0], a[1], (mode_t)a[2], 0, true);
    case SYS_mknodat:
        return do_make(call, (int)a[0], a[1], (mode_t)a[2], (dev_t)a[3], false);
    case SYS_symlinkat:
        return do_symlink(call, a[0], (int)a[1], a[2]);
    case SYS_linkat:
        return do_link(call, (int)a[0], a[1], (int)a[2], a[3], a[4]);
#ifdef SYS_renameat
    case SYS_renameat:
        return do_rename(call, (int)a[0], a[1], (int)a[2], a[3], 0);
#endif
    case SYS_renameat2:
        return do_rename(call, (int)a[0], a[1], (int)a[2], a[3], a[4]);
    case SYS_unlinkat:
        return look_at(call, "unlink", (int)a[0], a[1], false);
    case SYS_connect:
        return do_connect(call, (int)a[0], a[1], a[2]);
    case SYS_truncate:
        return look_at(call, "truncate", AT_FDCWD, a[0], true);
    case SYS_fchmodat:
        return look_at(call, "chmod", (int)a[0], a[1], true);
    case SYS_fchownat:
        return look_at(call, "chown", (int)a[0], a[1], true);
    default:
        return -ENOSYS;
    }
}

/* ---- the process ---- */

static void answer(const struct call *call, int64_t result)
{
    struct seccomp_notif_resp response = {.id = call->request->id};
    if (result == RUN_IT)
        response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else if (result < 0)
        response.error = (int)result;
    ioctl(call->ward->listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

static _Noreturn void serve(struct ward *ward)
{
    for (;;) {
        /* A poll first: its end tells that nobody is left whom the filter binds. */
        struct pollfd wake = {.fd = ward->listener, .events = POLLIN};
        if (poll(&wake, 1, -1) < 0 && errno != EINTR)
            _exit(1);
        if ((wake.revents & POLLIN) == 0) {
            if ((wake.revents & (POLLHUP | POLLERR)) != 0)
                _exit(0);
            continue;
        }
        struct seccomp_notif request = {0};
        if (ioctl(ward->listener, SECCOMP_IOCTL_NOTIF_RECV, &request) != 0)
            continue; /* the caller was killed meanwhile */
        struct call call = {.ward = ward, .request = &request};
        int64_t result = dispatch(&call);
        if (result != ANSWERED)
            answer(&call, result);
    }
}

static _Noreturn void become_warden(const struct inside *inside, const struct fence *fence,
                                    char *const *sockets, int listener, int reports, pid_t parent)
{
    struct srt_err err;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "srt-warden");
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGCHLD, SIG_IGN); /* those who wait for a FIFO reap themselves */
    if (getppid() != parent || inside_join(inside, INSIDE_MOUNTS, &err) != 0 || !set_rights(true))
        _exit(1);
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the change of rights has cleared it */
    umask(0);
    uint64_t flags = SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP;
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, flags); /* faster where the kernel knows it */
    struct ward ward = {.listener = listener,
                        .reports = reports,
                        .host_proc = inside->host_proc,
                        .fence = fence,
                        .sockets = sockets};
    serve(&ward);
}

int warden_start(struct warden *warden, const struct inside *inside, const struct fence *fence,
                 char *const *sockets, int listener, struct srt_err *err)
{
    int pair[2];
    *warden = (struct warden){.reports = -1};
    autoclose int owned = listener;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return srt_err_set(err, "socketpair: %s", strerror(errno));
    pid_t parent = getpid();
    pid_t pid = _Fork(); /* as in inside.c: no thread may be started in the child */
    if (pid < 0) {
        close(pair[0]);
        close(pair[1]);
        return srt_err_set(err, "fork: %s", strerror(errno));
    }
    if (pid == 0) {
        /* Nothing else of the launcher's: neither the stage's socket nor the gateway's, whose ends
         * must mean what they say. */
        int keep[] = {owned, pair[1], inside->host_proc, inside->mount_ns};
        syscall(SYS_close_range, 1024, ~0u, 0);
        for (int fd = 3; fd < 1024; fd++) {
            bool kept = false;
            for (size_t i = 0; i < sizeof(keep) / sizeof(keep[0]); i++)
                kept = kept || keep[i] == fd;
            if (!kept)
                close(fd);
        }
        become_warden(inside, fence, sockets, owned, pair[1], parent);
    }
    close(pair[1]);
    warden->pid = pid;
    warden->reports = pair[0];
    return 0;
}

void warden_end(struct warden *warden)
{
    if (warden->reports >= 0)
        close(warden->reports);
    if (warden->pid > 0) {
        kill(warden->pid, SIGKILL);
        while (waitpid(warden->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    *warden = (struct warden){.reports = -1};
}
