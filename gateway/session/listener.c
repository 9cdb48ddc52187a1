#include "session/listener.h"

#include "srt/cleanup.h"
#include "srt/must.h"
#include "transport/foreign.h"
#include "transport/stream.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { BACKLOG = 4096 }; /* cut to net.core.somaxconn by the kernel */

struct listener {
    int fd;
    enum listener_kind kind;
    atomic_uint users;
    struct config_address bound;
    char *path, *group; /* bound.path is `path` */
    bool foreign;       /* somebody else made it, and may have it still */
    bool inherited;
    uint32_t mode;
    uint16_t asked_port;
    /* Of the path, so that only this very socket is removed at the end. */
    dev_t device;
    ino_t inode;
};

static struct listener *listener_create(int fd)
{
    struct listener *listener = must(calloc(1, sizeof(*listener)));
    listener->fd = fd;
    atomic_init(&listener->users, 1);
    return listener;
}

/* ---- Unix sockets ---- */

static int path_to_sockaddr(const char *path, struct sockaddr_un *out, struct srt_err *err)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(out->sun_path))
        return srt_err_set(err, "%s: a socket's path has at most %zu bytes", path,
                           sizeof(out->sun_path) - 1);
    memcpy(out->sun_path, path, strlen(path) + 1);
    return 0;
}

/* A daemon that was killed leaves its socket behind. It is in nobody's way unless somebody answers.
 */
static int remove_stale(const char *path, const struct sockaddr_un *addr, struct srt_err *err)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : srt_err_set(err, "%s: %s", path, strerror(errno));
    if (!S_ISSOCK(st.st_mode))
        return srt_err_set(err, "%s exists and is not a socket; remove it or choose another path",
                           path);
    autoclose int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return srt_err_set(err, "%s: %s", path, strerror(errno));
    if (connect(probe, (const struct sockaddr *)addr, sizeof(*addr)) == 0 || errno == EAGAIN)
        return srt_err_set(err, "%s: another process listens there", path);
    if (errno != ECONNREFUSED)
        return srt_err_set(err, "%s: %s", path, strerror(errno));
    if (unlink(path) != 0 && errno != ENOENT)
        return srt_err_set(err, "%s: the socket left behind cannot be removed: %s", path,
                           strerror(errno));
    return 0;
}

static int find_group(const char *name, gid_t *out, struct srt_err *err)
{
    const struct group *group = getgrnam(name);
    if (group == NULL)
        return srt_err_set(err, "there is no group %s", name);
    *out = group->gr_gid;
    return 0;
}

/* Nobody can connect between bind() and chmod(): connect() needs listen(), which comes later. */
static int dress(const char *path, const struct config_listen *config, struct srt_err *err)
{
    gid_t group = (gid_t)-1;
    if (config->group != NULL && find_group(config->group, &group, err) != 0)
        return -1;
    if (config->group != NULL && lchown(path, (uid_t)-1, group) != 0)
        return srt_err_set(err, "%s: its group cannot be set to %s: %s", path, config->group,
                           strerror(errno));
    if (chmod(path, config->mode) != 0)
        return srt_err_set(err, "%s: its mode cannot be set: %s", path, strerror(errno));
    return 0;
}

static struct listener *open_unix(const struct config_listen *config, struct srt_err *err)
{
    const char *path = config->address.path;
    struct sockaddr_un addr;
    struct stat st;
    if (path_to_sockaddr(path, &addr, err) != 0 || remove_stale(path, &addr, err) != 0)
        return NULL;
    autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0) {
        srt_err_set(err, "%s: %s%s", path, strerror(errno),
                    errno == ENOENT ? " (its directory must exist)" : "");
        return NULL;
    }
    if (dress(path, config, err) != 0) {
        unlink(path);
        return NULL;
    }
    if (lstat(path, &st) != 0 || listen(fd, BACKLOG) != 0) {
        srt_err_set(err, "%s: %s", path, strerror(errno));
        unlink(path);
        return NULL;
    }
    struct listener *listener = listener_create(steal_fd(&fd));
    listener->path = must_copy(path);
    listener->group = must_copy(config->group);
    listener->mode = config->mode;
    listener->device = st.st_dev;
    listener->inode = st.st_ino;
    listener->bound.path = listener->path;
    return listener;
}

/* ---- TCP ---- */

static bool read_bound(int fd, struct config_address *out)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);
    return getsockname(fd, (struct sockaddr *)&addr, &len) == 0 &&
           addr_from_sockaddr((struct sockaddr *)&addr, &out->addr, &out->port);
}

static struct listener *open_tcp(const struct config_listen *config, struct srt_err *err)
{
    const int on = 1;
    char text[ADDR_TEXT_MAX];
    struct sockaddr_storage addr;
    const struct config_address *address = &config->address;
    socklen_t len = addr_to_sockaddr(&address->addr, address->port, &addr);
    addr_format(text, &address->addr);
    const char *open = address->addr.family == 6 ? "[" : "";
    const char *close_ = address->addr.family == 6 ? "]" : "";

    autoclose int fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* SO_REUSEADDR does not let two processes listen on Linux; it forgives TIME_WAIT (socket(7)).
     */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        (addr.ss_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0) ||
        bind(fd, (struct sockaddr *)&addr, len) != 0 || listen(fd, BACKLOG) != 0) {
        srt_err_set(err, "cannot listen on %s%s%s:%u: %s", open, text, close_, address->port,
                    strerror(errno));
        return NULL;
    }
    struct listener *listener = listener_create(steal_fd(&fd));
    listener->asked_port = address->port;
    bool known = read_bound(listener->fd, &listener->bound);
    assert(known);
    return listener;
}

struct listener *listener_open(const struct config_listen *config, struct srt_err *err)
{
    return config->address.path != NULL ? open_unix(config, err) : open_tcp(config, err);
}

/* ---- both ---- */

/* -1: it is no socket. */
static int option_of(int fd, int option)
{
    int value;
    socklen_t len = sizeof(value);
    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

/* False with `err`. */
static bool can_accept(int fd, struct srt_err *err)
{
    const int domain = option_of(fd, SO_DOMAIN);
    const char *why = NULL;
    if (option_of(fd, SO_ACCEPTCONN) <= 0)
        why = "the descriptor is not a listening socket";
    else if (option_of(fd, SO_TYPE) != SOCK_STREAM)
        why = "the descriptor is not a stream socket";
    else if (domain != AF_UNIX && domain != AF_INET && domain != AF_INET6)
        why = "the descriptor is neither a TCP nor a Unix socket";
    if (why != NULL)
        srt_err_set(err, "%s", why);
    return why == NULL;
}

/* False with `err`. */
static bool can_receive(int fd, struct srt_err *err)
{
    const int domain = option_of(fd, SO_DOMAIN);
    if (option_of(fd, SO_TYPE) == SOCK_DGRAM && option_of(fd, SO_PROTOCOL) == IPPROTO_UDP &&
        (domain == AF_INET || domain == AF_INET6))
        return true;
    srt_err_set(err, "the descriptor is not a UDP socket");
    return false;
}

/* Nothing here waits for the lock of a socket (transport/foreign.h). */
struct listener *listener_adopt(int fd, enum listener_kind kind, struct srt_err *err)
{
    if (!(kind == LISTENER_DNS_UDP ? can_receive(fd, err) : can_accept(fd, err))) {
        foreign_close(fd);
        return NULL;
    }
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    struct listener *listener = listener_create(fd);
    listener->kind = kind;
    listener->foreign = true;
    return listener;
}

/* Answers have to come from where the question went. That need not be an address of the machine's
 * (IPV6_FREEBIND; IPv4 does not ask). */
static bool tune_datagrams(int fd)
{
    enum { IP_V6_FREEBIND = 78 }; /* <linux/in6.h> excludes <netinet/in.h> */
    const int on = 1;
    return option_of(fd, SO_DOMAIN) == AF_INET
               ? setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) == 0
               : setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on)) == 0 &&
                     setsockopt(fd, IPPROTO_IPV6, IP_V6_FREEBIND, &on, sizeof(on)) == 0;
}

/* What is accepted inherits all that (tcp(7)). */
static void tune_stream(int fd)
{
    struct config_address bound = {0}; /* a Unix socket's has no `addr` */
    stream_tune(fd);
    if (read_bound(fd, &bound) && addr_is_loopback(&bound.addr))
        stream_unpace(fd);
    stream_unlinger(fd);
    stream_refuse_descriptors(fd);
}

bool listener_unblock(const struct listener *listener)
{
    const int flags = fcntl(listener->fd, F_GETFL);
    return flags >= 0 &&
           ((flags & O_NONBLOCK) != 0 || fcntl(listener->fd, F_SETFL, flags | O_NONBLOCK) == 0);
}

bool listener_tune(const struct listener *listener)
{
    if (listener->kind == LISTENER_DNS_UDP)
        return tune_datagrams(listener->fd);
    tune_stream(listener->fd);
    return true;
}

struct listener *listener_adopt_for(int fd, const struct config_listen *config, bool inherited,
                                    struct srt_err *err)
{
    struct listener *listener = listener_adopt(fd, LISTENER_PROXY, err);
    if (listener == NULL)
        return NULL;
    listener->foreign = false; /* from systemd, or from our predecessor */
    listener->asked_port = config->address.port;
    if (!listener_unblock(listener)) {
        srt_err_set(err, "the descriptor cannot be used: %s", strerror(errno));
        listener_release(listener);
        return NULL;
    }
    (void)read_bound(fd, &listener->bound); /* a Unix socket has none */
    if (config->address.path == NULL)
        return listener;
    listener->path = must_copy(config->address.path);
    listener->group = must_copy(config->group);
    listener->mode = config->mode;
    listener->bound.path = listener->path; /* no device and inode: it is not ours to remove */
    listener->inherited = inherited;
    if (inherited && dress(listener->path, config, err) != 0) {
        listener_release(listener);
        return NULL;
    }
    return listener;
}

void listener_claim(struct listener *listener)
{
    struct stat st;
    if (!listener->inherited || lstat(listener->path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return;
    listener->device = st.st_dev;
    listener->inode = st.st_ino;
}

bool listener_is_own(const struct listener *listener)
{
    return listener->path == NULL || listener->inode != 0;
}

const struct config_address *listener_bound(const struct listener *listener)
{
    return &listener->bound;
}

enum listener_kind listener_kind(const struct listener *listener)
{
    return listener->kind;
}

int listener_fd(const struct listener *listener)
{
    return listener->fd;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

bool listener_serves(const struct listener *listener, const struct config_listen *config)
{
    const struct config_address *address = &config->address;
    if (listener->path != NULL || address->path != NULL)
        return same_text(listener->path, address->path);
    return addr_eq(&listener->bound.addr, &address->addr) && listener->asked_port == address->port;
}

int listener_dress(struct listener *listener, const struct config_listen *config,
                   struct srt_err *err)
{
    const bool same_group = same_text(listener->group, config->group);
    if (listener->inode == 0 || (listener->mode == config->mode && same_group))
        return 0;
    if (!same_group && config->group == NULL && lchown(listener->path, (uid_t)-1, getegid()) != 0)
        return srt_err_set(err, "%s: its group cannot be set: %s", listener->path, strerror(errno));
    if (dress(listener->path, config, err) != 0)
        return -1;
    listener->mode = config->mode;
    free(listener->group);
    listener->group = must_copy(config->group);
    return 0;
}

struct listener *listener_take(struct listener *listener)
{
    atomic_fetch_add(&listener->users, 1);
    return listener;
}

void listener_release(struct listener *listener)
{
    if (listener == NULL || atomic_fetch_sub(&listener->users, 1) != 1)
        return;
    if (listener->foreign)
        foreign_close(listener->fd);
    else
        close(listener->fd);
    free(listener->path);
    free(listener->group);
    free(listener);
}

void listener_close(struct listener *listener)
{
    struct stat st;
    if (listener == NULL)
        return;
    if (listener->path != NULL && lstat(listener->path, &st) == 0 &&
        st.st_dev == listener->device && st.st_ino == listener->inode)
        unlink(listener->path);
    listener_release(listener);
}
