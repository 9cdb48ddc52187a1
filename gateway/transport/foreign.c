#include "transport/foreign.h"

#include "transport/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAITING_MAX = 64 };

static atomic_int waiting;

/* As long as the sender leaves it at that, close() does not wait, and the thread is gone at once.
 * A connection ends, and forgets what is unsent. None of this waits for a file system. */
static void unburden(int fd)
{
    int domain, listening = 0;
    socklen_t len = sizeof(domain), listening_len = sizeof(listening);
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0 ||
        (domain != AF_INET && domain != AF_INET6))
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &listening_len) == 0 && !listening)
        (void)connect(fd, &nobody, sizeof(nobody));
    stream_unlinger(fd);
}

static void *close_and_end(void *arg)
{
    close((int)(intptr_t)arg);
    atomic_fetch_sub(&waiting, 1);
    return NULL;
}

void foreign_close(int fd)
{
    pthread_t thread;
    pthread_attr_t attributes;
    unburden(fd);
    if (pthread_attr_init(&attributes) != 0)
        return;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, 256 << 10);
    atomic_fetch_add(&waiting, 1);
    if (pthread_create(&thread, &attributes, close_and_end, (void *)(intptr_t)fd) != 0)
        atomic_fetch_sub(&waiting, 1);
    (void)pthread_attr_destroy(&attributes);
}

void foreign_hang_up(int fd)
{
    int unread = 0;
    (void)shutdown(fd, SHUT_RDWR); /* nothing comes between the look and the end */
    if (ioctl(fd, FIONREAD, &unread) == 0 && unread == 0) {
        close(fd);
        return;
    }
    /* Under another number, if there is one: a loop has yet to forget about this one. */
    const int last = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (last >= 0)
        close(fd);
    foreign_close(last >= 0 ? last : fd);
}

bool foreign_accepted(int fd, char *room, size_t size)
{
    enum { PARTS = 8 }; /* so much can be unread at most, or it is suspicious, too */
    const int on = 1;
    struct iovec parts[PARTS];
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = PARTS};
    int unread = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
    if (!stream_refuse_descriptors(fd) || (ioctl(fd, FIONREAD, &unread) == 0 && unread == 0))
        return true;
    for (size_t i = 0; i < PARTS; i++)
        parts[i] = (struct iovec){room, size};
    const ssize_t seen = recvmsg(fd, &header, MSG_PEEK | MSG_DONTWAIT);
    if (seen >= unread && (header.msg_flags & MSG_CTRUNC) == 0)
        return true;
    foreign_hang_up(fd);
    return false;
}

bool foreign_is_busy(void)
{
    return atomic_load(&waiting) >= WAITING_MAX;
}

ssize_t foreign_receive(int fd, struct msghdr *header)
{
    if (foreign_is_busy()) {
        header->msg_controllen = 0;
        const ssize_t n = recvmsg(fd, header, MSG_PEEK | MSG_DONTWAIT);
        if (n <= 0)
            return n;
        if ((header->msg_flags & MSG_CTRUNC) != 0) {
            errno = EBUSY;
            return -1;
        }
        header->msg_iov[0].iov_len = (size_t)n; /* what comes behind it may bring some by now */
    }
    return recvmsg(fd, header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
}
