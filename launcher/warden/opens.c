#include "launcher/warden/answers.h"
#include "launcher/warden/door.h"
#include "launcher/warden/judge.h"
#include "launcher/warden/secrets.h"
#include "launcher/warden/waits.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

enum { LINKS_MAX = 40, RETRIES = 16 }; /* RETRIES: of a creation that lost a race */
enum { TTY_MAJOR = 5, PTS_MAJOR = 136 };

/* The caller goes on with its descriptor while ours is not closed yet. Nobody notices, unless it is
 * of a program: one that somebody may still write to cannot be started (ETXTBSY). So `mode` tells
 * whether ours has to be closed first, which takes one more turn. Takes `*fd`. */
static int64_t give(const struct call *call, int *fd, uint64_t flags, mode_t mode)
{
    if (call->cuts)
        return errno_of(ftruncate(*fd, call->size));
    bool program = (mode & (S_IXUSR | S_IXGRP | S_IXOTH)) != 0;
    if (!program)
        return call_give(call, *fd, -1, flags);
    int given = call_add_descriptor(call, *fd, flags);
    if (given < 0)
        return given;
    close(steal_fd(fd));
    call_return(call, given);
    return ANSWER_SENT;
}

/* What is judged to be a FIFO is held, and opened by what holds it: meanwhile the name may have
 * become a guarded file's, as others are answered, and a link to a descriptor may lead to any file.
 * It is judged before it is opened, as that wakes whoever waits at the other end; to the kernel
 * writing into one is no change of a read-only mount. Opening one end waits for the other: not
 * here, where everybody would wait with it. */
static int64_t open_fifo(struct call *call, const struct spot *spot, int flags, int nofollow)
{
    autoclose int fifo = openat(spot->dir, spot->name, O_PATH | nofollow | O_CLOEXEC);
    struct stat st;
    char path[PATH_MAX];
    struct fence_view view;
    if (fifo < 0 || fstat(fifo, &st) != 0)
        return -errno;
    if (!S_ISFIFO(st.st_mode))
        return -ELOOP;
    if ((flags & O_ACCMODE) != O_RDONLY && !judge_change(call->ward, fifo, path, &view)) {
        judge_report(call, "write", path[0] != '\0' ? path : spot->path, EROFS, view.write_setting);
        return -EROFS;
    }
    if (call->ward->secrets && (flags & O_ACCMODE) != O_WRONLY &&
        !secrets_judge(call, fifo, &st, path))
        return -EACCES;
    const struct ward_link link = ward_link_to(fifo);
    flags &= ~O_NOFOLLOW;
    if ((flags & O_NONBLOCK) != 0) {
        autoclose int fd = openat(call->ward->host_proc, link.text, flags | O_CLOEXEC);
        return fd < 0 ? -errno : give(call, &fd, (uint64_t)flags, 0);
    }
    int64_t begun = wait_begin(call);
    if (begun != 0)
        return begun;
    int fd;
    while ((fd = openat(call->ward->host_proc, link.text, flags | O_CLOEXEC)) < 0 && errno == EINTR)
        wait_check(call);
    int64_t result = fd < 0 ? -errno : give(call, &fd, (uint64_t)flags, 0);
    wait_end(call, result);
}

/* What /proc says of a process that does not let others look into it belongs to root. */
static bool is_closed_process(const struct ward *ward, int fd)
{
    char path[PATH_MAX];
    struct stat st;
    ward_path_of(ward, fd, path, sizeof(path));
    bool process = strncmp(path, "/proc/", 6) == 0 && path[6] >= '0' && path[6] <= '9';
    return process && (fstat(fd, &st) != 0 || st.st_uid != geteuid());
}

/* The right to look into callers must not open anything for them: with it even the memory of
 * process 1 could be opened, by its name in /proc or by a link to a descriptor of that file. Giving
 * it up for a moment is not enough where the caller is in a user namespace below ours, which then
 * is ours to look into. */
static int open_plainly(const struct ward *ward, const struct spot *spot, int flags)
{
    if (!spot_on_proc(spot->dir))
        return openat(spot->dir, spot->name, flags);
    if (!call_set_rights(false))
        _exit(1);
    autoclose int fd = openat(spot->dir, spot->name, flags);
    int error = errno;
    if (!call_set_rights(true))
        _exit(1);
    if (fd >= 0 && spot_on_proc(fd) && is_closed_process(ward, fd)) {
        error = EACCES;
        close(steal_fd(&fd));
    }
    errno = error;
    return steal_fd(&fd);
}

/* The numbers of a process's session and of its terminal. */
static bool read_session(int stat_file, int *session, int *terminal)
{
    char text[512];
    ssize_t len = stat_file < 0 ? -1 : read(stat_file, text, sizeof(text) - 1);
    text[len > 0 ? len : 0] = '\0';
    const char *after_name = strrchr(text, ')');
    return after_name != NULL && sscanf(after_name, ") %*c %*d %*d %d %d", session, terminal) == 2;
}

/* /dev/tty is the terminal of the one who opens it. Ours is the caller's as long as it is in our
 * session; in another one it has none, or one that was made in the sandbox. */
static int64_t open_terminal(struct call *call, const struct spot *spot, int flags)
{
    autoclose int our_stat = openat(call->ward->host_proc, "self/stat", O_RDONLY | O_CLOEXEC);
    autoclose int their_stat = call_open_proc(call, "stat", O_RDONLY);
    int ours, theirs, number;
    if (!read_session(our_stat, &ours, &number) || !read_session(their_stat, &theirs, &number))
        return -ENXIO;
    if (ours == theirs)
        return errno_of(openat(spot->dir, spot->name, flags));
    /* As in the kernel's new_encode_dev(). */
    unsigned device = (unsigned)number;
    if ((device >> 8 & 0xfff) != PTS_MAJOR)
        return -ENXIO;
    char path[32];
    snprintf(path, sizeof(path), "/dev/pts/%u", (device & 0xff) | (device >> 12 & 0xfff00));
    return errno_of(open(path, flags));
}

/* File systems do not come and go in the sandbox, so one look at each is enough. */
static bool is_on_proc(struct ward *ward, const struct spot *spot, dev_t dev)
{
    if (ward->plain_dev == dev && dev != 0)
        return false;
    bool on_proc = spot_on_proc(spot->dir);
    struct stat dir;
    if (!on_proc && fstat(spot->dir, &dir) == 0 && dir.st_dev == dev)
        ward->plain_dev = dev;
    return on_proc;
}

/* What a link of the kernel's leads to has another name than the link. */
static void report_linked(struct call *call, const struct spot *spot)
{
    char path[PATH_MAX];
    autoclose int fd = openat(spot->dir, spot->name, O_PATH | O_CLOEXEC);
    if (fd >= 0 && ward_path_of(call->ward, fd, path, sizeof(path)) > 0)
        judge_report(call, "write", path, EROFS,
                     fence_view(call->ward->law->fence, path).write_setting);
}

/* `nofollow` is 0 only for the kernel's own links in /proc. Nothing is left to the kernel here: by
 * the time it looks, the path may lead to a guarded file that no mount covers. So nobody gets a
 * terminal for its session by opening it (O_NOCTTY); programs ask with TIOCSCTTY. */
static int64_t open_existing(struct call *call, const struct spot *spot, int flags,
                             const struct stat *st, int nofollow)
{
    mode_t type = st->st_mode;
    dev_t device = st->st_rdev;
    flags &= ~(O_CREAT | O_EXCL);
    if (S_ISDIR(type))
        return -EISDIR;
    if (call->cuts && !S_ISREG(type))
        return -EINVAL;
    if (S_ISFIFO(type))
        return open_fifo(call, spot, flags, nofollow);
    /* By this name it may be changed, and where the name has become a link meanwhile it is not
     * followed. */
    if (S_ISREG(type) && nofollow != 0 && !is_on_proc(call->ward, spot, st->st_dev) &&
        judge_may_create(call, spot->path)) {
        autoclose int fd = openat(spot->dir, spot->name, flags | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
        return fd < 0 ? -errno : give(call, &fd, (uint64_t)flags, st->st_mode);
    }
    bool changes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
    int plain = (flags & ~O_TRUNC) | nofollow | O_NOCTTY | O_CLOEXEC;
    bool terminal = S_ISCHR(type) && major(device) == TTY_MAJOR && minor(device) == 0;
    autoclose int fd = (int)(terminal ? open_terminal(call, spot, plain)
                                      : errno_of(open_plainly(call->ward, spot, plain)));
    char path[PATH_MAX];
    struct fence_view view;
    struct statvfs fs;
    if (fd == -EACCES && (flags & O_TRUNC) != 0 && fstatvfs(spot->dir, &fs) == 0 &&
        (fs.f_flag & ST_RDONLY) != 0)
        return -EROFS; /* which the kernel looks at first where it is asked to cut */
    if (fd == -EROFS && nofollow == 0)
        report_linked(call, spot);
    if (fd < 0)
        return fd;
    if (changes && !judge_change(call->ward, fd, path, &view)) {
        judge_report(call, "write", path[0] != '\0' ? path : spot->path, EROFS, view.write_setting);
        return -EROFS;
    }
    struct stat now;
    if (call->ward->secrets && (flags & O_ACCMODE) != O_WRONLY &&
        (fstat(fd, &now) != 0 || !secrets_judge(call, fd, &now, path)))
        return -EACCES;
    if ((flags & O_TRUNC) != 0) {
        /* Now that it is judged, through the kernel's link to the very file. */
        int cut = openat(call->ward->host_proc, ward_link_to(fd).text,
                         (flags & ~O_NOFOLLOW) | O_NOCTTY | O_CLOEXEC);
        if (cut < 0)
            return -errno;
        close(fd);
        fd = cut;
    }
    return give(call, &fd, (uint64_t)flags, st->st_mode);
}

int64_t open_found(struct call *call, int found, const char *path, int flags, const struct stat *st)
{
    if (S_ISDIR(st->st_mode)) {
        autoclose int fd = openat(call->ward->host_proc, ward_link_to(found).text,
                                  (flags & ~O_NOFOLLOW) | O_CLOEXEC);
        return fd < 0 ? -errno : give(call, &fd, (uint64_t)flags, 0);
    }
    /* The spot is the kernel's link to the very object. */
    SPOT(spot);
    spot.dir = call->ward->host_proc;
    spot.held = true;
    snprintf(spot.name, sizeof(spot.name), "%s", ward_link_to(found).text);
    snprintf(spot.path, sizeof(spot.path), "%s", path);
    return open_existing(call, &spot, flags & ~O_NOFOLLOW, st, 0);
}

static int64_t open_new(struct call *call, const struct spot *spot, int flags, mode_t mode)
{
    call_use_umask(call);
    autoclose int fd = openat(spot->dir, spot->name,
                              flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 07777);
    return fd < 0 ? -errno : give(call, &fd, (uint64_t)flags, mode);
}

/* The spot is a link: it becomes the one that the link leads to. */
static int follow_link(struct call *call, struct spot *spot)
{
    char target[PATH_MAX];
    ssize_t len = readlinkat(spot->dir, spot->name, target, sizeof(target) - 1);
    if (len < 0)
        return -errno;
    target[len] = '\0';
    int base = target[0] == '/' ? -1 : fcntl(spot->dir, F_DUPFD_CLOEXEC, 0);
    struct spot next;
    spot_init(&next);
    int result = target[0] != '/' && base < 0 ? -errno : spot_find(call, base, target, &next);
    spot_close(spot);
    *spot = next;
    return result;
}

/* One look at the spot. `*again` when it changed meanwhile or was a link that has been followed. */
static int64_t open_once(struct call *call, struct spot *spot, int flags, mode_t mode, bool *again)
{
    struct stat st;
    if (spot_is_special(spot) || spot->slash)
        return -EISDIR;
    bool exclusive = (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    if (door_leads_to(call, spot, flags) && !call->cuts)
        return door_open(call, spot, flags, mode);
    /* A look less, where there is likely nothing. */
    if ((exclusive || ((flags & O_CREAT) != 0 && call->ward->expects_new)) &&
        judge_may_create(call, spot->path)) {
        int64_t result = open_new(call, spot, flags, mode);
        if (result != -EEXIST || exclusive)
            return result;
        call->ward->expects_new = false;
    }
    if (fstatat(spot->dir, spot->name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT || (flags & O_CREAT) == 0)
            return -errno;
        if (door_makes_empty(call, spot))
            flags &= ~(O_ACCMODE | O_TRUNC);
        else if (!judge_creation(call, "create", spot->path, S_IFREG))
            return -EROFS;
        call->ward->expects_new = true;
        int64_t result = open_new(call, spot, flags, mode);
        *again = result == -EEXIST && (flags & O_EXCL) == 0;
        return result;
    }
    if (exclusive)
        return -EEXIST;
    if (!S_ISLNK(st.st_mode)) {
        int64_t result = open_existing(call, spot, flags, &st, O_NOFOLLOW);
        *again = result == -ENOENT || result == -ELOOP;
        return result;
    }
    if ((flags & O_NOFOLLOW) != 0)
        return -ELOOP;
    if (spot_on_proc(spot->dir) && !spot_is_proc_root(spot->dir)) {
        char own[32];
        snprintf(own, sizeof(own), "/proc/%d", call_caller(call)->inner_pid);
        if (!path_within(spot->path, own) || fstatat(spot->dir, spot->name, &st, 0) != 0)
            return -EACCES;
        return open_existing(call, spot, flags, &st, 0);
    }
    int result = follow_link(call, spot);
    *again = result == 0;
    return result == 0 ? -ELOOP : result;
}

static int64_t do_open(struct call *call, int dir_fd, uint64_t address, uint64_t flags, mode_t mode)
{
    SPOT(spot);
    int result = spot_of(call, dir_fd, address, &spot);
    if (result != 0)
        return result;
    if (!call_waits(call))
        return -EINTR;
    int64_t answer = -ELOOP;
    bool again = true;
    for (unsigned i = 0; again && i < LINKS_MAX + RETRIES; i++) {
        again = false;
        answer = open_once(call, &spot, (int)flags, mode, &again);
    }
    return judge_result(call, "write", &spot, answer);
}

/* openat2 takes its flags from memory, so nothing about it can be left to the kernel. What asks for
 * a special kind of resolution is refused as a kernel without the call would; callers have a second
 * way. */
int64_t answer_openat2(struct call *call, const struct table_row *row, const uint64_t *args)
{
    (void)row;
    struct open_how how;
    if (args[3] < sizeof(how))
        return -EINVAL;
    if (call_read_memory(call, args[2], &how, sizeof(how)) != 0)
        return -EFAULT;
    if (how.resolve != 0 || (how.flags & O_CREAT) == 0)
        return -ENOSYS;
    return do_open(call, (int)args[0], args[1], how.flags, (mode_t)how.mode);
}

int64_t answer_open(struct call *call, const struct table_row *row, const uint64_t *args)
{
    (void)row;
    uint64_t flags = args[2];
    /* The flags came in a register, so they cannot change. Neither of these opens what exists for
     * writing; the unnamed file of O_TMPFILE gets its name by a call that is judged. */
    if ((flags & O_PATH) != 0)
        return ANSWER_RUN_IT;
    if ((flags & (O_DIRECTORY | O_CREAT)) == O_DIRECTORY ||
        ((flags & (O_CREAT | O_TRUNC)) == 0 && (flags & O_ACCMODE) == O_RDONLY))
        return call->ward->secrets && (flags & O_DIRECTORY) == 0
                   ? secrets_open(call, (int)args[0], args[1], flags)
                   : answer_reading(call, (int)args[0], args[1], flags);
    if ((flags & O_DIRECTORY) != 0)
        return -EINVAL; /* as since Linux 6.4; before that a file was made */
    return do_open(call, (int)args[0], args[1], flags, (mode_t)args[3]);
}

int64_t answer_truncate(struct call *call, const struct table_row *row, const uint64_t *args)
{
    (void)row;
    if ((int64_t)args[2] < 0)
        return -EINVAL;
    call->cuts = true;
    call->size = (off_t)args[2];
    return do_open(call, (int)args[0], args[1], O_WRONLY, 0);
}
