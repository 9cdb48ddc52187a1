#include "session/naming.h"
#include "session/proto.h"
#include "session/refusal.h"
#include "session/session.h"
#include "wire/hello.h"
#include "wire/tls_record.h"

/*
 * Connections of clients that know no proxy. The kernel has redirected them here and knows where
 * they were meant to go; most often that is an address that stands for a name. Nothing is said
 * before the target's own bytes, and nothing is heard before it is known whether it is allowed: a
 * server may be the first to speak.
 */

enum {
    ORIGINAL_DST = 80, /* SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST; netfilter's headers need others
                          that exclude the C library's */
    METHOD_MAX = 16,
};

/* Who connects to the listener itself from an address that is not loopback: the kernel may have
 * seen our half only, for which the client is the destination. */
static bool is_peer(const struct session *session, const struct target *target)
{
    return addr_eq(&target->addr, &session->peer.addr) && target->port == session->peer.port;
}

static bool read_destination(const struct session *session, struct target *out)
{
    struct sockaddr_storage to = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(to);
    const int level = session->peer.addr.family == 4 ? IPPROTO_IP : IPPROTO_IPV6;
    out->is_addr = true;
    return getsockopt(session->client.fd, level, ORIGINAL_DST, &to, &len) == 0 &&
           addr_from_sockaddr((struct sockaddr *)&to, &out->addr, &out->port) && out->port != 0 &&
           !is_peer(session, out);
}

static enum proto_result read_transparent(struct session *session)
{
    session_begin_request(session, FRONT_TRANSPARENT);
    session->request.has_target = read_destination(session, &session->request.target);
    if (!session->request.has_target)
        return session_refuse_request(session, OUTCOME_BAD_REQUEST, 0,
                                      "nothing says where this connection was meant to go");
    return PROTO_REQUEST;
}

static void accept_transparent(struct session *session)
{
    (void)session; /* it is open already */
}

/* ---- what the client has begun to say ---- */

enum language { LANGUAGE_UNCLEAR, LANGUAGE_TLS, LANGUAGE_HTTP, LANGUAGE_OTHER };

/* A request line: a method in capitals, a space, and more. */
static enum language guess(struct str bytes)
{
    size_t len = 0;
    if (bytes.len > 0 && (unsigned char)bytes.p[0] == RECORD_HANDSHAKE)
        return LANGUAGE_TLS;
    while (len < bytes.len && len < METHOD_MAX && bytes.p[len] >= 'A' && bytes.p[len] <= 'Z')
        len++;
    if (len == bytes.len || (len > 0 && bytes.p[len] == ' ' && len + 1 == bytes.len))
        return LANGUAGE_UNCLEAR;
    return len > 0 && bytes.p[len] == ' ' && bytes.p[len + 1] == '/' ? LANGUAGE_HTTP
                                                                     : LANGUAGE_OTHER;
}

static bool understands_transparent(const struct session *session)
{
    return guess(buf_view(&session->client.in)) != LANGUAGE_UNCLEAR;
}

/* An alert says that somebody forbids it, so it is for what a policy forbids. Everything else looks
 * like the network that it is. */
static bool refuse_transparent(struct session *session)
{
    const struct str bytes = buf_view(&session->client.in);
    const enum language language = guess(bytes);
    uint8_t alert[HELLO_ALERT_LEN];
    if (language == LANGUAGE_HTTP) {
        session->request.has_no_body = str_starts(bytes, STR("HEAD "));
        refusal_send_http(session, false);
    } else if (language == LANGUAGE_TLS && outcome_row(session->request.outcome)->policy) {
        hello_alert(alert, HELLO_ACCESS_DENIED);
        stream_send(&session->client, (struct str){(const char *)alert, sizeof(alert)});
    } else {
        session->resets = true;
    }
    return false;
}

const struct proto proto_transparent = {
    .name = "transparent",
    .read = read_transparent,
    .accept = accept_transparent,
    .refuse = refuse_transparent,
    .understands = understands_transparent,
};
