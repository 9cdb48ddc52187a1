#include "record/event.h"

struct str event_cut_query(struct str path)
{
    return str_until(path, '?');
}

static void put_who(struct json *json, const char *kind, const struct event_request *request)
{
    json_text(json, "kind", str_of(kind));
    json_text(json, "id", request->id);
    json_text(json, "sandbox", request->sandbox);
    json_text(json, "client", request->client);
    json_text(json, "listener", request->listener);
    json_text(json, "policy", request->policy);
    if (request->generation != 0)
        json_number(json, "generation", (int64_t)request->generation);
    else
        json_none(json, "generation");
}

static void put_target(struct json *json, const struct event_request *request)
{
    char host[NAME_MAX_LEN + 1];
    const struct target *target = request->target;
    json_text(json, "host",
              target != NULL ? str_of(target_host(host, target)) : request->host_text);
    uint16_t port = target != NULL ? target->port : request->port_text;
    if (port != 0)
        json_number(json, "port", port);
    else
        json_none(json, "port");
}

static void put_addr(struct json *json, const struct addr *addr)
{
    char text[ADDR_TEXT_MAX];
    json_text(json, "addr", addr != NULL ? str_of(addr_format(text, addr)) : STR_NULL);
}

/* A report rule, or a policy in report mode, had the say. */
static bool in_report_mode(const struct decision *decision)
{
    if (decision == NULL)
        return false;
    const struct ruling *ruling = &decision->ruling;
    return decision->report || ruling->report ||
           (ruling->policy != NULL && policy_reports(ruling->policy));
}

void event_decision(struct json *json, const struct event_request *request, enum outcome verdict,
                    const struct decision *decision, const struct addr *addr, struct str message)
{
    bool unapplied = decision != NULL && decision->would != OUTCOME_ALLOWED;
    const struct rule *rule = decision != NULL ? decision->ruling.rule : NULL;
    char id[RULE_ID_MAX];

    put_who(json, "decision", request);
    json_text(json, "peer", request->peer);
    json_text(json, "front", str_of(request->front));
    json_text(json, "method", request->method);
    json_text(json, "path", event_cut_query(request->path));
    put_target(json, request);
    put_addr(json, addr);
    json_text(json, "verdict", verdict == OUTCOME_ALLOWED ? STR("allow") : STR("deny"));
    json_text(json, "mode", in_report_mode(decision) ? STR("report") : STR("enforce"));
    json_text(json, "would", unapplied ? STR("deny") : STR_NULL);
    json_text(json, "reason", str_of(outcome_row(verdict)->word));
    json_text(json, "rule", rule != NULL ? str_of(rule_id(rule, id)) : STR_NULL);
    json_text(json, "filter", str_of(decision != NULL ? decision->filter : NULL));
    json_text(json, "message", message);
}

void event_close(struct json *json, const struct event_request *request,
                 const struct event_close *close)
{
    put_who(json, "close", request);
    json_text(json, "front", str_of(request->front));
    put_target(json, request);
    put_addr(json, close->addr);
    json_text(json, "sni", close->sni);
    json_number(json, "bytes_up", (int64_t)close->bytes_up);
    json_number(json, "bytes_down", (int64_t)close->bytes_down);
    json_number(json, "duration_ms", (int64_t)close->duration_ms);
    json_text(json, "cause", str_of(close->cause));
}
