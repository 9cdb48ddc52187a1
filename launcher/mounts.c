#include "launcher/mounts.h"

#include "dns/name.h"
#include "launcher/remedy.h"
#include "srt/attach.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

/* <sys/mount.h> of this C library and <linux/mount.h> exclude each other. */
int umount2(const char *target, int flags);
enum { DETACH = 2, PRIVATE = 1 << 18 }; /* MNT_DETACH, MS_PRIVATE */

/* Where the tmpfs with the two blanks hangs while the plan is carried out: our own /dev/shm. */
static const char blanks_dir[] = "/dev/shm";
static const char blank_file[] = "/dev/shm/file";

static int open_tree_clone(int fd)
{
    return (int)syscall(SYS_open_tree, fd, "",
                        AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

static int attach(int tree, int target)
{
    return (int)syscall(SYS_move_mount, tree, "", target, "",
                        MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

static int change_flags(int tree, const char *path, unsigned at, uint64_t set, uint64_t clear)
{
    struct mount_attr attr = {.attr_set = set, .attr_clr = clear};
    return (int)syscall(SYS_mount_setattr, tree, path, at, &attr, sizeof(attr));
}

/* No link on the way is followed: the plan's paths are resolved, so a link means the tree has
 * changed. */
static int open_place(const char *path)
{
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS};
    return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

static int step_failed(const struct fence_step *step, struct srt_err *err)
{
    bool changed = errno == ENOENT || errno == ELOOP || errno == ENOTDIR;
    srt_err_set(err, "%s: %s cannot be made %s: %s", step->setting, step->path,
                fence_act_word(step->act),
                changed ? "it changed while the sandbox was being built" : remedy_error(errno));
    return changed ? MOUNTS_CHANGED : -1;
}

/* Whether a step that failed is of a place that has gone meanwhile, which may go without its mount:
 * it stays closed, or who makes it anew is held to the same rules. */
static bool may_go_without(const struct mounts_job *job, const struct fence_step *step)
{
    if (errno != ENOENT)
        return false;
    switch (step->act) {
    case FENCE_WRITABLE:
    case FENCE_VISIBLE:
    case FENCE_LINK:
        return true;
    case FENCE_READONLY:
    case FENCE_PIN:
        return job->names_judged;
    case FENCE_HIDDEN:
        return job->names_judged && job->reads_judged;
    }
    return false;
}

/* The mounts below `path` one at a time, for trees in which the host has read-only mounts that
 * nobody may lift: those stay as they are. Only when the tree is attached, as the kernel lets
 * nobody change a mount inside a detached one. The list is read through the host's /proc, as this
 * process is not in the sandbox's. */
static int lift_one_by_one(const char *path, const struct inside *inside)
{
    autoclose int fd = openat(inside->host_proc, "self/mountinfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    autofclose FILE *list = fdopen(fd, "r");
    if (list == NULL)
        return -1;
    steal_fd(&fd);
    autofree char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, list) > 0) {
        char *mount_point = NULL;
        if (sscanf(line, "%*d %*d %*s %*s %ms", &mount_point) != 1)
            continue;
        autofree char *owned = mount_point;
        /* Escaped characters are left alone: such a mount stays read-only, which is the safe side.
         */
        if (strchr(owned, '\\') != NULL || !path_within(owned, path) || strcmp(owned, path) == 0)
            continue;
        autoclose int place = open_place(owned);
        if (place >= 0)
            change_flags(place, "", AT_EMPTY_PATH, 0, MOUNT_ATTR_RDONLY);
    }
    return 0;
}

/* `*in_part`: some of it has to be lifted when it is attached. */
static int make_writable(int tree, bool *in_part)
{
    if (change_flags(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, 0, MOUNT_ATTR_RDONLY) == 0)
        return 0;
    *in_part = true;
    return errno == EPERM && (change_flags(tree, "", AT_EMPTY_PATH, 0, MOUNT_ATTR_RDONLY) == 0 ||
                              errno == EPERM)
               ? 0
               : -1;
}

/* A new tmpfs, not yet attached. */
static int new_tmpfs(const char *mode)
{
    autoclose int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);
    if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "mode", mode, 0) != 0 ||
        syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0)
        return -1;
    return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC,
                        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

/* A file that nobody without capabilities can open, not even its owner: mode 0, on a read-only
 * mount so that the mode cannot be changed. It lies on a tmpfs over /dev/shm that is taken away in
 * the end. */
static int put_up_blanks(struct srt_err *err)
{
    autoclose int fs = new_tmpfs("0700");
    autoclose int target = open_place(blanks_dir);
    if (fs < 0 || target < 0 || attach(fs, target) != 0)
        return srt_err_set(err, "a tmpfs for hidden files cannot be made: %s", remedy_error(errno));
    /* Closed before the mount becomes read-only: an open writer would forbid that. */
    int file = open(blank_file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0);
    if (file < 0 || fchmod(file, 0) != 0 || close(file) != 0 ||
        change_flags(fs, "", AT_EMPTY_PATH, MOUNT_ATTR_RDONLY, 0) != 0)
        return srt_err_set(err, "a blank for hidden files cannot be made: %s", remedy_error(errno));
    return 0;
}

static int make_dirs(int root, const char *relative)
{
    autofree char *path = must_copy(relative);
    for (char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdirat(root, path, 0555) != 0 && errno != EEXIST)
            return -1;
        *slash = '/';
    }
    return 0;
}

/* The same link in another directory. One that has gone is no failure. */
static int copy_link(int from, int to, const char *relative)
{
    char text[PATH_MAX];
    ssize_t len = readlinkat(from, relative, text, sizeof(text) - 1);
    if (len < 0)
        return errno == ENOENT || errno == EINVAL ? 0 : -1;
    text[len] = '\0';
    return symlinkat(text, to, relative);
}

/* The empty directory shows nothing but the way to what is visible again inside it, and the links
 * by which that is called. */
static int hide_dir(const struct fence_plan *plan, size_t index, int target)
{
    const struct fence_step *step = &plan->steps[index];
    autoclose int fs = new_tmpfs("0555");
    if (fs < 0)
        return -1;
    for (size_t i = index + 1; i < plan->count && path_within(plan->steps[i].path, step->path);
         i++) {
        const struct fence_step *inner = &plan->steps[i];
        if (inner->act != FENCE_VISIBLE && inner->act != FENCE_WRITABLE && inner->act != FENCE_LINK)
            continue;
        const char *relative = path_below(inner->path, step->path);
        if (make_dirs(fs, relative) != 0)
            return -1;
        int made = inner->act == FENCE_LINK  ? copy_link(target, fs, relative)
                   : inner->type == PATH_DIR ? mkdirat(fs, relative, 0555)
                                             : mknodat(fs, relative, S_IFREG | 0444, 0);
        if (made != 0 && errno != EEXIST && errno != ENOENT && errno != ENOTDIR)
            return -1;
    }
    if (change_flags(fs, "", AT_EMPTY_PATH, MOUNT_ATTR_RDONLY, 0) != 0)
        return -1;
    return attach(fs, target);
}

static int hide(const struct fence_plan *plan, size_t index, int target)
{
    if (plan->steps[index].type == PATH_DIR)
        return hide_dir(plan, index, target);
    autoclose int file = open_place(blank_file);
    autoclose int tree = file < 0 ? -1 : open_tree_clone(file);
    return tree < 0 ? -1 : attach(tree, target);
}

/* A place as the host has it, taken before the first mount; -1 where the step covers a place with
 * itself. */
struct source {
    int tree;
    bool in_part;
    bool gone; /* there is nothing to take */
};

/* A directory is covered by a directory, and nothing else is; otherwise with errno. */
static bool is_as_planned(const struct fence_step *step, int target)
{
    struct stat st;
    if (fstat(target, &st) != 0)
        return false;
    errno = ENOTDIR;
    return S_ISDIR(st.st_mode) == (step->type == PATH_DIR);
}

static int carry_out(const struct fence_plan *plan, size_t index, const struct source *source,
                     const struct inside *inside)
{
    const struct fence_step *step = &plan->steps[index];
    if (step->act == FENCE_LINK)
        return 0; /* it came with the directory */
    autoclose int target = open_place(step->path);
    if (target < 0)
        return -1;
    bool covered_by_another = step->act == FENCE_HIDDEN || source->tree >= 0;
    if (covered_by_another && !is_as_planned(step, target))
        return -1;
    if (step->act == FENCE_HIDDEN)
        return hide(plan, index, target);
    if (source->tree >= 0) {
        if (attach(source->tree, target) != 0)
            return -1;
        return source->in_part ? lift_one_by_one(step->path, inside) : 0;
    }
    autoclose int tree = open_tree_clone(target);
    if (tree < 0)
        return -1;
    if (step->act == FENCE_READONLY &&
        change_flags(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, MOUNT_ATTR_RDONLY, 0) != 0)
        return -1;
    return attach(tree, target);
}

/* The sandbox's /dev and /proc have less in them than the host's. What is not there needs no wall.
 */
static bool is_not_there(const struct fence_step *step)
{
    struct stat st;
    return (path_within(step->path, "/dev") || path_within(step->path, "/proc")) &&
           lstat(step->path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

static int take_source(const struct fence_step *step, struct source *source)
{
    autoclose int place = open_place(step->path);
    autoclose int tree = place < 0 ? -1 : open_tree_clone(place);
    if (tree < 0)
        return -1;
    if (step->act == FENCE_WRITABLE && make_writable(tree, &source->in_part) != 0)
        return -1;
    source->tree = steal_fd(&tree);
    return 0;
}

/* uid 0 owns the host-wide knobs in /proc and needs no capability to write to some of them. */
static int guard_proc(struct srt_err *err)
{
    DIR *proc = opendir("/proc");
    if (proc == NULL)
        return srt_err_set(err, "/proc: %s", remedy_error(errno));
    const struct dirent *entry;
    int result = 0;
    while (result == 0 && (entry = readdir(proc)) != NULL) {
        struct stat st;
        bool process = entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
        if (process || entry->d_name[0] == '.' ||
            fstatat(dirfd(proc), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        bool knobs = S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && (st.st_mode & 0222) != 0);
        if (!knobs)
            continue;
        autofree char *path = path_join("/proc", entry->d_name);
        struct fence_step step = {.act = FENCE_READONLY, .path = path, .setting = "default"};
        struct fence_plan one = {.steps = &step, .count = 1};
        if (carry_out(&one, 0, &(struct source){.tree = -1}, NULL) != 0)
            result = step_failed(&step, err);
    }
    closedir(proc);
    return result;
}

/* Host's nodes, of which bubblewrap makes mounts that may be written to: root inside would change
 * their modes. To write to a device is no change of the file system. */
static int guard_devices(struct srt_err *err)
{
    static const char *const devices[] = {"/dev/null",    "/dev/zero", "/dev/full",   "/dev/random",
                                          "/dev/urandom", "/dev/tty",  "/dev/console"};
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
        if (change_flags(AT_FDCWD, devices[i], 0, MOUNT_ATTR_RDONLY, 0) != 0 && errno != ENOENT)
            return srt_err_set(err, "%s cannot be guarded: %s", devices[i], remedy_error(errno));
    return 0;
}

int mounts_make_socket(void *nothing, const struct inside *inside, struct inside_gift *gift,
                       struct srt_err *err)
{
    (void)nothing;
    (void)inside;
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "egress.sock"};
    _Static_assert(sizeof(ATTACH_SOCKET_DIR "/egress.sock") == sizeof(ATTACH_SOCKET),
                   "the name in the directory");
    umask(0177); /* the command has this user's number */
    autoclose int dir = new_tmpfs("0555");
    autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* A directory that hangs nowhere has no path, but one can be in it. */
    if (dir < 0 || fd < 0 || fchdir(dir) != 0 ||
        bind(fd, (struct sockaddr *)&name, sizeof(name)) != 0 || listen(fd, SOMAXCONN) != 0 ||
        change_flags(dir, "", AT_EMPTY_PATH, MOUNT_ATTR_RDONLY, 0) != 0)
        return srt_err_set(err, "%s cannot be made: %s", ATTACH_SOCKET, remedy_error(errno));
    gift->fds[0] = steal_fd(&fd);
    gift->fds[1] = steal_fd(&dir);
    gift->count = 2;
    return 0;
}

/* What is at `name` in one directory, also in the other. An entry that has gone is no failure. */
static int show_entry(int from, int to, const char *name)
{
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : -1;
    if (S_ISLNK(st.st_mode))
        return copy_link(from, to, name);
    autoclose int place = openat(from, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (place < 0)
        return errno == ENOENT ? 0 : -1;
    int made = S_ISDIR(st.st_mode) ? mkdirat(to, name, 0555) : mknodat(to, name, S_IFREG | 0444, 0);
    autoclose int tree = made == 0 ? open_tree_clone(place) : -1;
    autoclose int target_fd = openat(to, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return tree < 0 || target_fd < 0 ? -1 : attach(tree, target_fd);
}

/* Nothing may be made in the host's /run, so the sandbox gets one of its own, which shows what the
 * other one does after the plan was carried out, and has one directory more. */
static int show_socket(int socket_dir)
{
    static const char parent[] = "/run", name[] = "srt";
    _Static_assert(sizeof("/run/srt") == sizeof(ATTACH_SOCKET_DIR), "its parent and its name");
    autoclose int fs = new_tmpfs("0555");
    autoclose int place = open_place(parent);
    int from = open(parent, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *entries = from < 0 ? NULL : fdopendir(from);
    if (entries == NULL && from >= 0)
        close(from);
    int result = fs < 0 || place < 0 || entries == NULL ? -1 : attach(fs, place);
    const struct dirent *entry;
    while (result == 0 && (entry = readdir(entries)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            strcmp(entry->d_name, name) != 0)
            result = show_entry(from, fs, entry->d_name);
    int error = errno;
    if (entries != NULL)
        closedir(entries);
    errno = error;
    if (result != 0 || mkdirat(fs, name, 0555) != 0)
        return -1;
    autoclose int target = openat(fs, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (target < 0 || attach(socket_dir, target) != 0)
        return -1;
    return change_flags(fs, "", AT_EMPTY_PATH, MOUNT_ATTR_RDONLY, 0);
}

/* A file of that text in the place of another; one that is hidden, not there or no file stays so.
 */
static int show_text(const char *path, const char *text)
{
    struct stat st;
    const size_t len = strlen(text);
    autoclose int place = open(path, O_PATH | O_CLOEXEC);
    if (place < 0 || fstat(place, &st) != 0 || !S_ISREG(st.st_mode) || (st.st_mode & 0444) == 0)
        return 0;
    autoclose int fs = new_tmpfs("0555");
    autoclose int file = fs < 0 ? -1 : openat(fs, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0444);
    if (file < 0 || write(file, text, len) != (ssize_t)len)
        return -1;
    close(steal_fd(&file)); /* an open writer would keep the mount from becoming read-only */
    if (change_flags(fs, "", AT_EMPTY_PATH, MOUNT_ATTR_RDONLY, 0) != 0)
        return -1;
    autoclose int shown = openat(fs, "file", O_PATH | O_CLOEXEC);
    autoclose int tree = shown < 0 ? -1 : open_tree_clone(shown);
    return tree < 0 ? -1 : attach(tree, place);
}

/* What the host knows of names would get in the way of the sandbox's own resolver: its addresses
 * mean nothing inside. Without the files the C library asks 127.0.0.1, too. */
static int show_own_names(void)
{
    char host[HOST_NAME_MAX + 1] = "", hosts[HOST_NAME_MAX + 100];
    struct name name;
    const bool named =
        gethostname(host, sizeof(host) - 1) == 0 && name_parse(&name, str_of(host)) == NAME_OK;
    snprintf(hosts, sizeof(hosts), "127.0.0.1 localhost%s%s\n::1 localhost ip6-localhost\n",
             named ? " " : "", named ? host : "");
    return show_text("/etc/resolv.conf", "nameserver 127.0.0.1\n") == 0 &&
                   show_text("/etc/hosts", hosts) == 0
               ? 0
               : -1;
}

/* One source for each step. */
static int take_sources(const struct mounts_job *job, struct source *sources, struct srt_err *err)
{
    for (size_t i = 0; i < job->plan->count; i++) {
        const struct fence_step *step = &job->plan->steps[i];
        sources[i].tree = -1;
        if ((step->act != FENCE_WRITABLE && step->act != FENCE_VISIBLE) || is_not_there(step))
            continue;
        if (take_source(step, &sources[i]) == 0)
            continue;
        sources[i].gone = may_go_without(job, step);
        if (!sources[i].gone)
            return step_failed(step, err);
    }
    return 0;
}

static bool hides_files(const struct fence_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->steps[i].act == FENCE_HIDDEN && plan->steps[i].type != PATH_DIR)
            return true;
    return false;
}

static int carry_out_all(const struct mounts_job *job, const struct inside *inside,
                         struct srt_err *err)
{
    const struct fence_plan *plan = job->plan;
    autofree struct source *sources = must(calloc(plan->count + 1, sizeof(*sources)));
    const bool blanks = hides_files(plan);
    const int result = take_sources(job, sources, err);
    if (result != 0)
        return result;
    if (blanks && put_up_blanks(err) != 0)
        return -1;
    for (size_t i = 0; i < plan->count; i++)
        if (!sources[i].gone && !is_not_there(&plan->steps[i]) &&
            carry_out(plan, i, &sources[i], inside) != 0 && !may_go_without(job, &plan->steps[i]))
            return step_failed(&plan->steps[i], err);
    if (blanks && umount2(blanks_dir, DETACH) != 0)
        return srt_err_set(err, "the tmpfs for hidden files cannot be detached: %s",
                           remedy_error(errno));
    return 0;
}

int mounts_carry_out(void *context, const struct inside *inside, struct inside_gift *gift,
                     struct srt_err *err)
{
    (void)gift;
    const struct mounts_job *job = context;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    umask(0);
    /* What the host mounts from now on would come in writable, below any directory. */
    struct mount_attr apart = {.propagation = PRIVATE};
    if (syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &apart, sizeof(apart)) != 0)
        return srt_err_set(err, "the sandbox's mounts cannot be kept apart from the host's: %s",
                           remedy_error(errno));
    if (guard_proc(err) != 0 || guard_devices(err) != 0)
        return -1;
    if (job->tmpdir != NULL && mkdir(job->tmpdir, 0700) != 0)
        return srt_err_set(err, "%s cannot be made: %s", job->tmpdir, remedy_error(errno));
    const int result = carry_out_all(job, inside, err);
    if (result != 0)
        return result;
    if (job->own_names && show_own_names() != 0)
        return srt_err_set(err,
                           "/etc/resolv.conf and /etc/hosts of the sandbox cannot be shown: %s",
                           remedy_error(errno));
    if (job->socket_dir >= 0 && show_socket(job->socket_dir) != 0)
        return srt_err_set(err, "%s cannot be shown: %s; use --egress port", ATTACH_SOCKET,
                           remedy_error(errno));
    return 0;
}
