#include "transport/farewell.h"

#include "srt/must.h"
#include "srt/queue.h"
#include "transport/stream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_S 2.0
#define PROGRESS_S 10.0
#define LOOK_S 0.1
#define FRESH_S 0.01

enum { DISCARD = 16 << 10, DISCARD_TURNS = 8, FRESH_MAX = 64 };

struct farewell {
    LIST_ENTRY(farewell) link;
    TAILQ_ENTRY(farewell) fresh_link;
    bool is_fresh;
    struct farewells *owner;
    int fd;
    farewell_closed_fn *on_closed;
    void *arg;
    ev_io readable;
    ev_timer timer;
    size_t unsent;      /* when last looked at */
    double progress_at; /* when it last became less */
};

static void forget_fresh(struct farewell *farewell)
{
    struct farewells *farewells = farewell->owner;
    if (!farewell->is_fresh)
        return;
    TAILQ_REMOVE(&farewells->fresh, farewell, fresh_link);
    farewells->fresh_count--;
    farewell->is_fresh = false;
}

static void farewell_end(struct farewell *farewell)
{
    forget_fresh(farewell);
    ev_io_stop(farewell->owner->loop, &farewell->readable);
    ev_timer_stop(farewell->owner->loop, &farewell->timer);
    LIST_REMOVE(farewell, link);
    close(farewell->fd);
    farewell->on_closed(farewell->arg);
    free(farewell);
}

void farewells_end(struct farewells *farewells)
{
    struct farewell *farewell, *next;
    LIST_FOREACH_SAFE(farewell, &farewells->list, link, next)
        farewell_end(farewell);
    ev_timer_stop(farewells->loop, &farewells->look);
}

static struct farewell *farewell_create(struct farewells *farewells, int fd,
                                        farewell_closed_fn *on_closed, void *arg)
{
    struct farewell *farewell = must(calloc(1, sizeof(*farewell)));
    farewell->owner = farewells;
    farewell->fd = fd;
    farewell->on_closed = on_closed;
    farewell->arg = arg;
    LIST_INSERT_HEAD(&farewells->list, farewell, link);
    return farewell;
}

/* False: its peer has closed, and it is gone. */
static bool discard_input(struct farewell *farewell)
{
    static _Thread_local char discarded[DISCARD];
    for (int turn = 0; turn < DISCARD_TURNS; turn++) {
        ssize_t n = recv(farewell->fd, discarded, sizeof(discarded), 0);
        if (n > 0)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        farewell_end(farewell);
        return false;
    }
    return true;
}

static void on_readable(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop, (void)revents;
    (void)discard_input(io->data);
}

static void on_linger_end(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)loop, (void)revents;
    farewell_end(timer->data);
}

static void look_at_oldest(struct farewells *farewells)
{
    struct farewell *farewell = TAILQ_FIRST(&farewells->fresh);
    forget_fresh(farewell);
    if (!discard_input(farewell))
        return;
    ev_io_start(farewells->loop, &farewell->readable);
    ev_timer_start(farewells->loop, &farewell->timer);
}

void farewells_look(struct farewells *farewells)
{
    while (!TAILQ_EMPTY(&farewells->fresh))
        look_at_oldest(farewells);
}

static void on_fresh(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)loop, (void)revents;
    farewells_look(timer->data);
}

void farewells_init(struct farewells *farewells, struct ev_loop *loop)
{
    LIST_INIT(&farewells->list);
    TAILQ_INIT(&farewells->fresh);
    farewells->fresh_count = 0;
    farewells->loop = loop;
    ev_init(&farewells->look, on_fresh);
    farewells->look.data = farewells;
}

static void await_peer(struct farewell *farewell)
{
    struct farewells *farewells = farewell->owner;
    TAILQ_INSERT_TAIL(&farewells->fresh, farewell, fresh_link);
    farewell->is_fresh = true;
    if (++farewells->fresh_count > FRESH_MAX)
        look_at_oldest(farewells);
    if (ev_is_active(&farewells->look))
        return;
    ev_timer_set(&farewells->look, FRESH_S, 0.);
    ev_timer_start(farewells->loop, &farewells->look);
}

void farewell_linger(struct farewells *farewells, int fd, farewell_closed_fn *on_closed, void *arg)
{
    assert(fd >= 0);
    shutdown(fd, SHUT_WR);
    struct farewell *farewell = farewell_create(farewells, fd, on_closed, arg);
    ev_io_init(&farewell->readable, on_readable, fd, EV_READ);
    ev_timer_init(&farewell->timer, on_linger_end, LINGER_S, 0.);
    farewell->readable.data = farewell->timer.data = farewell;
    await_peer(farewell);
}

static void on_look(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)revents;
    struct farewell *farewell = timer->data;
    size_t unsent = stream_unsent(farewell->fd);
    if (unsent < farewell->unsent)
        farewell->progress_at = ev_now(loop);
    farewell->unsent = unsent;
    if (unsent > 0 && ev_now(loop) - farewell->progress_at < PROGRESS_S)
        return;
    /* Linger of zero turns close() into a reset (socket(7)). */
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(farewell->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    farewell_end(farewell);
}

void farewell_reset(struct farewells *farewells, int fd, farewell_closed_fn *on_closed, void *arg)
{
    assert(fd >= 0);
    struct farewell *farewell = farewell_create(farewells, fd, on_closed, arg);
    farewell->unsent = stream_unsent(fd);
    farewell->progress_at = ev_now(farewells->loop);
    ev_io_init(&farewell->readable, on_readable, fd, EV_READ); /* never started */
    ev_timer_init(&farewell->timer, on_look, 0., LOOK_S);
    farewell->timer.data = farewell;
    ev_timer_start(farewells->loop, &farewell->timer);
    if (farewell->unsent == 0)
        on_look(farewells->loop, &farewell->timer, 0);
}
