#include "launcher/warden/answers.h"
#include "launcher/warden/judge.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

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
    int base;
    if (!spot_base(call, AT_FDCWD, path, &base))
        return -errno;
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
    *held = (int)syscall(SYS_openat2, base, path, &how, sizeof(how));
    int error = errno;
    if (base >= 0)
        close(base);
    if (*held < 0)
        return -error;
    char real[PATH_MAX];
    if (ward_path_of(call->ward, *held, real, sizeof(real)) == 0)
        return -EACCES;
    if (!may_connect(call->ward, real)) {
        judge_report(call, "connect", real, EPERM, "network.allowUnixSockets");
        return -EPERM;
    }
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof(address->sun_path), "%s", ward_link_to(*held).text);
    *len = sizeof(*address);
    return 0;
}

static pid_t leader_of(struct call *call)
{
    char text[2048];
    int leader = 0;
    autoclose int fd = call_open_proc(call, "status", O_RDONLY);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    text[len > 0 ? len : 0] = '\0';
    const char *line = strstr(text, "\nTgid:");
    return line != NULL && sscanf(line, "\nTgid: %d", &leader) == 1 ? leader : -1;
}

/* Names of sockets that are held open are relative to the host's /proc. */
static int connect_now(const struct call *call, int sock, const struct sockaddr *to, socklen_t len)
{
    if (fchdir(call->ward->host_proc) != 0)
        return -EACCES;
    return connect(sock, to, len) == 0 ? 0 : -errno;
}

/* Every connect() comes here, as neither the kind of socket nor the address is in a register: all
 * are done by us on the caller's own socket. One that may wait does so in a process of its own. */
int64_t answer_connect(struct call *call, const struct table_row *row, const uint64_t *args)
{
    (void)row;
    int fd = (int)args[0];
    uint64_t address = args[1], len = args[2];
    union {
        struct sockaddr any;
        struct sockaddr_un un;
        struct sockaddr_storage storage;
        char bytes[sizeof(struct sockaddr_storage) + 1];
    } to = {.bytes = {0}};
    if (len > sizeof(struct sockaddr_storage))
        return -EINVAL;
    if (call_read_memory(call, address, &to, len) != 0)
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
    if (!call_waits(call))
        return -EINTR;
    if ((fcntl(sock, F_GETFL) & O_NONBLOCK) != 0)
        return connect_now(call, sock, &to.any, to_len);
    pid_t warden = getpid();
    pid_t pid = fork();
    if (pid != 0)
        return pid < 0 ? -EAGAIN : ANSWER_SENT;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != warden)
        _exit(0);
    struct seccomp_notif_resp response = {.id = call->request->id,
                                          .error = connect_now(call, sock, &to.any, to_len)};
    ioctl(call->ward->listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
    _exit(0);
}
