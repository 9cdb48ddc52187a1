#include "config/trust.h"
#include "filters/policy_parts.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <assert.h>
#include <stdlib.h>

static struct policy *policy_new(const char *name)
{
    struct policy *policy = must(calloc(1, sizeof(*policy)));
    policy->name = must_copy(name);
    return policy;
}

/* Counts first and allocates once: rules must not move, and a million small strings are dear. */
struct builder {
    struct policy *policy;
    struct faults *faults;
    size_t rules, bytes; /* planned */
    char *text;          /* where the next rule's text goes */
};

static void plan(struct builder *builder, size_t rules, size_t bytes)
{
    builder->rules += rules;
    builder->bytes += bytes;
}

static void begin(struct builder *builder)
{
    assert(builder->rules < UINT32_MAX);
    /* A rule is half a cache line, and is to lie in one. */
    builder->policy->rules = index_memory((builder->rules + 1) * sizeof(struct rule));
    builder->policy->texts = index_memory(builder->bytes + 1);
    builder->text = builder->policy->texts;
}

static const char *keep_text(struct builder *builder, struct str text)
{
    char *kept = builder->text;
    memcpy(kept, text.p, text.len);
    kept[text.len] = '\0';
    builder->text += text.len + 1;
    assert((size_t)(builder->text - builder->policy->texts) <= builder->bytes);
    return kept;
}

static struct rule *next_rule(struct builder *builder)
{
    assert(builder->policy->count < builder->rules);
    return &builder->policy->rules[builder->policy->count];
}

/* Whether the policy stands (then it is indexed) or not (then it is gone). */
static struct policy *finish(struct builder *builder, size_t errors_before)
{
    struct policy *policy = builder->policy;
    if (builder->faults->errors > errors_before) {
        policy_free(policy);
        return NULL;
    }
    index_build(&policy->index, policy->rules, policy->count, policy->texts);
    return policy;
}

static struct origin *add_origin(struct policy *policy, char *prefix, const char *suffix,
                                 const char *file, bool inherited)
{
    struct origin *origin = must(calloc(1, sizeof(*origin)));
    origin->shown = (struct rule_origin){prefix, suffix, must_copy(file), inherited};
    SLIST_INSERT_HEAD(&policy->origins, origin, next);
    return origin;
}

/* ---- from a configuration ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* "build:" for rules in the section, "pypi.txt:" for rules in a list file that it names. */
static const struct rule_origin *ini_origin(struct policy *policy, const struct config_policy *of,
                                            const char *file)
{
    bool section = strcmp(file, of->place.file) == 0;
    bool inherited = strcmp(of->name, policy->name) != 0;
    autofree char *prefix = must_format("%s:", section ? of->name : base_name(file));
    struct origin *origin;
    SLIST_FOREACH(origin, &policy->origins, next)
        if (origin->shown.inherited == inherited && strcmp(origin->shown.file, file) == 0 &&
            strcmp(origin->shown.prefix, prefix) == 0)
            return &origin->shown;
    return &add_origin(policy, steal_ptr(prefix), "", file, inherited)->shown;
}

static const struct config_upstream *find_upstream(const struct gateway_config *all,
                                                   const char *name)
{
    for (size_t i = 0; name != NULL && i < all->upstream_count; i++)
        if (strcmp(all->upstreams[i].name, name) == 0)
            return &all->upstreams[i];
    return NULL;
}

static void unknown_upstream(struct builder *builder, const struct gateway_config *all,
                             const struct rule *rule, struct place place)
{
    autofree const char **names = must(calloc(all->upstream_count + 1, sizeof(*names)));
    for (size_t i = 0; i < all->upstream_count; i++)
        names[i] = all->upstreams[i].name;
    char hint[NEAREST_HINT_MAX];
    faults_add(builder->faults, FAULT_ERROR, place, "rule `%.200s`: there is no [upstream %s]%s",
               rule->text, rule_extra(rule)->via,
               nearest_hint(hint, "`", rule_extra(rule)->via, names));
}

/* Finds what a rule's via= names. to= is about addresses, and those are found upstream. */
static void route_rule(struct builder *builder, const struct gateway_config *all,
                       const struct rule *rule, struct place place)
{
    struct rule_extra *extra = rule_extra(rule);
    const struct config_upstream *upstream = builder->policy->upstream;
    if (extra == NULL)
        return;
    if (extra->via != NULL && strcmp(extra->via, "direct") != 0) {
        extra->upstream = find_upstream(all, extra->via);
        if (extra->upstream == NULL)
            unknown_upstream(builder, all, rule, place);
    } else if (extra->via == NULL && extra->to != NULL && upstream != NULL) {
        faults_add(builder->faults, FAULT_ERROR, place,
                   "rule `%.200s`: to= cannot be kept, because upstream = %s resolves the name; "
                   "add via=direct",
                   rule->text, upstream->name);
    }
}

static void add_rules(struct builder *builder, const struct gateway_config *all,
                      const struct config_policy *from, const struct config_list *list,
                      enum rule_effect effect)
{
    const struct rule_origin *origin = NULL;
    const char *file = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct config_text *item = &list->items[i];
        if (item->place.file != file) {
            file = item->place.file;
            origin = ini_origin(builder->policy, from, file);
        }
        if (rule_parse(next_rule(builder), effect, RULE_INI, keep_text(builder, item->text), origin,
                       item->place.line, item->place, builder->faults))
            route_rule(builder, all, &builder->policy->rules[builder->policy->count++],
                       item->place);
    }
}

static void add_addresses(struct builder *builder, const struct config_policy *from,
                          const struct config_list *list, enum rule_effect effect)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct config_text *item = &list->items[i];
        const struct rule_origin *origin = ini_origin(builder->policy, from, item->place.file);
        if (rule_parse_address(next_rule(builder), effect, RULE_ADDRESSES,
                               keep_text(builder, item->text), origin, item->place.line,
                               item->place, builder->faults))
            builder->policy->count++;
    }
}

static void plan_rules(struct builder *builder, const struct config_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        plan(builder, 1, list->items[i].text.len + 1);
}

/* `inherit` flattened: every policy once, those that are inherited before those that do. Names that
 * mean nothing and circles are faults that were found when it was read; here they only do no harm.
 */
struct lineage {
    const struct gateway_config *all;
    const struct config_policy **order;
    size_t count;
    bool *seen; /* by position in all->policies */
};

static void lineage_add(struct lineage *lineage, const struct config_policy *config)
{
    for (size_t i = 0; i < config->inherit.count; i++) {
        struct str name = config->inherit.items[i].text;
        for (size_t k = 0; k < lineage->all->policy_count; k++) {
            if (lineage->seen[k] || !str_eq(name, str_of(lineage->all->policies[k].name)))
                continue;
            lineage->seen[k] = true;
            lineage_add(lineage, &lineage->all->policies[k]);
        }
    }
    lineage->order[lineage->count++] = config;
}

/* A name that means nothing is a fault that was found when it was read. */
static void find_filters(struct policy *policy, const struct config_list *names,
                         const struct gateway_config *all)
{
    policy->filters = must(calloc(names->count + 1, sizeof(*policy->filters)));
    for (size_t i = 0; i < names->count; i++) {
        size_t at = 0;
        while (at < all->filter_count &&
               !str_eq(names->items[i].text, str_of(all->filters[at].name)))
            at++;
        if (at < all->filter_count)
            policy->filters[policy->filter_count++] = (uint32_t)at;
    }
}

struct policy *policy_compile(const struct config_policy *config, const struct gateway_config *all,
                              struct faults *faults)
{
    size_t errors = faults->errors;
    autofree const struct config_policy **order =
        must(calloc(all->policy_count + 1, sizeof(*order)));
    autofree bool *seen = must(calloc(all->policy_count + 1, sizeof(*seen)));
    struct lineage lineage = {.all = all, .order = order, .seen = seen};
    lineage_add(&lineage, config);

    struct policy *policy = policy_new(config->name);
    policy->docs = must_copy(config->docs);
    policy->report = config->report;
    policy->private_allowed = config->private_addresses;
    policy->sni_off = config->sni_off;
    policy->fallback = config->fallback;
    policy->operators_only = config->operators_only;
    policy->bind = config->bind;
    policy->upstream = find_upstream(all, config->upstream);
    find_filters(policy, &config->filters, all);

    struct builder builder = {.policy = policy, .faults = faults};
    for (size_t i = 0; i < lineage.count; i++) {
        plan_rules(&builder, &order[i]->allow);
        plan_rules(&builder, &order[i]->deny);
        plan_rules(&builder, &order[i]->deny_addresses);
    }
    plan_rules(&builder, &config->allow_addresses);
    begin(&builder);
    for (size_t i = 0; i < lineage.count; i++) {
        add_rules(&builder, all, order[i], &order[i]->allow, RULE_ALLOW);
        add_rules(&builder, all, order[i], &order[i]->deny, RULE_DENY);
        add_addresses(&builder, order[i], &order[i]->deny_addresses, RULE_DENY);
    }
    /* An exception opens something: it counts where it is written, and nowhere else. */
    add_addresses(&builder, config, &config->allow_addresses, RULE_ALLOW);
    return finish(&builder, errors);
}

/* ---- from settings ---- */

static int compare_reasons(const void *a, const void *b)
{
    const struct settings_reason *const *left = a, *const *right = b;
    return strcmp((*left)->pattern, (*right)->pattern);
}

/* deniedDomainReasons is keyed by the exact text of a deny entry. */
static void set_reasons(struct policy *policy, const struct settings_network *network)
{
    autofree const struct settings_reason **sorted =
        must(calloc(network->reason_count + 1, sizeof(*sorted)));
    for (size_t i = 0; i < network->reason_count; i++)
        sorted[i] = &network->reasons[i];
    qsort(sorted, network->reason_count, sizeof(*sorted), compare_reasons);
    for (uint32_t i = 0; i < policy->count; i++) {
        struct rule *rule = &policy->rules[i];
        if (rule->effect != RULE_DENY || rule->scope != RULE_REQUESTS)
            continue;
        autofree char *text = must(strdup(rule->text));
        const struct settings_reason key = {.pattern = text}, *key_pointer = &key;
        const struct settings_reason **found =
            bsearch(&key_pointer, sorted, network->reason_count, sizeof(*sorted), compare_reasons);
        if (found != NULL && (*found)->reason[0] != '\0')
            rule_set_reason(rule, (*found)->reason);
    }
}

static void plan_settings(struct builder *builder, const struct settings_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        plan(builder, 1, strlen(list->items[i].text) + 1);
}

static void add_settings(struct builder *builder, const struct settings_list *list, const char *key,
                         const char *file, enum rule_effect effect, enum rule_scope scope)
{
    struct policy *policy = builder->policy;
    const struct rule_origin *origin =
        &add_origin(policy, must_format("%s:%s[", policy->name, key), "]", file, false)->shown;
    for (size_t i = 0; i < list->count; i++) {
        const struct settings_text *item = &list->items[i];
        const char *text = keep_text(builder, str_of(item->text));
        struct place place = {file, item->line, item->column};
        bool good = scope == RULE_REQUESTS
                        ? rule_parse(next_rule(builder), effect, RULE_SETTINGS, text, origin,
                                     (uint32_t)i, place, builder->faults)
                        : rule_parse_address(next_rule(builder), effect, scope, text, origin,
                                             (uint32_t)i, place, builder->faults);
        if (good)
            policy->count++;
    }
}

/* False: there is none, or a fault was added. */
static bool read_parent(struct config_upstream *out, const char *name,
                        const struct settings_text *url, const char *file, struct faults *faults)
{
    const char *why;
    struct srt_err err;
    if (url->text == NULL || url->text[0] == '\0')
        return false;
    *out = (struct config_upstream){.name = name};
    const struct place place = {file, url->line, url->column};
    if (!upstream_parse_url(out, str_of(url->text), &why)) {
        faults_add(faults, FAULT_ERROR, place, "%s is not the address of a proxy: %s", url->setting,
                   why);
        return false;
    }
    out->trust = out->tls ? trust_load(STR(""), &err) : NULL;
    if (out->tls && out->trust == NULL)
        faults_add(faults, FAULT_ERROR, place, "%s: %s", url->setting, err.text);
    return true;
}

static struct policy_parent *parent_of(const struct settings_parent *settings, const char *file,
                                       struct faults *faults)
{
    const struct settings_text *https =
        settings->https.text != NULL ? &settings->https : &settings->http;
    struct policy_parent *parent = must(calloc(1, sizeof(*parent)));
    parent->has_http =
        read_parent(&parent->http, "parentProxy.http", &settings->http, file, faults);
    parent->has_https = read_parent(&parent->https, "parentProxy.https", https, file, faults);
    parent->no_proxy = must_copy(settings->no_proxy.text);
    if (parent->has_http || parent->has_https)
        return parent;
    policy_parent_free(parent);
    return NULL;
}

struct policy *policy_compile_settings(const struct settings_network *network, const char *name,
                                       const char *file, struct faults *faults)
{
    size_t errors = faults->errors;
    struct policy *policy = policy_new(name != NULL ? name : "settings");
    policy->settings = true;
    policy->private_allowed = true;
    policy->fallback = network->asks && !network->strict_allowlist ? DEFAULT_ASK : DEFAULT_DENY;
    policy->parent = parent_of(&network->parent, file, faults);

    struct builder builder = {.policy = policy, .faults = faults};
    plan_settings(&builder, &network->allowed_domains);
    plan_settings(&builder, &network->denied_domains);
    plan_settings(&builder, &network->denied_resolved_addresses);
    begin(&builder);
    add_settings(&builder, &network->allowed_domains, "allowedDomains", file, RULE_ALLOW,
                 RULE_REQUESTS);
    add_settings(&builder, &network->denied_domains, "deniedDomains", file, RULE_DENY,
                 RULE_REQUESTS);
    add_settings(&builder, &network->denied_resolved_addresses, "deniedResolvedAddresses", file,
                 RULE_DENY, RULE_RESOLVED);
    set_reasons(policy, network);
    return finish(&builder, errors);
}
