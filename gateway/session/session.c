#include "session/session.h"

#include "record/log.h"
#include "session/exchange.h"
#include "session/report.h"
#include "wire/proxy_header.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    UNANSWERED_MAX = 64 << 10, /* of answers that a client does not read; then no further request */
    TURNS_MAX = 32,            /* requests of one connection before the others get their turn */
};

#define LEAVE_S 10.0     /* for a client to take the end of an answer */
#define CLIENT_FIN_S 2.0 /* for an answer to begin after the client has closed its half */

struct step_row {
    const char *name;
    double (*deadline)(const struct session *); /* on the loop's clock, 0 = none; NULL = none */
    enum step (*enter)(struct session *);
    enum step (*wake)(struct session *); /* NULL: nothing can happen meanwhile */
    enum step (*late)(struct session *);
};

static const struct step_row step_rows[STEP_COUNT];

static double now_of(const struct session *s)
{
    return ev_now(s->worker->loop);
}

const struct gateway_config *session_config(const struct session *s)
{
    return (s->tenure != NULL ? s->tenure : s->worker->tenure)->snapshot->config;
}

static enum step refuse(struct session *s, enum outcome outcome)
{
    s->request.outcome = outcome;
    return STEP_REFUSE;
}

/* ---- the request's ties: tenure, narrowing, identity ---- */

static void leave_configuration(struct session *s)
{
    tenure_leave(s->tenure);
    s->tenure = NULL;
    narrowing_leave(s->narrowing);
    s->narrowing = NULL;
    s->identity = (struct identity){0};
}

static struct narrowing *narrowing_in_force(const struct session *s)
{
    return s->door->sandbox != NULL ? s->door->sandbox->narrowing : NULL;
}

static bool is_current(const struct session *s)
{
    return s->tenure == s->worker->tenure && s->narrowing == narrowing_in_force(s);
}

enum outcome session_identify(struct session *s, const struct snapshot *snapshot,
                              struct identity *out)
{
    const struct sandbox *sandbox = s->door->sandbox;
    if (sandbox != NULL) {
        const struct attached attached = {
            .client = sandbox->client, .policy = sandbox->policy, .uid = sandbox->uid};
        return identity_find(snapshot, NULL, &attached, &s->peer, &s->credentials, out);
    }
    *out = (struct identity){0};
    if (s->door->config == NULL)
        return OUTCOME_DRAINING; /* its listener has been removed */
    return identity_find(snapshot, s->door->config, NULL, &s->peer, &s->credentials, out);
}

static void tie_configuration(struct session *s)
{
    struct tenure *tenure = tenure_take(s->worker->tenure);
    struct narrowing *narrowing = narrowing_take(narrowing_in_force(s));
    leave_configuration(s);
    s->tenure = tenure;
    s->narrowing = narrowing;
}

/* Takes up what is in force now; the verdict that was found under something else is void. */
static enum outcome adopt_configuration(struct session *s)
{
    tie_configuration(s);
    s->request.decision = (struct decision){0};
    s->request.generation = s->tenure->snapshot->generation;
    return session_identify(s, s->tenure->snapshot, &s->identity);
}

static struct chain make_chain(const struct identity *identity, const struct narrowing *narrowing)
{
    return (struct chain){
        .policy = identity->policy,
        .narrowing = narrowing != NULL ? narrowing->policy : NULL,
    };
}

struct chain session_chain(const struct session *s)
{
    return make_chain(&s->identity, s->narrowing);
}

/* A policy that was named and is gone denies everything. */
static bool has_chain(const struct identity *identity, const struct narrowing *narrowing)
{
    return identity->policy != NULL || (identity->narrowed_only && narrowing != NULL);
}

static struct question question_of(const struct session *s)
{
    return (struct question){
        .target = &s->request.target,
        .front = s->request.front,
        .method = str_of(s->request.method),
        .path = str_of(s->request.path),
        .now = (int64_t)now_of(s),
    };
}

/* ---- budgets ---- */

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static struct budget *budget_of(const struct session *s)
{
    const struct config_client *client = s->identity.client;
    return client != NULL ? s->tenure->budgets[client - s->tenure->snapshot->config->clients]
                          : NULL;
}

static void leave_budget(struct session *s)
{
    if (s->budget != NULL)
        budget_end(s->budget);
    s->budget = NULL;
    s->charged_bytes = 0;
}

/* A request counts once, also when it is judged again because a reload overtook it. */
static bool enter_budget(struct session *s)
{
    struct budget *budget = budget_of(s);
    if (budget == NULL || budget == s->budget)
        return true;
    leave_budget(s);
    if (!budget_begin(budget, s->identity.client, monotonic_ns(), &s->request.retry_after_s))
        return false;
    s->budget = budget;
    return true;
}

/* What the client has sent since; false: there was more than it may. */
static bool charge_bytes(struct session *s)
{
    unsigned wait_s;
    const struct config_client *client = s->identity.client;
    const uint64_t sent = s->request.bytes_up + s->relay.up.bytes;
    if (s->budget == NULL || client == NULL || client->bytes_up.count == 0)
        return true;
    const int64_t now = monotonic_ns();
    bucket_charge(&s->budget->bytes_up, &client->bytes_up, sent - s->charged_bytes, now);
    s->charged_bytes = sent;
    return !bucket_is_empty(&s->budget->bytes_up, &client->bytes_up, now, &wait_s);
}

static enum step over_limit(struct session *s)
{
    s->cause = CLOSE_LIMIT;
    return STEP_CLOSE;
}

static enum outcome judge_name_again(const struct request *request, const struct chain *chain,
                                     const struct question *question,
                                     const struct decision *decision)
{
    struct name sni;
    if (request->sni == NULL || name_parse(&sni, str_of(request->sni)) != NAME_OK)
        return OUTCOME_ALLOWED;
    return chain_judge_sni(chain, question, decision, &sni);
}

/* Judges what was let through once more, by what is in force now; the server name that was seen
 * too. */
static enum outcome judge_again(const struct session *s, const struct identity *identity,
                                struct decision *decision)
{
    const struct request *request = &s->request;
    const struct chain chain = make_chain(identity, narrowing_in_force(s));
    const struct question question = question_of(s);
    if (!has_chain(identity, narrowing_in_force(s)))
        return OUTCOME_NOT_ALLOWED;
    enum outcome outcome = chain_judge(&chain, &question, decision);
    if (outcome != OUTCOME_ALLOWED)
        return outcome;
    const struct addr *addr = via_judged_addr(request);
    if (addr == NULL)
        return judge_name_again(request, &chain, &question, decision);
    struct approved *approved = malloc(sizeof(*approved));
    if (approved == NULL)
        abort();
    outcome = chain_approve(&chain, s->worker->tenure->snapshot->host, &request->target, addr, 1,
                            decision, approved);
    free(approved);
    return outcome == OUTCOME_ALLOWED ? judge_name_again(request, &chain, &question, decision)
                                      : outcome;
}

/* Who the client is now. Where its listener is gone, what said who this is went with it, and the
 * name of the policy remains. */
static enum outcome identify_again(struct session *s, struct identity *out)
{
    const struct snapshot *snapshot = s->worker->tenure->snapshot;
    if (s->door->sandbox != NULL || s->door->config != NULL)
        return session_identify(s, snapshot, out);
    *out = (struct identity){0};
    if (s->identity.policy != NULL)
        out->policy = snapshot_policy(snapshot, policy_name(s->identity.policy));
    return OUTCOME_ALLOWED;
}

/* Takes up what is in force now if that allows the request too, or if it is to be told so. */
static enum outcome move_to_current(struct session *s, bool even_if_denied)
{
    struct identity identity;
    struct decision decision = {0};
    enum outcome outcome = identify_again(s, &identity);
    if (outcome == OUTCOME_ALLOWED)
        outcome = judge_again(s, &identity, &decision);
    if (outcome != OUTCOME_ALLOWED && !even_if_denied)
        return outcome;
    tie_configuration(s);
    s->identity = identity;
    s->request.decision = decision;
    return outcome;
}

/* ---- the request's end ---- */

static void drop_attempt(struct session *s)
{
    if (s->query != NULL)
        resolver_cancel(s->query);
    s->query = NULL;
    name_service_leave(s->names);
    s->names = NULL;
    if (s->connector != NULL)
        connector_cancel(s->connector);
    s->connector = NULL;
    if (s->attempt != NULL && s->attempt->connected && s->attempt->connection.fd >= 0)
        close(s->attempt->connection.fd);
    if (s->attempt != NULL)
        via_leave(s);
    free(s->attempt);
    s->attempt = NULL;
}

static void forget_ticket(struct session *s)
{
    if (s->ticket != 0)
        TAILQ_REMOVE(&s->worker->waiting, s, waiting_link);
    s->ticket = 0;
    s->record_written = s->record_failed = false;
}

static void note_tunnel_bytes(struct session *s)
{
    if (s->relay.up.from == NULL)
        return;
    s->request.bytes_up += s->relay.up.bytes;
    s->request.bytes_down += s->relay.down.bytes;
    s->relay = (struct relay){0};
}

/* The close record, if one is owed. */
static void end_admission(struct session *s, enum close_cause cause)
{
    if (!s->request.admitted)
        return;
    note_tunnel_bytes(s);
    report_close(s, cause);
    filtering_end(s);
    counter_add(&s->worker->counters.tunnels_closed, 1);
    counter_add(&s->worker->counters.bytes_up, s->request.bytes_up);
    counter_add(&s->worker->counters.bytes_down, s->request.bytes_down);
    s->request.admitted = false;
}

static void end_request(struct session *s, enum close_cause cause)
{
    end_admission(s, cause);
    filtering_forget(s);
    drop_attempt(s);
    forget_ticket(s);
    leave_budget(s);
    leave_configuration(s);
    request_reset(&s->request);
}

static void close_upstream(struct session *s)
{
    ev_io_stop(s->worker->loop, &s->upstream_io);
    stream_close(&s->upstream);
}

static void close_client(struct session *s)
{
    ev_io_stop(s->worker->loop, &s->client_io);
    stream_close(&s->client);
}

/* The descriptor alone, for somebody else to end. */
static int take_fd(struct session *s, struct stream *stream, ev_io *io)
{
    int fd = stream->fd;
    ev_io_stop(s->worker->loop, io);
    stream->fd = -1;
    stream_close(stream);
    return fd;
}

/* A reset of one side becomes a reset of the other, after what was read has been delivered. */
static void close_tunnel(struct session *s)
{
    struct farewells *farewells = &s->worker->farewells;
    if (s->upstream.deaf && !s->client.deaf)
        farewell_reset(farewells, take_fd(s, &s->client, &s->client_io));
    else if (s->client.deaf && !s->upstream.deaf)
        farewell_reset(farewells, take_fd(s, &s->upstream, &s->upstream_io));
}

static void session_destroy(struct session *s)
{
    struct worker *worker = s->worker;
    if (s->relay.up.from != NULL)
        close_tunnel(s);
    end_request(s, s->cause);
    close_upstream(s);
    close_client(s);
    ev_timer_stop(worker->loop, &s->timer);
    http_free(s->http);
    LIST_REMOVE(s, link);
    door_leave(s->door);
    counter_add(&worker->counters.connections_closed, 1);
    workers_connection_closed(worker->team);
    free(s);
    worker_check_drained(worker);
}

/* ---- READ ---- */

void session_begin_request(struct session *s, enum front front)
{
    request_reset(&s->request);
    worker_make_id(s->worker, s->request.id);
    s->request.front = front;
}

enum proto_result session_refuse_request(struct session *s, enum outcome outcome, int http_status,
                                         const char *why)
{
    s->request.outcome = outcome;
    s->request.http_status = http_status;
    s->request.why = why;
    return PROTO_REFUSED;
}

static size_t read_limit(const struct session *s)
{
    return session_config(s)->max_header_bytes + 1; /* one more, so that too long is seen */
}

static void choose_proto(struct session *s)
{
    const struct config_listen *config = s->door->config;
    if (config != NULL && config->protocol == PROTOCOL_HTTP)
        s->proto = &proto_http;
    else if (config != NULL && config->protocol == PROTOCOL_SOCKS5)
        s->proto = &proto_socks5;
    else
        s->proto = proto_guess((unsigned char)buf_view(&s->client.in).p[0]);
}

static enum front front_of(const struct session *s)
{
    return s->proto == &proto_socks5 ? FRONT_SOCKS5
           : s->proto == &proto_http ? FRONT_HTTP
                                     : FRONT_COUNT;
}

/* What there is of a request will not become one. */
static enum step refuse_fragment(struct session *s, enum outcome outcome, const char *why)
{
    session_begin_request(s, front_of(s));
    if (s->http != NULL)
        s->http->parsed = false;
    session_refuse_request(s, outcome, 0, why);
    return STEP_REFUSE;
}

/* A whole request is not here yet. */
static enum step await_request(struct session *s)
{
    if (s->client.broken || (s->client.eof && s->client.in.len == 0))
        return STEP_CLOSE;
    if (s->client.eof)
        return refuse_fragment(s, OUTCOME_BAD_REQUEST, "it ends in the middle");
    if (s->client.in.len == 0 && s->worker->draining && s->began <= 0)
        return STEP_CLOSE;
    return STEP_WAIT;
}

/* False: not yet, or refused for good (then `*next` says so). */
static bool read_proxy_header(struct session *s, enum step *next)
{
    struct proxy_header header;
    size_t used;
    const struct config_listen *config = s->door->config;
    if (s->proxy_header_done || config == NULL || !config->proxy_protocol)
        return true;
    switch (proxy_header_parse(buf_view(&s->client.in), &header, &used)) {
    case PROXY_HEADER_MORE:
        *next = await_request(s);
        return false;
    case PROXY_HEADER_BAD:
        session_begin_request(s, FRONT_COUNT);
        session_refuse_request(s, OUTCOME_BAD_REQUEST, 0, "a PROXY protocol header is required");
        *next = STEP_REFUSE;
        return false;
    case PROXY_HEADER_PARSED:
        break;
    }
    buf_take(&s->client.in, used);
    s->proxy_header_done = true;
    if (header.has_source) {
        s->peer.addr = header.source;
        s->peer.port = header.source_port;
    }
    return true;
}

static enum step read_request(struct session *s)
{
    enum step next = STEP_WAIT;
    for (;;) {
        if (s->client.out.len >= UNANSWERED_MAX)
            return STEP_WAIT;
        if (s->client.in.len == 0)
            return await_request(s);
        if (s->began <= 0)
            s->began = now_of(s);
        if (!read_proxy_header(s, &next))
            return next;
        if (s->client.in.len == 0)
            return await_request(s);
        if (s->proto == NULL)
            choose_proto(s);
        switch (s->proto->read(s)) {
        case PROTO_MORE:
            return await_request(s);
        case PROTO_ANSWERED:
            if (s->proto == &proto_http)
                s->began =
                    0; /* the next head has its own time; a SOCKS handshake has one for all */
            continue;
        case PROTO_REQUEST:
            return STEP_JUDGE;
        case PROTO_REFUSED:
            return STEP_REFUSE;
        case PROTO_CLOSE:
            return STEP_LEAVE;
        }
    }
}

/* What an idle upstream says, or its end, is nobody's answer (RFC 9112 9.3 allows to close it). */
static void look_at_idle_upstream(struct session *s)
{
    char byte;
    if (s->upstream.fd < 0)
        return;
    if (stream_read(&s->upstream, &byte, 1) > 0 || s->upstream.eof || s->upstream.deaf)
        close_upstream(s);
}

static enum step wake_read(struct session *s)
{
    look_at_idle_upstream(s);
    stream_flush(&s->client);
    if (s->client.deaf)
        return STEP_CLOSE;
    stream_fill(&s->client, read_limit(s));
    return read_request(s);
}

static enum step enter_read(struct session *s)
{
    end_request(s, s->cause);
    s->cause = CLOSE_CLIENT;
    s->active = now_of(s);
    s->began = 0;
    worker_check_drained(s->worker);
    if (s->door->closed && s->door->sandbox == NULL)
        return STEP_LEAVE;
    if (++s->turns > TURNS_MAX) {
        s->yields = true;
        return STEP_WAIT;
    }
    return wake_read(s);
}

static double read_deadline(const struct session *s)
{
    const struct gateway_config *config = session_config(s);
    if (s->began > 0)
        return s->began + (double)config->header_timeout_ms / 1000.;
    return s->active + (double)config->idle_timeout_ms / 1000.;
}

static enum step read_late(struct session *s)
{
    if (s->client.in.len == 0 && (s->proto == NULL || s->proto == &proto_http))
        return STEP_CLOSE; /* nothing was asked */
    return refuse_fragment(s, OUTCOME_TIMEOUT, "it was not complete within header-timeout");
}

/* ---- JUDGE ---- */

static enum step enter_judge(struct session *s)
{
    struct request *request = &s->request;
    enum outcome identified = adopt_configuration(s);
    s->client_fin = 0;
    if (s->worker->draining)
        return refuse(s, OUTCOME_DRAINING);
    if (s->over_capacity)
        return refuse(s, OUTCOME_OVERLOAD);
    if (!audit_healthy(s->worker->audit))
        return refuse(s, OUTCOME_AUDIT_FAILURE);
    if (identified != OUTCOME_ALLOWED)
        return refuse(s, identified);
    if (!has_chain(&s->identity, s->narrowing))
        return refuse(s, OUTCOME_NOT_ALLOWED);
    const struct chain chain = session_chain(s);
    const struct question question = question_of(s);
    enum outcome outcome = chain_judge(&chain, &question, &request->decision);
    if (outcome != OUTCOME_ALLOWED)
        return refuse(s, outcome);
    if (s->http != NULL && s->http->loops)
        return refuse(s, OUTCOME_LOOP);
    if (!enter_budget(s))
        return refuse(s, OUTCOME_LIMIT);
    return STEP_FILTER;
}

/* ---- FILTER ---- */

static enum step after_filters(struct session *s, enum filtering result)
{
    switch (result) {
    case FILTERING_PASSED:
        return STEP_RESOLVE;
    case FILTERING_WAITS:
        return STEP_WAIT;
    case FILTERING_DENIED:
        break;
    }
    return refuse(s, OUTCOME_FILTER);
}

static enum step enter_filter(struct session *s)
{
    return after_filters(s, filtering_begin(s));
}

/* A client that has closed may have closed only its half; it has as long as in an exchange. */
static enum step wake_filter(struct session *s)
{
    stream_fill(&s->client, read_limit(s));
    if (s->client.broken || s->client.deaf)
        return after_filters(s, filtering_give_up(s, true));
    if (s->client.eof && s->client_fin <= 0)
        s->client_fin = now_of(s);
    return after_filters(s, filtering_go_on(s));
}

static double filter_deadline(const struct session *s)
{
    const double end = filtering_deadline(s), gone = s->client_fin + CLIENT_FIN_S;
    return s->client_fin > 0 && gone < end ? gone : end;
}

static enum step filter_late(struct session *s)
{
    const bool left = now_of(s) < filtering_deadline(s) - .001;
    return after_filters(s, filtering_give_up(s, left));
}

/* It is allowed, and what has to be dialled cannot be had. */
static enum step refuse_dialled(struct session *s, enum outcome outcome)
{
    via_blame(s, NULL, 0);
    return refuse(s, outcome);
}

/* ---- RESOLVE ---- */

static void on_resolved(void *arg, const struct resolve_answer *answer)
{
    struct session *s = arg;
    s->query = NULL;
    s->attempt->answer = *answer;
    s->attempt->resolved = true;
    session_run(s);
}

static enum step wake_resolve(struct session *s)
{
    if (!s->attempt->resolved)
        return STEP_WAIT;
    name_service_leave(s->names);
    s->names = NULL;
    switch (s->attempt->answer.status) {
    case RESOLVE_OK:
        return STEP_VET;
    case RESOLVE_NXDOMAIN:
        return refuse_dialled(s, OUTCOME_DNS_NXDOMAIN);
    case RESOLVE_FAILURE:
        return refuse_dialled(s, OUTCOME_DNS_FAILURE);
    case RESOLVE_TIMEOUT:
        return refuse_dialled(s, OUTCOME_DNS_TIMEOUT);
    }
    return refuse_dialled(s, OUTCOME_DNS_FAILURE);
}

static enum step enter_resolve(struct session *s)
{
    drop_attempt(s);
    s->attempt = calloc(1, sizeof(*s->attempt));
    if (s->attempt == NULL)
        abort();
    via_choose(s);
    struct attempt *attempt = s->attempt;
    const struct target *target = via_dialled(s);
    if (target->is_addr) {
        attempt->answer = (struct resolve_answer){.status = RESOLVE_OK, .count = 1};
        attempt->answer.addrs[0] = target->addr;
        attempt->resolved = true;
        return wake_resolve(s);
    }
    s->names = s->worker->names;
    s->names->users++;
    s->query = resolver_start(s->names->resolver, &target->name, &attempt->answer, on_resolved, s);
    attempt->resolved = s->query == NULL;
    return wake_resolve(s);
}

/* ---- VET ---- */

static enum step enter_vet(struct session *s)
{
    struct request *request = &s->request;
    enum outcome outcome = via_approve(s);
    if (outcome == OUTCOME_ALLOWED)
        return STEP_CONNECT;
    request->has_addr = request->decision.denied_addr.family != 0;
    request->addr = request->decision.denied_addr;
    return refuse(s, outcome);
}

/* ---- CONNECT ---- */

static bool is_approved(const struct approved *approved, const struct addr *addr)
{
    for (uint32_t i = 0; i < approved->count; i++)
        if (addr_eq(&approved->addrs[i], addr))
            return true;
    return false;
}

static const struct config_bind *bind_of(const struct session *s)
{
    return policy_bind(s->identity.policy != NULL ? s->identity.policy : s->narrowing->policy);
}

/* A kept upstream serves only this client, the same target, the same way, an address that is
 * approved now, one that comes from where the policy says now, and requests that may be sent again
 * if it turns out to be dead. */
static bool can_reuse_upstream(struct session *s)
{
    look_at_idle_upstream(s);
    return s->upstream.fd >= 0 && s->request.front == FRONT_HTTP && s->http->retryable &&
           !s->http->wants_upgrade && target_eq(&s->upstream_target, &s->request.target) &&
           via_is_kept(s) && is_approved(&s->attempt->approved, &s->upstream_addr) &&
           memcmp(&s->upstream_bind, bind_of(s), sizeof(s->upstream_bind)) == 0;
}

static void on_connected(void *arg, const struct connected *connected)
{
    struct session *s = arg;
    s->connector = NULL;
    s->attempt->connection = *connected;
    s->attempt->connected = true;
    session_run(s);
}

static enum step enter_connect(struct session *s)
{
    if (can_reuse_upstream(s)) {
        s->http->reused = true;
        s->request.has_addr = true;
        s->request.addr = s->upstream_addr;
        return STEP_RECORD;
    }
    close_upstream(s);
    if (s->http != NULL)
        s->http->reused = false;
    s->attempt->began = now_of(s);
    const struct connect_options options = {
        .timeout_ms = session_config(s)->connect_timeout_ms,
        .bind = bind_of(s),
        .reach = s->worker->reach,
    };
    s->connector =
        connector_start(s->worker->loop, &s->attempt->approved, &options, on_connected, s);
    return STEP_WAIT;
}

static enum step reached(const struct session *s)
{
    return s->request.admitted ? STEP_EXCHANGE : STEP_RECORD; /* admitted: its second try */
}

static enum step wake_connect(struct session *s)
{
    struct attempt *attempt = s->attempt;
    if (!attempt->connected)
        return STEP_WAIT;
    attempt->connected = false; /* the descriptor is the session's from here on */
    s->request.has_addr = true;
    s->request.addr = attempt->connection.addr;
    s->request.tried = attempt->connection.tried;
    s->request.approved = attempt->approved.count;
    s->cause = CLOSE_ERROR; /* should this be a second try that fails */
    if (attempt->connection.outcome != OUTCOME_ALLOWED)
        return refuse_dialled(s, attempt->connection.outcome);
    stream_init(&s->upstream, attempt->connection.fd);
    s->upstream.deaf = attempt->connection.was_reset;
    ev_io_set(&s->upstream_io, s->upstream.fd, 0);
    s->upstream_target = s->request.target;
    s->upstream_addr = s->request.addr;
    s->upstream_bind = *bind_of(s);
    via_keep(s);
    return via_needs_handshake(s) ? STEP_HANDSHAKE : reached(s);
}

/* ---- HANDSHAKE ---- */

static enum step wake_handshake(struct session *s)
{
    switch (via_turn(s)) {
    case HANDSHAKE_MORE:
        return STEP_WAIT;
    case HANDSHAKE_DONE:
        return reached(s);
    case HANDSHAKE_FAILED:
        break;
    }
    close_upstream(s);
    return refuse(s, s->attempt->handshake.outcome);
}

static enum step enter_handshake(struct session *s)
{
    via_begin(s);
    return wake_handshake(s);
}

/* connect-timeout is for all of the way to the target. */
static double handshake_deadline(const struct session *s)
{
    return s->attempt->began + (double)session_config(s)->connect_timeout_ms / 1000.;
}

static enum step handshake_late(struct session *s)
{
    close_upstream(s);
    return refuse_dialled(s, OUTCOME_CONNECT_TIMEOUT);
}

/* ---- RECORD ---- */

static void admit(struct session *s)
{
    s->request.admitted = true;
    s->request.since = now_of(s);
    s->request.since_ms = (int64_t)(now_of(s) * 1000.);
    counter_add(&s->worker->counters.tunnels, 1);
}

/* A ticket for the next record, or 0 when there is nothing to wait for. */
static uint64_t take_ticket(struct session *s)
{
    assert(s->ticket == 0);
    s->record_written = s->record_failed = false;
    if (!audit_waits(s->worker->audit))
        return 0;
    s->ticket = tickets_take(s->worker->tickets);
    TAILQ_INSERT_TAIL(&s->worker->waiting, s, waiting_link);
    return s->ticket;
}

static enum step enter_record(struct session *s)
{
    /* What was put in force while we resolved and connected applies to what begins now. */
    if (!is_current(s) || s->worker->draining) {
        drop_attempt(s);
        if (s->http == NULL || !s->http->reused)
            close_upstream(s);
        s->request.has_addr = false;
        return STEP_JUDGE;
    }
    const uint64_t ticket = take_ticket(s);
    if (!report_admission(s, ticket)) {
        forget_ticket(s);
        return refuse(s, OUTCOME_AUDIT_FAILURE);
    }
    admit(s);
    return ticket != 0 ? STEP_WAIT : STEP_ANSWER;
}

/* It was admitted, nothing of an answer has been passed on, and what is in force now denies it. */
static enum step refuse_as_overtaken(struct session *s, enum outcome outcome)
{
    s->request.generation = s->tenure->snapshot->generation;
    s->cause = CLOSE_POLICY;
    return refuse(s, outcome);
}

static enum step wake_record(struct session *s)
{
    if (s->record_failed) {
        /* The log has said itself that the record is lost; so it has nothing to close. */
        s->request.admitted = false;
        counter_add(&s->worker->counters.tunnels_closed, 1);
        return refuse(s, OUTCOME_AUDIT_FAILURE);
    }
    if (!s->record_written)
        return STEP_WAIT;
    if (is_current(s))
        return STEP_ANSWER;
    enum outcome outcome = move_to_current(s, true);
    return outcome == OUTCOME_ALLOWED ? STEP_ANSWER : refuse_as_overtaken(s, outcome);
}

void session_record_written(struct session *s, bool go)
{
    forget_ticket(s);
    s->record_written = go;
    s->record_failed = !go;
    session_run(s);
}

/* ---- ANSWER ---- */

static bool hello_matters(const struct session *s)
{
    const struct decision *decision = &s->request.decision;
    bool strict;
    return policy_sni_matters(&decision->ruling, &strict) ||
           (decision->narrowed.policy != NULL && policy_sni_matters(&decision->narrowed, &strict));
}

static bool hello_is_required(const struct session *s)
{
    const struct decision *decision = &s->request.decision;
    bool strict = false, narrowed_strict = false;
    bool matters = policy_sni_matters(&decision->ruling, &strict) && strict;
    if (decision->narrowed.policy != NULL)
        matters |= policy_sni_matters(&decision->narrowed, &narrowed_strict) && narrowed_strict;
    return matters;
}

static enum step enter_answer(struct session *s)
{
    s->proto->accept(s);
    s->active = now_of(s);
    if (s->request.front == FRONT_HTTP)
        return STEP_EXCHANGE;
    drop_attempt(s);
    http_free(s->http);
    s->http = NULL;
    relay_init(&s->relay, &s->client, &s->upstream);
    s->relay.up.held = hello_matters(s);
    s->hello = (struct hello_scan){0};
    s->watched = false;
    s->began = 0;
    return s->relay.up.held ? STEP_HELLO : STEP_RELAY;
}

/* ---- RELAY ---- */

static double relay_deadline(const struct session *s)
{
    const struct gateway_config *config = session_config(s);
    double idle = s->active + (double)config->idle_timeout_ms / 1000.;
    double end = s->request.since + (double)config->tunnel_lifetime_ms / 1000.;
    return config->tunnel_lifetime_ms != 0 && end < idle ? end : idle;
}

static enum step relay_late(struct session *s)
{
    const struct gateway_config *config = session_config(s);
    double age = now_of(s) - s->request.since;
    s->cause =
        config->tunnel_lifetime_ms != 0 && age >= (double)config->tunnel_lifetime_ms / 1000. - .001
            ? CLOSE_LIFETIME
            : CLOSE_IDLE;
    return STEP_CLOSE;
}

static void turn_relay(struct session *s)
{
    if (relay_turn(&s->relay, s->worker->scratch) > 0)
        s->active = now_of(s);
}

static enum step wake_relay(struct session *s)
{
    turn_relay(s);
    if (!charge_bytes(s))
        return over_limit(s);
    if (!relay_is_over(&s->relay))
        return STEP_WAIT;
    s->cause = s->relay.ended_first == RELAY_UPSTREAM ? CLOSE_UPSTREAM : CLOSE_CLIENT;
    return STEP_CLOSE;
}

/* ---- HELLO ---- */

/* The tunnel is open, so the client is told in the language that it has begun to speak. */
static enum step end_tunnel(struct session *s, enum outcome outcome, const char *why, bool tls)
{
    uint8_t alert[7];
    s->request.outcome = outcome;
    s->request.why = why;
    (void)report_refusal(s, 0);
    note_tunnel_bytes(s);
    if (tls) {
        hello_alert(alert, 112);
        stream_send(&s->client, (struct str){(const char *)alert, sizeof(alert)});
    }
    close_upstream(s);
    s->cause = CLOSE_POLICY;
    end_admission(s, s->cause);
    return STEP_LEAVE;
}

static enum step judge_hello(struct session *s, const struct hello *hello)
{
    const struct chain chain = session_chain(s);
    const struct question question = question_of(s);
    if (hello->has_name && !hello->name_is_valid)
        return end_tunnel(s, OUTCOME_SNI_MISMATCH, NULL, true);
    if (hello->has_name) {
        free(s->request.sni);
        s->request.sni = request_copy_text(name_str(&hello->name));
    }
    if (chain_judge_sni(&chain, &question, &s->request.decision,
                        hello->has_name ? &hello->name : NULL) != OUTCOME_ALLOWED)
        return end_tunnel(s, OUTCOME_SNI_MISMATCH, NULL, true);
    return STEP_RELAY;
}

/* RELAY: it is allowed and has gone on. */
static enum step pass_hello(struct session *s, const struct hello *hello, size_t len)
{
    enum step step = judge_hello(s, hello);
    if (step == STEP_RELAY)
        relay_pass(&s->relay.up, len);
    return step;
}

/* A server may ask for a second hello and then take its name: nothing is relayed unseen before it
 * is known that there is none. The client's next records tell. */
static enum step watch_hello(struct session *s)
{
    const struct stream *client = &s->client;
    while (client->in.len > 0 && s->upstream.out.len == 0) {
        struct hello second;
        size_t pass;
        switch (hello_watch_feed(&s->watch, buf_view(&client->in), &pass, &second)) {
        case HELLO_WATCH_MORE:
            if (pass == 0 && (client->eof || client->broken))
                return end_tunnel(s, OUTCOME_SNI_MISMATCH, NULL, true);
            if (pass == 0) {
                s->began = s->began > 0 ? s->began : now_of(s);
                return STEP_WAIT;
            }
            s->began = 0;
            relay_pass(&s->relay.up, pass);
            break;
        case HELLO_WATCH_HELLO:
            return pass_hello(s, &second, pass);
        case HELLO_WATCH_OVER:
            return STEP_RELAY;
        case HELLO_WATCH_BAD:
            return end_tunnel(s, OUTCOME_SNI_MISMATCH, NULL, true);
        }
    }
    return client->in.len == 0 && (client->eof || client->broken) ? STEP_RELAY : STEP_WAIT;
}

static enum step on_first_hello(struct session *s, const struct hello *hello)
{
    enum step step = pass_hello(s, hello, s->hello.at);
    if (step != STEP_RELAY)
        return step;
    s->began = 0;
    s->watched = true;
    hello_watch_init(&s->watch, hello);
    return watch_hello(s);
}

static enum step wake_hello(struct session *s)
{
    struct hello hello;
    turn_relay(s);
    const struct stream *client = &s->client;
    const bool ended = client->eof || client->broken;
    if (relay_is_over(&s->relay))
        return wake_relay(s);
    if (s->watched)
        return watch_hello(s);
    if (client->in.len == 0)
        return ended ? STEP_RELAY : STEP_WAIT;
    if (s->began <= 0)
        s->began = now_of(s);
    switch (hello_parse(buf_view(&client->in), &s->hello, &hello)) {
    case HELLO_MORE:
        return ended ? end_tunnel(s, OUTCOME_SNI_MISMATCH, NULL, true) : STEP_WAIT;
    case HELLO_BAD:
        return end_tunnel(s, OUTCOME_SNI_MISMATCH, NULL, true);
    case HELLO_NOT_TLS:
        return hello_is_required(s) ? end_tunnel(s, OUTCOME_SNI_MISMATCH, NULL, false) : STEP_RELAY;
    case HELLO_PARSED:
        return on_first_hello(s, &hello);
    }
    return end_tunnel(s, OUTCOME_SNI_MISMATCH, NULL, true);
}

static enum step enter_relay(struct session *s)
{
    relay_release(&s->relay.up);
    return wake_relay(s);
}

static double hello_deadline(const struct session *s)
{
    double end = relay_deadline(s);
    double hello = s->began + (double)session_config(s)->header_timeout_ms / 1000.;
    return s->began > 0 && hello < end ? hello : end;
}

static enum step hello_late(struct session *s)
{
    if (s->began > 0)
        return end_tunnel(s, OUTCOME_TIMEOUT,
                          "the TLS hello was not complete within header-timeout", true);
    return relay_late(s);
}

/* ---- EXCHANGE ---- */

static enum step wake_exchange(struct session *s)
{
    enum exchange_result result = exchange_turn(s);
    if (!charge_bytes(s))
        return over_limit(s);
    switch (result) {
    case EXCHANGE_WAIT:
        return STEP_WAIT;
    case EXCHANGE_NEXT:
        s->cause = CLOSE_UPSTREAM;
        if (!s->http->upstream_stays)
            close_upstream(s);
        return STEP_READ;
    case EXCHANGE_LEAVE:
        s->cause = CLOSE_UPSTREAM;
        return STEP_LEAVE;
    case EXCHANGE_UPGRADED:
        drop_attempt(s);
        http_free(s->http);
        s->http = NULL;
        relay_init(&s->relay, &s->client, &s->upstream);
        return STEP_RELAY;
    case EXCHANGE_RETRY:
        return STEP_CONNECT;
    case EXCHANGE_REFUSED:
        s->cause = s->request.outcome == OUTCOME_BAD_REQUEST ? CLOSE_CLIENT : CLOSE_ERROR;
        return STEP_REFUSE;
    case EXCHANGE_ABORTED:
        /* Where the end of the connection is the end of the body, a FIN would make it look whole.
         */
        s->resets = s->http->head_passed && s->http->response_coding == HTTP_BODY_UNTIL_CLOSE;
        return s->cause == CLOSE_CLIENT ? STEP_CLOSE : STEP_LEAVE;
    }
    return STEP_CLOSE;
}

static enum step enter_exchange(struct session *s)
{
    exchange_begin(s);
    if (!s->http->reused)
        drop_attempt(s);
    return wake_exchange(s);
}

static double exchange_deadline(const struct session *s)
{
    double end = relay_deadline(s);
    double gone = s->client_fin + CLIENT_FIN_S;
    return s->client_fin > 0 && !s->http->head_passed && gone < end ? gone : end;
}

static enum step exchange_late(struct session *s)
{
    if (s->client_fin > 0 && !s->http->head_passed) {
        s->cause = CLOSE_CLIENT;
        return STEP_CLOSE;
    }
    enum step next = relay_late(s);
    if (s->http->head_passed)
        return next;
    session_refuse_request(s, OUTCOME_TIMEOUT, 504, "the server did not answer in time");
    return STEP_REFUSE;
}

/* ---- REFUSE, LEAVE, CLOSE ---- */

static enum step leave(struct session *s)
{
    stream_flush(&s->client);
    if (s->client.deaf)
        return STEP_CLOSE;
    if (s->client.out.len > 0)
        return STEP_WAIT;
    if (s->resets)
        farewell_reset(&s->worker->farewells, take_fd(s, &s->client, &s->client_io));
    else
        farewell_linger(&s->worker->farewells, take_fd(s, &s->client, &s->client_io));
    return STEP_CLOSE;
}

static enum step enter_leave(struct session *s)
{
    end_request(s, s->cause);
    close_upstream(s);
    buf_free(&s->client.in);
    return leave(s);
}

static enum step tell_refusal(struct session *s)
{
    const bool admitted = s->request.admitted;
    end_admission(s, s->cause);
    if (admitted || s->request.front != FRONT_HTTP)
        close_upstream(s);
    bool goes_on = s->proto != NULL && s->proto->refuse(s);
    return goes_on && !s->client.deaf ? STEP_READ : STEP_LEAVE;
}

/* The record is there before the client knows; but a log that fails keeps nobody waiting. */
static enum step enter_refuse(struct session *s)
{
    if (s->tenure == NULL)
        (void)adopt_configuration(s); /* only for the record; the outcome stands */
    drop_attempt(s);
    const uint64_t ticket = take_ticket(s);
    if (report_refusal(s, ticket) && ticket != 0)
        return STEP_WAIT;
    forget_ticket(s);
    return tell_refusal(s);
}

static enum step wake_refuse(struct session *s)
{
    return s->record_written || s->record_failed ? tell_refusal(s) : STEP_WAIT;
}

static double leave_deadline(const struct session *s)
{
    return s->entered + LEAVE_S;
}

static enum step to_close(struct session *s)
{
    (void)s;
    return STEP_CLOSE;
}

/* ---- the table, and the one function that moves along it ---- */

static const struct step_row step_rows[STEP_COUNT] = {
    [STEP_READ] = {"READ", read_deadline, enter_read, wake_read, read_late},
    [STEP_JUDGE] = {"JUDGE", NULL, enter_judge, NULL, NULL},
    [STEP_FILTER] = {"FILTER", filter_deadline, enter_filter, wake_filter, filter_late},
    [STEP_RESOLVE] = {"RESOLVE", NULL, enter_resolve, wake_resolve, NULL},
    [STEP_VET] = {"VET", NULL, enter_vet, NULL, NULL},
    [STEP_CONNECT] = {"CONNECT", NULL, enter_connect, wake_connect, NULL},
    [STEP_HANDSHAKE] = {"HANDSHAKE", handshake_deadline, enter_handshake, wake_handshake,
                        handshake_late},
    [STEP_RECORD] = {"RECORD", NULL, enter_record, wake_record, NULL},
    [STEP_ANSWER] = {"ANSWER", NULL, enter_answer, NULL, NULL},
    [STEP_HELLO] = {"HELLO", hello_deadline, wake_hello, wake_hello, hello_late},
    [STEP_RELAY] = {"RELAY", relay_deadline, enter_relay, wake_relay, relay_late},
    [STEP_EXCHANGE] = {"EXCHANGE", exchange_deadline, enter_exchange, wake_exchange, exchange_late},
    [STEP_REFUSE] = {"REFUSE", NULL, enter_refuse, wake_refuse, NULL},
    [STEP_LEAVE] = {"LEAVE", leave_deadline, enter_leave, leave, to_close},
    [STEP_CLOSE] = {"CLOSE", NULL, NULL, NULL, NULL},
};

static bool is_timed(enum step step)
{
    return step == STEP_JUDGE || step == STEP_RESOLVE || step == STEP_CONNECT;
}

/* What the step that is left was for took this long. One that its client did not wait for says
 * nothing, nor one that had nothing to do. */
static void count_time(struct session *s, enum step next, int64_t now)
{
    const bool idle = (s->step == STEP_RESOLVE && s->request.target.is_addr) ||
                      (s->step == STEP_CONNECT && s->http != NULL && s->http->reused);
    if (idle || next == STEP_CLOSE || next == STEP_LEAVE)
        return;
    const enum timing timing = s->step == STEP_JUDGE     ? TIMING_DECISION
                               : s->step == STEP_RESOLVE ? TIMING_DNS
                                                         : TIMING_CONNECT;
    const uint64_t took = now > s->entered_ns ? (uint64_t)(now - s->entered_ns) : 0;
    const bool refused = next == STEP_REFUSE;
    counter_add(&s->worker->counters.timings[timing][refused].buckets[metrics_bucket(took)], 1);
    counter_add(&s->worker->counters.timings[timing][refused].sum_ns, took);
}

static void set_step(struct session *s, enum step step)
{
    if (is_timed(s->step) || is_timed(step)) {
        const int64_t now = monotonic_ns();
        if (is_timed(s->step))
            count_time(s, step, now);
        s->entered_ns = now;
    }
    if (s->worker->trace)
        log_line("worker %u session %llu: %s -> %s", s->worker->index,
                 (unsigned long long)s->number, step_rows[s->step].name, step_rows[step].name);
    s->step = step;
    s->entered = now_of(s);
}

static bool wants_input(const struct session *s, const struct stream *stream)
{
    switch (s->step) {
    case STEP_READ:
        return stream == &s->upstream ||
               (stream->in.len < read_limit(s) && stream->out.len < UNANSWERED_MAX);
    case STEP_HANDSHAKE:
        return stream == &s->upstream;
    case STEP_FILTER:
        return stream == &s->client && stream->in.len < read_limit(s);
    case STEP_HELLO:
    case STEP_RELAY:
        return relay_reads(&s->relay, stream);
    case STEP_EXCHANGE:
        return exchange_reads(s, stream);
    case STEP_JUDGE:
    case STEP_RESOLVE:
    case STEP_VET:
    case STEP_CONNECT:
    case STEP_RECORD:
    case STEP_ANSWER:
    case STEP_REFUSE:
    case STEP_LEAVE:
    case STEP_CLOSE:
    case STEP_COUNT:
        break;
    }
    return false;
}

static void watch_stream(struct session *s, struct stream *stream, ev_io *io)
{
    int events = stream->fd >= 0 ? stream_interest(stream, wants_input(s, stream)) : 0;
    if (ev_is_active(io) && (io->events & (EV_READ | EV_WRITE)) == events)
        return;
    if (!ev_is_active(io) && events == 0)
        return;
    ev_io_stop(s->worker->loop, io);
    if (events == 0)
        return;
    ev_io_set(io, stream->fd, events);
    ev_io_start(s->worker->loop, io);
}

/* Deadlines move with every byte, so the timer is left where it is while it fires early enough: it
 * then finds that it is not time yet. */
static void watch_time(struct session *s)
{
    const struct step_row *row = &step_rows[s->step];
    double at = row->deadline != NULL ? row->deadline(s) : 0;
    if (s->yields)
        at = now_of(s);
    if (s->timer_at > 0 && at > 0 && s->timer_at <= at)
        return;
    ev_timer_stop(s->worker->loop, &s->timer);
    s->timer_at = at;
    if (at <= 0)
        return;
    double after = at - now_of(s);
    ev_timer_set(&s->timer, after > 0 ? after : 0., 0.);
    ev_timer_start(s->worker->loop, &s->timer);
}

/* The only place where a session moves on, and where it ends. */
static void proceed(struct session *s, enum step next)
{
    assert(!s->running);
    s->running = true;
    while (next != STEP_WAIT) {
        set_step(s, next);
        if (next == STEP_CLOSE) {
            session_destroy(s);
            return;
        }
        next = step_rows[next].enter(s);
    }
    s->running = false;
    watch_stream(s, &s->client, &s->client_io);
    watch_stream(s, &s->upstream, &s->upstream_io);
    s->yields |= stream_has_pending(&s->upstream) && wants_input(s, &s->upstream);
    watch_time(s);
}

/* A step that waits for somebody else leaves nothing unsaid meanwhile: the loop would tell without
 * end that there is room again. Those that carry bytes send by themselves, and count what goes. */
static void flush_meanwhile(struct session *s)
{
    if (s->step == STEP_HELLO || s->step == STEP_RELAY || s->step == STEP_EXCHANGE)
        return;
    stream_flush(&s->client);
    if (s->upstream.fd >= 0)
        stream_flush(&s->upstream);
}

void session_run(struct session *s)
{
    const struct step_row *row = &step_rows[s->step];
    s->turns = 0;
    s->yields = false;
    flush_meanwhile(s);
    proceed(s, row->wake != NULL ? row->wake(s) : STEP_WAIT);
}

static void on_client(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop;
    struct session *s = io->data;
    stream_ready(&s->client, revents);
    session_run(s);
}

static void on_upstream(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop;
    struct session *s = io->data;
    stream_ready(&s->upstream, revents);
    session_run(s);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)revents;
    struct session *s = timer->data;
    const struct step_row *row = &step_rows[s->step];
    double deadline = row->deadline != NULL ? row->deadline(s) : 0;
    s->timer_at = 0;
    if (s->yields)
        session_run(s);
    else if (deadline > 0 && ev_now(loop) >= deadline - .001)
        proceed(s, row->late(s));
    else
        watch_time(s);
}

/* ---- from outside ---- */

static void read_peer(struct session *s)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);
    struct ucred cred;
    socklen_t cred_len = sizeof(cred);
    if (getpeername(s->client.fd, (struct sockaddr *)&addr, &len) == 0 &&
        addr_from_sockaddr((struct sockaddr *)&addr, &s->peer.addr, &s->peer.port))
        return;
    s->peer.addr = (struct addr){0};
    s->peer.has_uid = getsockopt(s->client.fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) == 0;
    s->peer.uid = s->peer.has_uid ? cred.uid : 0;
    s->peer.pid = s->peer.has_uid ? cred.pid : 0;
}

void session_create(struct door *door, int fd, bool over_capacity)
{
    struct worker *worker = door->worker;
    struct session *s = calloc(1, sizeof(*s));
    if (s == NULL)
        abort();
    s->worker = worker;
    s->door = door;
    door->sessions++;
    s->over_capacity = over_capacity;
    s->cause = CLOSE_CLIENT;
    s->number = atomic_load_explicit(&worker->counters.connections, memory_order_relaxed);
    counter_add(&worker->counters.connections, 1);
    workers_connection_opened(worker->team);
    LIST_INSERT_HEAD(&worker->sessions, s, link);
    request_reset(&s->request);
    stream_init(&s->client, fd);
    stream_tune(fd);
    s->upstream.fd = -1;
    ev_io_init(&s->client_io, on_client, fd, 0);
    ev_io_init(&s->upstream_io, on_upstream, -1, 0);
    ev_init(&s->timer, on_timer);
    s->client_io.data = s->upstream_io.data = s->timer.data = s;
    read_peer(s);
    s->step = STEP_READ;
    s->entered = s->active = s->began = now_of(s);
    session_run(s);
}

void session_cut(struct session *s, enum close_cause cause)
{
    s->cause = cause;
    proceed(s, STEP_CLOSE);
}

bool session_is_tunnel(const struct session *s)
{
    return s->request.admitted;
}

void session_recheck(struct session *s)
{
    /* One whose record is still under way looks for itself; one that is refused is refused. */
    if (!s->request.admitted || s->step == STEP_RECORD || s->step == STEP_REFUSE)
        return;
    /* Who waits for an answer gets one. The records of the others keep the generation of the
     * decision that they belong to. */
    const bool unanswered = s->step == STEP_EXCHANGE && !s->http->head_passed;
    enum outcome outcome = move_to_current(s, unanswered);
    if (outcome == OUTCOME_ALLOWED)
        return;
    if (unanswered)
        proceed(s, refuse_as_overtaken(s, outcome));
    else
        session_cut(s, CLOSE_POLICY);
}

void session_drain(struct session *s)
{
    if (s->step == STEP_READ && s->began <= 0)
        session_run(s);
}

void session_describe(const struct session *s, struct tunnel_info *out, char host[NAME_MAX_LEN + 1],
                      char addr[ADDR_TEXT_MAX])
{
    const struct request *request = &s->request;
    const struct policy *policy = s->identity.policy != NULL ? s->identity.policy
                                  : s->narrowing != NULL     ? s->narrowing->policy
                                                             : NULL;
    *out = (struct tunnel_info){
        .sandbox = s->door->sandbox != NULL ? s->door->sandbox->name : NULL,
        .client = s->identity.client_name,
        .listener = s->door->name,
        .policy = policy != NULL ? policy_name(policy) : NULL,
        .generation = request->generation,
        .front = request->front,
        .host = target_host(host, &request->target),
        .port = request->target.port,
        .addr = addr_format(addr, &request->addr),
        .bytes_up = request->bytes_up + s->relay.up.bytes,
        .bytes_down = request->bytes_down + s->relay.down.bytes,
        .since_ms = request->since_ms,
        .duration_ms = (uint64_t)((now_of(s) - request->since) * 1000.),
        .idle_ms = (uint64_t)((now_of(s) - s->active) * 1000.),
    };
    memcpy(out->id, request->id, sizeof(out->id));
}
