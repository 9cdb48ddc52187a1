#include "filters/lint.h"

#include "filters/guard.h"
#include "filters/index.h"
#include "srt/cleanup.h"

#include <stdarg.h>
#include <stdlib.h>

struct lint {
    const struct policy *policy;
    const struct gateway_config *config;
    const struct config_policy *section;
    int64_t now;
    struct faults *faults;
    bool said_unclear; /* once is enough: it is the same for every rule */
};

__attribute__((format(printf, 3, 4))) static void
warn(const struct lint *lint, const struct rule *rule, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    struct place place = {rule_origin(rule)->file, rule->number, 0};
    faults_add(lint->faults, FAULT_WARNING, place, "rule `%s = %.200s`: %s", rule_key(rule),
               rule->text, message);
}

/* -- rules that can never match -- */

/* By whatever front a request comes that `rule` fits, `of` does not leave it out. */
static bool fronts_within(const struct rule *rule, const struct rule *of)
{
    uint32_t fronts = rule_extra(rule) != NULL ? rule_extra(rule)->fronts : 0;
    uint32_t outer = rule_extra(of) != NULL ? rule_extra(of)->fronts : 0;
    return outer == 0 || (fronts != 0 && (fronts & ~outer) == 0);
}

/* Every request that the allow rule fits is denied by this one. */
static bool beats(const struct rule *deny, const struct rule *allow)
{
    return deny->effect == RULE_DENY && deny->scope == RULE_REQUESTS &&
           deny->mode == RULE_ENFORCE && !rule_needs_clear(deny) &&
           (rule_extra(deny) == NULL || rule_extra(deny)->until == 0) &&
           rule_ports_within(allow, deny) && fronts_within(allow, deny);
}

/* A request that only just fits the host of a rule, so that what the index finds for it covers all.
 */
static struct target least_target(const struct rule *rule)
{
    struct target target = {.is_addr = rule->host == RULE_CIDR};
    struct str name = target.is_addr || rule->host == RULE_ANY ? STR("") : rule_name(rule);
    const char *label = rule->host == RULE_BELOW && name.len + 2 <= NAME_MAX_LEN ? "a." : "";
    if (target.is_addr)
        target.addr = rule_cidr(rule).base;
    else
        target.name.len = (uint8_t)snprintf(target.name.text, sizeof(target.name.text), "%s%.*s",
                                            label, STR_ARG(name));
    return target;
}

/* Whether the host part of `outer`, found for least_target(rule), covers that of `rule`. */
static bool host_covers(const struct rule *outer, const struct rule *rule)
{
    switch (outer->host) {
    case RULE_ANY:
        return true;
    case RULE_BELOW:
        return rule->host == RULE_NAME || rule->host == RULE_BELOW;
    case RULE_NAME:
        return rule->host == RULE_NAME;
    case RULE_CIDR:
        return rule->host == RULE_CIDR && rule_cidr(outer).len <= rule_cidr(rule).len;
    }
    return false;
}

static const struct rule *find_deny(const struct lint *lint, const struct rule *allow)
{
    const struct index *index = policy_index(lint->policy);
    const struct rule *heads[INDEX_MAX_HEADS];
    struct target target = least_target(allow);
    size_t count = index_find(index, &target, heads);
    for (size_t i = 0; i < count; i++)
        for (const struct rule *rule = heads[i]; rule != NULL; rule = index_next(index, rule))
            if (host_covers(rule, allow) && beats(rule, allow))
                return rule;
    return NULL;
}

static void lint_beaten(const struct lint *lint, const struct rule *rule, const struct rule *deny)
{
    char id[RULE_ID_MAX];
    warn(lint, rule, "it never allows anything: `%s = %.200s` (%s) beats it", rule_key(deny),
         deny->text, rule_id(deny, id));
}

static void lint_shadowed(const struct lint *lint, const struct rule *rule)
{
    const struct rule *deny = rule->effect == RULE_ALLOW ? find_deny(lint, rule) : NULL;
    if (deny != NULL)
        lint_beaten(lint, rule, deny);
}

/* A listener of every address is at loopback, too; at which others is not known here. */
static bool is_at(const struct config_address *own, const struct rule *rule)
{
    static const struct addr nowhere;
    const bool everywhere = memcmp(own->addr.bytes, nowhere.bytes, sizeof(nowhere.bytes)) == 0;
    if (own->path != NULL || own->port == 0 || rule->ports != RULE_PORTS_RANGE ||
        rule->range.first != own->port || rule->range.last != own->port)
        return false;
    if (rule->host == RULE_NAME && str_eq(rule_name(rule), STR("localhost")))
        return everywhere || addr_is_loopback(&own->addr);
    if (!rule_is_literal(rule))
        return false;
    const struct addr addr = rule_cidr(rule).base;
    return addr_eq(&addr, &own->addr) || (everywhere && addr_is_loopback(&addr));
}

/* Where the gateway itself listens nobody gets by way of it, whatever the rules say. */
static void lint_own(const struct lint *lint, const struct rule *rule)
{
    const struct gateway_config *config = lint->config;
    if (rule->effect != RULE_ALLOW)
        return;
    for (size_t i = 0; i < config->listen_count; i++)
        if (is_at(&config->listens[i].address, rule))
            warn(lint, rule, "it never allows anything: the gateway itself is there ([listen %s])",
                 config->listens[i].name);
    for (size_t i = 0; i < config->admin_count; i++)
        if (is_at(&config->admin[i], rule))
            warn(lint, rule, "it never allows anything: the gateway itself is there (admin)");
}

static void lint_expired(const struct lint *lint, const struct rule *rule)
{
    if (rule_expired(rule, lint->now))
        warn(lint, rule, "its until= has passed, so it matches nothing");
}

static void lint_unclear(struct lint *lint, const struct rule *rule)
{
    if (lint->said_unclear || !rule_needs_clear(rule))
        return;
    lint->said_unclear = true;
    warn(lint, rule,
         "method= and path= are only judged on requests in clear: on a CONNECT or SOCKS5 tunnel "
         "(all "
         "of https) such a rule %s nothing",
         rule->effect == RULE_ALLOW ? "allows" : "denies");
}

/* -- rules that do something else than they seem to -- */

static bool apex_is_allowed(const struct lint *lint, const struct rule *wildcard)
{
    const struct index *index = policy_index(lint->policy);
    const struct rule *heads[INDEX_MAX_HEADS];
    struct target apex = {0};
    struct str name = rule_name(wildcard);
    apex.name.len = (uint8_t)name.len;
    memcpy(apex.name.text, name.p, name.len);
    size_t count = index_find(index, &apex, heads);
    for (size_t i = 0; i < count; i++)
        for (const struct rule *rule = heads[i]; rule != NULL; rule = index_next(index, rule))
            if (rule->effect == RULE_ALLOW)
                return true;
    return false;
}

static void lint_wildcard(const struct lint *lint, const struct rule *rule)
{
    if (rule->effect != RULE_ALLOW)
        return;
    if (rule->host == RULE_ANY)
        warn(lint, rule, "it covers every host name there is");
    if (rule->host != RULE_BELOW)
        return;
    struct str name = rule_name(rule);
    if (str_eq(name, STR("localhost")))
        return; /* nobody's but this machine's: lint_localhost() */
    if (!str_has(name, '.'))
        warn(lint, rule, "it covers everything below the top-level name %.*s", STR_ARG(name));
    else if (!apex_is_allowed(lint, rule))
        warn(lint, rule,
             "`*.%.*s` leaves out %.*s itself; if that is meant too, add `allow = %.*s`",
             STR_ARG(name), STR_ARG(name), STR_ARG(name));
}

/* What the address guard says of a request that the rule allows. */
static struct guard_verdict guard_says(const struct lint *lint, const struct rule *rule,
                                       const struct target *target, const struct addr *addr)
{
    static const struct guard_host nowhere;
    struct ruling ruling = {.policy = lint->policy, .allow = rule, .now = lint->now};
    return guard_check(&nowhere, &ruling, target, addr);
}

/* A request for a literal in this range meets the address guard, which the rule does not silence.
 */
static bool guard_denies(const struct lint *lint, const struct rule *range, enum addr_class *class)
{
    struct target target = {.is_addr = true, .port = 443, .addr = rule_cidr(range).base};
    *class = guard_says(lint, range, &target, &target.addr).class;
    return *class != ADDR_PUBLIC && *class != ADDR_DENIED;
}

/* A deny rule for requests is lint_shadowed()'s. */
static void lint_denied_address(const struct lint *lint, const struct rule *rule)
{
    struct target target = {.is_addr = true, .port = 443, .addr = rule_cidr(rule).base};
    const struct rule *deny = guard_says(lint, rule, &target, &target.addr).rule;
    if (deny != NULL && deny->scope != RULE_REQUESTS)
        lint_beaten(lint, rule, deny);
}

/* Names of localhost lead to loopback and nowhere else. */
static void lint_localhost(const struct lint *lint, const struct rule *rule)
{
    struct target target = least_target(rule);
    struct addr v4, v6;
    if (rule->effect != RULE_ALLOW || target.is_addr || !name_is_localhost(&target.name))
        return;
    target.port = 443; /* any */
    (void)addr_parse(&v4, STR("127.0.0.1"));
    (void)addr_parse(&v6, STR("::1"));
    const struct guard_verdict verdict = guard_says(lint, rule, &target, &v4);
    if (verdict.class == ADDR_PUBLIC || guard_says(lint, rule, &target, &v6).class == ADDR_PUBLIC)
        return;
    if (verdict.rule != NULL)
        lint_beaten(lint, rule, verdict.rule);
    else
        warn(lint, rule,
             "it never allows anything: that is loopback, which takes a rule for the very name "
             "(or to=, or allow-addresses)");
}

static void lint_addresses(const struct lint *lint, const struct rule *rule)
{
    enum addr_class class;
    if (rule->effect != RULE_ALLOW || rule->host != RULE_CIDR)
        return;
    const struct cidr range = rule_cidr(rule);
    if (addr_classify(&range.base) == ADDR_METADATA)
        warn(lint, rule, "it opens a cloud metadata address, where credentials are to be had");
    else if (rule->scope == RULE_REQUESTS && rule_is_literal(rule))
        lint_denied_address(lint, rule);
    else if (rule->scope == RULE_REQUESTS && guard_denies(lint, rule, &class))
        warn(lint, rule,
             "the address guard still denies %s in it: only a single address, allow-addresses or "
             "private-addresses make an exception",
             addr_class_text(class));
    else if (rule->scope == RULE_REQUESTS)
        warn(lint, rule,
             "a range matches requests for addresses, never names that resolve into it (see to=)");
}

static void lint_to(const struct lint *lint, const struct rule *rule)
{
    for (size_t i = 0; rule_has_to(rule) && i < rule_extra(rule)->to_count; i++) {
        const struct cidr *range = &rule_extra(rule)->to[i];
        if (range->len == 0)
            warn(lint, rule, "its to= makes an exception for every address, loopback included");
        else if (addr_classify(&range->base) == ADDR_METADATA)
            warn(lint, rule,
                 "its to= opens a cloud metadata address, where credentials are to be had");
    }
}

static void lint_rules(struct lint *lint)
{
    for (size_t i = 0; i < policy_rule_count(lint->policy); i++) {
        const struct rule *rule = policy_rule_at(lint->policy, i);
        if (rule_origin(rule)->inherited)
            continue;
        lint_addresses(lint, rule);
        if (rule->scope != RULE_REQUESTS)
            continue;
        lint_shadowed(lint, rule);
        lint_own(lint, rule);
        lint_expired(lint, rule);
        lint_unclear(lint, rule);
        lint_wildcard(lint, rule);
        lint_localhost(lint, rule);
        lint_to(lint, rule);
    }
}

/* -- policies -- */

static bool is_named(const char *name, const char *policy)
{
    return name != NULL && strcmp(name, policy) == 0;
}

/* Where no [client] has a uid, launchers may name any policy. */
static bool launchers_choose(const struct gateway_config *config)
{
    for (size_t i = 0; i < config->client_count; i++)
        if (config->clients[i].has_uid)
            return false;
    return config->control.path != NULL;
}

static bool is_used(const struct gateway_config *config, const char *policy)
{
    if (launchers_choose(config))
        return true;
    for (size_t i = 0; i < config->listen_count; i++)
        if (is_named(config->listens[i].policy, policy))
            return true;
    for (size_t i = 0; i < config->client_count; i++)
        if (is_named(config->clients[i].policy, policy))
            return true;
    for (size_t i = 0; i < config->policy_count; i++)
        for (size_t k = 0; k < config->policies[i].inherit.count; k++)
            if (str_eq(config->policies[i].inherit.items[k].text, str_of(policy)))
                return true;
    return false;
}

/* Who goes by an upstream knows no address of a name. */
static bool denies_addresses(const struct policy *policy)
{
    for (size_t i = 0; i < policy_rule_count(policy); i++) {
        const struct rule *rule = policy_rule_at(policy, i);
        if (rule->effect == RULE_DENY && rule->host == RULE_CIDR)
            return true;
    }
    return false;
}

static void lint_policy(const struct lint *lint)
{
    const struct config_policy *section = lint->section;
    if (section->fallback == DEFAULT_ALLOW)
        faults_add(lint->faults, FAULT_WARNING, section->place,
                   "[policy %s] default = allow: every host is reachable that no rule denies",
                   section->name);
    if (section->upstream != NULL && denies_addresses(lint->policy))
        faults_add(lint->faults, FAULT_WARNING, section->place,
                   "[policy %s] goes by the upstream %s, where names are resolved: its denials of "
                   "addresses hold only for requests for an address",
                   section->name, section->upstream);
    if (!is_used(lint->config, section->name))
        faults_add(lint->faults, FAULT_WARNING, section->place,
                   "[policy %s] is used by no listener, client or other policy", section->name);
}

/* -- clients -- */

/* Whoever is the later one is the first one too, which is tried before it. Of one uid there may be
 * several: launchers choose among them. */
static bool takes_all(const struct config_client *first, const struct config_client *later)
{
    if (first->has_uid || later->has_uid || first->has_token != later->has_token)
        return false;
    if (first->has_token &&
        memcmp(first->token_sha256, later->token_sha256, sizeof(first->token_sha256)) != 0)
        return false;
    return !first->has_source || (later->has_source && first->source.len <= later->source.len &&
                                  cidr_contains(&first->source, &later->source.base));
}

static void lint_client(const struct gateway_config *config, const struct config_client *client,
                        struct faults *faults)
{
    for (const struct config_client *first = config->clients; first < client; first++)
        if (takes_all(first, client)) {
            faults_add(faults, FAULT_WARNING, client->place,
                       "[client %s] is never reached: [client %s] stands before it and takes all "
                       "of it",
                       client->name, first->name);
            return;
        }
}

void lint_configuration(const struct gateway_config *config, struct policy *const *policies,
                        int64_t now, struct faults *faults)
{
    bool said_unclear = false;
    for (size_t i = 0; i < config->client_count; i++)
        lint_client(config, &config->clients[i], faults);
    for (size_t i = 0; i < config->policy_count; i++) {
        struct lint lint = {
            .policy = policies[i],
            .config = config,
            .section = &config->policies[i],
            .now = now,
            .faults = faults,
            .said_unclear = said_unclear,
        };
        lint_policy(&lint);
        lint_rules(&lint);
        said_unclear = lint.said_unclear;
    }
}
