#include "session/refusal.h"

#include "filters/words.h"
#include "session/session.h"
#include "srt/plain.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>

enum { ASKED_MAX = 100, ESCAPED = sizeof("\\x00") - 1 };

/* What was asked for, printable and in quotes, "" where that is not known. What may be credentials
 * or the query of a URL is left out. */
static const char *quote_asked(const struct request *request, char out[ESCAPED * ASKED_MAX + 8])
{
    static const char hex[] = "0123456789abcdef";
    const char *asked = request->host_text;
    size_t size = asked != NULL ? request->host_text_len : 0, len = 0;
    if (size == 0 || memchr(asked, '@', size) != NULL)
        return "";
    for (size_t i = 0; i < size; i++)
        if (asked[i] == '?' || asked[i] == '#')
            size = i;
    out[len++] = '"';
    for (size_t i = 0; i < size && i < ASKED_MAX; i++) {
        const unsigned char byte = (unsigned char)asked[i];
        if (byte > ' ' && byte <= '~' && byte != '"' && byte != '\\') {
            out[len++] = (char)byte;
            continue;
        }
        const char escaped[ESCAPED] = {'\\', 'x', hex[byte >> 4], hex[byte & 15]};
        memcpy(out + len, escaped, ESCAPED);
        len += ESCAPED;
    }
    memcpy(out + len, size > ASKED_MAX ? "...\"" : "\"", size > ASKED_MAX ? 5 : 2);
    return out;
}

static void malformed_texts(const struct request *request, char *message, size_t message_size,
                            char *next_step, size_t next_step_size)
{
    const bool server = request->outcome == OUTCOME_BAD_RESPONSE || request->http_status == 504;
    const char *what = request->outcome == OUTCOME_UNSUPPORTED    ? "unsupported request"
                       : request->outcome == OUTCOME_BAD_RESPONSE ? "unusable response"
                       : request->outcome == OUTCOME_TIMEOUT      ? "too slow"
                                                                  : "malformed request";
    char quoted[ESCAPED * ASKED_MAX + 8];
    const char *asked = quote_asked(request, quoted);
    TEXT_JOIN(message, message_size, what, ": ", request->why, asked[0] != '\0' ? ": " : NULL,
              asked);
    TEXT_JOIN(next_step, next_step_size,
              server ? "The fault is at the server; try again later" : "Correct the request");
}

void refusal_in_tunnel(const struct request *request, const char *why, char *message, size_t size)
{
    char target[TARGET_TEXT_MAX];
    const char *sni = request->sni;
    TEXT_JOIN(message, size, WORDS_IN_TUNNEL, target_format(target, &request->target), ": ", why,
              sni != NULL ? " (it named " : NULL, sni, sni != NULL ? ")" : NULL);
}

/* The one way of not being found in which the spelling is right. */
static void no_address_texts(const struct request *request, char *message, size_t message_size,
                             char *next_step, size_t next_step_size)
{
    char target[TARGET_TEXT_MAX];
    TEXT_JOIN(message, message_size, "the name of ", target_format(target, &request->target),
              " exists but has no address");
    TEXT_JOIN(next_step, next_step_size,
              "Use a name that has an address; often that is one below this one, such as www");
}

static void say_tried(const struct request *request, char *message, size_t size)
{
    size_t len = strlen(message);
    if (request->approved <= 1 || len >= size)
        return;
    if (request->outcome == OUTCOME_CONNECT_REFUSED ||
        request->outcome == OUTCOME_CONNECT_UNREACHABLE ||
        request->outcome == OUTCOME_CONNECT_TIMEOUT)
        snprintf(message + len, size - len, " (tried %u of %u addresses)", request->tried,
                 request->approved);
}

/* Whoever may raise it has to know which. */
static void say_limit(const struct request *request, char *message, size_t size)
{
    const size_t len = strlen(message);
    if (request->outcome == OUTCOME_LIMIT && request->why != NULL && len < size)
        snprintf(message + len, size - len, " (%s)", request->why);
}

void refusal_texts(const struct session *session, char *message, size_t message_size,
                   char *next_step, size_t next_step_size)
{
    const struct request *request = &session->request;
    assert(request->outcome != OUTCOME_ALLOWED);
    if (via_texts(request, message, message_size, next_step, next_step_size))
        return;
    if (request->why != NULL && request->outcome != OUTCOME_SNI_MISMATCH &&
        request->outcome != OUTCOME_LIMIT) {
        malformed_texts(request, message, message_size, next_step, next_step_size);
        return;
    }
    const struct target *target = request->has_target ? &request->target : NULL;
    if (request->outcome == OUTCOME_DNS_NXDOMAIN && request->no_address) {
        no_address_texts(request, message, message_size, next_step, next_step_size);
        return;
    }
    if (request->outcome == OUTCOME_SNI_MISMATCH)
        refusal_in_tunnel(request, request->why, message, message_size);
    else
        decision_message(&request->decision, target, request->outcome, message, message_size);
    say_tried(request, message, message_size);
    say_limit(request, message, message_size);
    decision_next_step(&request->decision, target, request->outcome, next_step, next_step_size);
}

/* A string of RFC 8941 3.3.3: printable ASCII, with backslash and quote escaped. */
static void append_quoted(struct buf *out, const char *text)
{
    const size_t len = strlen(text);
    char *const room = buf_room(out, 2 * len + 2), *at = room;
    *at++ = '"';
    for (size_t done = 0; done < len;) {
        const size_t plain = plain_copy(at, text + done, len - done);
        at += plain;
        done += plain;
        if (done == len)
            break;
        const char c = text[done++];
        if (c == '"' || c == '\\')
            *at++ = '\\';
        *at++ = c < ' ' || c > '~' ? '?' : c;
    }
    *at++ = '"';
    buf_added(out, (size_t)(at - room));
}

static const char *policy_word(const struct session *session)
{
    const struct ruling *ruling = &session->request.decision.ruling;
    const struct policy *policy = session->identity.policy;
    if (ruling->policy != NULL)
        policy = ruling->policy;
    return policy != NULL ? policy_name(policy) : NULL;
}

static void write_json(const struct session *session, struct json *json)
{
    const struct request *request = &session->request;
    const struct outcome_row *row = outcome_row(request->outcome);
    const struct ruling *ruling = &request->decision.ruling;
    char host[NAME_MAX_LEN + 1], id[RULE_ID_MAX];
    json_reset(json);
    json_object_open(json, NULL);
    json_text(json, "error", str_of(row->policy ? "blocked" : "failed"));
    json_text(json, "reason", str_of(row->word));
    if (request->has_target) {
        json_text(json, "host", str_of(target_host(host, &request->target)));
        json_number(json, "port", request->target.port);
    } else {
        json_none(json, "host");
        json_none(json, "port");
    }
    json_text(json, "policy", str_of(policy_word(session)));
    json_text(json, "rule", str_of(ruling->rule != NULL ? rule_id(ruling->rule, id) : NULL));
    json_text(json, "request_id", str_of(request->id));
    json_text(json, "message", str_of(request->message));
    json_text(json, "next_step", str_of(request_next_step(request)));
    json_text(json, "docs", str_of(ruling->policy != NULL ? policy_docs(ruling->policy) : NULL));
    json_object_close(json);
    json_newline(json);
}

static int status_of(const struct request *request)
{
    return request->http_status != 0 ? request->http_status
                                     : outcome_row(request->outcome)->http_status;
}

static void append_json(struct session *session, bool bodiless, struct buf *out)
{
    struct json *json = &session->worker->json;
    write_json(session, json);
    buf_append(out, STR("Content-Type: application/json\r\n"));
    http_write_length(out, json->len);
    buf_append(out, STR("\r\n"));
    if (!bodiless)
        buf_append(out, (struct str){json->data, json->len});
}

/* A rule's reason or a module's words may have control bytes, and this may go to a terminal. */
static void append_line(struct buf *out, const char *text)
{
    const size_t len = strlen(text);
    char *room = buf_room(out, len + 1);
    for (size_t i = 0; i < len; i++)
        room[i] = iscntrl((unsigned char)text[i]) ? '?' : text[i];
    room[len] = '\n';
    buf_added(out, len + 1);
}

static void append_text(const struct request *request, bool bodiless, struct buf *out)
{
    const char *next_step = request_next_step(request);
    buf_append(out, STR("Content-Type: text/plain; charset=utf-8\r\n"));
    http_write_length(out, strlen(request->message) + strlen(next_step) + strlen(request->id) + 3);
    buf_append(out, STR("\r\n"));
    if (bodiless)
        return;
    append_line(out, request->message);
    append_line(out, next_step);
    append_line(out, request->id);
}

static void append_retry_after(struct buf *out, const struct request *request)
{
    buf_append(out, STR("Retry-After: "));
    buf_number(out, request->retry_after_s > 0 ? request->retry_after_s : 1);
    buf_append(out, STR("\r\n"));
}

static void append_head(const struct request *request, bool keeps_connection, struct buf *out)
{
    const struct outcome_row *row = outcome_row(request->outcome);
    const int status = status_of(request);
    buf_append(out, STR("HTTP/1.1 "));
    buf_number(out, (uint64_t)status);
    BUF_JOIN(out, " ", row->policy ? "Blocked by policy" : http_status_phrase(status),
             "\r\nProxy-Status: srt-gateway; error=", row->proxy_error, "; details=");
    append_quoted(out, request->message);
    BUF_JOIN(out, "\r\n", row->policy ? "X-Proxy-Error: blocked-by-allowlist\r\n" : NULL,
             status != 407
                 ? NULL
                 : "Proxy-Authenticate: Basic realm=\"srt-gateway\", charset=\"UTF-8\"\r\n");
    if (status == 429 || status == 503)
        append_retry_after(out, request);
    BUF_JOIN(out, "Cache-Control: no-store\r\n", keeps_connection ? NULL : "Connection: close\r\n");
}

void refusal_send_http(struct session *session, bool keeps_connection)
{
    const struct request *request = &session->request;
    const bool bodiless = request->has_no_body ||
                          (session->http != NULL && session->http->parsed && session->http->head);
    struct buf *out = &session->worker->reply;
    assert(request->message != NULL); /* its record was made before */
    buf_clear(out);
    append_head(request, keeps_connection, out);
    if (request->prefers_text)
        append_text(request, bodiless, out);
    else
        append_json(session, bodiless, out);
    if (keeps_connection)
        stream_send(&session->client, buf_view(out));
    else
        stream_send_last(&session->client, buf_view(out));
}
