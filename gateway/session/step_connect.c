#include "session/steps.h"

#include "session/ending.h"
#include "session/report.h"
#include "session/standing.h"
#include "srt/must.h"

#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define LONG_WAY_S 1.0 /* before a client is watched that is not anyhow */

/* It is allowed, and what has to be dialled cannot be had. */
static enum step refuse_dialled(struct session *s, enum outcome outcome)
{
    via_blame(s, NULL, 0);
    return step_refuse(s, outcome);
}

/* Whose share of the resolver's questions it is. */
static const void *asker_of(const struct session *s)
{
    if (s->door->sandbox != NULL)
        return s->door->sandbox;
    return s->identity.client != NULL ? (const void *)s->identity.client : s->door;
}

double way_deadline(const struct session *s)
{
    /* As ev_is_active(), which takes nothing constant. */
    const bool watched = s->client_io.active != 0 || s->watches_client;
    return watched || s->client.readable ? 0 : s->entered + LONG_WAY_S;
}

enum step way_late(struct session *s)
{
    s->watches_client = true;
    return STEP_WAIT;
}

/* A FIN alone may be of a half: who has nothing more to say can still listen. A TCP connection that
 * was closed whole looks like that until something is sent to it, a reset does not, nor does the
 * end of a Unix one. Looked for when something has come from there, which is hardly ever. */
bool client_has_left(const struct session *s)
{
    struct pollfd look = {.fd = s->client.fd};
    const bool on_its_way =
        s->step == STEP_RESOLVE || s->step == STEP_CONNECT || s->step == STEP_HANDSHAKE;
    return on_its_way && s->client.readable && poll(&look, 1, 0) > 0 &&
           (look.revents & (POLLHUP | POLLERR)) != 0;
}

enum step way_abandon(struct session *s)
{
    s->cause = CLOSE_CLIENT;
    if (!s->request.admitted && report_admission(s, 0))
        admit(s);
    return STEP_CLOSE;
}

static void on_resolved(void *arg, const struct resolve_answer *answer)
{
    struct session *s = arg;
    s->attempt->query = NULL;
    *s->worker->answer = *answer;
    s->attempt->resolved = true;
    session_run(s);
}

enum step wake_resolve(struct session *s)
{
    if (!s->attempt->resolved)
        return STEP_WAIT;
    name_service_leave(s->attempt->names);
    s->attempt->names = NULL;
    switch (s->worker->answer->status) {
    case RESOLVE_OK:
        return STEP_VET;
    case RESOLVE_NODATA:
        s->request.no_address = true;
        return refuse_dialled(s, OUTCOME_DNS_NXDOMAIN);
    case RESOLVE_NXDOMAIN:
        return refuse_dialled(s, OUTCOME_DNS_NXDOMAIN);
    case RESOLVE_FAILURE:
        return refuse_dialled(s, OUTCOME_DNS_FAILURE);
    case RESOLVE_TIMEOUT:
        return refuse_dialled(s, OUTCOME_DNS_TIMEOUT);
    }
    return refuse_dialled(s, OUTCOME_DNS_FAILURE);
}

enum step enter_resolve(struct session *s)
{
    end_attempt(s);
    s->attempt = slab_take(&s->worker->attempt_room);
    via_choose(s);
    struct attempt *attempt = s->attempt;
    struct resolve_answer *answer = s->worker->answer;
    const struct target *target = via_dialled(s);
    if (target->is_addr) {
        answer->status = RESOLVE_OK;
        answer->count = 1;
        answer->addrs[0] = target->addr;
        attempt->resolved = true;
        return wake_resolve(s);
    }
    attempt->names = s->worker->names;
    attempt->names->users++;
    attempt->query = resolver_start(attempt->names->resolver, &target->name, asker_of(s), answer,
                                    on_resolved, s);
    attempt->resolved = attempt->query == NULL;
    return wake_resolve(s);
}

enum step enter_vet(struct session *s)
{
    struct request *request = &s->request;
    enum outcome outcome = via_approve(s);
    if (outcome == OUTCOME_ALLOWED)
        return STEP_CONNECT;
    request->has_addr = request->decision.denied_addr.family != 0;
    request->addr = request->decision.denied_addr;
    return request->admitted ? refuse_as_overtaken(s, outcome) : step_refuse(s, outcome);
}

static bool is_approved(const struct approved *approved, const struct addr *addr)
{
    for (uint32_t i = 0; i < approved->count; i++)
        if (addr_eq(&approved->addrs[i], addr))
            return true;
    return false;
}

static const struct config_bind *bind_of(const struct session *s)
{
    return policy_bind(standing_policy(s));
}

/* A kept upstream serves only this client, the same target, the same way, an address that is
 * approved now, one that comes from where the policy says now, and requests that may be sent again
 * if it turns out to be dead. */
static bool can_reuse_upstream(struct session *s, const struct approved *approved)
{
    look_at_idle_upstream(s);
    if (s->upstream.fd < 0 || s->request.front != FRONT_HTTP)
        return false;
    const struct kept_upstream *kept = http_kept(s->http);
    return s->http->retryable && !s->http->wants_upgrade &&
           target_eq(&kept->target, &s->request.target) && via_is_kept(s) &&
           is_approved(approved, &kept->addr) &&
           memcmp(&kept->bind, bind_of(s), sizeof(kept->bind)) == 0;
}

/* Without the room for more addresses. */
static struct approved *copy_approved(const struct approved *approved)
{
    const size_t size =
        offsetof(struct approved, addrs) + approved->count * sizeof(approved->addrs[0]);
    struct approved *copy = must(malloc(size));
    memcpy(copy, approved, size);
    return copy;
}

static void on_connected(void *arg, const struct connected *connected)
{
    struct session *s = arg;
    s->attempt->connector = NULL;
    s->attempt->connection = *connected;
    s->attempt->connected = true;
    session_run(s);
}

/* Goes by a kept upstream, or dials one. */
static enum step connect_to(struct session *s, const struct approved *approved)
{
    if (can_reuse_upstream(s, approved)) {
        s->http->reused = true;
        s->request.has_addr = true;
        s->request.addr = s->http->kept->addr;
        if (s->attempt->approved == NULL)
            s->attempt->approved = copy_approved(approved);
        return STEP_RECORD;
    }
    end_upstream(s);
    if (s->http != NULL)
        s->http->reused = false;
    s->request.approved = approved->count;
    s->attempt->began = session_now(s);
    const struct connect_options options = {
        .timeout_ms = session_config(s)->connect_timeout_ms,
        .bind = bind_of(s),
        .reach = s->worker->reach,
        .room = &s->worker->connector_room,
    };
    s->attempt->connector = connector_start(s->worker->loop, approved, &options, on_connected, s);
    return STEP_WAIT;
}

enum step enter_connect(struct session *s)
{
    struct approved *approved =
        s->attempt->approved != NULL ? s->attempt->approved : s->worker->approved;
    enum step next = connect_to(s, approved);
    s->worker->approved->count = 0; /* nobody else's session is to dial these */
    return next;
}

static enum step reached(const struct session *s)
{
    return s->request.admitted ? STEP_EXCHANGE : STEP_RECORD; /* admitted: its second try */
}

static void keep_upstream(struct session *s)
{
    if (s->request.front != FRONT_HTTP)
        return;
    struct kept_upstream *kept = http_kept(s->http);
    kept->target = s->request.target;
    kept->addr = s->request.addr;
    kept->bind = *bind_of(s);
    via_keep(s);
}

enum step wake_connect(struct session *s)
{
    struct attempt *attempt = s->attempt;
    if (!attempt->connected)
        return STEP_WAIT;
    attempt->connected = false; /* the descriptor is the session's from here on */
    s->request.has_addr = true;
    s->request.addr = attempt->connection.addr;
    s->request.tried = attempt->connection.tried;
    if (attempt->connection.outcome != OUTCOME_ALLOWED)
        return refuse_dialled(s, attempt->connection.outcome);
    stream_init(&s->upstream, attempt->connection.fd);
    s->upstream.readable = false; /* hardly so soon; the loop tells */
    s->upstream.deaf = attempt->connection.was_reset;
    ev_io_set(&s->upstream_io, s->upstream.fd, 0);
    keep_upstream(s);
    return via_needs_handshake(s) ? STEP_HANDSHAKE : reached(s);
}

enum step wake_handshake(struct session *s)
{
    switch (via_turn(s)) {
    case HANDSHAKE_MORE:
        return STEP_WAIT;
    case HANDSHAKE_DONE:
        return reached(s);
    case HANDSHAKE_FAILED:
        break;
    }
    end_upstream(s);
    return step_refuse(s, s->attempt->handshake.outcome);
}

enum step enter_handshake(struct session *s)
{
    via_begin(s);
    return wake_handshake(s);
}

/* connect-timeout is for all of the way to the target. */
double handshake_deadline(const struct session *s)
{
    return s->attempt->began + (double)session_config(s)->connect_timeout_ms / 1000.;
}

enum step handshake_late(struct session *s)
{
    end_upstream(s);
    return refuse_dialled(s, OUTCOME_CONNECT_TIMEOUT);
}
