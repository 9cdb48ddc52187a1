#include "launcher/spaces.h"

#include "launcher/netlink.h"
#include "launcher/remedy.h"
#include "launcher/stage.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <net/if.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* <sys/mount.h> of this C library and <linux/mount.h> exclude each other. */
int mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data);
enum { PRIVATE = 1 << 18 }; /* MS_PRIVATE */

/* ---- who we are inside: the same as outside, and nobody else ---- */

static bool write_text(const char *path, const char *text)
{
    autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static int map_ids(uid_t uid, gid_t gid, struct srt_err *err)
{
    char uids[32], gids[32];
    snprintf(uids, sizeof(uids), "%u %u 1", uid, uid);
    snprintf(gids, sizeof(gids), "%u %u 1", gid, gid);
    if (!write_text("/proc/self/setgroups", "deny") || !write_text("/proc/self/gid_map", gids) ||
        !write_text("/proc/self/uid_map", uids))
        return srt_err_set(err, "the uid map of a namespace cannot be written: %s",
                           remedy_error(errno));
    return 0;
}

/* ---- the network: nothing but a loopback ---- */

static int raise_loopback(struct srt_err *err)
{
    const struct ifinfomsg up = {
        .ifi_index = NETLINK_LOOPBACK, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    struct netlink netlink = {.len = 0};
    netlink_begin(&netlink, RTM_NEWLINK, NLM_F_ACK, &up, sizeof(up));
    return netlink_send(&netlink, NETLINK_ROUTE, "loopback", err);
}

/* ---- the mounts ---- */

/* The host's devices, taken before everything loses them; the caller's terminal and the log's
 * socket, or -1. */
struct devices {
    int trees[CELL_DEVICES];
    int console, log;
};

static int take(const char *path)
{
    return (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

/* Its owner, who may be inside, cannot change its mode. To write to a device or a socket is no
 * change of the file system. */
static int take_closed(const char *path)
{
    struct mount_attr closed = {.attr_set =
                                    MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};
    autoclose int tree = take(path);
    if (tree < 0 ||
        syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &closed, sizeof(closed)) != 0)
        return -1;
    return steal_fd(&tree);
}

static int take_devices(struct devices *devices, bool log_socket, struct srt_err *err)
{
    for (size_t i = 0; i < CELL_DEVICES; i++) {
        char path[32];
        snprintf(path, sizeof(path), "/dev/%s", cell_devices[i]);
        devices->trees[i] = take_closed(path);
        if (devices->trees[i] < 0)
            return srt_err_set(err, "%s cannot be taken inside: %s", path, remedy_error(errno));
    }
    char terminal[64];
    if (ttyname_r(STDOUT_FILENO, terminal, sizeof(terminal)) == 0)
        devices->console = take_closed(terminal);
    if (log_socket)
        devices->log = take_closed(CELL_LOG_SOCKET);
    return 0;
}

static int change_flags(const char *path, unsigned at, struct mount_attr attr)
{
    return (int)syscall(SYS_mount_setattr, AT_FDCWD, path, at, &attr, sizeof(attr));
}

/* Takes the tree. */
static bool put(int tree, int dir, const char *name)
{
    autoclose int owned = tree;
    return mknodat(dir, name, S_IFREG | 0444, 0) == 0 &&
           syscall(SYS_move_mount, owned, "", dir, name, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

static bool put_links(int dir)
{
    static const struct {
        const char *name, *target;
    } links[] = {{"stdin", "/proc/self/fd/0"},  {"stdout", "/proc/self/fd/1"},
                 {"stderr", "/proc/self/fd/2"}, {"fd", "/proc/self/fd"},
                 {"core", "/proc/kcore"},       {"ptmx", "pts/ptmx"}};
    bool good = true;
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]) && good; i++)
        good = symlinkat(links[i].target, dir, links[i].name) == 0;
    return good;
}

static int make_dev(const struct devices *devices, struct srt_err *err)
{
    enum { QUIET = MS_NOSUID | MS_NODEV };
    bool good = mount("tmpfs", "/dev", "tmpfs", QUIET, "mode=0755") == 0;
    autoclose int dir = good ? open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    good = dir >= 0 && put_links(dir) && mkdirat(dir, "shm", 0755) == 0 &&
           mkdirat(dir, "pts", 0755) == 0;
    for (size_t i = 0; i < CELL_DEVICES && good; i++)
        good = put(devices->trees[i], dir, cell_devices[i]);
    if (good && devices->console >= 0)
        good = put(devices->console, dir, "console");
    if (good && devices->log >= 0)
        good = put(devices->log, dir, "log");
    good = good && mount("tmpfs", "/dev/shm", "tmpfs", QUIET, "mode=1777") == 0 &&
           mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
                 "newinstance,ptmxmode=0666,mode=620") == 0 &&
           change_flags("/dev", 0, (struct mount_attr){.attr_set = MOUNT_ATTR_RDONLY}) == 0;
    return good ? 0 : srt_err_set(err, "/dev cannot be made: %s", remedy_error(errno));
}

/* The host's own /dev and /proc stay below, where only who may unmount could get at them. Nothing
 * that the host mounts later comes in. */
static int make_mounts(bool log_socket, struct srt_err *err)
{
    struct devices devices = {.console = -1, .log = -1};
    if (take_devices(&devices, log_socket, err) != 0)
        return -1;
    struct mount_attr closed = {.attr_set =
                                    MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
                                .propagation = PRIVATE};
    if (change_flags("/", AT_RECURSIVE, closed) != 0)
        return srt_err_set(err, "the mounts cannot be made read-only: %s", remedy_error(errno));
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        return srt_err_set(err, "Can't mount proc: %s", remedy_error(errno));
    return make_dev(&devices, err);
}

/* ---- what is given up ---- */

static int drop_capabilities(struct srt_err *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[2] = {{0}};
    int cap = 0;
    while (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
        cap++;
    bool all = errno == EINVAL && cap > CAP_SYS_ADMIN; /* one more than the last */
    if (!all || prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 ||
        syscall(SYS_capset, &header, none) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return srt_err_set(err, "the capabilities cannot be given up: %s", remedy_error(errno));
    return 0;
}

/* What was asked of us is no business of those inside, who can read the words of process 1. */
static void hide_words(char **argv)
{
    if (argv[0] == NULL)
        return;
    char *end = argv[0]; /* the kernel has put them into one piece */
    for (char **word = argv; *word != NULL && *word == end; word++)
        end += strlen(*word) + 1;
    size_t len = (size_t)(end - argv[0]);
    memset(argv[0], 0, len);
    snprintf(argv[0], len, "srt-launch");
}

/* Nothing of the launcher's may stay open but the socket to it. */
static int keep_only(int sock, const struct cell_options *options)
{
    enum { SOCK = 3 };
    if (sock != SOCK && dup3(sock, SOCK, O_CLOEXEC) != SOCK)
        _exit(1);
    if (syscall(SYS_close_range, SOCK + 1, ~0u, 0) != 0)
        _exit(1);
    for (int fd = 0; fd < SOCK; fd++)
        if (options->closed_streams[fd])
            close(fd);
    return SOCK;
}

static _Noreturn void become_first(int sock, const struct cell_options *options, uid_t uid,
                                   gid_t gid)
{
    struct srt_err err;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    if (map_ids(uid, gid, &err) != 0 || raise_loopback(&err) != 0 ||
        make_mounts(options->log_socket, &err) != 0 || chdir("/") != 0 ||
        drop_capabilities(&err) != 0) {
        stage_send(sock, STAGE_FAILED, 0, err.text);
        _exit(1);
    }
    hide_words(options->argv);
    stage_run(keep_only(sock, options));
}

int spaces_start(struct cell *cell, const struct cell_options *options, struct srt_err *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return srt_err_set(err, "socketpair: %s", remedy_error(errno));
    uid_t uid = geteuid();
    gid_t gid = getegid();
    struct clone_args new = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                                      CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP,
                             .exit_signal = SIGCHLD};
    cell->sock = pair[0];
    autoclose int theirs = pair[1];
    /* As by fork(), without what the C library would do at one; there is only this thread. */
    pid_t pid = (pid_t)syscall(SYS_clone3, &new, sizeof(new));
    if (pid < 0)
        return srt_err_set(err, "no namespaces can be made: %s", remedy_error(errno));
    if (pid == 0)
        become_first(theirs, options, uid, gid);
    cell->pid = pid;
    cell->direct = true;
    close(steal_fd(&theirs));
    return cell_await(cell, err) == 0 ? 0 : -1;
}
