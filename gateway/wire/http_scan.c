#include "wire/http_scan.h"

#include "wire/http_syntax.h"

#include <assert.h>

enum scan_state {
    SCAN_START, /* the zero of a new scan */
    SCAN_EMPTY_LINE,
    SCAN_REQUEST,
    SCAN_METHOD,
    SCAN_TARGET,
    SCAN_VERSION,
    SCAN_STATUS_LINE,
    SCAN_LINE_END,
    SCAN_FIELD,
    SCAN_NAME,
    SCAN_VALUE,
    SCAN_VALUE_END,
    SCAN_HEAD_END,
    SCAN_DONE,
};

/* The bytes that leave a state as it is: those of the part that it reads. */
static const uint8_t part_bytes[] = {
    [SCAN_METHOD] = HTTP_BYTE_TOKEN,
    [SCAN_TARGET] = HTTP_BYTE_TARGET,
    [SCAN_VERSION] = HTTP_BYTE_PRINT,
    [SCAN_STATUS_LINE] = HTTP_BYTE_VALUE,
    [SCAN_NAME] = HTTP_BYTE_TOKEN,
    [SCAN_VALUE] = HTTP_BYTE_VALUE,
    [SCAN_DONE] = 0,
};

enum { VERSION_LEN = sizeof("HTTP/1.1") - 1 };

static bool refuse(struct http_fault *fault, uint16_t status, const char *why)
{
    *fault = (struct http_fault){.status = status, .why = why};
    return false;
}

static bool malformed(struct http_fault *fault, const char *why)
{
    return refuse(fault, 400, why);
}

/* Consumes the byte at hand; what follows it is the next part. */
static bool move(struct http_scan *scan, enum scan_state next)
{
    scan->at++;
    scan->mark = scan->at;
    scan->state = (uint8_t)next;
    return true;
}

/* Leaves the byte at hand to the next state. */
static bool begin(struct http_scan *scan, enum scan_state next)
{
    scan->mark = scan->at;
    scan->state = (uint8_t)next;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* RFC 9112 2.3: case-sensitive, one digit each. */
static bool check_version(struct str version, struct http_fault *fault)
{
    if (version.len != VERSION_LEN || !str_starts(version, STR("HTTP/")) || version.p[6] != '.' ||
        !is_digit(version.p[5]) || !is_digit(version.p[7]))
        return malformed(fault, "the HTTP version is malformed");
    if (version.p[5] != '1' || version.p[7] > '1')
        return refuse(fault, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    return true;
}

static bool check_status_line(struct str line, struct http_fault *fault)
{
    enum { STATUS_AT = VERSION_LEN + 1, STATUS_END = STATUS_AT + 3 };
    if (line.len < STATUS_END || line.p[VERSION_LEN] != ' ')
        return malformed(fault, "the status line is malformed");
    if (!check_version((struct str){line.p, VERSION_LEN}, fault))
        return false;
    for (size_t i = STATUS_AT; i < STATUS_END; i++)
        if (!is_digit(line.p[i]))
            return malformed(fault, "the status is not three digits");
    /* From 600 on they mean nothing anywhere, and are sent all the same (RFC 9110 15). */
    if (line.p[STATUS_AT] < '1')
        return malformed(fault, "the status is less than 100");
    /* The space before an absent reason is often forgotten; nothing else can be meant. */
    if (line.len > STATUS_END && line.p[STATUS_END] != ' ')
        return malformed(fault, "the status is not three digits");
    return true;
}

static bool check_part_length(const struct http_scan *scan, struct http_fault *fault)
{
    size_t len = scan->at - scan->mark;
    if (scan->state == SCAN_METHOD && len > HTTP_MAX_METHOD)
        return malformed(fault, "the method is too long");
    if (scan->state == SCAN_TARGET && len > HTTP_MAX_TARGET)
        return refuse(fault, 414, "the request target is too long");
    if (scan->state == SCAN_VERSION && len > VERSION_LEN)
        return malformed(fault, "the HTTP version is malformed");
    return true;
}

static bool on_request_start(struct http_scan *scan, char c, struct http_fault *fault)
{
    if (!http_byte_is(c, HTTP_BYTE_TOKEN))
        return malformed(fault, "the request does not start with a method");
    return begin(scan, SCAN_METHOD);
}

static bool on_method_end(struct http_scan *scan, char c, struct http_fault *fault)
{
    if (c != ' ')
        return malformed(fault, "the method is not a token followed by one space");
    return move(scan, SCAN_TARGET);
}

static bool on_target_end(struct http_scan *scan, struct str target, char c,
                          struct http_fault *fault)
{
    if (c == '\r' || c == '\n')
        return malformed(fault, "the request line has no HTTP version");
    if (c != ' ')
        return malformed(fault, "the request target has a byte that no target may have");
    if (target.len == 0)
        return malformed(fault, "the request target is empty");
    return move(scan, SCAN_VERSION);
}

static bool on_version_end(struct http_scan *scan, struct str version, char c,
                           struct http_fault *fault)
{
    if (c != '\r')
        return malformed(fault, "the request line does not end with CRLF");
    return check_version(version, fault) && move(scan, SCAN_LINE_END);
}

static bool on_status_line_end(struct http_scan *scan, struct str line, char c,
                               struct http_fault *fault)
{
    if (c != '\r')
        return malformed(fault, "the status line does not end with CRLF");
    return check_status_line(line, fault) && move(scan, SCAN_LINE_END);
}

static bool on_field_start(struct http_scan *scan, char c, struct http_fault *fault)
{
    if (c == '\r')
        return move(scan, SCAN_HEAD_END);
    if (c == ' ' || c == '\t')
        return malformed(fault, "a header line starts with white space");
    if (c == ':')
        return malformed(fault, "a field has no name");
    if (!http_byte_is(c, HTTP_BYTE_TOKEN))
        return malformed(fault, "a field name is not a token");
    if (scan->field_count == HTTP_MAX_FIELDS)
        return refuse(fault, 431, "there are too many fields");
    scan->field_count++;
    return begin(scan, SCAN_NAME);
}

static bool on_field_name_end(struct http_scan *scan, char c, struct http_fault *fault)
{
    if (c == ':')
        return move(scan, SCAN_VALUE);
    if (c == ' ' || c == '\t')
        return malformed(fault, "there is white space between a field name and its colon");
    if (c == '\r' || c == '\n')
        return malformed(fault, "a header line has no colon");
    return malformed(fault, "a field name is not a token");
}

static bool on_field_value_end(struct http_scan *scan, char c, struct http_fault *fault)
{
    if (c == '\r')
        return move(scan, SCAN_VALUE_END);
    return malformed(fault,
                     c == '\n' ? "a line ends with LF alone" : "a field value has a control byte");
}

static bool on_line_feed(struct http_scan *scan, char c, enum scan_state next,
                         struct http_fault *fault)
{
    if (c != '\n')
        return malformed(fault, "a CR is not followed by LF");
    return move(scan, next);
}

/* `c` is the byte that ends `part`, or the one that a state without a part waits for. */
static bool on_byte(struct http_scan *scan, enum http_scan_kind kind, struct str part, char c,
                    struct http_fault *fault)
{
    switch ((enum scan_state)scan->state) {
    case SCAN_START:
        if (kind == HTTP_SCAN_RESPONSE)
            return begin(scan, SCAN_STATUS_LINE);
        return c == '\r' ? move(scan, SCAN_EMPTY_LINE) : begin(scan, SCAN_REQUEST);
    case SCAN_EMPTY_LINE:
        return on_line_feed(scan, c, SCAN_REQUEST, fault);
    case SCAN_REQUEST:
        return on_request_start(scan, c, fault);
    case SCAN_METHOD:
        return on_method_end(scan, c, fault);
    case SCAN_TARGET:
        return on_target_end(scan, part, c, fault);
    case SCAN_VERSION:
        return on_version_end(scan, part, c, fault);
    case SCAN_STATUS_LINE:
        return on_status_line_end(scan, part, c, fault);
    case SCAN_LINE_END:
    case SCAN_VALUE_END:
        return on_line_feed(scan, c, SCAN_FIELD, fault);
    case SCAN_FIELD:
        return on_field_start(scan, c, fault);
    case SCAN_NAME:
        return on_field_name_end(scan, c, fault);
    case SCAN_VALUE:
        return on_field_value_end(scan, c, fault);
    case SCAN_HEAD_END:
        return on_line_feed(scan, c, SCAN_DONE, fault);
    case SCAN_DONE:
        break;
    }
    assert(false && "a byte after the end of the head");
    return false;
}

static enum http_result refuse_size(const struct http_scan *scan, struct http_fault *fault)
{
    if (scan->state < SCAN_LINE_END)
        refuse(fault, 414, "the request line is too long");
    else
        refuse(fault, 431, "the head is too long");
    return HTTP_REFUSED;
}

enum http_result http_scan_head(struct http_scan *scan, struct str bytes, size_t max,
                                enum http_scan_kind kind, struct http_fault *fault)
{
    size_t end = bytes.len < max ? bytes.len : max;
    while (scan->state != SCAN_DONE) {
        const uint8_t class = part_bytes[scan->state];
        size_t at = scan->at;
        while (at < end && http_byte_is(bytes.p[at], class))
            at++;
        scan->at = at;
        if (!check_part_length(scan, fault))
            return HTTP_REFUSED;
        if (scan->at >= end)
            return end < max ? HTTP_MORE : refuse_size(scan, fault);
        struct str part = {bytes.p + scan->mark, scan->at - scan->mark};
        if (!on_byte(scan, kind, part, bytes.p[scan->at], fault))
            return HTTP_REFUSED;
    }
    return HTTP_PARSED;
}
