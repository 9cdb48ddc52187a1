#include "session/watches.h"

#include "session/core.h"
#include "srt/must.h"

#include <stdlib.h>

struct srt_filter_watch {
    struct worker *worker;
    ev_io io;
    ev_timer timer;
    void (*on_event)(void *arg, unsigned events);
    void *arg;
};

/* The watch may be gone afterwards. */
static void tell(const struct srt_filter_watch *watch, unsigned events)
{
    struct worker *worker = watch->worker;
    watch->on_event(watch->arg, events);
    mailbox_deliver(&worker->mailbox);
}

static void on_ready(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop;
    tell(io->data, ((revents & EV_READ) != 0 ? SRT_FILTER_READABLE : 0u) |
                       ((revents & EV_WRITE) != 0 ? SRT_FILTER_WRITABLE : 0u));
}

static void on_time(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)loop, (void)revents;
    tell(timer->data, SRT_FILTER_TIME);
}

struct srt_filter_watch *watch_begin(struct worker *worker, void (*on_event)(void *, unsigned),
                                     void *arg)
{
    struct srt_filter_watch *watch = must(calloc(1, sizeof(*watch)));
    watch->worker = worker;
    watch->on_event = on_event;
    watch->arg = arg;
    ev_io_init(&watch->io, on_ready, -1, 0);
    ev_timer_init(&watch->timer, on_time, 0., 0.);
    watch->io.data = watch->timer.data = watch;
    return watch;
}

void watch_fd(struct srt_filter_watch *watch, int fd, unsigned events)
{
    const int wanted = ((events & SRT_FILTER_READABLE) != 0 ? EV_READ : 0) |
                       ((events & SRT_FILTER_WRITABLE) != 0 ? EV_WRITE : 0);
    if (ev_is_active(&watch->io) && watch->io.fd == fd &&
        (watch->io.events & (EV_READ | EV_WRITE)) == wanted)
        return;
    ev_io_stop(watch->worker->loop, &watch->io);
    ev_io_set(&watch->io, fd, wanted);
    if (fd >= 0 && wanted != 0)
        ev_io_start(watch->worker->loop, &watch->io);
}

void watch_time(struct srt_filter_watch *watch, int64_t after_ms)
{
    ev_timer_stop(watch->worker->loop, &watch->timer);
    if (after_ms < 0)
        return;
    ev_timer_set(&watch->timer, (double)after_ms / 1000., 0.);
    ev_timer_start(watch->worker->loop, &watch->timer);
}

void watch_end(struct srt_filter_watch *watch)
{
    ev_io_stop(watch->worker->loop, &watch->io);
    ev_timer_stop(watch->worker->loop, &watch->timer);
    free(watch);
}
