#include "record/squid.h"

#include <inttypes.h>
#include <stdio.h>

static void put(struct json *out, const char *text)
{
    json_append(out, str_of(text));
}

/* Whatever a client named stays one word of one line: blanks, quotes, backslashes, control bytes
 * and all that is not ASCII become %XX. In a URL `%` is left, for it is there already. */
static void put_escaped(struct json *out, struct str text, bool percent_too)
{
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.p[i];
        char escape[4];
        if (c > ' ' && c < 0x7f && c != '"' && c != '\\' && (c != '%' || !percent_too)) {
            json_append(out, (struct str){text.p + i, 1});
            continue;
        }
        snprintf(escape, sizeof(escape), "%%%02X", c);
        put(out, escape);
    }
}

/* The address of `ip:port` or `[ip]:port`; what came through a Unix socket has none. */
static void put_client(struct json *out, struct str peer)
{
    const char *colon = peer.len > 0 ? memrchr(peer.p, ':', peer.len) : NULL;
    if (colon == NULL) {
        put(out, "-");
        return;
    }
    struct str addr = {peer.p, (size_t)(colon - peer.p)};
    if (addr.len > 2 && addr.p[0] == '[')
        addr = (struct str){addr.p + 1, addr.len - 2};
    json_append(out, addr);
}

enum tag { TAG_NONE, TAG_TCP_DENIED, TAG_TCP_MISS };

static enum tag tag_of(enum outcome outcome)
{
    switch (outcome) {
    case OUTCOME_NOT_ALLOWED:
    case OUTCOME_DENIED_BY_RULE:
    case OUTCOME_METHOD_NOT_ALLOWED:
    case OUTCOME_FILTER:
    case OUTCOME_MODULE_ERROR:
    case OUTCOME_ASK_REFUSED:
    case OUTCOME_ASK_TIMEOUT:
    case OUTCOME_ADDRESS_DENIED:
    case OUTCOME_LOOP:
    case OUTCOME_SNI_MISMATCH:
    case OUTCOME_AUTH_REQUIRED:
    case OUTCOME_AUTH_FAILED:
    case OUTCOME_LIMIT:
        return TAG_TCP_DENIED;
    case OUTCOME_ALLOWED:
    case OUTCOME_DNS_NXDOMAIN:
    case OUTCOME_DNS_FAILURE:
    case OUTCOME_DNS_TIMEOUT:
    case OUTCOME_CONNECT_REFUSED:
    case OUTCOME_CONNECT_UNREACHABLE:
    case OUTCOME_CONNECT_TIMEOUT:
    case OUTCOME_BAD_RESPONSE:
        return TAG_TCP_MISS;
    case OUTCOME_BAD_REQUEST:
    case OUTCOME_UNSUPPORTED:
    case OUTCOME_TIMEOUT:
    case OUTCOME_DRAINING:
    case OUTCOME_OVERLOAD:
    case OUTCOME_AUDIT_FAILURE:
    case OUTCOME_COUNT:
        break;
    }
    return TAG_NONE;
}

static bool is_word(const char *a, const char *b)
{
    return a != NULL && strcmp(a, b) == 0;
}

/* Squid's own endings of a tag. A tunnel that its client closes is a tunnel that went well. */
static const char *ending_of(const struct squid_request *request)
{
    if (is_word(request->cause, "idle") || is_word(request->cause, "lifetime"))
        return "_TIMEDOUT";
    if (is_word(request->cause, "upstream") ||
        (request->tunnel && is_word(request->cause, "client")))
        return "";
    return "_ABORTED";
}

static void put_tag(struct json *out, const struct squid_request *request)
{
    static const char *const words[] = {
        [TAG_NONE] = "NONE", [TAG_TCP_DENIED] = "TCP_DENIED", [TAG_TCP_MISS] = "TCP_MISS"};
    const enum tag tag = tag_of(request->outcome);
    if (tag == TAG_TCP_DENIED || !request->admitted) {
        put(out, words[tag]);
        return;
    }
    put(out, request->tunnel ? "TCP_TUNNEL" : "TCP_MISS");
    put(out, ending_of(request));
}

static void put_host(struct json *out, const struct target *target)
{
    char host[NAME_MAX_LEN + 1];
    const bool brackets = target->is_addr && target->addr.family == 6;
    put(out, brackets ? "[" : "");
    put(out, target_host(host, target));
    put(out, brackets ? "]" : "");
}

static void put_url(struct json *out, const struct squid_request *request)
{
    const struct event_request *event = request->request;
    char port[8];
    if (event->target == NULL) {
        put(out, event->host_text.len > 0 ? "" : "error:invalid-request");
        put_escaped(out, event->host_text, false);
        return;
    }
    const bool plain = !request->tunnel;
    snprintf(port, sizeof(port), ":%u", event->target->port);
    put(out, plain ? "http://" : "");
    put_host(out, event->target);
    put(out, plain && event->target->port == 80 ? "" : port);
    if (plain)
        put_escaped(out, event->path.p != NULL ? event_cut_query(event->path) : STR("/"), false);
}

static void put_method(struct json *out, const struct squid_request *request)
{
    if (request->request->method.len > 0)
        put_escaped(out, request->request->method, false);
    else
        put(out, request->tunnel && request->request->target != NULL ? "CONNECT" : "NONE");
}

static void put_user(struct json *out, const struct event_request *event)
{
    const struct str user = event->sandbox.len > 0 ? event->sandbox : event->client;
    if (user.len > 0)
        put_escaped(out, user, true);
    else
        put(out, "-");
}

static void put_numbers(struct json *out, const struct squid_request *request)
{
    char text[64];
    snprintf(text, sizeof(text), "/%03d %" PRIu64 " ", request->status, request->bytes_down);
    put(out, text);
}

void squid_line(struct json *out, const struct squid_request *request)
{
    char text[ADDR_TEXT_MAX + 32];
    snprintf(text, sizeof(text), "%6" PRIu64 " ", request->duration_ms);
    put(out, text);
    put_client(out, request->request->peer);
    put(out, " ");
    put_tag(out, request);
    put_numbers(out, request);
    put_method(out, request);
    put(out, " ");
    put_url(out, request);
    put(out, " ");
    put_user(out, request->request);
    if (request->admitted && request->addr != NULL) {
        put(out, " HIER_DIRECT/");
        put(out, addr_format(text, request->addr));
    } else {
        put(out, " HIER_NONE/-");
    }
    put(out, " -\n");
}

void squid_note(struct json *out, struct str what)
{
    put(out, "     0 - NONE/000 0 NONE error:");
    put_escaped(out, what, false);
    put(out, " - HIER_NONE/- -\n");
}

void squid_time(struct json *out, int64_t ts_ms)
{
    char text[40];
    snprintf(text, sizeof(text), "%" PRId64 ".%03d ", ts_ms / 1000, (int)(ts_ms % 1000));
    put(out, text);
}
