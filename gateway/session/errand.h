/*
 * Work that the control thread sends to workers, and the answer that comes back when all have done
 * it.
 *
 * A round is one call of session/worker.h; it has an errand for each worker concerned. `run`
 * happens on the worker, `collect` and `finish` on the control thread. Ownership: errands and round
 * free themselves; those that never arrive too, without `finish`.
 */
#ifndef SESSION_ERRAND_H
#define SESSION_ERRAND_H

#include "session/core.h"

struct round {
    struct workers *team;
    unsigned waiting; /* errands that are not back */
    void (*finish)(struct round *round);
    void (*dispose)(struct round *round); /* or NULL: frees what was collected */
    /* The caller's, by the kind of call. */
    workers_done_fn *done;
    workers_prepared_fn *prepared;
    workers_tunnels_fn *tunnels;
    workers_cut_fn *cut;
    void *arg;
    /* What was collected. */
    char *error;
    bool found;
    char id[REQUEST_ID_LEN + 1]; /* of what was looked for */
    struct tunnel_info *list;
    size_t count;
};

struct errand {
    struct mail mail;
    struct round *round;
    struct worker *worker;
    /* False: it is answered later, by errand_answer(). */
    bool (*run)(struct errand *errand);
    void (*collect)(struct errand *errand); /* or NULL */
    void (*dispose)(struct errand *errand); /* or NULL: frees what is in `data` */
    void *data;
    size_t count;
    char *error;
    bool found;
    char id[REQUEST_ID_LEN + 1];
};

struct round *round_create(struct workers *team, void (*finish)(struct round *), void *arg);
struct errand *errand_create(struct round *round, struct worker *worker,
                             bool (*run)(struct errand *));
void errand_send(struct errand *errand);
/* On the worker, once. */
void errand_answer(struct errand *errand);
/* It will never be answered. */
void errand_drop(struct errand *errand);

/* A finish that only calls `done`. */
void round_finish_done(struct round *round);

#endif
