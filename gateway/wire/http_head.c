#include "wire/http_head.h"

#include "wire/http_scan.h"
#include "wire/http_syntax.h"

#include <assert.h>

enum field_id {
    FIELD_OTHER,
    FIELD_ACCEPT,
    FIELD_CONNECTION,
    FIELD_CONTENT_LENGTH,
    FIELD_EXPECT,
    FIELD_HOST,
    FIELD_PROXY_AUTHORIZATION,
    FIELD_PROXY_CONNECTION,
    FIELD_TRANSFER_ENCODING,
    FIELD_UPGRADE,
};

struct known_field {
    struct str name;
    enum field_id id;
    bool is_own;        /* the forwarder writes it; Connection cannot name it away */
    bool is_hop_by_hop; /* whether or not Connection names it (RFC 9110 7.6.1) */
};

#define FIELD(text)            \
    {                          \
        text, sizeof(text) - 1 \
    }
static const struct known_field known_fields[] = {
    {FIELD("Accept"), FIELD_ACCEPT, false, false},
    {FIELD("Connection"), FIELD_CONNECTION, true, true},
    {FIELD("Content-Length"), FIELD_CONTENT_LENGTH, true, false},
    {FIELD("Expect"), FIELD_EXPECT, false, false},
    {FIELD("HTTP2-Settings"), FIELD_OTHER, false, true},
    {FIELD("Host"), FIELD_HOST, true, false},
    {FIELD("Keep-Alive"), FIELD_OTHER, false, true},
    {FIELD("Proxy-Authenticate"), FIELD_OTHER, false, true},
    {FIELD("Proxy-Authentication-Info"), FIELD_OTHER, false, true},
    {FIELD("Proxy-Authorization"), FIELD_PROXY_AUTHORIZATION, false, true},
    {FIELD("Proxy-Connection"), FIELD_PROXY_CONNECTION, false, true},
    {FIELD("TE"), FIELD_OTHER, false, true},
    {FIELD("Trailer"), FIELD_OTHER, false, true}, /* trailers are not forwarded */
    {FIELD("Transfer-Encoding"), FIELD_TRANSFER_ENCODING, true, true},
    {FIELD("Upgrade"), FIELD_UPGRADE, false, true},
    {FIELD("Via"), FIELD_OTHER, true, false},
};

static const struct known_field unknown_field = {{NULL, 0}, FIELD_OTHER, false, false};

/* What the fields of a head say together about its connection and its body. */
struct facts {
    bool has_length, is_chunked, has_host, expects_continue;
    bool closes, keeps_alive, wants_upgrade;
    uint64_t length;
    struct str authority; /* of the request's target, once that is known to be one */
    struct str proxy_authorization, accept, upgrade;
    size_t upgrade_count;
    struct str options[HTTP_MAX_OPTIONS];
    size_t option_count;
};

static bool refuse(struct http_fault *fault, uint16_t status, const char *why)
{
    *fault = (struct http_fault){.status = status, .why = why};
    return false;
}

static bool malformed(struct http_fault *fault, const char *why)
{
    return refuse(fault, 400, why);
}

static bool no_target(struct http_fault *fault, struct str asked, const char *why)
{
    malformed(fault, why);
    fault->asked = asked;
    return false;
}

static const struct known_field *known_field(struct str name)
{
    for (size_t i = 0; i < sizeof(known_fields) / sizeof(known_fields[0]); i++)
        if (str_ieq(known_fields[i].name, name))
            return &known_fields[i];
    return &unknown_field;
}

/* http_scan_head() has seen to it that a CR is always followed by LF. */
static struct str cut_line(struct str *rest)
{
    struct str line = str_take_until(rest, '\r');
    *rest = str_from(*rest, 1);
    return line;
}

static bool is_token(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!http_byte_is(s.p[i], HTTP_BYTE_TOKEN))
            return false;
    return s.len > 0;
}

/* 1*DIGIT (RFC 9110 8.6) that fits. */
static bool parse_length(struct str text, uint64_t *out)
{
    enum { MAX_DIGITS = 18 }; /* no sum of a few of them overflows, whoever counts */
    if (text.len == 0 || text.len > MAX_DIGITS)
        return false;
    *out = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        *out = *out * 10 + (uint64_t)(text.p[i] - '0');
    }
    return true;
}

static bool on_connection(struct facts *facts, struct str list, struct http_fault *fault)
{
    while (list.len > 0) {
        struct str option = str_trim(str_take_until(&list, ','));
        if (option.len == 0)
            continue;
        if (facts->option_count == HTTP_MAX_OPTIONS)
            return refuse(fault, 431, "there are too many Connection options");
        facts->options[facts->option_count++] = option;
        facts->closes |= str_ieq(option, STR("close"));
        facts->keeps_alive |= str_ieq(option, STR("keep-alive"));
        facts->wants_upgrade |= str_ieq(option, STR("upgrade"));
    }
    return true;
}

/* Not a standard, but curl and node send it to proxies. Its keep-alive is not believed: an HTTP/1.0
 * client may have had it passed on by another proxy (RFC 9112 C.2.2). */
static void on_proxy_connection(struct facts *facts, struct str list)
{
    while (list.len > 0)
        facts->closes |= str_ieq(str_trim(str_take_until(&list, ',')), STR("close"));
}

static bool on_host(struct facts *facts, struct str value, struct http_fault *fault)
{
    struct target target;
    const char *why;
    if (facts->has_host)
        return malformed(fault, "there is more than one Host");
    facts->has_host = true;
    if (facts->authority.p != NULL && str_eq(facts->authority, value))
        return true;
    if (!target_parse_default(&target, value, 80, &why))
        return malformed(fault, "the Host is not a host with an optional port");
    return true;
}

static bool on_field(struct facts *facts, enum field_id id, struct str value,
                     struct http_fault *fault)
{
    switch (id) {
    case FIELD_OTHER:
        return true;
    case FIELD_ACCEPT:
        if (facts->accept.p == NULL)
            facts->accept = value;
        return true;
    case FIELD_CONNECTION:
        return on_connection(facts, value, fault);
    case FIELD_CONTENT_LENGTH:
        if (facts->has_length)
            return malformed(fault, "there is more than one Content-Length");
        facts->has_length = true;
        return parse_length(value, &facts->length) ||
               malformed(fault, "the Content-Length is not one decimal number");
    case FIELD_EXPECT:
        facts->expects_continue |= str_ieq(value, STR("100-continue"));
        return true;
    case FIELD_HOST:
        return on_host(facts, value, fault);
    case FIELD_PROXY_AUTHORIZATION:
        if (facts->proxy_authorization.p != NULL)
            return malformed(fault, "there is more than one Proxy-Authorization");
        facts->proxy_authorization = value;
        return true;
    case FIELD_PROXY_CONNECTION:
        on_proxy_connection(facts, value);
        return true;
    case FIELD_TRANSFER_ENCODING:
        if (facts->is_chunked)
            return malformed(fault, "there is more than one Transfer-Encoding");
        facts->is_chunked = true;
        return str_ieq(value, STR("chunked")) ||
               malformed(fault, "the Transfer-Encoding is not chunked alone");
    case FIELD_UPGRADE:
        facts->upgrade = value;
        facts->upgrade_count++;
        return true;
    }
    assert(false && "an unlisted field");
    return false;
}

/* RFC 9110 5.5 trims tabs like spaces, but parsers are known that do not, and nobody sends them
 * here for a good reason: what frames a message is not left to such a difference. */
static bool check_tabs(enum field_id id, struct str raw, struct http_fault *fault)
{
    bool frames = id == FIELD_CONTENT_LENGTH || id == FIELD_TRANSFER_ENCODING;
    if (frames && str_has(raw, '\t'))
        return malformed(fault, "there is a tab in Content-Length or Transfer-Encoding");
    return true;
}

static bool is_named(const struct facts *facts, struct str name)
{
    for (size_t i = 0; i < facts->option_count; i++)
        if (str_ieq(facts->options[i], name))
            return true;
    return false;
}

/* `lines`: field lines and the empty line behind them. */
static bool read_fields(struct str lines, struct http_field *fields, size_t *count,
                        struct facts *facts, struct http_fault *fault)
{
    size_t n = 0;
    for (struct str line; (line = cut_line(&lines)).len > 0; n++) {
        assert(n < HTTP_MAX_FIELDS); /* http_scan_head() has counted them */
        struct str name = str_take_until(&line, ':');
        const struct known_field *known = known_field(name);
        fields[n] = (struct http_field){name, str_trim(line), known->is_hop_by_hop};
        if (!check_tabs(known->id, line, fault) ||
            !on_field(facts, known->id, fields[n].value, fault))
            return false;
    }
    for (size_t i = 0; i < n; i++)
        if (is_named(facts, fields[i].name) && !http_is_own(fields[i].name))
            fields[i].hop_by_hop = true;
    *count = n;
    return true;
}

static bool check_framing(const struct facts *facts, int minor, struct http_fault *fault)
{
    if (facts->is_chunked && facts->has_length)
        return malformed(fault, "there are both Content-Length and Transfer-Encoding");
    /* RFC 9112 6.1: the framing of such a message is faulty. */
    if (facts->is_chunked && minor == 0)
        return malformed(fault, "HTTP/1.0 has no Transfer-Encoding");
    return true;
}

static bool keeps_alive(const struct facts *facts, int minor)
{
    return !facts->closes && (minor >= 1 || facts->keeps_alive);
}

/* protocol-name [ "/" protocol-version ], one of them, and not HTTP/2, which is never spoken on a
 * connection that started as HTTP/1.1 here. */
static struct str wanted_upgrade(const struct facts *facts, int minor)
{
    struct str rest = facts->upgrade;
    if (!facts->wants_upgrade || facts->upgrade_count != 1 || minor == 0)
        return STR_NULL;
    bool has_version = str_has(rest, '/');
    struct str protocol = str_take_until(&rest, '/');
    if (!is_token(protocol) || (has_version && !is_token(rest)))
        return STR_NULL;
    if (str_ieq(protocol, STR("h2c")) || str_ieq(protocol, STR("h2")) ||
        str_ieq(protocol, STR("HTTP")))
        return STR_NULL;
    return facts->upgrade;
}

static bool read_absolute(struct http_request *out, struct facts *facts, struct http_fault *fault)
{
    static const struct str http = FIELD("http://"), https = FIELD("https://");
    struct str target = out->target;
    out->https = str_istarts(target, https);
    if (!out->https && !str_istarts(target, http))
        return malformed(fault, "the request target is neither an http URL nor a path");

    struct str rest = str_from(target, out->https ? https.len : http.len);
    size_t end = 0;
    while (end < rest.len && rest.p[end] != '/' && rest.p[end] != '?')
        end++;
    const char *why = NULL;
    facts->authority = (struct str){rest.p, end};
    if (!target_parse_default(&out->to, facts->authority, out->https ? 443 : 80, &why))
        return no_target(fault, facts->authority, why);
    out->form = HTTP_ABSOLUTE_FORM;
    out->target_is_set = true;
    out->path = str_from(rest, end);
    return true;
}

static void split_query(struct http_request *out)
{
    struct str rest = out->path;
    struct str path = str_take_until(&rest, '?');
    out->query = str_from(out->path, path.len);
    out->path = path;
    if (path.len == 0)
        out->path =
            out->query.len == 0 && str_eq(out->method, STR("OPTIONS")) ? STR("*") : STR("/");
}

static bool read_target(struct http_request *out, struct facts *facts, struct http_fault *fault)
{
    const char *why = NULL;
    if (str_eq(out->method, STR("CONNECT"))) {
        out->form = HTTP_AUTHORITY_FORM;
        facts->authority = out->target;
        out->target_is_set = target_parse(&out->to, out->target, &why);
        return out->target_is_set || no_target(fault, out->target, why);
    }
    if (str_eq(out->target, STR("*"))) {
        out->form = HTTP_ASTERISK_FORM;
        return str_eq(out->method, STR("OPTIONS")) ||
               malformed(fault, "only OPTIONS has * for a target");
    }
    if (out->target.p[0] == '/') {
        out->form = HTTP_ORIGIN_FORM;
        out->path = out->target;
    } else if (!read_absolute(out, facts, fault)) {
        return false;
    }
    split_query(out);
    return true;
}

static int minor_of(struct str version)
{
    return version.p[version.len - 1] - '0';
}

static bool read_request(struct str head, struct http_request *out, struct http_fault *fault)
{
    struct facts facts = {.has_length = false};
    if (head.p[0] == '\r')
        head = str_from(head, 2);
    struct str line = cut_line(&head);
    out->method = str_take_until(&line, ' ');
    out->target = str_take_until(&line, ' ');
    out->minor = minor_of(line);
    if (!read_target(out, &facts, fault))
        return false;
    if (!read_fields(head, out->fields, &out->field_count, &facts, fault) ||
        !check_framing(&facts, out->minor, fault))
        return false;
    if (out->minor >= 1 && !facts.has_host)
        return malformed(fault, "there is no Host");
    /* RFC 9110 9.3.6: undefined, and the bytes would be taken for those of the tunnel. */
    if (out->form == HTTP_AUTHORITY_FORM && (facts.has_length || facts.is_chunked))
        return malformed(fault, "CONNECT has no body");

    out->body = facts.is_chunked   ? HTTP_BODY_CHUNKED
                : facts.has_length ? HTTP_BODY_LENGTH
                                   : HTTP_BODY_NONE;
    out->length = facts.length;
    out->keep_alive = keeps_alive(&facts, out->minor);
    out->expect_continue = facts.expects_continue && out->minor >= 1; /* RFC 9110 10.1.1 */
    if (out->body == HTTP_BODY_NONE)
        out->upgrade = wanted_upgrade(&facts, out->minor);
    out->proxy_authorization = facts.proxy_authorization;
    out->accept = facts.accept;
    return true;
}

enum http_result http_parse_request(struct str bytes, size_t max, struct http_scan *scan,
                                    struct http_request *out, struct http_fault *fault)
{
    enum http_result result = http_scan_head(scan, bytes, max, HTTP_SCAN_REQUEST, fault);
    if (result != HTTP_PARSED)
        return result;
    memset(out, 0, offsetof(struct http_request, fields));
    out->field_count = 0;
    out->size = scan->at;
    return read_request((struct str){bytes.p, out->size}, out, fault) ? HTTP_PARSED : HTTP_REFUSED;
}

static bool status_has_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

static enum http_body response_body(const struct http_response *out, const struct facts *facts,
                                    bool head)
{
    if (head || !status_has_body(out->status))
        return HTTP_BODY_NONE;
    if (facts->is_chunked)
        return HTTP_BODY_CHUNKED;
    return facts->has_length ? HTTP_BODY_LENGTH : HTTP_BODY_UNTIL_CLOSE;
}

static bool read_response(struct str head, bool is_head, struct http_response *out,
                          struct http_fault *fault)
{
    struct facts facts = {.has_length = false};
    struct str line = cut_line(&head);
    out->minor = minor_of(str_take_until(&line, ' '));
    struct str status = str_take_until(&line, ' ');
    out->status =
        (uint16_t)((status.p[0] - '0') * 100 + (status.p[1] - '0') * 10 + (status.p[2] - '0'));
    out->reason = line;
    if (!read_fields(head, out->fields, &out->field_count, &facts, fault) ||
        !check_framing(&facts, out->minor, fault))
        return false;

    out->body = response_body(out, &facts, is_head);
    out->has_length = facts.has_length && out->status >= 200 && out->status != 204;
    out->length = out->has_length ? facts.length : 0;
    out->upgrade = wanted_upgrade(&facts, out->minor);
    /* A 204 that announces a body may well send it (RFC 9112 6.3): nothing can be read behind it.
     */
    bool is_odd = out->status == 204 && (facts.is_chunked || facts.length > 0);
    out->keep_alive =
        keeps_alive(&facts, out->minor) && out->body != HTTP_BODY_UNTIL_CLOSE && !is_odd;
    return true;
}

enum http_result http_parse_response(struct str bytes, size_t max, bool head,
                                     struct http_scan *scan, struct http_response *out,
                                     struct http_fault *fault)
{
    enum http_result result = http_scan_head(scan, bytes, max, HTTP_SCAN_RESPONSE, fault);
    if (result == HTTP_PARSED) {
        memset(out, 0, offsetof(struct http_response, fields));
        out->field_count = 0;
        out->size = scan->at;
        if (!read_response((struct str){bytes.p, out->size}, head, out, fault))
            result = HTTP_REFUSED;
    }
    if (result == HTTP_REFUSED)
        fault->status = 502; /* whatever is wrong, it is not the client's doing */
    return result;
}

bool http_is_own(struct str name)
{
    return known_field(name)->is_own;
}

const char *http_status_phrase(int status)
{
    static const struct {
        int status;
        const char *phrase;
    } phrases[] = {
        {100, "Continue"},
        {200, "OK"},
        {400, "Bad Request"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {401, "Unauthorized"},
        {407, "Proxy Authentication Required"},
        {408, "Request Timeout"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++)
        if (phrases[i].status == status)
            return phrases[i].phrase;
    return "Unknown";
}
