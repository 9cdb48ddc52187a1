/*
 * A policy: rules compiled behind one host index, and the judgement of a request by it.
 *
 * Deny beats allow whatever the order; among allows the first that matches wholly is recorded;
 * nothing matches: the default. A judgement costs the same with ten rules and with a million.
 *
 * Ownership: a policy owns its rules. Constant once compiled, so every thread may read it; no
 * locks. Failure: policy_compile() adds faults and returns NULL when one is an error.
 */
#ifndef FILTERS_POLICY_H
#define FILTERS_POLICY_H

#include "config/gateway_config.h"
#include "config/settings.h"
#include "dns/target.h"
#include "filters/outcome.h"
#include "filters/rule.h"

struct policy;

/* What is asked. Views are borrowed for the call. */
struct question {
    const struct target *target;
    enum front front;
    struct str method; /* p == NULL: not visible (opaque tunnel) */
    struct str path;   /* as on the wire, query cut; p == NULL: not visible */
    int64_t now;       /* seconds since the epoch, for `until` */
};

/* What was decided, and by what. Pointers live as long as the policy. */
struct ruling {
    enum outcome outcome;        /* OUTCOME_ALLOWED or the reason */
    enum front front : 8;        /* of the question */
    bool report : 1;             /* a deny that report mode records but does not apply */
    const struct rule *rule;     /* that decided, for records; NULL for the default */
    const struct rule *allow;    /* the allow rule that fits, for its to= and sni=; or NULL */
    const struct rule *near;     /* fits the host but not all else, to word OUTCOME_NOT_ALLOWED */
    const struct policy *policy; /* that decided */
    int64_t now;                 /* of the question, for judging the addresses later */
};

/* From a [policy] section; `all` gives the policies that `inherit` names: their rules and
 * deny-addresses come first, each policy's once, and nothing else of theirs is taken over. Faults
 * of an inherited rule are added for every heir (faults_settle() drops repeats). */
struct policy *policy_compile(const struct config_policy *config, const struct gateway_config *all,
                              struct faults *faults);
/* From the `network` lists of settings; named "settings" unless `name` is given. Absent lists allow
 * nothing, or where it `asks` (and has no strictAllowlist) leave it to an answer. Private addresses
 * are not denied there, as in `srt`. */
struct policy *policy_compile_settings(const struct settings_network *network, const char *name,
                                       const char *file, struct faults *faults);
void policy_free(struct policy *policy);
/* One more owner, who frees it as well. Owners are counted without locks: all of them share and
 * free it on one thread. */
struct policy *policy_share(struct policy *policy);

const char *policy_name(const struct policy *policy);
const char *policy_docs(const struct policy *policy);               /* or NULL */
const struct config_bind *policy_bind(const struct policy *policy); /* bind-address; never NULL */

/* Through what a policy from settings goes (parentProxy, or the environment). */
struct policy_parent {
    bool has_http, has_https; /* for plain HTTP; for tunnels */
    struct config_upstream http, https;
    char *no_proxy; /* or NULL */
};

/* The policy's own; a rule may say otherwise (filters/route.h). NULL: none. */
const struct config_upstream *policy_upstream(const struct policy *policy);
const struct policy_parent *policy_parent(const struct policy *policy);
bool policy_reports(const struct policy *policy);
/* What no rule names is asked for. */
bool policy_asks(const struct policy *policy);
/* Whether a launcher may answer what it asks, for its own sandbox. */
bool policy_hears_launchers(const struct policy *policy);

/* Its filters, in their order, as positions in config->filters. */
struct policy_filters {
    const uint32_t *at;
    size_t count;
};
struct policy_filters policy_filters(const struct policy *policy);
size_t policy_rule_count(const struct policy *policy);
const struct rule *policy_rule_at(const struct policy *policy, size_t index);

/* Made from settings: next steps name `network.allowedDomains` instead of rules. */
bool policy_is_settings(const struct policy *policy);
bool policy_private_allowed(const struct policy *policy);
const struct index *policy_index(const struct policy *policy); /* filters/index.h */

/*
 * Name, port, front, method and path. Never looks at addresses a name resolves to.
 *
 * `*` in a deny rule stands for names and addresses, in an allow rule for names only. An expired
 * rule matches nothing. A rule with method= or path= matches nothing on an opaque tunnel; on a path
 * that servers may read in two ways no path rule matches, and a deny rule that would have needed it
 * makes the request OUTCOME_NOT_ALLOWED.
 */
struct ruling policy_judge(const struct policy *policy, const struct question *question);

/* The rules about an address that `target` is or resolves to (its own, or one that it carries). */
struct address_rules {
    const struct rule *deny;   /* denies it, or NULL */
    const struct rule *report; /* would deny it, but only reports */
    bool excepted; /* allow-addresses, or an allow rule names this very address and port */
};

struct address_rules policy_address_rules(const struct ruling *ruling, const struct target *target,
                                          const struct addr *addr);

/* The server name of a hello, on the port of the tunnel, as a name of its own. */
struct ruling policy_judge_server_name(const struct policy *policy, const struct name *sni,
                                       const struct question *question);

/* Whether names must be compared for this ruling, after rule and policy. `strict` (may be NULL): a
 * rule said sni=match itself, so that non-TLS first bytes are refused too. */
bool policy_sni_matters(const struct ruling *ruling, bool *strict);

#endif
