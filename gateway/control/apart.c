#include "control/apart.h"

#include "srt/must.h"

#include <ev.h>
#include <stdbool.h>
#include <sys/epoll.h>

enum { TURN = 64 }; /* before others get theirs */

struct apart {
    struct ev_loop *loop;
    int epoll;
    ev_io io; /* while anything is watched, so that a loop without that can end */
    unsigned count;
};

static int heard_events(uint32_t events)
{
    const bool ended = (events & (EPOLLERR | EPOLLHUP)) != 0;
    return ((events & EPOLLIN) != 0 || ended ? EV_READ : 0) |
           ((events & EPOLLOUT) != 0 || ended ? EV_WRITE : 0);
}

/* One at a time: what is heard of one may end another. */
static void on_ready(struct ev_loop *loop, ev_io *io, int revents)
{
    const struct apart *apart = io->data;
    struct epoll_event event;
    (void)loop, (void)revents;
    for (int i = 0; i < TURN && epoll_wait(apart->epoll, &event, 1, 0) > 0; i++) {
        struct apart_watch *watch = event.data.ptr;
        watch->heard(watch, heard_events(event.events) & watch->events);
    }
}

struct apart *apart_create(struct ev_loop *loop)
{
    struct apart *apart = must(calloc(1, sizeof(*apart)));
    apart->loop = loop;
    apart->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (apart->epoll < 0)
        must_end();
    ev_io_init(&apart->io, on_ready, apart->epoll, EV_READ);
    apart->io.data = apart;
    return apart;
}

void apart_free(struct apart *apart)
{
    if (apart == NULL)
        return;
    ev_io_stop(apart->loop, &apart->io);
    close(apart->epoll);
    free(apart);
}

void apart_set(struct apart *apart, struct apart_watch *watch, int events)
{
    struct epoll_event wanted = {.events = ((events & EV_READ) != 0 ? EPOLLIN : 0U) |
                                           ((events & EV_WRITE) != 0 ? EPOLLOUT : 0U),
                                 .data.ptr = watch};
    const int how = events == 0          ? EPOLL_CTL_DEL
                    : watch->events == 0 ? EPOLL_CTL_ADD
                                         : EPOLL_CTL_MOD;
    if (events == watch->events)
        return;
    if (epoll_ctl(apart->epoll, how, watch->fd, &wanted) != 0 && how != EPOLL_CTL_DEL)
        must_end();
    watch->events = events;
    if (how == EPOLL_CTL_ADD && apart->count++ == 0)
        ev_io_start(apart->loop, &apart->io);
    else if (how == EPOLL_CTL_DEL && --apart->count == 0)
        ev_io_stop(apart->loop, &apart->io);
}
