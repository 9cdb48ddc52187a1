#include "session/errand.h"

#include "session/team.h"
#include "srt/must.h"

#include <stdlib.h>

struct round *round_create(struct workers *team, void (*finish)(struct round *), void *arg)
{
    struct round *round = must(calloc(1, sizeof(*round)));
    round->team = team;
    round->finish = finish;
    round->arg = arg;
    return round;
}

static void errand_free(struct errand *errand)
{
    if (errand->dispose != NULL)
        errand->dispose(errand);
    free(errand->error);
    free(errand);
}

static void round_free(struct round *round)
{
    if (round->dispose != NULL)
        round->dispose(round);
    free(round->error);
    free(round);
}

void errand_drop(struct errand *errand)
{
    struct round *round = errand->round;
    errand_free(errand);
    if (--round->waiting == 0)
        round_free(round);
}

/* On the control thread. */
static void deliver_answer(struct mail *mail, void *owner)
{
    struct errand *errand = (struct errand *)mail;
    struct round *round = errand->round;
    if (owner == NULL) {
        errand_drop(errand);
        return;
    }
    if (errand->collect != NULL)
        errand->collect(errand);
    errand_free(errand);
    if (--round->waiting > 0)
        return;
    round->finish(round);
    round_free(round);
}

void errand_answer(struct errand *errand)
{
    errand->mail.deliver = deliver_answer;
    mailbox_post(&errand->round->team->control, &errand->mail);
}

/* On the worker's thread. */
static void deliver_errand(struct mail *mail, void *owner)
{
    struct errand *errand = (struct errand *)mail;
    if (owner == NULL)
        errand_drop(errand);
    else if (errand->run(errand))
        errand_answer(errand);
}

struct errand *errand_create(struct round *round, struct worker *worker,
                             bool (*run)(struct errand *))
{
    struct errand *errand = must(calloc(1, sizeof(*errand)));
    errand->round = round;
    errand->worker = worker;
    errand->run = run;
    round->waiting++;
    return errand;
}

void errand_send(struct errand *errand)
{
    errand->mail.deliver = deliver_errand;
    mailbox_post(&errand->worker->mailbox, &errand->mail);
}

void round_finish_done(struct round *round)
{
    if (round->done != NULL)
        round->done(round->arg);
}
