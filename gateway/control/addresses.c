#include "control/addresses.h"

#include "srt/must.h"

#include <errno.h>
#include <ev.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <unistd.h>

static const double settle_s = 0.1;

struct addresses {
    struct ev_loop *loop;
    ev_io notice;
    ev_timer settle;
    int fd;
    void (*changed)(void *arg);
    void *arg;
    struct addr *list;
    size_t count;
};

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct addr));
}

struct addr *addresses_read(size_t *count)
{
    struct ifaddrs *interfaces = NULL;
    struct addr *list = NULL;
    size_t read = 0, kept = 0;
    if (getifaddrs(&interfaces) != 0)
        interfaces = NULL;
    for (const struct ifaddrs *i = interfaces; i != NULL; i = i->ifa_next)
        read++;
    list = must(calloc(read + 1, sizeof(*list)));
    read = 0;
    for (const struct ifaddrs *i = interfaces; i != NULL; i = i->ifa_next) {
        uint16_t port;
        if (i->ifa_addr != NULL && addr_from_sockaddr(i->ifa_addr, &list[read], &port))
            read++;
    }
    if (interfaces != NULL)
        freeifaddrs(interfaces);
    qsort(list, read, sizeof(*list), compare);
    for (size_t i = 0; i < read; i++)
        if (kept == 0 || compare(&list[kept - 1], &list[i]) != 0)
            list[kept++] = list[i];
    *count = kept;
    return list;
}

static void on_settled(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct addresses *addresses = timer->data;
    (void)events;
    ev_timer_stop(loop, timer);
    size_t count;
    struct addr *list = addresses_read(&count);
    if (count == addresses->count && memcmp(list, addresses->list, count * sizeof(*list)) == 0) {
        free(list);
        return;
    }
    free(addresses->list);
    addresses->list = list;
    addresses->count = count;
    addresses->changed(addresses->arg);
}

/* What the message says does not matter, and some may have been lost (ENOBUFS): the list is read.
 */
static void on_notice(struct ev_loop *loop, ev_io *io, int events)
{
    struct addresses *addresses = io->data;
    char message[8192];
    (void)events;
    while (recv(io->fd, message, sizeof(message), MSG_DONTWAIT) > 0 || errno == ENOBUFS)
        errno = 0;
    if (!ev_is_active(&addresses->settle)) {
        ev_timer_set(&addresses->settle, settle_s, 0.);
        ev_timer_start(loop, &addresses->settle);
    }
}

struct addresses *addresses_watch(struct ev_loop *loop, void (*changed)(void *arg), void *arg,
                                  struct srt_err *err)
{
    struct sockaddr_nl local = {.nl_family = AF_NETLINK,
                                .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
    struct addresses *addresses = must(calloc(1, sizeof(*addresses)));
    addresses->loop = loop;
    addresses->changed = changed;
    addresses->arg = arg;
    ev_timer_init(&addresses->settle, on_settled, settle_s, 0.);
    addresses->settle.data = addresses;
    /* Subscribed before the first reading, so that no change falls between. */
    addresses->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (addresses->fd < 0 || bind(addresses->fd, (struct sockaddr *)&local, sizeof(local)) != 0)
        srt_err_set(err, "changes of this machine's addresses cannot be watched: %s",
                    strerror(errno));
    else
        err->text[0] = '\0';
    if (addresses->fd >= 0) {
        ev_io_init(&addresses->notice, on_notice, addresses->fd, EV_READ);
        addresses->notice.data = addresses;
        ev_io_start(loop, &addresses->notice);
    }
    addresses->list = addresses_read(&addresses->count);
    return addresses;
}

void addresses_free(struct addresses *addresses)
{
    if (addresses == NULL)
        return;
    if (addresses->fd >= 0) {
        ev_io_stop(addresses->loop, &addresses->notice);
        close(addresses->fd);
    }
    ev_timer_stop(addresses->loop, &addresses->settle);
    free(addresses->list);
    free(addresses);
}

const struct addr *addresses_list(const struct addresses *addresses, size_t *count)
{
    *count = addresses->count;
    return addresses->list;
}
