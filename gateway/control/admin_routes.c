#include "control/admin.h"

#include "control/admin_approvals.h"
#include "control/attach.h"
#include "control/deed.h"
#include "control/desk.h"
#include "control/granting.h"
#include "control/predecessors.h"
#include "control/reload.h"
#include "control/tunnels.h"
#include "filters/filter_set.h"
#include "record/metrics.h"
#include "srt/must.h"
#include "srt/str.h"

#include <stdlib.h>
#include <time.h>

static const char text_type[] = "text/plain; charset=utf-8";

/* ---- small answers ---- */

static void answer_text(struct admin_client *client, int status, const char *text)
{
    struct json body = {0};
    json_append(&body, str_of(text));
    admin_answer(client, status, text_type, &body);
}

static void get_healthz(const struct admin_request *request)
{
    answer_text(request->client, 200, "ok\n");
}

static void get_readyz(const struct admin_request *request)
{
    bool draining = request->gateway->draining;
    answer_text(request->client, draining ? 503 : 200, draining ? "draining\n" : "ready\n");
}

static void get_version(const struct admin_request *request)
{
    struct json body = {0};
    json_object_open(&body, NULL);
    json_text(&body, "version", STR(SRT_VERSION));
    json_object_close(&body);
    admin_answer_json(request->client, 200, &body);
}

/* ---- what is in force ---- */

static void get_config(const struct admin_request *request)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = must(open_memstream(&text, &len));
    gateway_config_print(request->gateway->snapshot->config, out);
    if (fclose(out) != 0)
        must_end();
    struct json body = {0};
    json_append(&body, (struct str){text, len});
    free(text);
    admin_answer(request->client, 200, text_type, &body);
}

static void sum_requests(const struct workers_stats *stats, uint64_t *allowed, uint64_t *denied)
{
    *allowed = *denied = 0;
    for (size_t front = 0; front < FRONT_COUNT; front++)
        for (size_t outcome = 0; outcome < OUTCOME_COUNT; outcome++)
            *(outcome == OUTCOME_ALLOWED ? allowed : denied) += stats->requests[front][outcome];
}

static void put_listeners(const struct gateway *gateway, struct json *body)
{
    char text[CONFIG_ADDRESS_TEXT_MAX];
    json_object_open(body, "listeners");
    for (size_t i = 0; i < gateway->snapshot->config->listen_count; i++) {
        const struct config_listen *config = &gateway->snapshot->config->listens[i];
        const struct listener *listener = gateway->listeners[i];
        const struct config_address *address =
            listener != NULL ? listener_bound(listener) : &config->address;
        json_text(body, config->name, str_of(config_address_format(text, address)));
    }
    json_object_close(body);
}

/* Those that have something to say about how they stand. */
static void put_filters(const struct filter_set *filters, struct json *body)
{
    json_object_open(body, "filters");
    for (size_t i = 0; i < filters->count; i++) {
        struct filter_state states[FILTER_STATES_MAX];
        const size_t count = filter_states(&filters->items[i], states);
        if (count == 0)
            continue;
        json_object_open(body, filters->items[i].config->name);
        for (size_t state = 0; state < count; state++)
            json_number(body, states[state].word, states[state].workers);
        json_object_close(body);
    }
    json_object_close(body);
}

static void put_traffic(const struct gateway *gateway, struct json *body)
{
    struct workers_stats stats;
    uint64_t allowed, denied;
    workers_stats(gateway->workers, &stats);
    sum_requests(&stats, &allowed, &denied);
    json_number(body, "workers", workers_count(gateway->workers));
    json_number(body, "sandboxes", (int64_t)attach_count(gateway->attach));
    json_number(body, "pending", (int64_t)desk_waiting(gateway->desk));
    json_number(body, "grants", (int64_t)desk_granting(gateway->desk)->table.count);
    json_number(body, "connections", (int64_t)stats.connections_open);
    json_number(body, "connections_total", (int64_t)stats.connections_total);
    json_number(body, "tunnels", (int64_t)stats.tunnels_open);
    json_number(body, "allowed_total", (int64_t)allowed);
    json_number(body, "denied_total", (int64_t)denied);
    json_number(body, "bytes_up", (int64_t)stats.bytes_up);
    json_number(body, "bytes_down", (int64_t)stats.bytes_down);
    json_number(body, "audit_records", (int64_t)audit_count(gateway->audit));
    json_number(body, "audit_lost", (int64_t)audit_lost(gateway->audit));
    json_bool(body, "audit_healthy", audit_healthy(gateway->audit));
}

static void get_status(const struct admin_request *request)
{
    const struct gateway *gateway = request->gateway;
    const struct snapshot *snapshot = gateway->snapshot;
    const char *error = reload_last_error(gateway->reloader);
    char digest[65], loaded[64];
    time_t seconds = (time_t)snapshot->loaded;
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(loaded, sizeof(loaded), "%Y-%m-%dT%H:%M:%SZ", &utc);

    struct json body = {0};
    json_object_open(&body, NULL);
    json_text(&body, "version", STR(SRT_VERSION));
    json_number(&body, "generation", (int64_t)snapshot->generation);
    json_text(&body, "sha256", str_of(reload_hex(digest, snapshot->config->sha256)));
    json_text(&body, "loaded", str_of(loaded));
    json_text(&body, "last_error", error[0] != '\0' ? str_of(error) : STR_NULL);
    json_bool(&body, "draining", gateway->draining);
    json_number(&body, "predecessors", (int64_t)predecessors_count(gateway->predecessors));
    put_traffic(gateway, &body);
    put_listeners(gateway, &body);
    put_filters(snapshot->filters, &body);
    json_object_close(&body);
    admin_answer_json(request->client, 200, &body);
}

/* ---- tunnels ---- */

static void on_tunnels(void *arg, struct str elements)
{
    struct json body = {0};
    json_append(&body, STR("["));
    json_append(&body, elements);
    json_append(&body, STR("]"));
    admin_answer_json(arg, 200, &body);
}

static void get_tunnels(const struct admin_request *request)
{
    tunnels_list(request->gateway, on_tunnels, request->client);
}

static void record_action(struct admin_client *client, const char *action, const char *target,
                          const char *result)
{
    deed_record(admin_gateway(client), &(struct deed){.action = action,
                                                      .target = target,
                                                      .peer = admin_peer(client),
                                                      .by = "operator",
                                                      .result = result,
                                                      .waiting = DEED_WAITS_NOBODY});
}

static void on_cut(void *arg, const char *id, bool found)
{
    struct admin_client *client = arg;
    record_action(client, "cut", id, found ? "ok" : "not-found");
    if (found) {
        struct json body = {0};
        json_object_open(&body, NULL);
        json_text(&body, "cut", str_of(id));
        json_object_close(&body);
        admin_answer_json(client, 200, &body);
    } else {
        admin_refuse(client, 404, "there is no tunnel %s", id);
    }
}

static void post_cut(const struct admin_request *request)
{
    if (request->id.len != REQUEST_ID_LEN) {
        admin_refuse(request->client, 404, "a tunnel's id has %d characters", REQUEST_ID_LEN);
        return;
    }
    char id[REQUEST_ID_LEN + 1] = {0};
    memcpy(id, request->id.p, REQUEST_ID_LEN);
    tunnels_cut(request->gateway, id, on_cut, request->client);
}

/* ---- decisions and events ---- */

static void get_decisions(const struct admin_request *request)
{
    uint64_t last = 100; /* more than are kept are as many as are kept */
    struct str query = request->query;
    if (query.len > 0 &&
        (!str_starts(query, STR("last=")) || !str_uint(str_from(query, 5), INT64_MAX, &last))) {
        admin_refuse(request->client, 400, "last=N is all that can be asked");
        return;
    }
    struct json body = {0};
    json_array_open(&body, NULL);
    admin_write_decisions(request->client, last, &body);
    json_array_close(&body);
    admin_answer_json(request->client, 200, &body);
}

static void get_events(const struct admin_request *request)
{
    admin_stream(request->client);
}

/* ---- changes ---- */

static void on_reloaded(void *arg, const struct reload_result *result)
{
    struct json body = {0};
    record_action(arg, "reload", NULL, result->status == RELOAD_FAILED ? "failed" : "ok");
    json_object_open(&body, NULL);
    reload_write_result(result, &body);
    json_object_close(&body);
    admin_answer_json(arg, result->status == RELOAD_FAILED ? 422 : 200, &body);
}

static void post_reload(const struct admin_request *request)
{
    if (request->gateway->draining || request->gateway->retired)
        admin_refuse(request->client, 503, "the gateway is draining");
    else
        reload_request(request->gateway->reloader, true, on_reloaded, request->client);
}

static void post_drain(const struct admin_request *request)
{
    struct json body = {0};
    record_action(request->client, "drain", NULL, "ok");
    gateway_drain(request->gateway);
    json_object_open(&body, NULL);
    json_bool(&body, "draining", true);
    json_object_close(&body);
    admin_answer_json(request->client, 200, &body);
}

/* ---- metrics ---- */

static void put_requests(const struct workers_stats *stats, struct json *out)
{
    static const char name[] = "srt_gateway_requests_total";
    metrics_family(out, name, "counter", "Requests that were decided, by front and by ending.");
    for (unsigned front = 0; front < FRONT_COUNT; front++)
        for (unsigned outcome = 0; outcome < OUTCOME_COUNT; outcome++) {
            const char *word = outcome_row((enum outcome)outcome)->word;
            const struct metrics_label labels[] = {
                {"front", front_word((enum front)front)},
                {"result", word == NULL ? "allow" : "deny"},
                {"reason", word == NULL ? "" : word},
                {NULL, NULL},
            };
            if (stats->requests[front][outcome] > 0 || outcome == OUTCOME_ALLOWED)
                metrics_sample(out, name, labels, (double)stats->requests[front][outcome]);
        }
}

static void put_usage(void *arg, const struct usage *usage)
{
    static const char name[] = "srt_gateway_policy_requests_total";
    const struct metrics_label allow[] = {
        {"policy", usage->policy}, {"result", "allow"}, {NULL, NULL}};
    const struct metrics_label deny[] = {
        {"policy", usage->policy}, {"result", "deny"}, {NULL, NULL}};
    metrics_sample(arg, name, allow, (double)atomic_load(&usage->allowed));
    metrics_sample(arg, name, deny, (double)atomic_load(&usage->denied));
}

static void put_usages(const struct workers *workers, struct json *out)
{
    metrics_family(out, "srt_gateway_policy_requests_total", "counter",
                   "Requests that were decided under a policy.");
    workers_usages(workers, put_usage, out);
}

static void put_bytes(const struct workers_stats *stats, struct json *out)
{
    static const char name[] = "srt_gateway_traffic_bytes_total";
    const struct metrics_label up[] = {{"direction", "up"}, {NULL, NULL}};
    const struct metrics_label down[] = {{"direction", "down"}, {NULL, NULL}};
    metrics_family(out, name, "counter", "Bytes carried, up being what sandboxes sent.");
    metrics_sample(out, name, up, (double)stats->bytes_up);
    metrics_sample(out, name, down, (double)stats->bytes_down);
}

static void put_timings(const struct workers_stats *stats, struct json *out)
{
    static const struct {
        const char *name, *help, *words[2];
    } rows[TIMING_COUNT] = {
        [TIMING_DECISION] = {"srt_gateway_decision_seconds",
                             "What judging a request by its policy took.",
                             {"allow", "deny"}},
        [TIMING_DNS] = {"srt_gateway_dns_seconds",
                        "What looking a name up took, from the cache too.",
                        {"ok", "failed"}},
        [TIMING_CONNECT] = {"srt_gateway_connect_seconds",
                            "What connecting to a target took.",
                            {"ok", "failed"}},
        [TIMING_MODULE] = {"srt_gateway_module_seconds",
                           "What the verdict of one filter took.",
                           {"pass", "deny"}},
    };
    for (size_t i = 0; i < TIMING_COUNT; i++) {
        metrics_family(out, rows[i].name, "histogram", rows[i].help);
        for (size_t refused = 0; refused < 2; refused++) {
            const struct metrics_label labels[] = {{"result", rows[i].words[refused]},
                                                   {NULL, NULL}};
            metrics_histogram(out, rows[i].name, labels, &stats->timings[i][refused]);
        }
    }
}

static void put_filter_states(const struct filter_set *filters, struct json *out)
{
    static const char name[] = "srt_gateway_filter_workers";
    metrics_family(out, name, "gauge", "Workers in which a filter is in that state.");
    for (size_t i = 0; i < filters->count; i++) {
        struct filter_state states[FILTER_STATES_MAX];
        const size_t count = filter_states(&filters->items[i], states);
        for (size_t state = 0; state < count; state++) {
            const struct metrics_label labels[] = {{"filter", filters->items[i].config->name},
                                                   {"state", states[state].word},
                                                   {NULL, NULL}};
            metrics_sample(out, name, labels, states[state].workers);
        }
    }
}

static void put_filter_failures(const struct workers_stats *stats, struct json *out)
{
    static const char name[] = "srt_gateway_filter_failures_total";
    const struct metrics_label closed[] = {{"result", "deny"}, {NULL, NULL}};
    const struct metrics_label open[] = {{"result", "allow"}, {NULL, NULL}};
    metrics_family(out, name, "counter",
                   "Times that a filter gave no verdict, and what it came to.");
    metrics_sample(out, name, closed, (double)stats->filter_failures[0]);
    metrics_sample(out, name, open, (double)stats->filter_failures[1]);
}

static void put_configuration(const struct gateway *gateway, struct json *out)
{
    const struct metrics_label build[] = {{"version", SRT_VERSION}, {NULL, NULL}};
    metrics_family(out, "srt_gateway_build_info", "gauge", "The version that runs.");
    metrics_sample(out, "srt_gateway_build_info", build, 1);
    metrics_single(out, "srt_gateway_config_generation", "gauge",
                   "Generation of the configuration in force.",
                   (double)gateway->snapshot->generation);
    metrics_single(out, "srt_gateway_config_last_reload_successful", "gauge",
                   "Whether the last reload was successful.",
                   reload_last_error(gateway->reloader)[0] == '\0');
    metrics_single(out, "srt_gateway_config_last_reload_success_timestamp_seconds", "gauge",
                   "When the configuration in force was loaded.",
                   (double)gateway->snapshot->loaded);
}

static void get_metrics(const struct admin_request *request)
{
    const struct gateway *gateway = request->gateway;
    struct workers_stats stats;
    struct json out = {0};
    workers_stats(gateway->workers, &stats);
    put_configuration(gateway, &out);
    put_requests(&stats, &out);
    put_usages(gateway->workers, &out);
    put_bytes(&stats, &out);
    put_timings(&stats, &out);
    put_filter_failures(&stats, &out);
    put_filter_states(gateway->snapshot->filters, &out);
    metrics_single(&out, "srt_gateway_connections_total", "counter", "Client connections accepted.",
                   (double)stats.connections_total);
    metrics_single(&out, "srt_gateway_connections", "gauge", "Client connections open.",
                   (double)stats.connections_open);
    metrics_single(&out, "srt_gateway_tunnels", "gauge", "Tunnels and exchanges in progress.",
                   (double)stats.tunnels_open);
    metrics_single(&out, "srt_gateway_sandboxes", "gauge", "Sandboxes attached.",
                   (double)attach_count(gateway->attach));
    metrics_single(&out, "srt_gateway_pending_requests", "gauge",
                   "Requests that wait for an approval.", (double)desk_waiting(gateway->desk));
    metrics_single(&out, "srt_gateway_grants", "gauge", "Grants in force.",
                   (double)desk_granting(gateway->desk)->table.count);
    metrics_single(&out, "srt_gateway_accept_pauses_total", "counter",
                   "Times that accepting paused because descriptors had run out.",
                   (double)stats.accept_pauses);
    metrics_single(&out, "srt_gateway_audit_records_total", "counter", "Audit records written.",
                   (double)audit_count(gateway->audit));
    metrics_single(&out, "srt_gateway_audit_lost_total", "counter",
                   "Audit records that could not be written.", (double)audit_lost(gateway->audit));
    metrics_single(&out, "srt_gateway_audit_healthy", "gauge",
                   "Whether requests are not refused for want of an audit log.",
                   audit_healthy(gateway->audit));
    metrics_single(&out, "srt_gateway_predecessors", "gauge",
                   "Processes that handed over to this one and still serve what they had.",
                   (double)predecessors_count(gateway->predecessors));
    metrics_single(&out, "srt_gateway_draining", "gauge", "Whether the gateway is draining.",
                   gateway->draining);
    metrics_process(&out);
    admin_answer(request->client, 200, "text/plain; version=0.0.4; charset=utf-8", &out);
}

const struct admin_route admin_routes[] = {
    {"GET", "/healthz", false, get_healthz},
    {"GET", "/readyz", false, get_readyz},
    {"GET", "/version", false, get_version},
    {"GET", "/status", false, get_status},
    {"GET", "/config", false, get_config},
    {"GET", "/metrics", false, get_metrics},
    {"GET", "/tunnels", false, get_tunnels},
    {"GET", "/decisions", false, get_decisions},
    {"GET", "/events", false, get_events},
    {"POST", "/reload", true, post_reload},
    {"POST", "/drain", true, post_drain},
    {"POST", "/tunnels/*/cut", true, post_cut},
    {"GET", "/pending", false, get_pending},
    {"GET", "/grants", false, get_grants},
    {"POST", "/pending/*/approve", true, post_approve},
    {"POST", "/pending/*/refuse", true, post_refuse},
    {"POST", "/grant", true, post_grant},
    {"POST", "/grants/*/revoke", true, post_revoke},
};
const size_t admin_route_count = sizeof(admin_routes) / sizeof(admin_routes[0]);
