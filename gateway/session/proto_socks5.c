#include "session/proto.h"

#include "session/session.h"
#include "wire/socks5.h"

#include <stdlib.h>

enum { SOCKS4_VERSION = 4 };

const struct proto *proto_guess(unsigned char first)
{
    return first == SOCKS4_VERSION || first == SOCKS5_VERSION ? &proto_socks5 : &proto_http;
}

static void send_bytes(struct session *session, const uint8_t *bytes, size_t len)
{
    stream_send(&session->client, (struct str){(const char *)bytes, len});
}

static enum proto_result malformed(struct session *session, const char *why)
{
    session_begin_request(session, FRONT_SOCKS5);
    return session_refuse_request(session, OUTCOME_BAD_REQUEST, 0, why);
}

/* Refused before anybody has asked for a target. */
static enum proto_result unidentified(struct session *session, enum outcome outcome)
{
    session_begin_request(session, FRONT_SOCKS5);
    session->request.outcome = outcome;
    return PROTO_REFUSED;
}

static bool wants_login(struct session *session, const struct socks5_greeting *greeting)
{
    struct identity identity;
    const struct snapshot *snapshot = session->worker->tenure->snapshot;
    if (session_identify(session, snapshot, &identity) != OUTCOME_ALLOWED)
        return true;
    return !greeting->no_auth || (session->door->sandbox == NULL &&
                                  identity_uses_tokens(snapshot, session->door->config));
}

static enum proto_result read_greeting(struct session *session)
{
    struct socks5_greeting greeting;
    struct str bytes = buf_view(&session->client.in);
    size_t used;
    if (bytes.len > 0 && (uint8_t)bytes.p[0] == SOCKS4_VERSION) {
        session->socks5.phase = SOCKS5_OLD;
        session_begin_request(session, FRONT_SOCKS5);
        return session_refuse_request(session, OUTCOME_UNSUPPORTED, 0,
                                      "SOCKS4 is not spoken here, use SOCKS5");
    }
    switch (socks5_parse_greeting(bytes, &greeting, &used)) {
    case SOCKS5_MORE:
        return PROTO_MORE;
    case SOCKS5_BAD:
        return malformed(session, "no SOCKS5 greeting");
    case SOCKS5_PARSED:
        break;
    }
    buf_take(&session->client.in, used);
    const uint8_t none[] = {SOCKS5_VERSION, SOCKS5_NO_AUTH},
                  login[] = {SOCKS5_VERSION, SOCKS5_USERPASS};
    if (wants_login(session, &greeting) && greeting.userpass) {
        session->socks5.phase = SOCKS5_LOGIN;
        send_bytes(session, login, sizeof(login));
        return PROTO_ANSWERED;
    }
    struct identity identity;
    enum outcome outcome = session_identify(session, session->worker->tenure->snapshot, &identity);
    if (outcome != OUTCOME_ALLOWED)
        return unidentified(session, outcome);
    if (!greeting.no_auth)
        return malformed(session, "neither offered SOCKS5 method is known");
    session->socks5.phase = SOCKS5_REQUEST;
    send_bytes(session, none, sizeof(none));
    return PROTO_ANSWERED;
}

static enum proto_result read_login(struct session *session)
{
    struct str user, password;
    size_t used;
    switch (socks5_parse_userpass(buf_view(&session->client.in), &user, &password, &used)) {
    case SOCKS5_MORE:
        return PROTO_MORE;
    case SOCKS5_BAD:
        return malformed(session, "no SOCKS5 user and password");
    case SOCKS5_PARSED:
        break;
    }
    credentials_set(&session->credentials, password);
    buf_take(&session->client.in, used);
    struct identity identity;
    enum outcome outcome = session_identify(session, session->worker->tenure->snapshot, &identity);
    if (outcome != OUTCOME_ALLOWED)
        return unidentified(session, outcome);
    const uint8_t welcome[] = {SOCKS5_USERPASS_VERSION, 0};
    session->socks5.phase = SOCKS5_REQUEST;
    send_bytes(session, welcome, sizeof(welcome));
    return PROTO_ANSWERED;
}

static enum proto_result refuse_command(struct session *session, struct socks5_request *asked)
{
    if (!asked->type_is_known) {
        session->socks5.reply = 8;
        return session_refuse_request(session, OUTCOME_BAD_REQUEST, 0, "unknown address type");
    }
    if (asked->command != SOCKS5_CONNECT)
        return session_refuse_request(session, OUTCOME_UNSUPPORTED, 0,
                                      "only the SOCKS5 command CONNECT is supported");
    if (asked->host.p != NULL)
        request_set_host_text(&session->request, asked->host, asked->port);
    return session_refuse_request(session, OUTCOME_BAD_REQUEST, 0, asked->why);
}

static enum proto_result read_command(struct session *session)
{
    struct socks5_request asked;
    size_t used;
    switch (socks5_parse_request(buf_view(&session->client.in), &asked, &used)) {
    case SOCKS5_MORE:
        return PROTO_MORE;
    case SOCKS5_BAD:
        return malformed(session, "no SOCKS5 request");
    case SOCKS5_PARSED:
        break;
    }
    session_begin_request(session, FRONT_SOCKS5);
    enum proto_result result = PROTO_REQUEST;
    session->request.has_target = asked.target_is_valid;
    if (asked.target_is_valid)
        session->request.target = asked.target;
    if (asked.command != SOCKS5_CONNECT || !asked.target_is_valid)
        result = refuse_command(session, &asked);
    buf_take(&session->client.in, used);
    return result;
}

static enum proto_result read_socks5(struct session *session)
{
    if (session->client.in.len == 0)
        return PROTO_MORE;
    switch (session->socks5.phase) {
    case SOCKS5_GREETING:
        return read_greeting(session);
    case SOCKS5_LOGIN:
        return read_login(session);
    case SOCKS5_REQUEST:
        return read_command(session);
    case SOCKS5_OLD:
        break;
    }
    return PROTO_CLOSE;
}

static void accept_socks5(struct session *session)
{
    uint8_t reply[SOCKS5_REPLY_MAX];
    struct sockaddr_storage local;
    socklen_t len = sizeof(local);
    struct addr bound;
    uint16_t port;
    bool known = getsockname(session->upstream.fd, (struct sockaddr *)&local, &len) == 0 &&
                 addr_from_sockaddr((struct sockaddr *)&local, &bound, &port);
    send_bytes(session, reply, socks5_reply(reply, 0, known ? &bound : NULL, known ? port : 0));
}

static bool refuse_socks5(struct session *session)
{
    uint8_t reply[SOCKS5_REPLY_MAX];
    const uint8_t no_method[] = {SOCKS5_VERSION, SOCKS5_NONE_ACCEPTABLE},
                  no_login[] = {SOCKS5_USERPASS_VERSION, 1};
    int code = session->socks5.reply != 0 ? session->socks5.reply
                                          : outcome_row(session->request.outcome)->socks_reply;
    switch (session->socks5.phase) {
    case SOCKS5_GREETING:
        send_bytes(session, no_method, sizeof(no_method));
        break;
    case SOCKS5_LOGIN:
        send_bytes(session, no_login, sizeof(no_login));
        break;
    case SOCKS5_REQUEST:
        send_bytes(session, reply, socks5_reply(reply, (uint8_t)code, NULL, 0));
        break;
    case SOCKS5_OLD:
        send_bytes(session, socks4_refusal, sizeof(socks4_refusal));
        break;
    }
    return false;
}

const struct proto proto_socks5 = {
    .name = "socks5",
    .read = read_socks5,
    .accept = accept_socks5,
    .refuse = refuse_socks5,
};
