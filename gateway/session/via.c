#include "session/via.h"

#include "filters/route.h"
#include "session/session.h"
#include "srt/must.h"

#include <stdio.h>
#include <stdlib.h>

static const struct config_upstream *via_of(const struct session *session)
{
    const struct attempt *attempt = session->attempt;
    return attempt != NULL ? attempt->via : NULL;
}

void via_choose(struct session *session)
{
    struct request *request = &session->request;
    const struct config_upstream *via = route_choose(&request->decision, &request->target);
    free(request->via);
    request->via = via != NULL ? request_copy_text(str_of(via->name)) : NULL;
    request->via_failed = false;
    if (via == NULL)
        return;
    session->attempt->via = must(malloc(sizeof(*via)));
    upstream_copy(session->attempt->via, via);
}

void via_leave(struct session *session)
{
    if (session->attempt->via != NULL)
        upstream_clear(session->attempt->via);
    free(session->attempt->via);
    session->attempt->via = NULL;
}

const struct target *via_dialled(const struct session *session)
{
    const struct config_upstream *via = via_of(session);
    return via != NULL ? &via->proxy : &session->request.target;
}

enum outcome via_approve(struct session *session)
{
    struct request *request = &session->request;
    const struct config_upstream *via = via_of(session);
    const struct resolve_answer *answer = session->worker->answer;
    struct approved *approved = session->worker->approved;
    const struct guard_host *host = session->tenure->snapshot->host;
    const struct target *target = &request->target;
    const struct chain chain = session_chain(session);
    if (via == NULL)
        return chain_approve(&chain, host, target, answer->addrs, answer->count, &request->decision,
                             approved);
    if (target->is_addr) {
        enum outcome outcome =
            chain_approve(&chain, host, target, &target->addr, 1, &request->decision, approved);
        if (outcome != OUTCOME_ALLOWED)
            return outcome;
    }
    enum outcome outcome =
        chain_approve_upstream(host, via->proxy.port, answer->addrs, answer->count, approved);
    if (outcome != OUTCOME_ALLOWED)
        via_blame(session, NULL, 0);
    return outcome;
}

const struct addr *via_judged_addr(const struct request *request)
{
    if (request->via == NULL)
        return &request->addr;
    return request->target.is_addr ? &request->target.addr : NULL;
}

/* ---- connections that are kept ---- */

bool via_is_kept(const struct session *session)
{
    char text[UPSTREAM_TEXT_MAX];
    const struct config_upstream *via = via_of(session);
    const char *kept = http_kept(session->http)->via;
    if (via == NULL || kept == NULL)
        return via == NULL && kept == NULL;
    return strcmp(upstream_format(text, via), kept) == 0;
}

void via_keep(struct session *session)
{
    char text[UPSTREAM_TEXT_MAX];
    const struct config_upstream *via = via_of(session);
    struct kept_upstream *kept = http_kept(session->http);
    free(kept->via);
    kept->via = via != NULL ? request_copy_text(str_of(upstream_format(text, via))) : NULL;
}

/* ---- asking it ---- */

bool via_asks_for_url(const struct session *session)
{
    const struct config_upstream *via = via_of(session);
    return via != NULL && via->kind == UPSTREAM_HTTP && session->request.front == FRONT_HTTP;
}

bool via_needs_handshake(const struct session *session)
{
    const struct config_upstream *via = via_of(session);
    return via != NULL && (via->tls || !via_asks_for_url(session));
}

static void ask(struct session *session)
{
    session->attempt->secured = true;
    if (via_asks_for_url(session))
        return;
    handshake_begin(&session->attempt->handshake, session->attempt->via, &session->request.target,
                    workers_loop_token(session->worker->team), &session->upstream.out);
}

/* Late, since few gateways need one. OpenSSL's own configuration was read when `trust` was loaded:
 * no file is read here. */
static const struct tls_client *tls_client_of(struct worker *worker)
{
    if (worker->tls_client == NULL)
        worker->tls_client = tls_client_create();
    return worker->tls_client;
}

void via_begin(struct session *session)
{
    const struct config_upstream *via = session->attempt->via;
    session->attempt->secured = !via->tls;
    if (via->tls)
        session->upstream.tls = tls_create(tls_client_of(session->worker), session->upstream.fd,
                                           &via->proxy, via->trust);
    else
        ask(session);
}

static enum handshake_result secure(struct session *session)
{
    const char *why = NULL;
    switch (stream_secure(&session->upstream, &why)) {
    case TLS_DONE:
        ask(session);
        return HANDSHAKE_DONE;
    case TLS_WANTS_READ:
    case TLS_WANTS_WRITE:
        return HANDSHAKE_MORE;
    case TLS_END:
    case TLS_BROKEN:
        break;
    }
    session->attempt->handshake.outcome = OUTCOME_BAD_RESPONSE;
    via_blame(session, "failed the TLS handshake", 0);
    session->request.via_tls = why;
    return HANDSHAKE_FAILED;
}

enum handshake_result via_turn(struct session *session)
{
    struct handshake *handshake = &session->attempt->handshake;
    struct stream *upstream = &session->upstream;
    enum handshake_result secured = session->attempt->secured ? HANDSHAKE_DONE : secure(session);
    if (secured != HANDSHAKE_DONE || via_asks_for_url(session))
        return secured;
    stream_flush(upstream);
    stream_fill(upstream, HANDSHAKE_HEAD_MAX + 1); /* one more, so that too long is seen */
    enum handshake_result result =
        handshake_turn(handshake, &upstream->in, upstream->eof || upstream->broken, &upstream->out,
                       session->worker->http_response);
    stream_flush(upstream);
    if (result == HANDSHAKE_FAILED)
        via_blame(session, handshake->why, handshake->status);
    return result;
}

/* The first line with the authority in it, our own credentials, and the rest as it is. */
void via_write_head(const struct session *session, struct buf *out)
{
    char authority[TARGET_TEXT_MAX];
    const struct config_upstream *via = session->attempt->via;
    const struct str forward = buf_view(&session->http->forward);
    const size_t path = str_until(forward, ' ').len + 1;
    const size_t fields = str_until(forward, '\n').len + 1;
    struct str host = str_of(target_format(authority, &session->request.target));
    if (session->request.target.port == 80)
        host.len -= strlen(":80");
    buf_append(out, (struct str){forward.p, path});
    buf_append(out, STR("http://"));
    buf_append(out, host);
    /* RFC 9112 3.2.4: to a proxy, `OPTIONS *` is a URL without a path. */
    const size_t star = forward.p[path] == '*' ? 1 : 0;
    buf_append(out, (struct str){forward.p + path + star, fields - path - star});
    if (via->has_credentials)
        buf_printf(out, "Proxy-Authorization: %s\r\n", via->authorization);
    buf_append(out, str_from(forward, fields));
}

/* ---- when it fails ---- */

void via_blame(struct session *session, const char *why, uint16_t status)
{
    session->request.via_failed = session->request.via != NULL;
    session->request.via_why = why;
    session->request.via_status = status;
    session->request.via_tls = NULL;
}

static const char *what_happened(const struct request *request)
{
    static const char *const phrases[OUTCOME_COUNT] = {
        [OUTCOME_LOOP] = "is this gateway itself",
        [OUTCOME_DNS_NXDOMAIN] = "has a name that does not exist",
        [OUTCOME_DNS_FAILURE] = "has a name that could not be resolved: the name servers failed",
        [OUTCOME_DNS_TIMEOUT] = "has a name that could not be resolved in time",
        [OUTCOME_CONNECT_REFUSED] = "refused the connection",
        [OUTCOME_CONNECT_UNREACHABLE] = "is unreachable",
        [OUTCOME_CONNECT_TIMEOUT] = "did not answer in time",
    };
    const char *phrase = phrases[request->outcome];
    if (request->no_address && request->outcome == OUTCOME_DNS_NXDOMAIN)
        phrase = "has a name without an address";
    return phrase != NULL ? phrase : "cannot be used";
}

bool via_texts(const struct request *request, char *message, size_t message_size, char *next_step,
               size_t next_step_size)
{
    char target[TARGET_TEXT_MAX];
    if (!request->via_failed)
        return false;
    const char *why = request->via_why != NULL ? request->via_why : what_happened(request);
    target_format(target, &request->target);
    if (request->via_status != 0)
        snprintf(message, message_size,
                 "%s goes by the upstream proxy %s, which answered %d and %s", target, request->via,
                 request->via_status, why);
    else
        snprintf(message, message_size, "%s goes by the upstream proxy %s, which %s%s%s", target,
                 request->via, why, request->via_tls != NULL ? ": " : "",
                 request->via_tls != NULL ? request->via_tls : "");
    snprintf(next_step, next_step_size,
             "The target is allowed; ask the operator to look at the upstream proxy %s",
             request->via);
    return true;
}
