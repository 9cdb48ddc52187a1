#include "launcher/streams.h"

#include "launcher/remedy.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

static const char *const names[] = {"standard input", "standard output", "standard error"};

static char *path_of(int fd)
{
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof(path) - 1);
    return len > 0 ? must(strndup(path, (size_t)len)) : NULL;
}

/* Who owns a device's node could change its mode through the descriptor, on the host's mount. The
 * sandbox's own /dev has the same node on a mount that is read-only. */
static const char *owned_device(const struct stat *st)
{
    enum { MEMORY = 1 };
    static const char *const nodes[] = {[3] = "/dev/null",
                                        [5] = "/dev/zero",
                                        [7] = "/dev/full",
                                        [8] = "/dev/random",
                                        [9] = "/dev/urandom"};
    if (!S_ISCHR(st->st_mode) || major(st->st_rdev) != MEMORY || st->st_uid != geteuid())
        return NULL;
    unsigned number = minor(st->st_rdev);
    return number < sizeof(nodes) / sizeof(nodes[0]) ? nodes[number] : NULL;
}

/* Whoever holds a socket can lead it elsewhere, in the network that it was made in, unless its peer
 * is fixed for ever: connected Unix sockets that are no datagrams. */
static bool is_bound_to_peer(int fd)
{
    int domain, type;
    socklen_t domain_len = sizeof(domain), type_len = sizeof(type);
    struct sockaddr_un peer;
    socklen_t peer_len = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_len) == 0 && domain == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) == 0 &&
           (type == SOCK_STREAM || type == SOCK_SEQPACKET) &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_len) == 0;
}

/* Why the command must not get it, NULL when it may. */
static const char *leads_out(int fd, int flags, const struct stat *st)
{
    if (S_ISDIR(st->st_mode) || (flags & O_PATH) != 0)
        return "is a directory or was not opened for use (O_PATH): it would lead out of the "
               "sandbox";
    if (S_ISSOCK(st->st_mode) && !is_bound_to_peer(fd))
        return "is a socket that can be connected to another place: it would lead out of the "
               "sandbox; hand it over through pipes: cat | srt-launch ... | cat";
    if ((st->st_mode & S_IFMT) == 0)
        return "is no file, pipe, socket or terminal, but a handle of the kernel's: it might lead "
               "out of the sandbox";
    return NULL;
}

int streams_look(struct streams *streams, const bool closed[3], struct srt_err *err)
{
    *streams = (struct streams){.fds = {-1, -1, -1}, .flags = {-1, -1, -1}};
    for (int fd = 0; fd < 3; fd++) {
        struct stat st;
        int flags = fcntl(fd, F_GETFL);
        if (closed[fd] || flags < 0 || fstat(fd, &st) != 0)
            continue;
        streams->flags[fd] = flags;
        const char *why = leads_out(fd, flags, &st);
        if (why != NULL)
            return srt_err_set(err, "%s %s", names[fd], why);
        const char *device = owned_device(&st);
        if (device != NULL)
            streams->paths[fd] = must_copy(device);
        /* What has no name left is the command's alone: here-documents, memory. */
        if ((S_ISREG(st.st_mode) || S_ISBLK(st.st_mode)) && (flags & O_ACCMODE) == O_RDONLY &&
            st.st_nlink > 0 && (streams->paths[fd] = path_of(fd)) == NULL)
            return srt_err_set(err, "%s has no path: %s", names[fd], remedy_error(errno));
    }
    return 0;
}

static bool is_same(const struct stat *before, const struct stat *after)
{
    if (S_ISCHR(before->st_mode)) /* the caller's may be another /dev's node */
        return S_ISCHR(after->st_mode) && before->st_rdev == after->st_rdev;
    return before->st_dev == after->st_dev && before->st_ino == after->st_ino;
}

/* In the child that has joined the sandbox; its own streams are still the caller's. */
int streams_reopen(void *context, const struct inside *inside, struct inside_gift *gift,
                   struct srt_err *err)
{
    (void)inside;
    const struct streams *streams = context;
    for (int fd = 0; fd < 3; fd++) {
        struct stat before, after;
        const char *path = streams->paths[fd];
        if (path == NULL)
            continue;
        int access = fcntl(fd, F_GETFL) & O_ACCMODE;
        autoclose int again = open(path, access | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
        if (again < 0 || fstat(fd, &before) != 0 || fstat(again, &after) != 0 ||
            !is_same(&before, &after))
            return srt_err_set(err,
                               "%s is the file %s, which cannot be opened again in the sandbox; "
                               "hand it over through a pipe: cat FILE | srt-launch ...",
                               names[fd], path);
        off_t offset = lseek(fd, 0, SEEK_CUR);
        if (offset > 0)
            lseek(again, offset, SEEK_SET);
        fcntl(again, F_SETFL, fcntl(fd, F_GETFL));
        gift->fds[gift->count++] = steal_fd(&again);
    }
    return 0;
}

void streams_take(struct streams *streams, const struct inside_gift *gift)
{
    size_t next = 0;
    for (int fd = 0; fd < 3; fd++)
        if (streams->paths[fd] != NULL && next < gift->count)
            streams->fds[fd] = gift->fds[next++];
}

void streams_restore_flags(const struct streams *streams)
{
    for (int fd = 0; fd < 3; fd++)
        if (streams->flags[fd] >= 0 && fcntl(fd, F_GETFL) != streams->flags[fd])
            fcntl(fd, F_SETFL, streams->flags[fd]);
}

void streams_give_back(struct streams *streams)
{
    for (int fd = 0; fd < 3; fd++) {
        if (streams->fds[fd] >= 0) {
            off_t offset = lseek(streams->fds[fd], 0, SEEK_CUR);
            if (offset >= 0)
                lseek(fd, offset, SEEK_SET);
            close(streams->fds[fd]);
        }
        free(streams->paths[fd]);
        streams->fds[fd] = -1;
        streams->paths[fd] = NULL;
    }
}
