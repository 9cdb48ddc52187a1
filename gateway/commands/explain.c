/*
 * `srt-gateway explain`: one request judged as live ones are, by the same code, without resolving
 * its name or connecting.
 */
#include "commands/command.h"
#include "control/addresses.h"
#include "control/gateway.h"
#include "filters/route.h"
#include "filters/words.h"
#include "record/event.h"
#include "srt/cleanup.h"
#include "srt/clock.h"
#include "srt/must.h"
#include "wire/http_syntax.h"

/* What the command line asks. */
struct explain_query {
    const char *config, *policy;
    const char *addr, *method, *path, *sni, *front;
    const char *target;
    bool json;
};

/* A request as a front would have read it. */
struct explain_request {
    struct target target;
    enum front front;
    struct str method, path; /* p == NULL: not visible */
};

/* The judgement, in the words of the record. */
struct explain_result {
    struct decision decision;
    enum outcome verdict;
    bool has_addr;
    struct addr addr;
    const struct config_upstream *via; /* of what is allowed; NULL: it is dialled */
    char message[512], next_step[512];
};

static struct str before_any(struct str s, const char *stops)
{
    for (size_t i = 0; i < s.len; i++)
        if (strchr(stops, s.p[i]) != NULL)
            return (struct str){s.p, i};
    return s;
}

static bool read_front(struct explain_request *request, const char *word)
{
    for (unsigned front = 0; front < FRONT_COUNT; front++)
        if (strcmp(front_word((enum front)front), word) == 0) {
            request->front = (enum front)front;
            return true;
        }
    return false;
}

/* What stands behind SCHEME://; SCHEME is in any case (RFC 3986 3.1). p == NULL: another scheme. */
static struct str behind_scheme(struct str text, struct str scheme)
{
    struct str start = {text.p, text.len < scheme.len ? text.len : scheme.len};
    return str_ieq(start, scheme) ? str_from(text, scheme.len) : STR_NULL;
}

/* host:port and https:// are a tunnel, which hides the path; http:// is a request in clear. */
static bool read_target(struct explain_request *request, const struct explain_query *query,
                        const char **why)
{
    struct str text = str_of(query->target);
    struct str http = behind_scheme(text, STR("http://"));
    struct str url = http.p != NULL ? http : behind_scheme(text, STR("https://"));
    request->front = http.p != NULL ? FRONT_HTTP : FRONT_CONNECT;
    request->path = STR("/");
    if (url.p == NULL) {
        if (strstr(query->target, "://") == NULL)
            return target_parse(&request->target, text, why);
        *why = "only http:// and https:// are judged";
        return false;
    }
    struct str authority = before_any(url, "/?#");
    struct str path = before_any(str_from(url, authority.len), "?#");
    if (path.len > 0)
        request->path = path;
    return target_parse_default(&request->target, authority, http.p != NULL ? 80 : 443, why);
}

static bool all_are(struct str text, uint8_t class)
{
    for (size_t i = 0; i < text.len; i++)
        if (!http_byte_is(text.p[i], class))
            return false;
    return text.len > 0;
}

/* A request in clear where method or path were named, or the target is one. */
static bool read_visible(struct explain_request *request, const struct explain_query *query,
                         const char **why)
{
    const bool named = query->method != NULL || query->path != NULL;
    if (!named && request->front == FRONT_CONNECT) {
        request->path = STR_NULL;
        return true;
    }
    request->front = FRONT_HTTP;
    request->method = str_of(query->method != NULL ? query->method : "GET");
    if (query->path != NULL)
        request->path = before_any(str_of(query->path), "?#");
    if (!all_are(request->method, HTTP_BYTE_TOKEN))
        *why = "--method is no method";
    else if (str_eq(request->method, STR("CONNECT")))
        *why = "CONNECT opens a tunnel, which HOST:PORT alone stands for";
    else if (!str_starts(request->path, STR("/")) || !all_are(request->path, HTTP_BYTE_TARGET))
        *why = "the path is none: it begins with `/` and has no spaces, `\\` nor other than ASCII";
    else
        return true;
    return false;
}

static bool read_request(struct explain_request *request, const struct explain_query *query,
                         const char **why)
{
    if (!read_target(request, query, why) || !read_visible(request, query, why))
        return false;
    if (query->front != NULL && !read_front(request, query->front)) {
        *why = "no such front; there are connect, http, socks5 and transparent";
        return false;
    }
    return true;
}

/* This machine and the configured listeners, as the running gateway would know them. */
static struct guard_host *own_host(const struct gateway_config *config)
{
    size_t addr_count, listener_count = 0;
    autofree struct addr *addrs = addresses_read(&addr_count);
    struct config_address *listeners =
        must(calloc(config->listen_count + config->admin_count + 1, sizeof(*listeners)));
    for (size_t i = 0; i < config->listen_count; i++)
        if (config->listens[i].address.path == NULL)
            listeners[listener_count++] = config->listens[i].address;
    for (size_t i = 0; i < config->admin_count; i++)
        if (config->admin[i].path == NULL)
            listeners[listener_count++] = config->admin[i];
    struct guard_host *host = snapshot_make_host(addrs, addr_count, listeners, listener_count);
    free(listeners);
    return host;
}

/* The same calls, in the same order, as a session makes (INTERFACE 1.4). */
static void judge(struct explain_result *result, struct snapshot *snapshot,
                  const struct policy *policy, const struct explain_request *request,
                  const struct addr *addr, const struct name *sni)
{
    struct chain chain = {.policy = policy};
    struct question question = {.target = &request->target,
                                .front = request->front,
                                .method = request->method,
                                .path = request->path,
                                .now = (int64_t)time(NULL)};
    struct approved approved;

    result->verdict = chain_judge(&chain, &question, &result->decision);
    if (result->decision.asks != 0)
        result->decision.ask_why = "a request waits for it";
    if (result->verdict == OUTCOME_ALLOWED)
        result->via = route_choose(&result->decision, &request->target);
    if (request->target.is_addr)
        addr = addr != NULL ? addr : &request->target.addr;
    else if (result->via != NULL)
        addr = NULL; /* its name is resolved upstream */
    if (result->verdict == OUTCOME_ALLOWED && addr != NULL) {
        snapshot->host = own_host(snapshot->config);
        result->has_addr = true;
        result->addr = *addr;
        result->verdict = chain_approve(&chain, snapshot->host, &request->target, addr, 1,
                                        &result->decision, &approved);
    }
    if (result->verdict == OUTCOME_ALLOWED && sni != NULL)
        result->verdict = chain_judge_sni(&chain, &question, &result->decision, sni);
    if (result->verdict != OUTCOME_ALLOWED) {
        decision_message(&result->decision, &request->target, result->verdict, result->message,
                         sizeof(result->message));
        decision_next_step(&result->decision, &request->target, result->verdict, result->next_step,
                           sizeof(result->next_step));
        return;
    }
    decision_note(&result->decision, &request->target, result->message, sizeof(result->message));
    if (result->message[0] == '\0' && result->via != NULL)
        snprintf(result->message, sizeof(result->message), "by the upstream proxy %s",
                 result->via->name);
}

static void print_record(const struct explain_result *result, const struct policy *policy,
                         const struct explain_request *request)
{
    struct json json = {0};
    struct event_request who = {.policy = str_of(policy_name(policy)),
                                .front = front_word(request->front),
                                .method = request->method,
                                .path = request->path,
                                .target = &request->target};
    json_object_open(&json, NULL);
    json_text(&json, "schema", STR("srt.audit/1"));
    json_time(&json, "ts", clock_wall_ms());
    json_none(&json, "seq");
    event_decision(&json, &who, result->verdict, &result->decision,
                   result->has_addr ? &result->addr : NULL,
                   result->message[0] != '\0' ? str_of(result->message) : STR_NULL);
    json_object_close(&json);
    json_newline(&json);
    fwrite(json.data, 1, json.len, stdout);
    json_free(&json);
}

static void print_row(const char *label, struct str value)
{
    if (value.p != NULL)
        printf("%-10s %.*s\n", label, STR_ARG(value));
}

static void print_pretty(const struct explain_result *result, const struct policy *policy,
                         const struct explain_request *request)
{
    const struct rule *rule = result->decision.ruling.rule;
    char target[TARGET_TEXT_MAX], addr[ADDR_TEXT_MAX], id[RULE_ID_MAX];
    print_row("target", str_of(target_format(target, &request->target)));
    print_row("front", str_of(front_word(request->front)));
    print_row("method", request->method);
    print_row("path", request->path);
    if (result->has_addr)
        print_row("address", str_of(addr_format(addr, &result->addr)));
    print_row("policy", str_of(policy_name(policy)));
    if (result->verdict == OUTCOME_ALLOWED && result->via != NULL)
        print_row("upstream", str_of(result->via->name));
    print_row("verdict", result->verdict == OUTCOME_ALLOWED ? STR("allow")
                         : result->decision.asks != 0       ? STR("ask")
                                                            : STR("deny"));
    if (result->decision.would != OUTCOME_ALLOWED)
        print_row("would", STR("deny (report mode does not apply it)"));
    print_row("reason", str_of(outcome_row(result->verdict)->word));
    if (rule != NULL) {
        print_row("rule", str_of(rule_id(rule, id)));
        printf("%-10s %s = %s\n", "", rule_key(rule), rule->text);
    }
    if (result->verdict != OUTCOME_ALLOWED)
        print_row("message", str_of(result->message));
    if (result->next_step[0] != '\0')
        print_row("next step", str_of(result->next_step));
}

/* Filters count, wait and look at whole requests: they answer live ones only. */
static void say_unasked(const struct snapshot *snapshot, const struct policy *policy,
                        struct explain_result *result)
{
    const struct policy_filters filters = policy_filters(policy);
    size_t len = 0;
    for (size_t i = 0; i < filters.count && len < sizeof(result->message); i++)
        len += (size_t)snprintf(result->message + len, sizeof(result->message) - len, "%s%s",
                                i == 0 ? "filters not asked: " : ", ",
                                snapshot->config->filters[filters.at[i]].name);
}

/* The one that is named; without a name the only one there is. */
static const struct policy *choose_policy(const struct snapshot *snapshot, const char *name)
{
    if (name != NULL)
        return snapshot_policy(snapshot, name);
    return snapshot->config->policy_count == 1 ? snapshot->policies[0] : NULL;
}

static int policy_missing(const struct command *self, const struct snapshot *snapshot,
                          const char *name)
{
    char list[512] = "";
    size_t len = 0;
    for (size_t i = 0; i < snapshot->config->policy_count && len < sizeof(list); i++)
        len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", i > 0 ? ", " : "",
                                snapshot->config->policies[i].name);
    if (snapshot->config->policy_count == 0)
        return command_misused(self, "the configuration has no policy");
    if (name != NULL)
        return command_misused(self, "there is no policy '%s'; there are: %s", name, list);
    return command_misused(self, "which policy? name one with --policy: %s", list);
}

static int explain(const struct command *self, const struct explain_query *query)
{
    struct explain_request request = {0};
    struct addr addr;
    struct name sni;
    const char *why = "malformed";
    if (!read_request(&request, query, &why))
        return command_misused(self, "%s: %s", query->target, why);
    if (query->addr != NULL && !addr_parse(&addr, str_of(query->addr)))
        return command_misused(self, "--addr %s: not an IP address", query->addr);
    if (query->sni != NULL) {
        enum name_fault fault = name_parse(&sni, str_of(query->sni));
        if (fault != NAME_OK)
            return command_misused(self, "--sni %s: %s", query->sni, name_fault_text(fault));
    }

    struct snapshot *snapshot =
        gateway_load(query->config != NULL ? query->config : command_default_config(), NULL);
    if (snapshot == NULL)
        return EXIT_CONFIG;
    const struct policy *policy = choose_policy(snapshot, query->policy);
    if (policy == NULL) {
        int status = policy_missing(self, snapshot, query->policy);
        snapshot_release(snapshot);
        return status;
    }
    struct explain_result result = {0};
    judge(&result, snapshot, policy, &request, query->addr != NULL ? &addr : NULL,
          query->sni != NULL ? &sni : NULL);
    if (result.verdict == OUTCOME_ALLOWED)
        say_unasked(snapshot, policy, &result);
    if (query->json || !isatty(STDOUT_FILENO))
        print_record(&result, policy, &request);
    else
        print_pretty(&result, policy, &request);
    snapshot_release(snapshot);
    return result.verdict == OUTCOME_ALLOWED ? EXIT_DONE : EXIT_NO;
}

int command_explain(const struct command *self, int argc, char **argv)
{
    static const struct option longs[] = {
        {"config", required_argument, NULL, 'c'},
        {"policy", required_argument, NULL, 'p'},
        {"addr", required_argument, NULL, 'a'},
        {"method", required_argument, NULL, 'm'},
        {"path", required_argument, NULL, 'P'},
        {"sni", required_argument, NULL, 's'},
        {"front", required_argument, NULL, 'f'},
        {"json", no_argument, NULL, 'j'},
        COMMAND_COMMON_OPTIONS,
    };
    struct explain_query query = {0};
    for (int option; (option = command_option(self, argc, argv, "c:hV", longs)) != -1;) {
        switch (option) {
        case 'c':
            query.config = optarg;
            break;
        case 'p':
            query.policy = optarg;
            break;
        case 'a':
            query.addr = optarg;
            break;
        case 'm':
            query.method = optarg;
            break;
        case 'P':
            query.path = optarg;
            break;
        case 's':
            query.sni = optarg;
            break;
        case 'f':
            query.front = optarg;
            break;
        default:
            query.json = true;
        }
    }
    if (optind == argc)
        return command_misused(self, "TARGET is missing");
    if (optind + 1 < argc)
        return command_misused(self, "unexpected word '%s'", argv[optind + 1]);
    query.target = argv[optind];
    return explain(self, &query);
}
