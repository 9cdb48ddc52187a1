/*
 * What a policy is made of. Private to policy.c, which judges by it, and policy_build.c, which
 * makes it. Ownership, threads and failure as in policy.h.
 */
#ifndef FILTERS_POLICY_PARTS_H
#define FILTERS_POLICY_PARTS_H

#include "filters/index.h"
#include "filters/policy.h"

#include <sys/queue.h>

struct origin {
    struct rule_origin shown;
    SLIST_ENTRY(origin) next;
};

struct policy {
    size_t others; /* owners beside the one that made it */
    char *name;
    char *docs;
    bool settings, report, private_allowed, sni_off, operators_only;
    enum config_default fallback;
    struct config_bind bind;
    const struct config_upstream *upstream; /* of the configuration, which outlives the policy */
    struct policy_parent *parent;           /* of settings; or NULL */
    uint32_t *filters;
    size_t filter_count;
    struct rule *rules;
    uint32_t count;
    struct index index;
    char *texts; /* of every rule, NUL-terminated, in one block */
    SLIST_HEAD(, origin) origins;
};

void policy_parent_free(struct policy_parent *parent);

#endif
