/*
 * The inside of struct workers, for this folder only; see session/worker.h.
 *
 * Thread: `budgets`, `usages` and `next_worker` are the control thread's. The rest is set before a
 * worker runs and then constant, or atomic, or guards itself.
 */
#ifndef SESSION_TEAM_H
#define SESSION_TEAM_H

#include "session/budget.h"
#include "session/core.h"
#include "session/usage.h"

struct workers {
    struct worker *all;
    unsigned count;
    struct mailbox control;
    struct audit *audit;
    void (*on_denial)(void *arg, const struct denial *denial);
    void *arg;
    struct budgets budgets; /* one for each name that a [client] has had */
    struct usages usages;   /* one for each name that a [policy] has had */
    unsigned next_worker;   /* that a sandbox is pinned to */
    char loop_token[17];
    atomic_uint connections;
    atomic_uint denials_waiting;
    const struct workers_asks *asks;
    atomic_uint asks_waiting; /* until the control thread knows that they do not */
    atomic_llong complained;  /* in which second, last */
};

#endif
