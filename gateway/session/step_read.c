#include "session/steps.h"

#include "session/ending.h"
#include "wire/proxy_header.h"

/* Of requests of one connection, and of what is answered without being one, before the others get
 * their turn. */
enum { TURNS_MAX = 32 };

void session_begin_request(struct session *s, enum front front)
{
    request_reset(&s->request);
    worker_make_id(s->worker, s->request.id);
    s->request.front = front;
}

enum proto_result session_refuse_request(struct session *s, enum outcome outcome,
                                         uint16_t http_status, const char *why)
{
    s->request.outcome = outcome;
    s->request.http_status = http_status;
    s->request.why = why;
    return PROTO_REFUSED;
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
    return s->proto == &proto_socks5        ? FRONT_SOCKS5
           : s->proto == &proto_http        ? FRONT_HTTP
           : s->proto == &proto_transparent ? FRONT_TRANSPARENT
                                            : FRONT_COUNT;
}

/* What there is of a request will not become one. */
static enum step refuse_fragment(struct session *s, enum outcome outcome, const char *why)
{
    if (s->proto == &proto_dns)
        return STEP_CLOSE; /* nothing was asked */
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
    if (s->client.in.len == 0 && (s->worker->draining || s->worker->hurrying) && s->began <= 0)
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
        const bool asks_at_once = s->proto == &proto_transparent;
        if (s->client.in.len == 0 && !asks_at_once)
            return await_request(s);
        if (s->began <= 0)
            s->began = session_now(s);
        if (!read_proxy_header(s, &next))
            return next;
        if (s->client.in.len == 0 && !asks_at_once)
            return await_request(s);
        if (s->proto == NULL)
            choose_proto(s);
        switch (s->proto->read(s)) {
        case PROTO_MORE:
            return await_request(s);
        case PROTO_ANSWERED:
            if (s->proto != &proto_socks5)
                s->began = 0; /* the next head has its own time; a handshake has one for all */
            if (++s->turns > TURNS_MAX) {
                s->yields = true;
                return STEP_WAIT;
            }
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

void look_at_idle_upstream(struct session *s)
{
    char byte;
    if (s->upstream.fd < 0)
        return;
    if (stream_read(&s->upstream, &byte, 1) > 0 || s->upstream.eof || s->upstream.deaf)
        end_upstream(s);
}

enum step wake_read(struct session *s)
{
    look_at_idle_upstream(s);
    stream_flush(&s->client);
    if (s->client.deaf)
        return STEP_CLOSE;
    stream_fill(&s->client, session_head_limit(s));
    return read_request(s);
}

enum step enter_read(struct session *s)
{
    end_request(s, s->cause);
    s->cause = CLOSE_CLIENT;
    s->active = session_now(s);
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

double read_deadline(const struct session *s)
{
    const struct gateway_config *config = session_config(s);
    if (s->began > 0)
        return s->began + (double)config->header_timeout_ms / 1000.;
    return s->active + (double)config->idle_timeout_ms / 1000.;
}

enum step read_late(struct session *s)
{
    if (s->client.in.len == 0 && (s->proto == NULL || s->proto == &proto_http))
        return STEP_CLOSE; /* nothing was asked */
    return refuse_fragment(s, OUTCOME_TIMEOUT, "it was not complete within header-timeout");
}
