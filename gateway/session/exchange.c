#include "session/exchange.h"

#include "session/session.h"

#include <assert.h>

/*
 * A side is read only while nothing but a little waits to be sent to the other, so at most
 * RELAY_CHUNK and its framing is held for each way. Body bytes go from the worker's scratch
 * straight to the other side; only what the kernel does not take is kept.
 */

/* Bytes of bodies do not measure a turn: heads and chunk sizes without end would take all of it. */
enum { ROUNDS_MAX = RELAY_TURN_BYTES / RELAY_CHUNK };

enum { ADDED = 128 }; /* bytes by which a head mostly grows here */

void exchange_begin(struct session *session)
{
    struct http *http = session->http;
    http->scan = (struct http_scan){0};
    http->head_passed = http->closes = http->upstream_stays = http->body_given_up = false;
    http->response = (struct http_body_in){.done = false};
    session->client_fin = 0;
    buf_free(&http->original); /* it will not be judged again */
    http->asks_for_url = via_asks_for_url(session);
    if (http->asks_for_url)
        via_write_head(session, &session->upstream.out);
    else if (http->reused)
        stream_send(&session->upstream, buf_view(&http->forward)); /* may be needed once more */
    else
        buf_move(&session->upstream.out, &http->forward);
    if (!http->reused)
        buf_free(&http->forward);
}

static enum exchange_result abort_by(struct session *session, enum close_cause cause)
{
    session->cause = cause;
    return EXCHANGE_ABORTED;
}

static enum exchange_result refuse(struct session *session, enum outcome outcome, const char *why)
{
    if (session->http->head_passed)
        return abort_by(session, outcome == OUTCOME_BAD_REQUEST ? CLOSE_CLIENT : CLOSE_ERROR);
    session->request.outcome = outcome;
    session->request.why = why;
    return EXCHANGE_REFUSED;
}

/* ---- bodies ---- */

/* One way of a body: where its bytes come from, how they are decoded, how and where they go. */
struct way {
    struct stream *from, *to;
    bool head_waits; /* in to->out: what is at hand of the body leaves with it */
    struct http_body_in *body;
    enum http_body coding;
    uint64_t *bytes;
};

/* Decodes the front of `bytes` and sends it on. Returns how much was used; `*broken` when it is
 * malformed. */
static size_t carry(const struct way *way, struct str bytes, bool *broken)
{
    size_t total = 0;
    while (!way->body->done && total < bytes.len && !*broken) {
        size_t used = 0;
        struct str data;
        *broken = !http_body_feed(way->body, str_from(bytes, total), &used, &data);
        if (*broken)
            break;
        total += used;
        *way->bytes += data.len;
        if (way->coding == HTTP_BODY_CHUNKED || way->to->out.len > 0)
            http_body_write(&way->to->out, way->coding, data);
        else
            stream_send(way->to, data);
    }
    if (way->body->done)
        http_body_finish(&way->to->out, way->coding);
    stream_flush(way->to);
    return total;
}

/* Moves what came before, then what comes now. True when something moved. */
static bool pump(struct session *session, const struct way *way, bool *broken)
{
    struct buf *in = &way->from->in;
    char *scratch = session->worker->room.scratch;
    const bool follows_head = way->head_waits && in->len > 0;
    if (way->body->done || (way->to->out.len > 0 && !follows_head))
        return false;
    if (in->len > 0) {
        size_t used = carry(way, buf_view(in), broken);
        buf_take(in, used);
        return used > 0;
    }
    size_t came = stream_read(way->from, scratch, RELAY_CHUNK);
    if (came == 0)
        return false;
    size_t used = carry(way, (struct str){scratch, came}, broken);
    buf_append(in, (struct str){scratch + used, came - used}); /* of the next message */
    return true;
}

/* ---- the request's body ---- */

/* True when something moved; `*result` when the exchange cannot go on. */
static bool pump_request(struct session *session, enum exchange_result *result)
{
    struct http *http = session->http;
    struct stream *client = &session->client, *upstream = &session->upstream;
    size_t waiting = upstream->out.len;
    stream_flush(upstream);
    bool moved = upstream->out.len < waiting;
    if (upstream->deaf)
        http->body_given_up = true; /* an answer may have come all the same (RFC 9112 9.5) */
    if (http->body.done)
        /* Only to learn that the client is gone, or what it asks for next. */
        return stream_fill(client, session_config(session)->max_header_bytes) > 0 || moved;
    if (http->body_given_up) {
        moved |= stream_fill(client, RELAY_CHUNK) > 0;
        buf_free(&client->in); /* nobody wants the rest */
        return moved;
    }
    bool broken = false;
    moved |= pump(session,
                  &(struct way){.from = client,
                                .to = upstream,
                                .body = &http->body,
                                .coding = http->body_coding,
                                .bytes = &session->request.bytes_up},
                  &broken);
    if (broken)
        *result = refuse(session, OUTCOME_BAD_REQUEST, "the chunked coding is broken");
    else if ((client->eof || client->broken) && client->in.len == 0 && !http->body.done)
        *result = abort_by(session, CLOSE_CLIENT);
    return moved;
}

/* ---- the response's head ---- */

static void append_status(struct buf *out, const struct http_response *head)
{
    buf_append(out, STR("HTTP/1.1 "));
    buf_number(out, (uint64_t)head->status);
    buf_append(out, STR(" "));
    buf_append(out, head->reason);
    buf_append(out, STR("\r\n"));
}

/* A server does not refuse in our name, least of all with the advice to widen an allow list. What
 * an upstream proxy says is about its own policy, and stays. */
static bool poses_as_us(const struct http *http, const struct http_field *field)
{
    static const char us[] = "srt-gateway";
    if (http->asks_for_url)
        return false;
    return str_ieq(field->name, STR("X-Proxy-Error")) ||
           (str_ieq(field->name, STR("Proxy-Status")) &&
            memmem(field->value.p, field->value.len, us, sizeof(us) - 1) != NULL);
}

static void append_fields(struct buf *out, const struct http *http,
                          const struct http_response *head)
{
    for (size_t i = 0; i < head->field_count; i++) {
        const struct http_field *field = &head->fields[i];
        if (!field->hop_by_hop && !http_is_own(field->name) && !poses_as_us(http, field))
            http_write_field(out, field->name, field->value);
    }
    http_write_via(out, head->fields, head->field_count, NULL);
}

/* HTTP/1.0 knows neither chunks nor interim answers: there the end of the connection is the end. */
static enum http_body coding_for(const struct http *http, enum http_body body)
{
    if (body == HTTP_BODY_CHUNKED || body == HTTP_BODY_UNTIL_CLOSE)
        return http->minor > 0 ? HTTP_BODY_CHUNKED : HTTP_BODY_UNTIL_CLOSE;
    return body;
}

static void pass_head(struct session *session, const struct http_response *head)
{
    struct http *http = session->http;
    struct buf *out = &session->client.out;
    session->request.upstream_status = head->status;
    http->head_passed = true;
    http->reused = false; /* too late for another try */
    buf_free(&http->forward);
    http_body_begin(&http->response, head->body, head->length);
    http->response_coding = coding_for(http, head->body);
    http->closes = !http->keep_alive || worker_answers_last(session->worker) ||
                   http->response_coding == HTTP_BODY_UNTIL_CLOSE || !http->body.done;
    http->upstream_stays = head->keep_alive && head->body != HTTP_BODY_UNTIL_CLOSE;

    /* What is at hand of the body leaves with the head; what we add to that is short. */
    (void)buf_room(out, session->upstream.in.len + ADDED);
    append_status(out, head);
    append_fields(out, http, head);
    if (head->has_length && head->body != HTTP_BODY_CHUNKED)
        http_write_length(out, head->length);
    else if (http->response_coding == HTTP_BODY_CHUNKED)
        buf_append(out, STR("Transfer-Encoding: chunked\r\n"));
    buf_append(out, http->closes ? STR("Connection: close\r\n\r\n") : STR("\r\n"));
}

/* RFC 9110 15.2: passed on to those who know it. */
static void pass_interim(struct session *session, const struct http_response *head)
{
    struct buf *out = &session->client.out;
    if (session->http->minor == 0)
        return;
    append_status(out, head);
    append_fields(out, session->http, head);
    buf_append(out, STR("\r\n"));
}

static enum exchange_result pass_upgrade(struct session *session, const struct http_response *head)
{
    struct buf *out = &session->client.out;
    if (!session->http->wants_upgrade || head->upgrade.p == NULL)
        return refuse(session, OUTCOME_BAD_RESPONSE, "101 without having been asked to upgrade");
    session->request.upstream_status = head->status;
    session->http->head_passed = true;
    append_status(out, head);
    append_fields(out, session->http, head);
    buf_append(out, STR("Connection: upgrade\r\n"));
    http_write_field(out, STR("Upgrade"), head->upgrade);
    buf_append(out, STR("\r\n"));
    buf_take(&session->upstream.in, head->size);
    return EXCHANGE_UPGRADED;
}

static enum exchange_result head_missing(struct session *session)
{
    const struct stream *upstream = &session->upstream;
    if (!upstream->eof && !upstream->broken)
        return EXCHANGE_WAIT;
    if (session->http->reused && upstream->in.len == 0)
        return EXCHANGE_RETRY;
    return refuse(session, OUTCOME_BAD_RESPONSE,
                  upstream->in.len == 0 ? "the server closed the connection without an answer"
                                        : "the server closed the connection within the head");
}

static enum exchange_result read_response(struct session *session)
{
    struct http *http = session->http;
    struct buf *in = &session->upstream.in;
    struct http_response *head = session->worker->http_response;
    struct http_fault fault = {0};
    while (!http->head_passed && session->client.out.len < RELAY_CHUNK) {
        enum http_result parsed =
            in->len == 0
                ? HTTP_MORE
                : http_parse_response(buf_view(in), session_config(session)->max_header_bytes,
                                      http->head, &http->scan, head, &fault);
        if (parsed == HTTP_MORE)
            return head_missing(session);
        if (parsed == HTTP_REFUSED)
            return refuse(session, OUTCOME_BAD_RESPONSE, fault.why);
        http->scan = (struct http_scan){0};
        if (head->status == 101)
            return pass_upgrade(session, head);
        if (head->status == 407 && http->asks_for_url) {
            via_blame(session, "does not accept our credentials", 407);
            return refuse(session, OUTCOME_BAD_RESPONSE, NULL);
        }
        if (head->status < 200)
            pass_interim(session, head);
        else
            pass_head(session, head);
        buf_take(in, head->size);
    }
    return EXCHANGE_WAIT;
}

/* ---- the response's body ---- */

static bool pump_body(struct session *session, bool head_waits, enum exchange_result *result)
{
    struct http *http = session->http;
    const struct stream *upstream = &session->upstream;
    bool broken = false;
    bool moved = pump(session,
                      &(struct way){.from = &session->upstream,
                                    .to = &session->client,
                                    .head_waits = head_waits,
                                    .body = &http->response,
                                    .coding = http->response_coding,
                                    .bytes = &session->request.bytes_down},
                      &broken);
    if (broken)
        *result = refuse(session, OUTCOME_BAD_RESPONSE, "the chunked coding is broken");
    if (broken || http->response.done || upstream->in.len > 0)
        return moved;
    if (upstream->broken || (upstream->eof && http->response.kind != HTTP_BODY_UNTIL_CLOSE)) {
        *result = abort_by(session, CLOSE_UPSTREAM); /* cut short, and must not look whole */
    } else if (upstream->eof) {
        http->response.done = true;
        http_body_finish(&session->client.out, http->response_coding);
    }
    return moved;
}

static enum exchange_result through(struct session *session)
{
    struct http *http = session->http;
    struct stream *upstream = &session->upstream;
    stream_flush(&session->client);
    /* What a server says unasked belongs to nobody's request: such a connection is not used again.
     */
    if (!http->body.done || upstream->in.len > 0 || upstream->eof || upstream->deaf)
        http->upstream_stays = false;
    return http->closes || !http->body.done ? EXCHANGE_LEAVE : EXCHANGE_NEXT;
}

static bool pump_response(struct session *session, enum exchange_result *result)
{
    struct http *http = session->http;
    struct stream *client = &session->client, *upstream = &session->upstream;
    size_t waiting = client->out.len;
    stream_flush(client);
    bool moved = client->out.len < waiting;
    if (client->deaf || client->broken) {
        *result = abort_by(session, CLOSE_CLIENT);
        return moved;
    }
    bool head_waits = false;
    if (!http->head_passed && client->out.len < RELAY_CHUNK) {
        moved |= stream_fill(upstream, session_head_limit(session)) > 0;
        *result = read_response(session);
        head_waits = http->head_passed;
        moved |= head_waits;
    }
    if (*result == EXCHANGE_WAIT && http->head_passed)
        moved |= pump_body(session, head_waits, result);
    stream_flush(client); /* the head, if nothing came with it */
    if (*result == EXCHANGE_WAIT && http->head_passed && http->response.done)
        *result = through(session);
    return moved;
}

enum exchange_result exchange_turn(struct session *session)
{
    enum exchange_result result = EXCHANGE_WAIT;
    bool moving = true;
    for (int round = 0; moving && result == EXCHANGE_WAIT && round < ROUNDS_MAX; round++) {
        moving = pump_request(session, &result);
        if (result == EXCHANGE_WAIT)
            moving |= pump_response(session, &result);
        if (moving)
            session->active = ev_now(session->worker->loop);
    }
    /* What is left may be in our own buffers, of which no watcher will tell. */
    session->yields = moving && result == EXCHANGE_WAIT;
    if (session->client.eof && session->client_fin <= 0)
        session->client_fin = ev_now(session->worker->loop);
    return result;
}

bool exchange_would_look_whole(const struct session *session)
{
    const struct http *http = session->http;
    return http != NULL && http->head_passed && !http->response.done &&
           http->response_coding == HTTP_BODY_UNTIL_CLOSE;
}

bool exchange_waits_for_client(const struct session *session)
{
    const struct http *http = session->http;
    const bool waits_for_100 = http->expects && session->request.bytes_up == 0;
    return !http->body.done && !http->body_given_up && !waits_for_100 &&
           session->upstream.out.len == 0;
}

bool exchange_reads(const struct session *session, const struct stream *stream)
{
    const struct http *http = session->http;
    if (stream == &session->upstream)
        return http->head_passed ? session->client.out.len == 0
                                 : session->client.out.len < RELAY_CHUNK;
    if (http->body.done)
        return stream->in.len < session_config(session)->max_header_bytes;
    return http->body_given_up || session->upstream.out.len == 0;
}
