#include "filters/policy.h"

#include "filters/path.h"
#include "filters/policy_parts.h"
#include "srt/cleanup.h"

#include <assert.h>
#include <stdlib.h>

void policy_parent_free(struct policy_parent *parent)
{
    if (parent == NULL)
        return;
    free(parent->no_proxy);
    upstream_clear(&parent->http);
    upstream_clear(&parent->https);
    free(parent);
}

void policy_free(struct policy *policy)
{
    if (policy == NULL)
        return;
    if (policy->others > 0) {
        policy->others--;
        return;
    }
    policy_parent_free(policy->parent);
    for (uint32_t i = 0; i < policy->count; i++)
        rule_free(&policy->rules[i]);
    index_free(&policy->index);
    while (!SLIST_EMPTY(&policy->origins)) {
        struct origin *origin = SLIST_FIRST(&policy->origins);
        SLIST_REMOVE_HEAD(&policy->origins, next);
        free(origin->shown.prefix);
        free(origin->shown.file);
        free(origin);
    }
    free(policy->rules);
    free(policy->texts);
    free(policy->filters);
    free(policy->name);
    free(policy->docs);
    free(policy);
}

struct policy *policy_share(struct policy *policy)
{
    policy->others++;
    return policy;
}

const char *policy_name(const struct policy *policy)
{
    return policy->name;
}

const char *policy_docs(const struct policy *policy)
{
    return policy->docs;
}

struct policy_filters policy_filters(const struct policy *policy)
{
    return (struct policy_filters){policy->filters, policy->filter_count};
}

const struct config_bind *policy_bind(const struct policy *policy)
{
    return &policy->bind;
}

const struct config_upstream *policy_upstream(const struct policy *policy)
{
    return policy->upstream;
}

const struct policy_parent *policy_parent(const struct policy *policy)
{
    return policy->parent;
}

bool policy_reports(const struct policy *policy)
{
    return policy->report;
}

bool policy_asks(const struct policy *policy)
{
    return policy->fallback == DEFAULT_ASK;
}

bool policy_hears_launchers(const struct policy *policy)
{
    return !policy->operators_only;
}

size_t policy_rule_count(const struct policy *policy)
{
    return policy->count;
}

const struct rule *policy_rule_at(const struct policy *policy, size_t index)
{
    assert(index < policy->count);
    return &policy->rules[index];
}

const struct index *policy_index(const struct policy *policy)
{
    return &policy->index;
}

bool policy_is_settings(const struct policy *policy)
{
    return policy->settings;
}

bool policy_private_allowed(const struct policy *policy)
{
    return policy->private_allowed;
}

/* -- judging -- */

/* How far a rule whose host fits is fit for the rest of a question. */
enum fit { FIT_NOT, FIT_WHOLLY, FIT_BUT_METHOD, FIT_UNCLEAR_PATH };

static enum fit rule_fit(const struct rule *rule, const struct question *question)
{
    if (!rule_has_port(rule, question->target->port) || !rule_has_front(rule, question->front) ||
        rule_expired(rule, question->now))
        return FIT_NOT;
    if (!rule_needs_clear(rule))
        return FIT_WHOLLY;
    const char *glob = rule_extra(rule)->path;
    bool method_fits = question->method.p != NULL && rule_has_method(rule, question->method);
    if (rule_extra(rule)->methods == NULL)
        method_fits = true;
    if (glob != NULL && question->path.p == NULL)
        return FIT_NOT;
    if (glob != NULL && method_fits && path_is_ambiguous(question->path))
        return FIT_UNCLEAR_PATH;
    if (glob != NULL &&
        !(rule->effect == RULE_DENY ? path_may_match : path_matches)(str_of(glob), question->path))
        return FIT_NOT;
    if (method_fits)
        return FIT_WHOLLY;
    return question->method.p != NULL ? FIT_BUT_METHOD : FIT_NOT;
}

/* The first rule, in the order of the policy, of each kind that can matter. */
struct findings {
    const struct rule *deny, *reported_deny, *allow, *other_method, *near;
    const struct rule *unclear_deny; /* cannot be judged on this path */
};

/* Rules of one policy stand in one array, in order. */
static void keep_first(const struct rule **kept, const struct rule *rule)
{
    if (*kept == NULL || rule < *kept)
        *kept = rule;
}

static void consider(struct findings *findings, const struct rule *rule,
                     const struct question *question)
{
    bool deny = rule->effect == RULE_DENY;
    if (rule->scope != RULE_REQUESTS ||
        (rule->host == RULE_ANY && !deny && question->target->is_addr))
        return;
    switch (rule_fit(rule, question)) {
    case FIT_NOT:
        if (!deny)
            keep_first(&findings->near, rule);
        return;
    case FIT_WHOLLY:
        if (!deny)
            keep_first(&findings->allow, rule);
        else if (rule->mode == RULE_REPORT)
            keep_first(&findings->reported_deny, rule);
        else
            keep_first(&findings->deny, rule);
        return;
    case FIT_BUT_METHOD:
        if (!deny)
            keep_first(&findings->other_method, rule);
        return;
    case FIT_UNCLEAR_PATH:
        if (!deny)
            keep_first(&findings->near, rule);
        else if (rule->mode != RULE_REPORT)
            keep_first(&findings->unclear_deny, rule);
        return;
    }
}

static struct findings find(const struct policy *policy, const struct question *question)
{
    struct findings findings = {0};
    const struct rule *heads[INDEX_MAX_HEADS];
    size_t count = index_find(&policy->index, question->target, heads);
    for (size_t i = 0; i < count; i++)
        for (const struct rule *rule = heads[i]; rule != NULL;
             rule = index_next(&policy->index, rule))
            consider(&findings, rule, question);
    return findings;
}

static void set(struct ruling *ruling, enum outcome outcome, const struct rule *rule)
{
    ruling->outcome = outcome;
    ruling->rule = rule;
}

/* What the allow side says, when nothing denies. */
static void judge_allow(struct ruling *ruling, const struct findings *findings)
{
    static const enum outcome fallbacks[] = {
        [DEFAULT_DENY] = OUTCOME_NOT_ALLOWED,
        [DEFAULT_ASK] = OUTCOME_ASK_REFUSED,
        [DEFAULT_ALLOW] = OUTCOME_ALLOWED,
    };
    const struct rule *allow = findings->allow;
    if (allow == NULL && findings->other_method != NULL &&
        ruling->policy->fallback != DEFAULT_ALLOW) {
        set(ruling, OUTCOME_METHOD_NOT_ALLOWED, findings->other_method);
    } else if (allow == NULL) {
        set(ruling, fallbacks[ruling->policy->fallback], NULL);
    } else if (allow->mode == RULE_ASK) {
        set(ruling, OUTCOME_ASK_REFUSED, allow);
    } else if (allow->mode == RULE_REPORT) {
        /* An exception on trial: let through, recorded as what it would be without the rule. */
        set(ruling, OUTCOME_NOT_ALLOWED, allow);
        ruling->report = true;
    } else {
        set(ruling, OUTCOME_ALLOWED, allow);
    }
}

struct ruling policy_judge(const struct policy *policy, const struct question *question)
{
    struct findings findings = find(policy, question);
    struct ruling ruling = {
        .policy = policy,
        .allow = findings.allow,
        .near = findings.near,
        .front = question->front,
        .now = question->now,
    };
    if (findings.deny != NULL)
        set(&ruling, OUTCOME_DENIED_BY_RULE, findings.deny);
    else if (findings.unclear_deny != NULL) {
        set(&ruling, OUTCOME_NOT_ALLOWED, NULL);
        ruling.near = findings.unclear_deny;
    } else
        judge_allow(&ruling, &findings);

    bool passes = ruling.outcome == OUTCOME_ALLOWED || ruling.report;
    if (passes && findings.reported_deny != NULL) {
        set(&ruling, OUTCOME_DENIED_BY_RULE, findings.reported_deny);
        ruling.report = true;
    }
    if (policy->report && ruling.outcome != OUTCOME_ALLOWED)
        ruling.report = true;
    return ruling;
}

/* -- addresses -- */

static bool denies_address(const struct rule *rule, const struct ruling *ruling,
                           const struct target *target)
{
    if (rule->effect != RULE_DENY || rule->host != RULE_CIDR ||
        (rule->scope == RULE_RESOLVED && target->is_addr))
        return false;
    /* Method and path of a literal were judged with it; for a name they are not at hand any more,
     * and the safe reading of a deny rule is the wide one. */
    if (rule_needs_clear(rule) && target->is_addr)
        return false;
    return rule_has_port(rule, target->port) && rule_has_front(rule, ruling->front) &&
           !rule_expired(rule, ruling->now);
}

static bool excepts_address(const struct rule *rule, const struct ruling *ruling,
                            const struct target *target)
{
    if (rule->effect != RULE_ALLOW || rule->host != RULE_CIDR)
        return false;
    if (rule->scope == RULE_ADDRESSES)
        return true;
    if (!rule_is_literal(rule))
        return false;
    if (rule == ruling->allow)
        return true;
    return rule->mode != RULE_ASK && !rule_needs_clear(rule) && rule_has_port(rule, target->port) &&
           rule_has_front(rule, ruling->front) && !rule_expired(rule, ruling->now);
}

struct address_rules policy_address_rules(const struct ruling *ruling, const struct target *target,
                                          const struct addr *addr)
{
    const struct index *index = &ruling->policy->index;
    struct target asked = {.is_addr = true, .port = target->port, .addr = *addr};
    struct address_rules found = {0};
    const struct rule *heads[INDEX_MAX_HEADS];
    size_t count = index_find(index, &asked, heads);
    for (size_t i = 0; i < count; i++) {
        for (const struct rule *rule = heads[i]; rule != NULL; rule = index_next(index, rule)) {
            if (denies_address(rule, ruling, target)) {
                bool report = rule->mode == RULE_REPORT;
                keep_first(report ? &found.report : &found.deny, rule);
            }
            found.excepted |= excepts_address(rule, ruling, target);
        }
    }
    return found;
}

/* -- server names -- */

struct ruling policy_judge_server_name(const struct policy *policy, const struct name *sni,
                                       const struct question *question)
{
    struct target target = {.port = question->target->port, .name = *sni};
    struct question opaque = {.target = &target, .front = question->front, .now = question->now};
    return policy_judge(policy, &opaque);
}

bool policy_sni_matters(const struct ruling *ruling, bool *strict)
{
    enum rule_sni said = ruling->allow != NULL ? ruling->allow->sni : RULE_SNI_INHERIT;
    if (strict != NULL)
        *strict = said == RULE_SNI_MATCH;
    return said == RULE_SNI_INHERIT ? !ruling->policy->sni_off : said == RULE_SNI_MATCH;
}
