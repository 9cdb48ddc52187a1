#include "session/proto.h"

#include "session/refusal.h"
#include "session/session.h"
#include "srt/must.h"

#include <assert.h>
#include <stdlib.h>

/* So much of a refused request's body is read over to keep the connection; beyond it, it ends. */
enum { SKIP_MAX = 256 << 10 };

void http_free(struct http *http)
{
    if (http == NULL)
        return;
    buf_free(&http->forward);
    if (http->kept != NULL)
        free(http->kept->via);
    free(http->kept);
    buf_free(&http->original);
    slab_give(http);
}

struct kept_upstream *http_kept(struct http *http)
{
    if (http->kept == NULL)
        http->kept = must(calloc(1, sizeof(*http->kept)));
    return http->kept;
}

static bool has_token(struct str list, struct str token)
{
    for (size_t i = 0; i + token.len <= list.len; i++)
        if (str_ieq((struct str){list.p + i, token.len}, token))
            return true;
    return false;
}

static struct str cut_until(struct str *rest, char separator)
{
    return str_trim(str_take_until(rest, separator));
}

/* ---- Accept ---- */

/* RFC 9110 12.4.2 in thousandths; a value that is none counts as 1. */
static int quality_of(struct str parameters)
{
    while (parameters.len > 0) {
        struct str parameter = cut_until(&parameters, ';');
        if (parameter.len < 3 || !str_istarts(parameter, STR("q=")))
            continue;
        int quality = parameter.p[2] == '0' ? 0 : 1000;
        for (size_t i = 4, unit = 100; quality < 1000 && i < parameter.len && unit > 0;
             i++, unit /= 10)
            if (parameter.p[i] >= '0' && parameter.p[i] <= '9')
                quality += (parameter.p[i] - '0') * (int)unit;
        return quality;
    }
    return 1000;
}

/* How much a client wants a media type: the most specific range that covers it decides. */
static int preference(struct str accept, struct str type, struct str range)
{
    int best = 0, specific = 0;
    while (accept.len > 0) {
        struct str member = cut_until(&accept, ',');
        struct str name = cut_until(&member, ';');
        int how = str_ieq(name, type) ? 3 : str_ieq(name, range) ? 2 : str_eq(name, STR("*/*"));
        if (how > specific) {
            specific = how;
            best = quality_of(member);
        }
    }
    return best;
}

static bool prefers_text(struct str accept)
{
    return accept.p != NULL &&
           preference(accept, STR("text/plain"), STR("text/*")) >
               preference(accept, STR("application/json"), STR("application/*"));
}

/* ---- credentials ---- */

static int base64_value(unsigned char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

/* RFC 4648 4; false for anything but base64. */
static bool base64_decode(struct str text, char *out, size_t size, size_t *len)
{
    unsigned bits = 0, held = 0;
    *len = 0;
    while (text.len > 0 && text.p[text.len - 1] == '=')
        text.len--;
    for (size_t i = 0; i < text.len; i++) {
        int value = base64_value((unsigned char)text.p[i]);
        if (value < 0 || *len == size)
            return false;
        held = (held << 6 | (unsigned)value) & 0xffff;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[(*len)++] = (char)(held >> bits);
        }
    }
    return true;
}

/* Basic: the password is the secret, the user name is free (RFC 7617). Bearer: the token (RFC
 * 6750). */
static void read_credentials(struct credentials **credentials, struct str field)
{
    char decoded[1024];
    size_t len;
    if (field.p == NULL) {
        credentials_clear(credentials);
        return;
    }
    credentials_spoil(credentials);
    struct str rest = field;
    struct str scheme = cut_until(&rest, ' ');
    rest = str_trim(rest);
    if (str_ieq(scheme, STR("Bearer"))) {
        credentials_set(credentials, rest);
    } else if (str_ieq(scheme, STR("Basic")) &&
               base64_decode(rest, decoded, sizeof(decoded), &len)) {
        const struct str pair = {decoded, len};
        if (str_has(pair, ':'))
            credentials_set(credentials, str_from(pair, str_until(pair, ':').len + 1));
        explicit_bzero(decoded, sizeof(decoded));
    }
}

/* ---- the head that goes to the upstream ---- */

static bool is_credential(struct str name)
{
    return str_ieq(name, STR("Proxy-Authorization"));
}

static void append_host(struct buf *out, const struct target *target)
{
    char text[TARGET_TEXT_MAX], host[NAME_MAX_LEN + 1];
    const bool v6 = target->is_addr && target->addr.family == 6;
    if (target->port != 80)
        BUF_JOIN(out, "Host: ", target_format(text, target), "\r\n");
    else
        BUF_JOIN(out, "Host: ", v6 ? "[" : NULL, target_host(host, target), v6 ? "]" : NULL,
                 "\r\n");
}

/* RFC 9110 7.6.3: what came, in one field, and us. The comment is how we know our own. */
static void append_body_fields(struct buf *out, enum http_body body, uint64_t length)
{
    if (body == HTTP_BODY_LENGTH)
        http_write_length(out, length);
    else if (body == HTTP_BODY_CHUNKED)
        buf_append(out, STR("Transfer-Encoding: chunked\r\n"));
}

/* RFC 9110 7.6.2: one less at each hop; a value that is no number is passed on as it is. */
static void append_max_forwards(struct buf *out, struct str value)
{
    uint64_t hops;
    if (!str_uint(value, UINT64_MAX, &hops) || hops == 0) {
        http_write_field(out, STR("Max-Forwards"), value);
        return;
    }
    buf_append(out, STR("Max-Forwards: "));
    buf_number(out, hops - 1);
    buf_append(out, STR("\r\n"));
}

static void write_forward(struct session *session, const struct http_request *head)
{
    struct http *http = session->http;
    struct buf *out = &http->forward;
    const bool options = str_eq(head->method, STR("OPTIONS"));
    buf_free(&http->original);
    buf_append(out, head->method);
    buf_append(out, STR(" "));
    buf_append(out, head->path);
    buf_append(out, head->query);
    buf_append(out, STR(" HTTP/1.1\r\n"));
    append_host(out, &head->to);
    for (size_t i = 0; i < head->field_count; i++) {
        const struct http_field *field = &head->fields[i];
        if (field->hop_by_hop || http_is_own(field->name) || is_credential(field->name))
            continue;
        /* An HTTP/1.0 client does not know the interim answer (RFC 9110 10.1.1). */
        if (head->minor == 0 && str_ieq(field->name, STR("Expect")))
            continue;
        if (options && str_ieq(field->name, STR("Max-Forwards")))
            append_max_forwards(out, field->value);
        else
            http_write_field(out, field->name, field->value);
    }
    http_write_via(out, head->fields, head->field_count, workers_loop_token(session->worker->team));
    append_body_fields(out, head->body, head->length);
    if (http->wants_upgrade) {
        buf_append(out, STR("Connection: upgrade\r\n"));
        http_write_field(out, STR("Upgrade"), head->upgrade);
    } else if (!head->keep_alive) {
        buf_append(out, STR("Connection: close\r\n"));
    }
    buf_append(out, STR("\r\n"));
}

/* ---- reading ---- */

static const struct http_field *find_field(const struct http_request *head, struct str name)
{
    for (size_t i = 0; i < head->field_count; i++)
        if (str_ieq(head->fields[i].name, name))
            return &head->fields[i];
    return NULL;
}

/* RFC 9110 7.6.2: OPTIONS for the proxy itself, or one that may go no further. */
static bool is_for_us(const struct http_request *head)
{
    if (!str_eq(head->method, STR("OPTIONS")) || head->body != HTTP_BODY_NONE)
        return false;
    if (head->form == HTTP_ASTERISK_FORM)
        return true;
    const struct http_field *hops = find_field(head, STR("Max-Forwards"));
    return hops != NULL && str_eq(hops->value, STR("0"));
}

static enum proto_result answer_options(struct session *session, const struct http_request *head)
{
    const bool goes_on = head->keep_alive && !worker_answers_last(session->worker);
    buf_printf(&session->client.out,
               "HTTP/1.1 200 OK\r\nAllow: CONNECT, OPTIONS, GET, HEAD, POST, PUT, PATCH, DELETE\r\n"
               "Content-Length: 0\r\n%s\r\n",
               goes_on ? "" : "Connection: close\r\n");
    stream_flush(&session->client);
    buf_take(&session->client.in, head->size);
    return goes_on ? PROTO_ANSWERED : PROTO_CLOSE;
}

static bool has_come_round(const struct session *session, const struct http_request *head)
{
    const struct str token = str_of(workers_loop_token(session->worker->team));
    for (size_t i = 0; i < head->field_count; i++)
        if (str_ieq(head->fields[i].name, STR("Via")) && has_token(head->fields[i].value, token))
            return true;
    return false;
}

static bool is_idempotent(struct str method)
{
    return str_eq(method, STR("GET")) || str_eq(method, STR("HEAD")) ||
           str_eq(method, STR("OPTIONS"));
}

static void note_request(struct session *session, const struct http_request *head)
{
    struct http *http = session->http;
    struct request *request = &session->request;
    http->parsed = true;
    http->connect = str_eq(head->method, STR("CONNECT"));
    http->head = str_eq(head->method, STR("HEAD"));
    http->minor = head->minor;
    http->keep_alive = head->keep_alive && head->minor > 0;
    http->expects = head->expect_continue;
    http->wants_upgrade = head->upgrade.p != NULL && !http->connect;
    http->retryable = head->body == HTTP_BODY_NONE && is_idempotent(head->method);
    http->loops = has_come_round(session, head);
    http_body_begin(&http->body, head->body, head->length);
    http->body_coding = head->body;
    request->prefers_text = prefers_text(head->accept);
    read_credentials(&session->credentials, head->proxy_authorization);
    request->has_target = head->target_is_set;
    if (head->target_is_set)
        request->target = head->to;
    if (!http->connect) {
        request->method = request_copy_text(head->method);
        if (head->path.p != NULL)
            request->path = request_copy_text(head->path);
    }
}

static enum proto_result take_request(struct session *session, const struct http_request *head)
{
    session_begin_request(session,
                          str_eq(head->method, STR("CONNECT")) ? FRONT_CONNECT : FRONT_HTTP);
    note_request(session, head);
    if (session->http->connect) {
        if (head->form != HTTP_AUTHORITY_FORM)
            return session_refuse_request(session, OUTCOME_BAD_REQUEST, 400,
                                          "CONNECT needs HOST:PORT");
        if (head->body != HTTP_BODY_NONE)
            return session_refuse_request(session, OUTCOME_BAD_REQUEST, 400, "CONNECT has no body");
    } else if (head->form != HTTP_ABSOLUTE_FORM || !head->target_is_set) {
        return session_refuse_request(
            session, OUTCOME_BAD_REQUEST, 400,
            "this is a proxy: ask for http://HOST/PATH or CONNECT HOST:PORT");
    } else if (head->https) {
        return session_refuse_request(session, OUTCOME_UNSUPPORTED, 0,
                                      "https:// is not fetched in clear; use CONNECT HOST:443");
    } else if (str_eq(head->method, STR("TRACE"))) {
        /* It would echo what other hops added, credentials among it. */
        return session_refuse_request(session, OUTCOME_UNSUPPORTED, 0, "TRACE is not forwarded");
    } else {
        write_forward(session, head);
    }
    return PROTO_REQUEST;
}

/* The body of a refused request; ANSWERED when nothing of it is left. */
static enum proto_result skip_body(struct session *session)
{
    struct http *http = session->http;
    struct buf *in = &session->client.in;
    while (!http->skip.done && in->len > 0) {
        size_t used = 0;
        struct str data;
        if (!http_body_feed(&http->skip, buf_view(in), &used, &data))
            return PROTO_CLOSE;
        buf_take(in, used);
        http->skipped += used;
        if (http->skipped > SKIP_MAX)
            return PROTO_CLOSE;
    }
    return http->skip.done ? PROTO_ANSWERED : PROTO_MORE;
}

static struct http *http_of(struct session *session)
{
    if (session->http == NULL) {
        session->http = slab_take(&session->worker->http_room);
        session->http->skip.done = true;
    }
    return session->http;
}

static enum proto_result read_head(struct session *session)
{
    struct http *http = http_of(session);
    struct http_request *head = session->worker->http_request;
    struct http_fault fault = {0};
    size_t max = session_config(session)->max_header_bytes;
    enum proto_result skipped = skip_body(session);
    if (skipped != PROTO_ANSWERED)
        return skipped;
    if (session->client.in.len == 0)
        return PROTO_MORE;
    switch (http_parse_request(buf_view(&session->client.in), max, &http->scan, head, &fault)) {
    case HTTP_MORE:
        return PROTO_MORE;
    case HTTP_REFUSED:
        session_begin_request(session, FRONT_HTTP);
        http->parsed = false;
        if (fault.asked.p != NULL)
            request_set_host_text(&session->request, fault.asked, 0);
        return session_refuse_request(
            session, fault.status == 501 ? OUTCOME_UNSUPPORTED : OUTCOME_BAD_REQUEST, fault.status,
            fault.why);
    case HTTP_PARSED:
        break;
    }
    http->scan = (struct http_scan){0};
    if (is_for_us(head))
        return answer_options(session, head);
    enum proto_result result = take_request(session, head);
    buf_take(&session->client.in, head->size);
    return result;
}

/* ---- answering ---- */

static void accept_request(struct session *session)
{
    if (session->http->connect)
        stream_send(&session->client, STR("HTTP/1.1 200 Connection established\r\n\r\n"));
}

/* After a refusal the connection goes on only when it is certain where the next request starts. */
static bool can_go_on(const struct session *session)
{
    const struct http *http = session->http;
    const enum outcome outcome = session->request.outcome;
    if (!http->parsed || !http->keep_alive || worker_answers_last(session->worker) ||
        outcome == OUTCOME_OVERLOAD || outcome == OUTCOME_BAD_RESPONSE)
        return false;
    /* What follows a CONNECT was meant for a tunnel (RFC 9110 9.3.6); only a challenge, behind
     * which nothing has been sent, is worth another try on this connection. */
    if (http->connect)
        return session->client.in.len == 0 &&
               (outcome == OUTCOME_AUTH_REQUIRED || outcome == OUTCOME_AUTH_FAILED);
    if (outcome == OUTCOME_BAD_REQUEST)
        return false;
    if (http->body.done)
        return true;
    if (outcome == OUTCOME_TIMEOUT)
        return false;
    return !http->expects && (http->body.kind == HTTP_BODY_CHUNKED || http->body.left <= SKIP_MAX);
}

static bool refuse_request(struct session *session)
{
    struct http *http = http_of(session);
    bool goes_on = can_go_on(session);
    refusal_send_http(session, goes_on);
    http->scan = (struct http_scan){0}; /* of an answer, maybe, that did not come whole */
    http->skip = http->body;
    http->skipped = 0;
    buf_free(&http->forward);
    return goes_on;
}

const struct proto proto_http = {
    .name = "http",
    .read = read_head,
    .accept = accept_request,
    .refuse = refuse_request,
};
