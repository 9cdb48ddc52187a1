#include "wire/proxy_header.h"

#include <arpa/inet.h>

enum {
    V1_MAX = 107, /* with its CRLF: the specification's worst case */
    V2_FIXED = 16,
    V2_MAX_REST = 4096, /* addresses and TLVs: far more than balancers send */
    V2_LOCAL = 0x20,
    V2_PROXY = 0x21,
    V2_UNSPECIFIED = 0x00,
    V2_TCP4 = 0x11,
    V2_TCP6 = 0x21,
};

static const struct str v1_signature = {"PROXY ", 6};
static const struct str v2_signature = {"\r\n\r\n\0\r\nQUIT\n", 12};

static bool starts_like(struct str bytes, struct str signature)
{
    size_t len = bytes.len < signature.len ? bytes.len : signature.len;
    return len == 0 || memcmp(bytes.p, signature.p, len) == 0;
}

/* The next word of a line whose words have exactly one space between them. */
static struct str cut_word(struct str *line)
{
    return str_take_until(line, ' ');
}

static bool parse_port(struct str text, uint16_t *out)
{
    uint64_t value;
    if (!str_uint(text, UINT16_MAX, &value))
        return false;
    *out = (uint16_t)value;
    return true;
}

/* A mapped IPv6 address parses as the IPv4 one, so the text decides which family was meant. */
static bool parse_address(struct str text, bool is_v6, struct addr *out)
{
    return str_has(text, ':') == is_v6 && addr_parse(out, text);
}

static bool parse_v1_line(struct str line, struct proxy_header *out)
{
    struct str protocol = cut_word(&line);
    if (str_eq(protocol, STR("UNKNOWN")))
        return true; /* whatever follows is to be ignored */
    bool is_v6 = str_eq(protocol, STR("TCP6"));
    if (!is_v6 && !str_eq(protocol, STR("TCP4")))
        return false;
    struct addr destination;
    uint16_t destination_port;
    struct str source_text = cut_word(&line), destination_text = cut_word(&line);
    struct str source_port_text = cut_word(&line);
    out->has_source = true;
    return parse_address(source_text, is_v6, &out->source) &&
           parse_address(destination_text, is_v6, &destination) &&
           parse_port(source_port_text, &out->source_port) && parse_port(line, &destination_port);
}

static enum proxy_header_result parse_v1(struct str bytes, struct proxy_header *out, size_t *used)
{
    size_t len = bytes.len < V1_MAX ? bytes.len : V1_MAX;
    const char *end = memchr(bytes.p, '\r', len);
    if (end == NULL)
        return len < V1_MAX && memchr(bytes.p, '\n', len) == NULL ? PROXY_HEADER_MORE
                                                                  : PROXY_HEADER_BAD;
    size_t at = (size_t)(end - bytes.p);
    if (at + 1 == V1_MAX || memchr(bytes.p, '\n', at) != NULL)
        return PROXY_HEADER_BAD;
    if (at + 1 == bytes.len)
        return PROXY_HEADER_MORE;
    if (bytes.p[at + 1] != '\n' ||
        !parse_v1_line((struct str){bytes.p + v1_signature.len, at - v1_signature.len}, out))
        return PROXY_HEADER_BAD;
    *used = at + 2;
    return PROXY_HEADER_PARSED;
}

static uint16_t read_u16(const char *p)
{
    uint16_t value;
    memcpy(&value, p, sizeof(value));
    return ntohs(value);
}

/* source address, destination address, source port, destination port */
static bool read_v2_source(struct str rest, bool is_v6, struct proxy_header *out)
{
    const uint8_t *addr = (const uint8_t *)rest.p;
    const size_t size = is_v6 ? 16 : 4;
    if (rest.len < 2 * size + 2 * sizeof(uint16_t))
        return false;
    out->has_source = true;
    out->source = is_v6 ? addr_of_v6(addr) : addr_of_v4(addr);
    out->source_port = read_u16(rest.p + 2 * size);
    return true;
}

/* Datagrams and Unix sockets do not come this way, and taking them for "no source" would identify
 * the client by the balancer's address: they are refused. */
static bool read_v2(uint8_t command, uint8_t family, struct str rest, struct proxy_header *out)
{
    if (command == V2_LOCAL || family == V2_UNSPECIFIED)
        return true;
    if (family != V2_TCP4 && family != V2_TCP6)
        return false;
    return read_v2_source(rest, family == V2_TCP6, out);
}

static enum proxy_header_result parse_v2(struct str bytes, struct proxy_header *out, size_t *used)
{
    enum { COMMAND_AT = 12, FAMILY_AT = 13, LENGTH_AT = 14 };
    if (bytes.len > COMMAND_AT && bytes.p[COMMAND_AT] != V2_LOCAL &&
        bytes.p[COMMAND_AT] != V2_PROXY)
        return PROXY_HEADER_BAD;
    if (bytes.len < V2_FIXED)
        return PROXY_HEADER_MORE;
    size_t len = read_u16(bytes.p + LENGTH_AT);
    if (len > V2_MAX_REST)
        return PROXY_HEADER_BAD;
    if (bytes.len < V2_FIXED + len)
        return PROXY_HEADER_MORE;
    *used = V2_FIXED + len;
    return read_v2((uint8_t)bytes.p[COMMAND_AT], (uint8_t)bytes.p[FAMILY_AT],
                   (struct str){bytes.p + V2_FIXED, len}, out)
               ? PROXY_HEADER_PARSED
               : PROXY_HEADER_BAD;
}

enum proxy_header_result proxy_header_parse(struct str bytes, struct proxy_header *out,
                                            size_t *used)
{
    *out = (struct proxy_header){.has_source = false};
    if (starts_like(bytes, v1_signature))
        return bytes.len < v1_signature.len ? PROXY_HEADER_MORE : parse_v1(bytes, out, used);
    if (starts_like(bytes, v2_signature))
        return bytes.len < v2_signature.len ? PROXY_HEADER_MORE : parse_v2(bytes, out, used);
    return PROXY_HEADER_BAD;
}
