#include "control/inquiry.h"

#include "control/attach.h"
#include "control/deed.h"
#include "filters/chain.h"
#include "srt/must.h"

enum grant_scope inquiry_scope(const struct ask *ask)
{
    return ask->sandbox != NULL  ? GRANT_SANDBOX
           : ask->client != NULL ? GRANT_CLIENT
                                 : GRANT_LISTENER;
}

const char *inquiry_name(const struct ask *ask)
{
    const char *name = ask->sandbox != NULL  ? ask->sandbox
                       : ask->client != NULL ? ask->client
                                             : ask->listener;
    return name != NULL ? name : "";
}

char *inquiry_key(const struct ask *ask)
{
    return must_format("%s\n%s\n%s\n%s", ask->target, grant_scope_word(inquiry_scope(ask)),
                       inquiry_name(ask), ask->policy != NULL ? ask->policy : "");
}

struct inquiry *inquiry_create(const struct ask *ask)
{
    struct inquiry *inquiry = must(calloc(1, sizeof(*inquiry)));
    inquiry->key = inquiry_key(ask);
    snprintf(inquiry->id, sizeof(inquiry->id), "%s", ask->request_id);
    inquiry->owner = ask->owner;
    inquiry->hears_launcher = ask->hears_launcher;
    inquiry->sandbox = must_copy(ask->sandbox);
    inquiry->client = must_copy(ask->client);
    inquiry->listener = must_copy(ask->listener);
    inquiry->policy = must_copy(ask->policy);
    inquiry->rule = must_copy(ask->rule);
    inquiry->peer = must_copy(ask->peer);
    inquiry->method = must_copy(ask->method);
    inquiry->path = must_copy(ask->path);
    inquiry->host = must_copy(ask->host);
    inquiry->target = must_copy(ask->target);
    inquiry->front = ask->front;
    inquiry->port = ask->port;
    inquiry->since_ms = ask->since_ms;
    inquiry->about = (struct grant){
        .scope = inquiry_scope(ask),
        .name = inquiry->sandbox != NULL    ? inquiry->sandbox
                : inquiry->client != NULL   ? inquiry->client
                : inquiry->listener != NULL ? inquiry->listener
                                            : "",
        .policy = inquiry->policy != NULL ? inquiry->policy : "",
        .target = inquiry->target,
    };
    TAILQ_INIT(&inquiry->waiters);
    return inquiry;
}

void inquiry_free(struct inquiry *inquiry)
{
    free(inquiry->key);
    free(inquiry->sandbox);
    free(inquiry->client);
    free(inquiry->listener);
    free(inquiry->policy);
    free(inquiry->rule);
    free(inquiry->peer);
    free(inquiry->method);
    free(inquiry->path);
    free(inquiry->host);
    free(inquiry->target);
    free(inquiry);
}

static void put_rules(const struct inquiry *inquiry, struct json *json)
{
    char line[TARGET_TEXT_MAX + 16];
    snprintf(line, sizeof(line), "allow = %s", inquiry->target);
    json_text(json, "allow", str_of(line));
    snprintf(line, sizeof(line), "deny = %s", inquiry->target);
    json_text(json, "deny", str_of(line));
}

unsigned inquiry_missing(const struct inquiry *inquiry)
{
    const struct waiter *waiter;
    unsigned missing = 0;
    TAILQ_FOREACH(waiter, &inquiry->waiters, link)
        missing |= waiter->missing;
    return missing;
}

void inquiry_put_missing(unsigned missing, struct json *json)
{
    json_array_open(json, "needs");
    if ((missing & CHAIN_ASKS_POLICY) != 0)
        json_text(json, NULL, STR("operator"));
    if ((missing & CHAIN_ASKS_SETTINGS) != 0)
        json_text(json, NULL, STR("launcher"));
    json_array_close(json);
}

void inquiry_put(const struct inquiry *inquiry, struct json *json)
{
    json_text(json, "id", str_of(inquiry->id));
    json_time(json, "ts", inquiry->since_ms);
    json_text(json, "sandbox", str_of(inquiry->sandbox));
    json_text(json, "client", str_of(inquiry->client));
    json_text(json, "listener", str_of(inquiry->listener));
    json_text(json, "policy", str_of(inquiry->policy));
    json_text(json, "peer", str_of(inquiry->peer));
    json_text(json, "front", str_of(front_word(inquiry->front)));
    json_text(json, "method", str_of(inquiry->method));
    json_text(json, "path", str_of(inquiry->path));
    json_text(json, "host", str_of(inquiry->host));
    json_number(json, "port", inquiry->port);
    json_text(json, "rule", str_of(inquiry->rule));
    json_number(json, "waiting", (int64_t)inquiry->waiting);
    json_time(json, "until", inquiry->until_ms);
    inquiry_put_missing(inquiry_missing(inquiry), json);
    put_rules(inquiry, json);
}

/* Its launcher may answer, and does so with what is `missing`. */
static bool launcher_helps(const struct inquiry *inquiry, unsigned missing)
{
    const unsigned voice = chain_launcher_voice(inquiry->hears_launcher);
    return inquiry->owner != NULL && attach_asks(inquiry->owner) && (missing & voice) != 0;
}

void inquiry_tell(struct inquiry *inquiry, unsigned missing)
{
    struct json fields = {0};
    if (inquiry->told || !launcher_helps(inquiry, missing))
        return;
    inquiry_put(inquiry, &fields);
    inquiry->told = attach_tell(inquiry->owner, "ask", &fields);
}

void inquiry_untell(const struct inquiry *inquiry, const char *verdict)
{
    struct json fields = {0};
    if (!inquiry->told)
        return;
    json_text(&fields, "id", str_of(inquiry->id));
    json_text(&fields, "verdict", str_of(verdict));
    (void)attach_tell(inquiry->owner, "answered", &fields);
}
