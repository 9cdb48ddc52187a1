/*
 * What the three benchmark programs share: addresses, sockets and a clock. Programs of the bench
 * may exit on their own mistakes; nothing here is linked into the product.
 */
#ifndef BENCH_NET_H
#define BENCH_NET_H

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

struct endpoint {
    struct sockaddr_storage sa;
    socklen_t len;
};

/* IPv4:port or unix:/path */
static inline struct endpoint endpoint_parse(const char *text)
{
    struct endpoint e = {0};
    if (strncmp(text, "unix:", 5) == 0) {
        struct sockaddr_un *un = (struct sockaddr_un *)&e.sa;
        un->sun_family = AF_UNIX;
        snprintf(un->sun_path, sizeof(un->sun_path), "%s", text + 5);
        e.len = sizeof(*un);
        return e;
    }
    char host[64];
    unsigned port;
    struct sockaddr_in *in = (struct sockaddr_in *)&e.sa;
    if (sscanf(text, "%63[0-9.]:%u", host, &port) != 2 || port > 65535 ||
        inet_pton(AF_INET, host, &in->sin_addr) != 1)
        errx(64, "%s: not IPv4:port or unix:/path", text);
    in->sin_family = AF_INET;
    in->sin_port = htons((uint16_t)port);
    e.len = sizeof(*in);
    return e;
}

/*
 * Loopback bulk depends on the congestion control (bbr paces even loopback); reno makes the figures
 * of different machines comparable. Every socket of the bench asks for it; what the kernel lacks
 * stays.
 */
static inline void socket_tune(int fd, const struct endpoint *e)
{
    int one = 1;
    if (e->sa.ss_family == AF_UNIX)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

static inline int endpoint_listen(const struct endpoint *e)
{
    int one = 1;
    int fd = socket(e->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        err(71, "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    socket_tune(fd, e);
    if (bind(fd, (const struct sockaddr *)&e->sa, e->len) != 0 || listen(fd, 4096) != 0)
        err(71, "listen");
    return fd;
}

/* Which port the kernel chose, where it was asked for port 0. */
static inline unsigned endpoint_port(int listener)
{
    struct sockaddr_in bound = {0};
    socklen_t len = sizeof(bound);
    if (getsockname(listener, (struct sockaddr *)&bound, &len) != 0)
        err(71, "getsockname");
    return ntohs(bound.sin_port);
}

/* Starts a connection; completion is EPOLLOUT. */
static inline int endpoint_connect(const struct endpoint *e)
{
    int fd = socket(e->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        err(71, "socket");
    socket_tune(fd, e);
    if (connect(fd, (const struct sockaddr *)&e->sa, e->len) != 0 && errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

static inline double seconds_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static inline void epoll_set(int ep, int op, int fd, uint32_t events, void *ptr)
{
    struct epoll_event ev = {.events = events, .data.ptr = ptr};
    if (epoll_ctl(ep, op, fd, op == EPOLL_CTL_DEL ? NULL : &ev) != 0)
        err(71, "epoll_ctl");
}

/* As many descriptors as the hard limit allows; who hangs up is seen by the write that fails. */
static inline void program_begin(void)
{
    struct rlimit limit;
    signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

#endif
