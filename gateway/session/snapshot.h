/*
 * One configuration in force: immutable, shared by every thread, built wholly or not at all.
 *
 * Ownership: counted by its users, of which there are few: the control thread's current one and
 * each worker's tenures. The counter is touched when a worker takes up or leaves a snapshot, never
 * on the data path. Failure: snapshot_load() adds every fault and returns NULL when one is an
 * error.
 */
#ifndef SESSION_SNAPSHOT_H
#define SESSION_SNAPSHOT_H

#include "config/gateway_config.h"
#include "dns/resolver.h"
#include "filters/policy.h"

struct filter_set;
struct guard_host;

struct snapshot {
    uint64_t generation;
    int64_t loaded; /* seconds since the epoch */
    struct gateway_config *config;
    struct policy **policies; /* in the order of config->policies */
    struct filter_set *filters;
    struct guard_host *host; /* own listeners with their real ports, set before publishing */
    struct snapshot *origin; /* whose config, policies and filters these are; NULL: its own */
    _Atomic unsigned users;
};

/* Reads and compiles `path`; also what `check` does. The generation is the caller's to set. */
struct snapshot *snapshot_load(const char *path, struct faults *faults);
/* The same from memory. */
struct snapshot *snapshot_load_text(const char *file_name, struct str text, struct faults *faults);
/* The same for an in-memory default (a private gateway). */
struct snapshot *snapshot_default(void);
/* The same configuration and generation with another `host` (taken over): this machine's addresses
 * have changed. */
struct snapshot *snapshot_with_host(struct snapshot *snapshot, struct guard_host *host);
struct snapshot *snapshot_take(struct snapshot *snapshot);
void snapshot_release(struct snapshot *snapshot); /* NULL is allowed */

/* Copies both lists. Before publishing only. */
struct guard_host *snapshot_make_host(const struct addr *own_addrs, size_t own_addr_count,
                                      const struct config_address *own_listeners,
                                      size_t own_listener_count);

/* What [dns] says; the strings are the configuration's. */
struct resolver_config snapshot_resolver(const struct gateway_config *config);

/* NULL when there is none of that name. */
const struct policy *snapshot_policy(const struct snapshot *snapshot, const char *name);

/* Where the configuration says `key` in [section name]: the first place, or the file as a whole
 * when it does not say it (`*written` false). */
struct place snapshot_place(const struct gateway_config *config, const char *section,
                            const char *name, const char *key, bool *written);

#endif
