#include "session/tickets.h"

#include "srt/must.h"

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

    pthread_mutex_t lock;   /* for what follows */
    struct answer *answers; /* that the loop has not seen */
    size_t count, cap;
};

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
    struct tickets *tickets = must(calloc(1, sizeof(*tickets)));
    tickets->loop = loop;
    tickets->answered = answered;
    tickets->arg = arg;
    pthread_mutex_init(&tickets->lock, NULL);
    ev_async_init(&tickets->wake, on_wake);
    tickets->wake.data = tickets;
    ev_async_start(loop, &tickets->wake);
    return tickets;
}

void tickets_destroy(struct tickets *tickets)
{
    ev_async_stop(tickets->loop, &tickets->wake);
    pthread_mutex_destroy(&tickets->lock);
    free(tickets->answers);
    free(tickets);
}

uint64_t tickets_take(struct tickets *tickets)
{
    return ++tickets->last;
}

void tickets_written(void *arg, uint64_t ticket, bool go)
{
    struct tickets *tickets = arg;
    pthread_mutex_lock(&tickets->lock);
    if (tickets->count == tickets->cap) {
        tickets->cap = tickets->cap > 0 ? tickets->cap * 2 : 64;
        tickets->answers =
            must(reallocarray(tickets->answers, tickets->cap, sizeof(*tickets->answers)));
    }
    tickets->answers[tickets->count++] = (struct answer){.ticket = ticket, .go = go};
    pthread_mutex_unlock(&tickets->lock);
    ev_async_send(tickets->loop, &tickets->wake);
}
