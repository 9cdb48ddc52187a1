#include "launcher/warden/answers.h"
#include "launcher/warden/held.h"
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
    for (size_t i = 0; ward->law->sockets[i] != NULL; i++) {
        struct path_place place;
        if (path_resolve(ward->law->sockets[i], &place, NULL) != 0)
            continue;
        bool within = path_within(path, place.path);
        path_place_free(&place);
        if (within)
            return true;
    }
    return false;
}

static void report_socket(struct call *call, const char *operation, const char *path)
{
    struct warden_report message = {.kind = WARDEN_SOCKET, .error = EPERM};
    snprintf(message.operation, sizeof(message.operation), "%s", operation);
    snprintf(message.setting, sizeof(message.setting), "network.allowUnixSockets");
    snprintf(message.path, sizeof(message.path), "%s", path);
    judge_report_as(call, &message);
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
    call_close_base(call, base);
    if (*held < 0)
        return -error;
    char real[PATH_MAX];
    if (ward_path_of(call->ward, *held, real, sizeof(real)) == 0)
        return -EACCES;
    if (!may_connect(call->ward, real)) {
        report_socket(call, "connect", real);
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
    if (!held_go(call->ward, call->ward->host_proc))
        return -EACCES;
    return connect(sock, to, len) == 0 ? 0 : -errno;
}

union address {
    struct sockaddr any;
    struct sockaddr_un un;
    struct sockaddr_storage storage;
};

static int read_address(struct call *call, uint64_t address, uint64_t len, union address *out)
{
    *out = (union address){.storage = {0}};
    return len > sizeof(*out) ? -EINVAL : call_read_memory(call, address, out, len);
}

/* The path of a Unix address, "" when it is none. An empty path or a leading zero is a name that
 * only this network namespace knows. */
static void path_of_address(const union address *address, socklen_t len,
                            char path[sizeof(address->un.sun_path) + 1])
{
    const size_t start = offsetof(struct sockaddr_un, sun_path);
    size_t room = len > start ? len - start : 0;
    if (room > sizeof(address->un.sun_path))
        room = sizeof(address->un.sun_path);
    if (address->any.sa_family != AF_UNIX)
        room = 0;
    memcpy(path, address->un.sun_path, room);
    path[room] = '\0';
}

/* The caller's own socket, for us too. */
static int take_socket(struct call *call, int fd)
{
    autoclose int process = (int)syscall(SYS_pidfd_open, leader_of(call), 0);
    if (process < 0)
        return -EINTR;
    int sock = (int)syscall(SYS_pidfd_getfd, process, fd, 0);
    return sock < 0 ? -errno : sock;
}

/* Every connect() comes here, as neither the kind of socket nor the address is in a register: all
 * are done by us on the caller's own socket. One that may wait does so in a process of its own. */
int64_t answer_connect(struct call *call, const struct table_row *row, const uint64_t *args)
{
    (void)row;
    union address to;
    char path[sizeof(to.un.sun_path) + 1];
    socklen_t len = (socklen_t)args[2];
    int result = read_address(call, args[1], args[2], &to);
    if (result != 0)
        return result;
    autoclose int sock = take_socket(call, (int)args[0]);
    autoclose int held = -1;
    if (sock < 0)
        return sock;
    path_of_address(&to, len, path);
    int64_t aimed = path[0] != '\0' ? aim_at_path(call, path, &to.un, &len, &held) : 0;
    if (aimed != 0)
        return aimed;
    if (!call_waits(call))
        return -EINTR;
    if ((fcntl(sock, F_GETFL) & O_NONBLOCK) != 0)
        return connect_now(call, sock, &to.any, len);
    pid_t warden = getpid();
    pid_t pid = fork();
    if (pid != 0)
        return pid < 0 ? -EAGAIN : ANSWER_SENT;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != warden)
        _exit(0);
    struct seccomp_notif_resp response = {.id = call->request->id,
                                          .error = connect_now(call, sock, &to.any, len)};
    ioctl(call->ward->listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
    _exit(0);
}

/* A socket that gets a path is a new name in the tree. */
static int64_t bind_to_path(struct call *call, int sock, const char *path)
{
    int base;
    if (!spot_base(call, AT_FDCWD, path, &base))
        return -errno;
    SPOT(spot);
    int result = spot_find(call, base, path, &spot);
    if (result != 0)
        return result;
    if (!call_waits(call))
        return -EINTR;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (spot_is_special(&spot) || spot_exists(&spot))
        return -EADDRINUSE;
    if (spot.slash || strlen(spot.name) >= sizeof(name.sun_path))
        return -ENOENT;
    if (!judge_creation(call, "bind", spot.path, S_IFSOCK))
        return -EROFS;
    memcpy(name.sun_path, spot.name, strlen(spot.name) + 1);
    call_use_umask(call);
    result =
        held_go(call->ward, spot.dir) && bind(sock, (struct sockaddr *)&name, sizeof(name)) == 0
            ? 0
            : -errno;
    return judge_result(call, "bind", &spot, result);
}

int64_t answer_bind(struct call *call, const struct table_row *row, const uint64_t *args)
{
    (void)row;
    union address to;
    char path[sizeof(to.un.sun_path) + 1];
    int result = read_address(call, args[1], args[2], &to);
    if (result != 0)
        return result;
    autoclose int sock = take_socket(call, (int)args[0]);
    if (sock < 0)
        return sock;
    path_of_address(&to, (socklen_t)args[2], path);
    if (path[0] != '\0')
        return bind_to_path(call, sock, path);
    return bind(sock, &to.any, (socklen_t)args[2]) == 0 ? 0 : -errno;
}
