#include "session/visit.h"

#include "srt/must.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>

/* ---- guests ---- */

/* accept4() makes a whole socket before it finds that there is nobody to give it to: ten times as
 * dear as to ask. */
static bool somebody_waits(int listener)
{
    struct pollfd asked = {.fd = listener, .events = POLLIN};
    return poll(&asked, 1, 0) != 0;
}

/* About one connection that went before it was accepted (accept(2)). */
static bool is_of_one(int error)
{
    switch (error) {
    case EINTR:
    case ECONNABORTED:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
        return true;
    default:
        return false;
    }
}

void guests_accept(struct guests *guests, int listener)
{
    guests->count = 0;
    guests->error = 0;
    for (int turn = 0; turn < GUESTS_MAX && somebody_waits(listener); turn++) {
        struct guest *guest = &guests->list[guests->count];
        socklen_t len = sizeof(guest->peer);
        guest->peer.ss_family = AF_UNSPEC;
        guest->fd =
            accept4(listener, (struct sockaddr *)&guest->peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (guest->fd >= 0) {
            guests->count++;
        } else if (!is_of_one(errno)) {
            guests->error = errno == EAGAIN ? 0 : errno;
            return;
        }
    }
}

/* ---- visits ---- */

static void visit_free(struct visit *visit)
{
    struct reply *reply;
    for (size_t i = 0; visit->guests != NULL && i < visit->guests->count; i++)
        foreign_hang_up(visit->guests->list[i].fd);
    while ((reply = STAILQ_FIRST(&visit->replies)) != NULL) {
        STAILQ_REMOVE_HEAD(&visit->replies, link);
        free(reply);
    }
    listener_release(visit->listener);
    free(visit->guests);
    free(visit);
}

static struct visit *of_task(struct foreign_task *task)
{
    return (struct visit *)(void *)((char *)task - offsetof(struct visit, task));
}

static void run(struct foreign_task *task)
{
    struct visit *visit = of_task(task);
    visit->act(visit);
}

static void done(struct foreign_task *task)
{
    struct visit *visit = of_task(task);
    mailbox_post(visit->home, &visit->mail);
}

static void drop(struct foreign_task *task)
{
    visit_free(of_task(task));
}

static void deliver(struct mail *mail, void *owner)
{
    struct visit *visit = (struct visit *)(void *)((char *)mail - offsetof(struct visit, mail));
    struct door *door = visit->door;
    (void)owner; /* a door that is gone, also with its worker, has forgotten it */
    if (door != NULL) {
        door->visit = NULL;
        door->worker->visits--;
        if (visit->back != NULL)
            visit->back(visit);
        door_watch(door);
        worker_check_drained(door->worker);
    }
    visit_free(visit);
}

struct visit *visit_create(struct door *door, void (*act)(struct visit *))
{
    struct visit *visit = must(calloc(1, sizeof(*visit)));
    visit->task = (struct foreign_task){.run = run, .done = done, .drop = drop};
    visit->mail.deliver = deliver;
    visit->door = door;
    visit->home = &door->worker->mailbox;
    visit->listener = listener_take(door->listener);
    visit->act = act;
    STAILQ_INIT(&visit->replies);
    return visit;
}

void visit_begin(struct visit *visit)
{
    struct door *door = visit->door;
    door_unwatch(door);
    door->visit = visit;
    door->worker->visits++;
    foreign_do(&visit->task);
}

void visit_begin_alone(struct visit *visit)
{
    visit->door = NULL;
    visit->task.done = NULL;
    foreign_do(&visit->task);
}

void visit_forget(struct visit *visit)
{
    struct worker *worker = visit->door->worker;
    visit->door->visit = NULL;
    visit->door = NULL;
    foreign_forget(&visit->task);
    worker->visits--;
    worker_check_drained(worker);
}
