#include "transport/handshake.h"

#include "wire/socks5.h"

/* ---- CONNECT ---- */

static void ask_http(const struct handshake *handshake, const char *token, struct buf *out)
{
    char authority[TARGET_TEXT_MAX];
    target_format(authority, handshake->target);
    buf_printf(out, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", authority, authority);
    if (handshake->upstream->has_credentials)
        buf_printf(out, "Proxy-Authorization: %s\r\n", handshake->upstream->authorization);
    if (token != NULL)
        buf_printf(out, "Via: 1.1 srt-gateway (%s)\r\n", token);
    buf_append(out, STR("\r\n"));
}

static enum handshake_result fail(struct handshake *handshake, enum outcome outcome,
                                  const char *why)
{
    handshake->outcome = outcome;
    handshake->why = why;
    return HANDSHAKE_FAILED;
}

/* RFC 9110 9.3.6: any 2xx, and whatever its head says of a body, there is none. */
static enum handshake_result read_head(struct handshake *handshake, struct buf *in,
                                       struct http_response *head)
{
    struct http_fault fault;
    while (in->len > 0) {
        switch (http_parse_response(buf_view(in), HANDSHAKE_HEAD_MAX, false, &handshake->scan, head,
                                    &fault)) {
        case HTTP_MORE:
            return HANDSHAKE_MORE;
        case HTTP_REFUSED:
            return fail(handshake, OUTCOME_BAD_RESPONSE, "gave an answer that is not proper HTTP");
        case HTTP_PARSED:
            break;
        }
        handshake->scan = (struct http_scan){0};
        const uint16_t status = head->status;
        buf_take(in, head->size);
        if (status >= 200 && status < 300)
            return HANDSHAKE_DONE;
        if (status >= 200 || status == 101) {
            handshake->status = status;
            return fail(handshake, OUTCOME_BAD_RESPONSE, "did not open the tunnel");
        }
    }
    return HANDSHAKE_MORE;
}

/* ---- SOCKS5 ---- */

static void say(struct buf *out, const uint8_t *bytes, size_t len)
{
    buf_append(out, (struct str){(const char *)bytes, len});
}

static void greet(const struct handshake *handshake, struct buf *out)
{
    const uint8_t none[] = {SOCKS5_VERSION, 1, SOCKS5_NO_AUTH};
    const uint8_t both[] = {SOCKS5_VERSION, 2, SOCKS5_NO_AUTH, SOCKS5_USERPASS};
    if (handshake->upstream->has_credentials)
        say(out, both, sizeof(both));
    else
        say(out, none, sizeof(none));
}

static void append_counted(struct buf *out, struct str text)
{
    const uint8_t len = (uint8_t)text.len;
    say(out, &len, 1);
    buf_append(out, text);
}

static void log_in(const struct handshake *handshake, struct buf *out)
{
    const uint8_t version = SOCKS5_USERPASS_VERSION;
    say(out, &version, 1);
    append_counted(out, str_of(handshake->upstream->user));
    append_counted(out, str_of(handshake->upstream->password));
}

static void ask_socks5(const struct handshake *handshake, struct buf *out)
{
    const struct target *target = handshake->target;
    const uint8_t port[] = {(uint8_t)(target->port >> 8), (uint8_t)target->port};
    const uint8_t head[] = {SOCKS5_VERSION, SOCKS5_CONNECT, 0,
                            !target->is_addr           ? SOCKS5_DOMAIN
                            : target->addr.family == 4 ? SOCKS5_IPV4
                                                       : SOCKS5_IPV6};
    say(out, head, sizeof(head));
    if (target->is_addr)
        say(out, target->addr.bytes, target->addr.family == 4 ? 4 : 16);
    else
        append_counted(out, name_str(&target->name));
    say(out, port, sizeof(port));
}

static enum handshake_result wrong_socks5(struct handshake *handshake)
{
    return fail(handshake, OUTCOME_BAD_RESPONSE, "gave an answer that is not SOCKS5");
}

static enum handshake_result read_method(struct handshake *handshake, struct buf *in,
                                         struct buf *out)
{
    if (in->len > 0 && buf_view(in).p[0] != SOCKS5_VERSION)
        return wrong_socks5(handshake);
    if (in->len < 2)
        return HANDSHAKE_MORE;
    const uint8_t method = (uint8_t)buf_view(in).p[1];
    const bool has_credentials = handshake->upstream->has_credentials;
    buf_take(in, 2);
    if (method == SOCKS5_USERPASS && has_credentials) {
        log_in(handshake, out);
        handshake->phase = HANDSHAKE_LOGIN;
    } else if (method == SOCKS5_NO_AUTH) {
        ask_socks5(handshake, out);
        handshake->phase = HANDSHAKE_REPLY;
    } else if (method == SOCKS5_NONE_ACCEPTABLE) {
        return fail(handshake, OUTCOME_BAD_RESPONSE,
                    has_credentials ? "takes neither no credentials nor a user and password"
                                    : "wants credentials, and there are none for it");
    } else {
        return wrong_socks5(handshake);
    }
    return HANDSHAKE_DONE;
}

static enum handshake_result read_login(struct handshake *handshake, struct buf *in,
                                        struct buf *out)
{
    if (in->len > 0 && buf_view(in).p[0] != SOCKS5_USERPASS_VERSION)
        return wrong_socks5(handshake);
    if (in->len < 2)
        return HANDSHAKE_MORE;
    const bool welcome = buf_view(in).p[1] == 0;
    buf_take(in, 2);
    if (!welcome)
        return fail(handshake, OUTCOME_BAD_RESPONSE, "does not accept our credentials");
    ask_socks5(handshake, out);
    handshake->phase = HANDSHAKE_REPLY;
    return HANDSHAKE_DONE;
}

/* RFC 1928 6: what the proxy found out about the target. */
static enum handshake_result refused(struct handshake *handshake, uint8_t code)
{
    switch (code) {
    case 2:
        return fail(handshake, OUTCOME_BAD_RESPONSE, "does not allow this target");
    case 3:
    case 4:
        return fail(handshake, OUTCOME_CONNECT_UNREACHABLE, "says that the target is unreachable");
    case 5:
        return fail(handshake, OUTCOME_CONNECT_REFUSED, "says that the target refused");
    case 6:
        return fail(handshake, OUTCOME_CONNECT_TIMEOUT, "says that the target did not answer");
    default:
        return fail(handshake, OUTCOME_BAD_RESPONSE, "did not open the tunnel");
    }
}

static enum handshake_result read_reply(struct handshake *handshake, struct buf *in)
{
    const struct str bytes = buf_view(in);
    if (bytes.len > 0 && bytes.p[0] != SOCKS5_VERSION)
        return wrong_socks5(handshake);
    if (bytes.len < 2)
        return HANDSHAKE_MORE;
    if (bytes.p[1] != 0)
        return refused(handshake, (uint8_t)bytes.p[1]); /* some say no more than that */
    if (bytes.len < 5)
        return HANDSHAKE_MORE;
    const uint8_t type = (uint8_t)bytes.p[3];
    if (bytes.p[2] != 0 || (type != SOCKS5_IPV4 && type != SOCKS5_DOMAIN && type != SOCKS5_IPV6))
        return wrong_socks5(handshake);
    const size_t bound = type == SOCKS5_IPV4   ? 4
                         : type == SOCKS5_IPV6 ? 16
                                               : 1 + (size_t)(uint8_t)bytes.p[4];
    if (bytes.len < 4 + bound + 2)
        return HANDSHAKE_MORE;
    buf_take(in, 4 + bound + 2);
    return HANDSHAKE_DONE;
}

/* The greeting and the login lead on, the reply ends it. */
static enum handshake_result read_socks5(struct handshake *handshake, struct buf *in,
                                         struct buf *out)
{
    enum handshake_result result = HANDSHAKE_DONE;
    while (result == HANDSHAKE_DONE && handshake->phase != HANDSHAKE_REPLY)
        result = handshake->phase == HANDSHAKE_METHOD ? read_method(handshake, in, out)
                                                      : read_login(handshake, in, out);
    return result == HANDSHAKE_DONE ? read_reply(handshake, in) : result;
}

/* ---- both ---- */

void handshake_begin(struct handshake *handshake, const struct config_upstream *upstream,
                     const struct target *target, const char *token, struct buf *out)
{
    *handshake = (struct handshake){.upstream = upstream, .target = target};
    if (upstream->kind == UPSTREAM_HTTP) {
        handshake->phase = HANDSHAKE_HEAD;
        ask_http(handshake, token, out);
    } else {
        handshake->phase = HANDSHAKE_METHOD;
        greet(handshake, out);
    }
}

enum handshake_result handshake_turn(struct handshake *handshake, struct buf *in, bool ended,
                                     struct buf *out, struct http_response *head)
{
    enum handshake_result result = handshake->phase == HANDSHAKE_HEAD
                                       ? read_head(handshake, in, head)
                                       : read_socks5(handshake, in, out);
    if (result == HANDSHAKE_MORE && ended)
        return fail(handshake, OUTCOME_BAD_RESPONSE,
                    "closed the connection before it had answered");
    return result;
}
