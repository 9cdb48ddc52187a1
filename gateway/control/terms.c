#include "control/terms.h"

#include "config/settings.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the policy ---- */

static void list_policies(const struct gateway_config *config, uint32_t uid, bool by_uid, char *out,
                          size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    if (by_uid) {
        for (size_t i = 0; i < config->client_count && len < size; i++)
            if (config->clients[i].has_uid && config->clients[i].uid == uid)
                len += (size_t)snprintf(out + len, size - len, "%s%s", len > 0 ? ", " : "",
                                        config->clients[i].policy);
    } else {
        for (size_t i = 0; i < config->policy_count && len < size; i++)
            len += (size_t)snprintf(out + len, size - len, "%s%s", len > 0 ? ", " : "",
                                    config->policies[i].name);
    }
}

int terms_policy(const struct snapshot *snapshot, uint32_t uid, const char *wanted,
                 const char **policy, const char **client, struct srt_err *err)
{
    const struct gateway_config *config = snapshot->config;
    const struct config_client *match = NULL;
    bool by_uid = false, several = false;
    char list[512];
    for (size_t i = 0; i < config->client_count; i++) {
        const struct config_client *candidate = &config->clients[i];
        by_uid |= candidate->has_uid;
        if (!candidate->has_uid || candidate->uid != uid || candidate->policy == NULL)
            continue;
        if (wanted != NULL && strcmp(candidate->policy, wanted) != 0)
            continue;
        several |= match != NULL && strcmp(match->policy, candidate->policy) != 0;
        match = match != NULL ? match : candidate;
    }
    list_policies(config, uid, by_uid, list, sizeof(list));
    *client = NULL;
    if (by_uid) {
        if (list[0] == '\0')
            return srt_err_set(err, "no [client] of this gateway names uid %" PRIu32, uid);
        if (match == NULL)
            return srt_err_set(err, "uid %" PRIu32 " may not use policy %s; it may use: %s", uid,
                               wanted, list);
        if (several)
            return srt_err_set(err, "which policy? name one with --policy: %s", list);
        *policy = match->policy;
        *client = match->name;
        return 0;
    }
    if (config->policy_count == 0)
        return srt_err_set(err, "this gateway has no policy");
    if (wanted == NULL && config->policy_count > 1)
        return srt_err_set(err, "which policy? name one with --policy: %s", list);
    *policy = wanted != NULL ? wanted : config->policies[0].name;
    if (snapshot_policy(snapshot, *policy) == NULL)
        return srt_err_set(err, "this gateway has no policy %s; it has: %s", wanted, list);
    return 0;
}

/* ---- the narrowing ---- */

static int first_faults(const struct faults *faults, struct srt_err *err)
{
    size_t len = 0;
    err->text[0] = '\0';
    for (size_t i = 0; i < faults->count && len < sizeof(err->text); i++)
        if (faults->items[i].level == FAULT_ERROR)
            len += (size_t)snprintf(err->text + len, sizeof(err->text) - len, "%s%s",
                                    len > 0 ? "; " : "", faults->items[i].text);
    return -1;
}

/* What the settings do not say, the environment of the gateway says, which a private one has from
 * its launcher. Lower case first, as curl does; an empty one of either case counts as not there. */
static void parent_from_environment(struct settings_text *text, const char *lower,
                                    const char *upper)
{
    const char *name = lower, *value = getenv(lower);
    if (text->text != NULL)
        return;
    if (value == NULL || value[0] == '\0') {
        name = upper;
        value = getenv(upper);
    }
    if (value != NULL && value[0] != '\0')
        *text = (struct settings_text){.text = must_copy(value), .setting = must_copy(name)};
}

/* On a shared gateway nobody but its operator says which way requests go. */
static int settle_parent(bool private, struct settings_parent *parent, struct srt_err *err)
{
    if (!private) {
        if (parent->http.text == NULL && parent->https.text == NULL &&
            parent->no_proxy.text == NULL)
            return 0;
        return srt_err_set(err, "network.parentProxy is for a private gateway; on this one the "
                                "operator chooses the upstream proxy");
    }
    parent_from_environment(&parent->http, "http_proxy", "HTTP_PROXY");
    parent_from_environment(&parent->https, "https_proxy", "HTTPS_PROXY");
    parent_from_environment(&parent->no_proxy, "no_proxy", "NO_PROXY");
    return 0;
}

static const char *setting_at(const struct settings_network *network, const struct fault *fault)
{
    const struct settings_text *entry;
    for (size_t i = 0; (entry = settings_network_entry(network, i)) != NULL; i++)
        if (entry->line == fault->line && entry->column == fault->column)
            return entry->setting;
    return NULL;
}

/* A launcher knows its settings by their paths; the places are those of what it sent. It looks
 * through the lists once for each fault, so there are few. They quote what it sent, which may be
 * nearly as long as a frame, and go into one. */
static void name_settings(const struct settings_network *network, const struct faults *all,
                          enum fault_level level, struct faults *named)
{
    for (size_t i = 0; i < all->count && named->count < TERMS_FAULTS_MAX; i++) {
        const struct fault *fault = &all->items[i];
        if (fault->level != level)
            continue;
        const char *setting = setting_at(network, fault);
        if (setting == NULL && level == FAULT_WARNING)
            continue; /* of a key, not of an entry; the launcher has read the keys, too */
        faults_add(named, fault->level, (struct place){.file = fault->file}, "%s%s%.*s",
                   setting != NULL ? setting : "", setting != NULL ? ": " : "", TERMS_TEXT_MAX,
                   fault->text);
    }
}

int terms_narrowing(bool private, bool asks, struct json_t *json, struct policy **out,
                    struct faults *named, struct srt_err *err)
{
    struct settings_network network = {0};
    struct faults faults = {0};
    int result = 0;
    *out = NULL;
    if (json == NULL && !private)
        return 0;
    bool good = json == NULL || settings_network_read(&network, "network", json, &faults);
    if (good)
        result = settle_parent(private, &network.parent, err);
    network.asks = asks;
    if (good && result == 0)
        *out = policy_compile_settings(&network, NULL, "network", &faults);
    name_settings(&network, &faults, FAULT_ERROR, named);
    name_settings(&network, &faults, FAULT_WARNING, named);
    if (*out == NULL && result == 0)
        result = first_faults(named, err);
    settings_network_free(&network);
    faults_free(&faults);
    return result;
}

/* ---- and back ---- */

static void write_list(struct json *out, const struct policy *policy, const char *key,
                       enum rule_effect effect, enum rule_scope scope)
{
    json_array_open(out, key);
    for (size_t i = 0; i < policy_rule_count(policy); i++) {
        const struct rule *rule = policy_rule_at(policy, i);
        if (rule->effect == effect && rule->scope == scope)
            json_text(out, NULL, str_of(rule->text));
    }
    json_array_close(out);
}

static int compare_texts(const void *a, const void *b)
{
    const struct rule *const *left = a, *const *right = b;
    return strcmp((*left)->text, (*right)->text);
}

/* An entry that stands in the list twice has its reason twice; a key must not. */
static void write_reasons(struct json *out, const struct policy *policy)
{
    size_t count = 0;
    autofree const struct rule **denials =
        must(calloc(policy_rule_count(policy) + 1, sizeof(*denials)));
    for (size_t i = 0; i < policy_rule_count(policy); i++)
        if (rule_reason(policy_rule_at(policy, i)) != NULL)
            denials[count++] = policy_rule_at(policy, i);
    qsort(denials, count, sizeof(*denials), compare_texts);
    json_object_open(out, "deniedDomainReasons");
    for (size_t i = 0; i < count; i++)
        if (i == 0 || compare_texts(&denials[i - 1], &denials[i]) != 0)
            json_entry(out, str_of(denials[i]->text), str_of(rule_reason(denials[i])));
    json_object_close(out);
}

void terms_write(struct json *out, const struct policy *policy)
{
    json_object_open(out, NULL);
    write_list(out, policy, "allowedDomains", RULE_ALLOW, RULE_REQUESTS);
    write_list(out, policy, "deniedDomains", RULE_DENY, RULE_REQUESTS);
    write_list(out, policy, "deniedResolvedAddresses", RULE_DENY, RULE_RESOLVED);
    write_reasons(out, policy);
    json_bool(out, "strictAllowlist", !policy_asks(policy));
    json_object_close(out);
}
