/*
 * One configuration in force: immutable, shared by every thread, built wholly or not at all.
 *
 * Ownership: counted by its users, of which there are few: the control thread's current one and each
 * worker's tenures. The counter is touched when a worker takes up or leaves a snapshot, never on the
 * data path. Failure: snapshot_load() adds every fault and returns NULL when one is an error.
 */
#ifndef SESSION_SNAPSHOT_H
#define SESSION_SNAPSHOT_H

#include "config/gateway_config.h"
#include "filters/policy.h"

struct snapshot {
    uint64_t generation;
    int64_t loaded; /* seconds since the epoch */
    struct gateway_config *config;
    struct policy **policies; /* in the order of config->policies */
    struct guard_host *host;  /* own listeners with their real ports, set before publishing */
    _Atomic unsigned users;
};

/* Reads and compiles `path`; also what `check` does. */
struct snapshot *snapshot_load(const char *path, struct faults *faults);
/* The same for an in-memory default (a private gateway). */
struct snapshot *snapshot_default(void);
struct snapshot *snapshot_take(struct snapshot *snapshot);
void snapshot_release(struct snapshot *snapshot);

/* NULL when there is none of that name. */
const struct policy *snapshot_policy(const struct snapshot *snapshot, const char *name);

#endif
