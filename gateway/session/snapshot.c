#include "session/snapshot.h"

#include "dns/resolver.h"
#include "filters/filter_set.h"
#include "filters/guard.h"
#include "session/filtering.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct place snapshot_place(const struct gateway_config *config, const char *section,
                            const char *name, const char *key, bool *written)
{
    for (size_t i = 0; i < config->doc.count; i++) {
        const struct ini_entry *entry = &config->doc.entries[i];
        if (entry->key != NULL && strcmp(entry->key, key) == 0 &&
            strcmp(entry->section, section) == 0 && strcmp(entry->name, name) == 0) {
            *written = true;
            return entry->place;
        }
    }
    *written = false;
    return (struct place){config->doc.file_count > 0 ? config->doc.files[0].path : "", 0, 0};
}

/* ---- building ---- */

struct resolver_config snapshot_resolver(const struct gateway_config *config)
{
    return (struct resolver_config){
        .servers = config->dns_servers,
        .hosts_file = config->dns_hosts_file,
        .timeout_ms = (uint32_t)config->dns_timeout_ms,
        .tries = (uint32_t)config->dns_tries,
        .cache_entries = (uint32_t)config->dns_cache_entries,
        .min_ttl_s = (uint32_t)config->dns_min_ttl_s,
        .max_ttl_s = (uint32_t)config->dns_max_ttl_s,
        .negative_ttl_s = (uint32_t)config->dns_negative_ttl_s,
    };
}

static void check_resolver(const struct gateway_config *config, struct faults *faults)
{
    struct srt_err err;
    const struct resolver_config resolver = snapshot_resolver(config);
    if (resolver_config_check(&resolver, &err) == 0)
        return;
    bool written;
    struct place place = snapshot_place(config, "dns", "", "servers", &written);
    if (!written)
        place = snapshot_place(config, "dns", "", "hosts-file", &written);
    faults_add(faults, FAULT_ERROR, place, "%s", err.text);
}

static struct snapshot *snapshot_of(struct gateway_config *config)
{
    struct snapshot *snapshot = must_calloc(1, sizeof(*snapshot));
    snapshot->config = config;
    snapshot->policies = must_calloc(config->policy_count, sizeof(struct policy *));
    snapshot->loaded = (int64_t)time(NULL);
    atomic_init(&snapshot->users, 1);
    return snapshot;
}

/* Takes `config` over, which holds what could be read. Every policy is compiled even after one has
 * failed, and after faults outside policies: every fault counts. */
static struct snapshot *build(struct gateway_config *config, size_t errors_before,
                              struct faults *faults)
{
    struct snapshot *snapshot = snapshot_of(config);
    if (faults->errors == errors_before)
        check_resolver(config, faults);
    for (size_t i = 0; i < config->policy_count; i++)
        snapshot->policies[i] = policy_compile(&config->policies[i], config, faults);
    snapshot->filters = filter_set_create(config, &filtering_host, faults);
    bool sound = faults->errors == errors_before;
    faults_settle(faults);
    if (sound)
        return snapshot;
    snapshot_release(snapshot);
    return NULL;
}

struct snapshot *snapshot_load(const char *path, struct faults *faults)
{
    size_t errors = faults->errors;
    return build(gateway_config_read_partly(path, faults), errors, faults);
}

struct snapshot *snapshot_load_text(const char *file_name, struct str text, struct faults *faults)
{
    size_t errors = faults->errors;
    return build(gateway_config_read_text_partly(file_name, text, faults), errors, faults);
}

struct snapshot *snapshot_default(void)
{
    struct faults faults = {0};
    struct snapshot *snapshot = snapshot_of(gateway_config_default());
    snapshot->filters = filter_set_create(snapshot->config, &filtering_host, &faults);
    assert(faults.count == 0);
    return snapshot;
}

struct guard_host *snapshot_make_host(const struct addr *own_addrs, size_t own_addr_count,
                                      const struct config_address *own_listeners,
                                      size_t own_listener_count)
{
    struct guard_host *host = must_calloc(1, sizeof(*host));
    struct addr *addrs = must_calloc(own_addr_count, sizeof(*addrs));
    struct config_address *listeners = must_calloc(own_listener_count, sizeof(*listeners));
    if (own_addr_count > 0)
        memcpy(addrs, own_addrs, own_addr_count * sizeof(*addrs));
    if (own_listener_count > 0)
        memcpy(listeners, own_listeners, own_listener_count * sizeof(*listeners));
    *host = (struct guard_host){addrs, own_addr_count, listeners, own_listener_count};
    return host;
}

/* The lists are constant for everybody but their owner. */
static void free_host(struct guard_host *host)
{
    if (host == NULL)
        return;
    free_const(host->own_addrs);
    free_const(host->own_listeners);
    free(host);
}

struct snapshot *snapshot_with_host(struct snapshot *snapshot, struct guard_host *host)
{
    struct snapshot *origin = snapshot->origin != NULL ? snapshot->origin : snapshot;
    struct snapshot *copy = must_calloc(1, sizeof(*copy));
    copy->generation = snapshot->generation;
    copy->loaded = snapshot->loaded;
    copy->config = snapshot->config;
    copy->policies = snapshot->policies;
    copy->filters = snapshot->filters;
    copy->host = host;
    copy->origin = snapshot_take(origin);
    atomic_init(&copy->users, 1);
    return copy;
}

struct snapshot *snapshot_take(struct snapshot *snapshot)
{
    atomic_fetch_add_explicit(&snapshot->users, 1, memory_order_relaxed);
    return snapshot;
}

void snapshot_release(struct snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    unsigned before = atomic_fetch_sub_explicit(&snapshot->users, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before > 1)
        return;
    free_host(snapshot->host);
    if (snapshot->origin != NULL) {
        snapshot_release(snapshot->origin);
    } else {
        for (size_t i = 0; i < snapshot->config->policy_count; i++)
            policy_free(snapshot->policies[i]);
        free(snapshot->policies);
        filter_set_free(snapshot->filters);
        gateway_config_free(snapshot->config);
    }
    free(snapshot);
}

const struct policy *snapshot_policy(const struct snapshot *snapshot, const char *name)
{
    for (size_t i = 0; i < snapshot->config->policy_count; i++)
        if (strcmp(snapshot->config->policies[i].name, name) == 0)
            return snapshot->policies[i];
    return NULL;
}
