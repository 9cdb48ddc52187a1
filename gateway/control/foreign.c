#include "control/foreign.h"

#include "transport/stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAITING_MAX = 64 };

static atomic_int waiting;

/* This asks nobody but the kernel, other than fstat(), which asks the file system. */
static bool is_plain_socket(int fd)
{
    int domain;
    socklen_t len = sizeof(domain);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
           (domain == AF_UNIX || domain == AF_INET || domain == AF_INET6);
}

static void *close_and_end(void *arg)
{
    close((int)(intptr_t)arg);
    atomic_fetch_sub(&waiting, 1);
    return NULL;
}

static void close_elsewhere(int fd)
{
    pthread_t thread;
    pthread_attr_t attributes;
    atomic_fetch_add(&waiting, 1);
    if (pthread_attr_init(&attributes) != 0) {
        atomic_fetch_sub(&waiting, 1);
        return;
    }
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, 256 << 10);
    if (pthread_create(&thread, &attributes, close_and_end, (void *)(intptr_t)fd) != 0)
        atomic_fetch_sub(&waiting, 1);
    (void)pthread_attr_destroy(&attributes);
}

void foreign_close(int fd)
{
    if (!is_plain_socket(fd)) {
        close_elsewhere(fd);
        return;
    }
    stream_unlinger(fd);
    close(fd);
}

bool foreign_is_busy(void)
{
    return atomic_load(&waiting) >= WAITING_MAX;
}
