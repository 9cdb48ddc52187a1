/*
 * The configured filters of one snapshot: a [filter] section each, in file order, and what each of
 * them is in a worker.
 *
 * Ownership: the snapshot's; filter_set_free() after every worker has left. Thread: created on the
 * control thread; then constant but for what modules do inside and the words of their state.
 * Failure: faults, each at its line.
 */
#ifndef FILTERS_FILTER_SET_H
#define FILTERS_FILTER_SET_H

#include "config/gateway_config.h"
#include "srt/err.h"
#include "srt/filter.h"

struct filter {
    const struct config_filter *config;
    const struct srt_filter_module *module;
    struct srt_filter_key *keys;
    void *instance;                /* NULL: it is at fault */
    _Atomic(const char *) *states; /* by worker: one word, or NULL */
};

enum { FILTER_STATES_MAX = 8, FILTER_WORKERS_MAX = 1024 };

/* How many workers are in that state. */
struct filter_state {
    const char *word;
    unsigned workers;
};

struct filter_set {
    struct srt_filter_host host;    /* what the modules see */
    struct gateway_config *reading; /* while create() runs: its files become the configuration's */
    struct filter *items;           /* in the order of config->filters */
    size_t count;
};

/* `gateway` says what modules may call at run time; `read_file` and `set_state` are the set's own.
 * Never NULL: every section that cannot be is a fault. */
struct filter_set *filter_set_create(struct gateway_config *config,
                                     const struct srt_filter_host *gateway, struct faults *faults);
void filter_set_free(struct filter_set *set); /* NULL is allowed */

/* The states that the filter's workers are in; returns how many different ones. Any thread. */
size_t filter_states(const struct filter *filter, struct filter_state out[FILTER_STATES_MAX]);

/* The filters in one worker, in the order of the set; NULL and `err` when one says no. */
void **filter_set_enter(const struct filter_set *set, unsigned worker, struct srt_err *err);
void filter_set_leave(const struct filter_set *set, void **locals); /* NULL is allowed */

#endif
