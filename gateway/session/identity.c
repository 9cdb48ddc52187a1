#include "session/identity.h"

#include "config/digest.h"
#include "srt/must.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_UID, KIND_TOKEN, KIND_SOURCE, KIND_ANYBODY, KIND_COUNT };

static struct credentials *make_room(struct credentials **credentials)
{
    if (*credentials == NULL)
        *credentials = must(malloc(sizeof(**credentials)));
    return *credentials;
}

void credentials_set(struct credentials **credentials, struct str secret)
{
    digest_make(make_room(credentials)->sha256, secret);
}

void credentials_spoil(struct credentials **credentials)
{
    *make_room(credentials) = (struct credentials){0};
}

void credentials_clear(struct credentials **credentials)
{
    free(*credentials);
    *credentials = NULL;
}

/* The strongest thing that a [client] asks for decides when it is tried. */
static enum kind kind_of(const struct config_client *client)
{
    if (client->has_uid)
        return KIND_UID;
    if (client->has_token)
        return KIND_TOKEN;
    return client->has_source ? KIND_SOURCE : KIND_ANYBODY;
}

static bool token_matches(const struct config_client *client, const struct credentials *credentials)
{
    return credentials != NULL && CRYPTO_memcmp(client->token_sha256, credentials->sha256,
                                                sizeof(client->token_sha256)) == 0;
}

/* Everything that the section asks for has to be true. */
static bool client_matches(const struct config_client *client, const struct peer *peer,
                           const struct credentials *credentials)
{
    if (client->has_uid && !(peer->has_uid && peer->uid == client->uid))
        return false;
    if (client->has_token && !token_matches(client, credentials))
        return false;
    return !client->has_source ||
           (peer->addr.family != 0 && cidr_contains(&client->source, &peer->addr));
}

static const struct config_client *find_client(const struct gateway_config *config, enum kind kind,
                                               const struct peer *peer,
                                               const struct credentials *credentials)
{
    for (size_t i = 0; i < config->client_count; i++)
        if (kind_of(&config->clients[i]) == kind &&
            client_matches(&config->clients[i], peer, credentials))
            return &config->clients[i];
    return NULL;
}

/* One that has a token, whatever else it asks for; for auth = token. */
static const struct config_client *find_bearer(const struct gateway_config *config,
                                               const struct peer *peer,
                                               const struct credentials *credentials)
{
    for (size_t i = 0; i < config->client_count; i++)
        if (config->clients[i].has_token && client_matches(&config->clients[i], peer, credentials))
            return &config->clients[i];
    return NULL;
}

static const struct policy *policy_named(const struct snapshot *snapshot, const char *name)
{
    return name != NULL ? snapshot_policy(snapshot, name) : NULL;
}

static void take_client(const struct snapshot *snapshot, const struct config_client *client,
                        const char *policy, struct identity *out)
{
    out->client = client;
    out->client_name = client != NULL ? client->name : NULL;
    out->policy =
        policy_named(snapshot, policy != NULL || client == NULL ? policy : client->policy);
}

/* The launcher's uid was judged when it attached, for the policy that was named; here that only
 * finds the budgets again. A reload may have left the uid with another policy: then its first
 * client. */
static const struct config_client *find_launcher(const struct gateway_config *config,
                                                 const struct attached *attached)
{
    const struct peer launcher = {.has_uid = true, .uid = attached->uid};
    for (size_t i = 0; attached->policy != NULL && i < config->client_count; i++) {
        const struct config_client *client = &config->clients[i];
        if (client->has_uid && client->uid == attached->uid && client->policy != NULL &&
            strcmp(client->policy, attached->policy) == 0)
            return client;
    }
    return find_client(config, KIND_UID, &launcher, NULL);
}

static void take_sandbox(const struct snapshot *snapshot, const struct attached *attached,
                         struct identity *out)
{
    out->client = find_launcher(snapshot->config, attached);
    out->client_name = out->client != NULL ? out->client->name : attached->client;
    out->policy = policy_named(snapshot, attached->policy);
    out->narrowed_only = attached->policy == NULL;
}

enum outcome identity_find(const struct snapshot *snapshot, const struct config_listen *listen,
                           const struct attached *attached, const struct peer *peer,
                           const struct credentials *credentials, struct identity *out)
{
    const struct gateway_config *config = snapshot->config;
    const enum outcome missing = credentials != NULL ? OUTCOME_AUTH_FAILED : OUTCOME_AUTH_REQUIRED;
    *out = (struct identity){0};
    if (attached != NULL) {
        take_sandbox(snapshot, attached, out);
        return OUTCOME_ALLOWED;
    }
    if (listen->auth == AUTH_TOKEN) {
        const struct config_client *bearer = find_bearer(config, peer, credentials);
        if (bearer == NULL)
            return missing;
        take_client(snapshot, bearer, listen->policy, out);
        return OUTCOME_ALLOWED;
    }
    if (listen->policy != NULL) {
        take_client(snapshot, NULL, listen->policy, out);
        return OUTCOME_ALLOWED;
    }
    for (enum kind kind = KIND_UID; kind < KIND_COUNT; kind++) {
        const struct config_client *client = find_client(config, kind, peer, credentials);
        if (client != NULL) {
            take_client(snapshot, client, NULL, out);
            return OUTCOME_ALLOWED;
        }
    }
    return missing;
}

bool identity_uses_tokens(const struct snapshot *snapshot, const struct config_listen *listen)
{
    if (listen == NULL || (listen->policy != NULL && listen->auth != AUTH_TOKEN))
        return false;
    for (size_t i = 0; i < snapshot->config->client_count; i++)
        if (snapshot->config->clients[i].has_token)
            return true;
    return listen->auth == AUTH_TOKEN;
}
