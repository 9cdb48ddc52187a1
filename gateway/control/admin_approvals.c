#include "control/admin_approvals.h"

#include "config/value.h"
#include "control/attach.h"
#include "control/desk.h"
#include "control/granting.h"
#include "dns/target.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <stdlib.h>

enum { LONGEST_MS = INT32_MAX }; /* some 24 days; what is to stay longer is a rule */

/* ---- queries ---- */

enum query_key {
    QUERY_FOR,
    QUERY_TARGET,
    QUERY_SANDBOX,
    QUERY_CLIENT,
    QUERY_LISTENER,
    QUERY_POLICY,
    QUERY_VERDICT,
    QUERY_COUNT,
};

struct query {
    char *values[QUERY_COUNT]; /* NULL: not given */
};

static void query_free(struct query *query)
{
    for (size_t i = 0; i < QUERY_COUNT; i++)
        free(query->values[i]);
}

#define autofree_query __attribute__((cleanup(query_free)))

/* NULL: not well-formed, or a byte that no name has. */
static char *decode(struct str text)
{
    char *out = must(malloc(text.len + 1)), *end = out;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];
        if (c == '%' && text.len - i > 2 && str_hex_digit(text.p[i + 1]) >= 0 &&
            str_hex_digit(text.p[i + 2]) >= 0) {
            c = (char)(str_hex_digit(text.p[i + 1]) * 16 + str_hex_digit(text.p[i + 2]));
            i += 2;
        } else if (c == '%') {
            c = '\0';
        }
        if ((unsigned char)c < ' ' || c == 0x7f) {
            free(out);
            return NULL;
        }
        *end++ = c;
    }
    *end = '\0';
    return out;
}

/* False: refused. Unknown and repeated keys are, too: nothing is left out in silence. */
static bool read_query(const struct admin_request *request, unsigned known, struct query *out)
{
    static const char *const words[QUERY_COUNT] = {"for",      "target", "sandbox", "client",
                                                   "listener", "policy", "verdict"};
    struct str rest = request->query;
    *out = (struct query){{NULL}};
    while (rest.len > 0) {
        const struct str part = str_take_until(&rest, '&');
        struct str value = part;
        const struct str word = str_take_until(&value, '=');
        size_t key = 0;
        while (key < QUERY_COUNT && !str_eq(word, str_of(words[key])))
            key++;
        if (key == QUERY_COUNT || !str_has(part, '=') || (known & 1u << key) == 0 ||
            out->values[key] != NULL || (out->values[key] = decode(value)) == NULL) {
            admin_refuse(request->client, 400, "the query has a part that means nothing here");
            return false;
        }
    }
    return true;
}

static bool read_time(const struct admin_request *request, const char *text, uint64_t *out)
{
    if (value_duration_ms(str_of(text), out) && *out > 0 && *out <= LONGEST_MS)
        return true;
    admin_refuse(request->client, 400,
                 "for=%s is not a duration like 30m, at most 24d; what is to "
                 "stay longer is a rule",
                 text);
    return false;
}

/* ---- lists ---- */

void get_pending(const struct admin_request *request)
{
    struct json body = {0};
    json_array_open(&body, NULL);
    desk_write_pending(request->gateway->desk, &body);
    json_array_close(&body);
    admin_answer_json(request->client, 200, &body);
}

void get_grants(const struct admin_request *request)
{
    struct json body = {0};
    json_array_open(&body, NULL);
    granting_write(desk_granting(request->gateway->desk), &body);
    json_array_close(&body);
    admin_answer_json(request->client, 200, &body);
}

/* ---- answers ---- */

static void refuse(const struct admin_request *request, enum desk_result result)
{
    static const int statuses[DESK_RESULT_COUNT] = {
        [DESK_UNKNOWN] = 404, [DESK_NOT_YOURS] = 409, [DESK_FULL] = 429};
    admin_refuse(request->client, statuses[result], "%s", desk_result_text(result));
}

static void finish(const struct admin_request *request, enum desk_result result, struct json *body)
{
    if (result != DESK_DONE) {
        json_free(body);
        refuse(request, result);
        return;
    }
    json_object_close(body);
    admin_answer_json(request->client, 200, body);
}

static void answer(const struct admin_request *request, bool approves)
{
    autofree_query struct query query = {{NULL}};
    struct desk_answer answer = {
        .id = request->id, .approves = approves, .peer = admin_peer(request->client)};
    struct json body = {0};
    if (!read_query(request, 1u << QUERY_FOR, &query))
        return;
    answer.keeps = query.values[QUERY_FOR] != NULL;
    if (answer.keeps && !read_time(request, query.values[QUERY_FOR], &answer.for_ms))
        return;
    json_object_open(&body, NULL);
    finish(request, desk_answer(request->gateway->desk, &answer, &body), &body);
}

void post_approve(const struct admin_request *request)
{
    answer(request, true);
}

void post_refuse(const struct admin_request *request)
{
    answer(request, false);
}

/* ---- grants ---- */

static bool has_client(const struct gateway *gateway, const char *name)
{
    const struct gateway_config *config = gateway->snapshot->config;
    for (size_t i = 0; i < config->client_count; i++)
        if (strcmp(config->clients[i].name, name) == 0)
            return true;
    return false;
}

static bool has_listener(const struct gateway *gateway, const char *name)
{
    const struct gateway_config *config = gateway->snapshot->config;
    for (size_t i = 0; i < config->listen_count; i++)
        if (strcmp(config->listens[i].name, name) == 0)
            return true;
    return false;
}

/* The policy that a [client] or a [listen] is under, when it says so itself. */
static const char *policy_said(const struct gateway *gateway, const struct grant *grant)
{
    const struct gateway_config *config = gateway->snapshot->config;
    for (size_t i = 0; grant->scope == GRANT_CLIENT && i < config->client_count; i++)
        if (strcmp(config->clients[i].name, grant->name) == 0)
            return config->clients[i].policy;
    for (size_t i = 0; grant->scope == GRANT_LISTENER && i < config->listen_count; i++)
        if (strcmp(config->listens[i].name, grant->name) == 0)
            return config->listens[i].policy;
    return NULL;
}

/* For whom, and under which policy; NULL, or what is wrong. */
static const char *aim(const struct admin_request *request, const struct query *query,
                       struct grant *grant, void **owner)
{
    const char *const *values = (const char *const *)query->values;
    const struct gateway *gateway = request->gateway;
    const int aims = (values[QUERY_SANDBOX] != NULL) + (values[QUERY_CLIENT] != NULL) +
                     (values[QUERY_LISTENER] != NULL);
    const char *own = NULL;
    if (aims > 1 || (aims == 0 && values[QUERY_POLICY] == NULL))
        return "one sandbox, client, listener or policy has to be named";
    grant->scope = values[QUERY_SANDBOX] != NULL    ? GRANT_SANDBOX
                   : values[QUERY_CLIENT] != NULL   ? GRANT_CLIENT
                   : values[QUERY_LISTENER] != NULL ? GRANT_LISTENER
                                                    : GRANT_POLICY;
    grant->name = values[QUERY_SANDBOX] != NULL    ? values[QUERY_SANDBOX]
                  : values[QUERY_CLIENT] != NULL   ? values[QUERY_CLIENT]
                  : values[QUERY_LISTENER] != NULL ? values[QUERY_LISTENER]
                                                   : "";
    if (grant->scope == GRANT_SANDBOX) {
        *owner = attach_find(gateway->attach, grant->name, &own);
        if (*owner == NULL)
            return "there is no such sandbox";
    } else if (grant->scope != GRANT_POLICY) {
        if (!(grant->scope == GRANT_CLIENT ? has_client : has_listener)(gateway, grant->name))
            return "there is no such client or listener";
        own = policy_said(gateway, grant);
    }
    if (own != NULL && values[QUERY_POLICY] != NULL && strcmp(own, values[QUERY_POLICY]) != 0)
        return "it is under another policy";
    grant->policy = own != NULL ? own : values[QUERY_POLICY];
    if (grant->policy == NULL)
        return "its clients are under policies of their own; name one";
    if (grant->policy[0] != '\0' && snapshot_policy(gateway->snapshot, grant->policy) == NULL)
        return "there is no such policy";
    return NULL;
}

void post_grant(const struct admin_request *request)
{
    autofree_query struct query query = {{NULL}};
    struct grant grant = {.who = admin_peer(request->client)};
    struct target target;
    char text[TARGET_TEXT_MAX];
    void *owner = NULL;
    const char *why = "HOST:PORT is needed";
    uint64_t for_ms = 0;
    if (!read_query(request, (1u << QUERY_COUNT) - 1, &query))
        return;
    const char *const verdict = query.values[QUERY_VERDICT];
    if (query.values[QUERY_TARGET] == NULL ||
        !target_parse(&target, str_of(query.values[QUERY_TARGET]), &why)) {
        admin_refuse(request->client, 400, "target: %s", why);
        return;
    }
    if (verdict != NULL && strcmp(verdict, "approve") != 0 && strcmp(verdict, "refuse") != 0) {
        admin_refuse(request->client, 400, "verdict is approve or refuse");
        return;
    }
    if ((why = aim(request, &query, &grant, &owner)) != NULL) {
        admin_refuse(request->client, 400, "%s", why);
        return;
    }
    if (query.values[QUERY_FOR] == NULL && grant.scope != GRANT_SANDBOX) {
        admin_refuse(request->client, 400,
                     "for=DURATION is needed; only a sandbox has an end of "
                     "its own");
        return;
    }
    if (query.values[QUERY_FOR] != NULL && !read_time(request, query.values[QUERY_FOR], &for_ms))
        return;
    grant.target = target_format(text, &target);
    grant.refuses = verdict != NULL && verdict[0] == 'r';
    struct json body = {0};
    json_object_open(&body, NULL);
    finish(request, desk_grant(request->gateway->desk, &grant, for_ms, owner, &body), &body);
}

void post_revoke(const struct admin_request *request)
{
    const enum desk_result result = granting_revoke(desk_granting(request->gateway->desk),
                                                    request->id, admin_peer(request->client));
    if (result != DESK_DONE) {
        admin_refuse(request->client, 404, "there is no such grant");
        return;
    }
    struct json body = {0};
    json_object_open(&body, NULL);
    json_text(&body, "revoked", request->id);
    json_object_close(&body);
    admin_answer_json(request->client, 200, &body);
}
