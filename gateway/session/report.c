#include "session/report.h"

#include "filters/words.h"
#include "record/audit.h"
#include "record/event.h"
#include "record/squid.h"
#include "session/refusal.h"
#include "session/session.h"
#include "session/standing.h"

#include <assert.h>
#include <stdio.h>

enum { TEXT_MAX = 1024 };

static const char *const close_words[] = {
    [CLOSE_CLIENT] = "client",     [CLOSE_UPSTREAM] = "upstream", [CLOSE_IDLE] = "idle",
    [CLOSE_LIFETIME] = "lifetime", [CLOSE_POLICY] = "policy",     [CLOSE_CUT] = "cut",
    [CLOSE_DRAIN] = "drain",       [CLOSE_LIMIT] = "limit",       [CLOSE_DETACH] = "detach",
    [CLOSE_ERROR] = "error",
};

const char *report_peer(const struct session *session, char out[PEER_TEXT_MAX])
{
    const struct peer *peer = &session->peer;
    char addr[ADDR_TEXT_MAX], port[TEXT_NUMBER_MAX];
    if (peer->addr.family != 0) {
        const bool v6 = peer->addr.family == 6;
        text_number(port, peer->port);
        TEXT_JOIN(out, PEER_TEXT_MAX, v6 ? "[" : NULL, addr_format(addr, &peer->addr),
                  v6 ? "]:" : ":", port);
    } else if (peer->has_uid) {
        snprintf(out, PEER_TEXT_MAX, "uid=%u,pid=%d", peer->uid, peer->pid);
    } else {
        return NULL;
    }
    return out;
}

static const char *sandbox_name(const struct session *session)
{
    return session->door->sandbox != NULL ? session->door->sandbox->name : NULL;
}

static const char *session_policy_name(const struct session *session)
{
    const struct policy *policy = standing_policy(session);
    return policy != NULL ? policy_name(policy) : NULL;
}

/* What both kinds of record begin with. */
static struct event_request describe(const struct session *session)
{
    const struct request *request = &session->request;
    return (struct event_request){
        .id = str_of(request->id),
        .sandbox = str_of(sandbox_name(session)),
        .client = str_of(session->identity.client_name),
        .listener = str_of(session->door->name),
        .policy = str_of(session_policy_name(session)),
        .generation = request->generation,
        .front = request->front < FRONT_COUNT ? front_word(request->front) : NULL,
        .method = str_of(request->method),
        .path = str_of(request->path),
        .target = request->has_target ? &request->target : NULL,
        /* SOCKS5 has a field for nothing else; of HTTP the message says it. */
        .host_text = request->front == FRONT_SOCKS5
                         ? (struct str){request->host_text, request->host_text_len}
                         : STR_NULL,
        .port_text = request->port_text,
    };
}

/* The request's one line for those who read squid's log: how it ended, with what it was refused by
 * or what its server answered. */
static void write_squid(struct session *session, const struct event_request *event,
                        const struct event_close *close)
{
    const struct request *request = &session->request;
    const bool tunnel = request->front != FRONT_HTTP;
    int status = request->upstream_status;
    if (request->http_status != 0)
        status = request->http_status;
    else if (request->outcome != OUTCOME_ALLOWED || tunnel)
        status = outcome_row(request->outcome)->http_status;
    squid_line(&session->worker->squid, &(struct squid_request){
                                            .request = event,
                                            .outcome = request->outcome,
                                            .status = status,
                                            .tunnel = tunnel,
                                            .admitted = close != NULL,
                                            .addr = close != NULL ? close->addr : NULL,
                                            .bytes_down = close != NULL ? close->bytes_down : 0,
                                            .duration_ms = close != NULL ? close->duration_ms : 0,
                                            .cause = close != NULL ? close->cause : NULL,
                                        });
}

static void write_decision(struct session *session, const char *message)
{
    const struct request *request = &session->request;
    char peer[PEER_TEXT_MAX];
    struct event_request event = describe(session);
    event.peer = str_of(report_peer(session, peer));
    struct json *json = &session->worker->json;
    json_reset(&session->worker->squid);
    /* One that was admitted has its line when it is over. */
    if (audit_wants_squid(session->worker->audit) && request->outcome != OUTCOME_ALLOWED &&
        !request->admitted)
        write_squid(session, &event, NULL);
    json_reset(json);
    event_decision(json, &event, request->outcome, &request->decision,
                   request->has_addr ? &request->addr : NULL, str_of(message));
}

static bool submit(struct session *session, uint64_t ticket)
{
    struct worker *worker = session->worker;
    const struct str fields = {worker->json.data, worker->json.len};
    const struct str squid = {worker->squid.data, worker->squid.len};
    worker->has_reported = true;
    return audit_submit_request(worker->audit, fields, squid, ticket != 0 ? tickets_written : NULL,
                                worker->tickets, ticket);
}

/* Under the policy that the client is under; a private gateway's sandbox has none of a name. */
static void count_usage(const struct session *session)
{
    const struct tenure *tenure = session->tenure;
    const struct policy *policy = session->identity.policy;
    if (tenure == NULL || policy == NULL)
        return;
    for (size_t i = 0; i < tenure->snapshot->config->policy_count; i++) {
        struct usage *usage = tenure->usages[i];
        if (tenure->snapshot->policies[i] == policy)
            atomic_fetch_add_explicit(session->request.outcome == OUTCOME_ALLOWED ? &usage->allowed
                                                                                  : &usage->denied,
                                      1, memory_order_relaxed);
    }
}

static void count_outcome(struct session *session)
{
    const struct request *request = &session->request;
    count_usage(session);
    if (request->front < FRONT_COUNT)
        counter_add(&session->worker->counters.requests[request->front][request->outcome], 1);
}

bool report_admission(struct session *session, uint64_t ticket)
{
    assert(session->request.outcome == OUTCOME_ALLOWED);
    char message[TEXT_MAX];
    const struct request *request = &session->request;
    decision_note(&request->decision, &request->target, message, sizeof(message));
    if (message[0] == '\0' && request->via != NULL)
        TEXT_JOIN(message, sizeof(message), "by the upstream proxy ", request->via);
    if (message[0] == '\0' && request->approval != NULL && request->approval->text != NULL)
        snprintf(message, sizeof(message), "%s", request->approval->text);
    write_decision(session, message[0] != '\0' ? message : NULL);
    if (!submit(session, ticket))
        return false;
    count_outcome(session);
    return true;
}

static void tell_launcher(struct session *session, const char *message, const char *next_step)
{
    const struct request *request = &session->request;
    const struct rule *rule = request->decision.ruling.rule;
    struct sandbox *sandbox = session->door->sandbox;
    char host[NAME_MAX_LEN + 1], id[RULE_ID_MAX];
    if (sandbox == NULL)
        return;
    workers_post_denial(
        sandbox, &(struct denial){
                     .owner = sandbox->owner,
                     .ts_ms = (int64_t)(ev_now(session->worker->loop) * 1000.),
                     .host = request->has_target ? target_host(host, &request->target) : NULL,
                     .port = request->has_target ? request->target.port : request->port_text,
                     .front = request->front,
                     .reason = request->outcome,
                     .rule = rule != NULL ? rule_id(rule, id) : NULL,
                     .policy = session_policy_name(session),
                     .message = message,
                     .next_step = next_step,
                     .request_id = request->id,
                 });
}

bool report_refusal(struct session *session, uint64_t ticket)
{
    char message[TEXT_MAX], next_step[TEXT_MAX];
    refusal_texts(session, message, sizeof(message), next_step, sizeof(next_step));
    request_set_texts(&session->request, message, next_step);
    write_decision(session, message);
    bool taken = submit(session, ticket); /* one that is not is counted by the log */
    count_outcome(session);
    tell_launcher(session, message, next_step);
    return taken;
}

void report_in_tunnel(struct session *session, const char *why)
{
    char message[TEXT_MAX];
    refusal_in_tunnel(&session->request, why, message, sizeof(message));
    write_decision(session, message);
    (void)submit(session, 0); /* one that is not taken is counted by the log */
}

void report_close(struct session *session, enum close_cause cause)
{
    const struct request *request = &session->request;
    char peer[PEER_TEXT_MAX];
    struct event_request event = describe(session);
    struct json *json = &session->worker->json;
    double duration = ev_now(session->worker->loop) - request->since;
    json_reset(json);
    const struct event_close close = {
        .addr = request->has_addr ? &request->addr : NULL,
        .sni = str_of(request->sni),
        .bytes_up = request->bytes_up,
        .bytes_down = request->bytes_down,
        .duration_ms = duration > 0 ? (uint64_t)(duration * 1000.) : 0,
        .cause = close_words[cause],
    };
    event_close(json, &event, &close);
    json_reset(&session->worker->squid);
    if (audit_wants_squid(session->worker->audit)) {
        event.peer = str_of(report_peer(session, peer));
        write_squid(session, &event, &close);
    }
    (void)submit(session, 0);
}
