#include "session/tickets.h"

#include <assert.h>
#include <ev.h>
#include <pthread.h>
#include <stdlib.h>

struct answer {
    uint64_t ticket;
    bool go;
};

struct tickets {
    struct ev_loop *loop;
    ev_async wake;
    ticket_answered_fn *answered;
    void *arg;
    uint64_t last; /* given out */

    pthread_mutex_t lock; /* for what follows */
    bool closed;
    unsigned users;         /* the worker, and each ticket that is out */
    struct answer *answers; /* that the loop has not seen */
    size_t count, cap;
};

/* With the lock held, which is given up. */
static void leave(struct tickets *tickets)
{
    bool last = --tickets->users == 0;
    pthread_mutex_unlock(&tickets->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&tickets->lock);
    free(tickets->answers);
    free(tickets);
}

static void on_wake(struct ev_loop *loop, ev_async *wake, int revents)
{
    (void)loop, (void)revents;
    struct tickets *tickets = wake->data;
    pthread_mutex_lock(&tickets->lock);
    struct answer *answers = tickets->answers;
    size_t count = tickets->count;
    tickets->answers = NULL;
    tickets->count = tickets->cap = 0;
    pthread_mutex_unlock(&tickets->lock);
    for (size_t i = 0; i < count; i++)
        tickets->answered(tickets->arg, answers[i].ticket, answers[i].go);
    free(answers);
}

struct tickets *tickets_create(struct ev_loop *loop, ticket_answered_fn *answered, void *arg)
{
    struct tickets *tickets = calloc(1, sizeof(*tickets));
    if (tickets == NULL)
        abort();
    tickets->loop = loop;
    tickets->answered = answered;
    tickets->arg = arg;
    tickets->users = 1;
    pthread_mutex_init(&tickets->lock, NULL);
    ev_async_init(&tickets->wake, on_wake);
    tickets->wake.data = tickets;
    ev_async_start(loop, &tickets->wake);
    return tickets;
}

void tickets_close(struct tickets *tickets)
{
    pthread_mutex_lock(&tickets->lock);
    ev_async_stop(tickets->loop, &tickets->wake);
    tickets->closed = true;
    leave(tickets);
}

uint64_t tickets_take(struct tickets *tickets)
{
    pthread_mutex_lock(&tickets->lock);
    tickets->users++;
    pthread_mutex_unlock(&tickets->lock);
    return ++tickets->last;
}

void tickets_give_back(struct tickets *tickets)
{
    pthread_mutex_lock(&tickets->lock);
    assert(tickets->users > 1);
    leave(tickets);
}

void tickets_written(void *arg, uint64_t ticket, bool go)
{
    struct tickets *tickets = arg;
    pthread_mutex_lock(&tickets->lock);
    if (!tickets->closed) {
        if (tickets->count == tickets->cap) {
            tickets->cap = tickets->cap > 0 ? tickets->cap * 2 : 64;
            tickets->answers =
                reallocarray(tickets->answers, tickets->cap, sizeof(*tickets->answers));
            if (tickets->answers == NULL)
                abort();
        }
        tickets->answers[tickets->count++] = (struct answer){.ticket = ticket, .go = go};
        /* Within the lock: after tickets_close() there may be no loop any more. */
        ev_async_send(tickets->loop, &tickets->wake);
    }
    leave(tickets);
}
