#include "dns/query.h"

#include "dns/wire.h"

#include <arpa/nameser.h>
#include <assert.h>

enum {
    HEADER_LEN = 12,
    QUESTION_MAX = 255 + 4,
    UDP_SIZE = 1232, /* that we would take, as everybody says */
    REVERSE_V4_LABELS = 4,
    REVERSE_V6_LABELS = 32,
};

/* ---- reading ---- */

/* The labels as text, with dots between them. A byte that is no letter, digit, hyphen or underscore
 * makes it another name than any host's; a dot within a label must not pass for one between two. */
struct spelling {
    char text[NAME_MAX_LEN + 2];
    size_t len;
    bool plain;
};

static void spell(struct spelling *spelling, const uint8_t *label, size_t len)
{
    if (spelling->len > 0)
        spelling->text[spelling->len++] = '.';
    memcpy(spelling->text + spelling->len, label, len);
    spelling->len += len;
    spelling->plain = spelling->plain && memchr(label, '.', len) == NULL;
}

/* The first name of a message has nothing before it that it could point to. */
static bool take_name(struct wire *wire, struct spelling *out)
{
    const uint8_t *begin = wire->at;
    *out = (struct spelling){.plain = true};
    while (wire->at < wire->end) {
        const size_t len = *wire->at++;
        if (len == 0)
            return true;
        if (len > NAME_MAX_LABEL || (size_t)(wire->end - wire->at) <= len ||
            (size_t)(wire->at - begin) + len + 1 > NS_MAXCDNAME)
            return false;
        spell(out, wire->at, len);
        wire->at += len;
    }
    return false;
}

static bool take_question(struct query *out, struct wire *wire, struct spelling *name,
                          uint16_t *class)
{
    const uint8_t *begin = wire->at;
    uint16_t type;
    if (!take_name(wire, name) || !wire_u16(wire, &type) || !wire_u16(wire, class))
        return false;
    out->question = begin;
    out->question_len = (size_t)(wire->at - begin);
    out->about = type == ns_t_a      ? QUERY_A
                 : type == ns_t_aaaa ? QUERY_AAAA
                 : type == ns_t_ptr  ? QUERY_PTR
                                     : QUERY_OTHER;
    return true;
}

/* False: malformed. */
static bool take_additional(struct query *out, struct wire *wire)
{
    const uint8_t *at = wire->at;
    uint16_t type, udp_size, len;
    uint32_t extension;
    if (ns_name_skip(&at, wire->end) != 0)
        return false;
    const bool root = at - wire->at == 1;
    wire->at = at;
    if (!wire_u16(wire, &type) || !wire_u16(wire, &udp_size) || !wire_u32(wire, &extension) ||
        !wire_u16(wire, &len) || wire->end - wire->at < len)
        return false;
    wire->at += len;
    if (type != ns_t_opt)
        return true;
    if (out->extended || !root)
        return false;
    out->extended = true;
    if ((extension >> 16 & 0xff) != 0)
        out->rcode = QUERY_BAD_VERSION;
    return true;
}

/* ---- names of addresses (RFC 1035 3.5, RFC 3596 2.5) ---- */

static bool read_reverse_v4(struct str text, struct addr *out)
{
    uint8_t bytes[REVERSE_V4_LABELS];
    for (size_t i = REVERSE_V4_LABELS; i-- > 0;) {
        uint64_t number;
        if (!str_uint(str_take_until(&text, '.'), UINT8_MAX, &number))
            return false;
        bytes[i] = (uint8_t)number;
    }
    *out = addr_of_v4(bytes);
    return str_eq(text, STR("in-addr.arpa"));
}

static bool read_reverse_v6(struct str text, struct addr *out)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[REVERSE_V6_LABELS / 2] = {0};
    for (size_t i = REVERSE_V6_LABELS; i-- > 0;) {
        const struct str label = str_take_until(&text, '.');
        const char *digit = label.len == 1 ? memchr(digits, label.p[0], sizeof(digits) - 1) : NULL;
        if (digit == NULL)
            return false;
        bytes[i / 2] |= (uint8_t)((digit - digits) << (i % 2 == 0 ? 4 : 0));
    }
    *out = addr_of_v6(bytes);
    return str_eq(text, STR("ip6.arpa"));
}

/* ---- the whole ---- */

static enum query_result wrong(struct query *out, enum query_rcode rcode)
{
    out->rcode = rcode;
    return QUERY_WRONG;
}

enum query_result query_read(struct query *out, const uint8_t *message, size_t len)
{
    struct wire wire = {message, message, message + len};
    struct wire_header header;
    struct spelling name;
    uint16_t class;
    *out = (struct query){.about = QUERY_OTHER};
    if (!wire_header(&wire, &header) || (header.flags & WIRE_RESPONSE) != 0)
        return QUERY_IGNORED;
    out->id = header.id;
    out->flags = header.flags;
    if ((header.flags & WIRE_OPCODE) != 0)
        return wrong(out, QUERY_NOT_DONE);
    if (len > QUERY_MAX || (header.flags & WIRE_TRUNCATED) != 0 || header.questions != 1 ||
        header.answers != 0 || header.authorities != 0 || !take_question(out, &wire, &name, &class))
        return wrong(out, QUERY_MALFORMED);
    for (unsigned i = 0; i < header.additionals; i++)
        if (!take_additional(out, &wire))
            return wrong(out, QUERY_MALFORMED);
    if (out->rcode != QUERY_OK)
        return QUERY_WRONG;
    if (class != ns_c_in)
        return wrong(out, QUERY_REFUSED);
    const struct str text = {name.text, name.len};
    out->has_name = name.plain && name_parse(&out->name, text) == NAME_OK;
    if (out->has_name && out->about == QUERY_PTR)
        out->has_addr = read_reverse_v4(name_str(&out->name), &out->addr) ||
                        read_reverse_v6(name_str(&out->name), &out->addr);
    return QUERY_ASKS;
}

/* ---- answering ---- */

static uint8_t *put_u16(uint8_t *at, unsigned value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
    return at + 2;
}

static uint8_t *put_u32(uint8_t *at, uint32_t value)
{
    return put_u16(put_u16(at, value >> 16), value & 0xffff);
}

static uint8_t *put_header(uint8_t *at, const struct query *query, enum query_rcode rcode,
                           unsigned answers)
{
    const unsigned kept = WIRE_OPCODE | WIRE_RECURSION_DESIRED | WIRE_CHECKING_DISABLED;
    at = put_u16(at, query->id);
    at = put_u16(at, WIRE_RESPONSE | WIRE_RECURSION_AVAILABLE | (query->flags & kept) |
                         ((unsigned)rcode & WIRE_RCODE));
    at = put_u16(at, query->question != NULL);
    at = put_u16(at, answers);
    at = put_u16(at, 0);
    return put_u16(at, query->extended);
}

static uint8_t *put_question(uint8_t *at, const struct query *query)
{
    if (query->question == NULL)
        return at;
    assert(query->question_len <= QUESTION_MAX);
    memcpy(at, query->question, query->question_len);
    return at + query->question_len;
}

/* What a record begins with: its owner is what was asked, which stands behind the header. */
static uint8_t *put_owner(uint8_t *at, unsigned type, uint32_t ttl_s)
{
    at = put_u16(at, 0xc000 | HEADER_LEN);
    at = put_u16(at, type);
    at = put_u16(at, ns_c_in);
    return put_u32(at, ttl_s);
}

static uint8_t *put_name(uint8_t *at, const struct name *name)
{
    struct str rest = name_str(name);
    while (rest.len > 0) {
        const struct str label = str_take_until(&rest, '.');
        *at++ = (uint8_t)label.len;
        memcpy(at, label.p, label.len);
        at += label.len;
    }
    *at++ = 0;
    return at;
}

static size_t finish(const uint8_t *out, uint8_t *at, const struct query *query,
                     enum query_rcode rcode)
{
    if (query->extended) {
        *at++ = 0;
        at = put_u16(at, ns_t_opt);
        at = put_u16(at, UDP_SIZE);
        at = put_u32(at, (uint32_t)rcode >> 4 << 24);
        at = put_u16(at, 0);
    }
    assert(at - out <= QUERY_ANSWER_MAX);
    return (size_t)(at - out);
}

size_t query_refuse(uint8_t out[QUERY_ANSWER_MAX], const struct query *query,
                    enum query_rcode rcode)
{
    uint8_t *at = put_question(put_header(out, query, rcode, 0), query);
    return finish(out, at, query, rcode);
}

size_t query_give_addr(uint8_t out[QUERY_ANSWER_MAX], const struct query *query,
                       const struct addr *addr, uint32_t ttl_s)
{
    const bool v4 = query->about == QUERY_A;
    const unsigned len = v4 ? NS_INADDRSZ : NS_IN6ADDRSZ;
    assert(query->question != NULL && addr->family == (v4 ? 4 : 6));
    uint8_t *at = put_question(put_header(out, query, QUERY_OK, 1), query);
    at = put_owner(at, v4 ? ns_t_a : ns_t_aaaa, ttl_s);
    at = put_u16(at, len);
    memcpy(at, addr->bytes, len);
    return finish(out, at + len, query, QUERY_OK);
}

size_t query_give_name(uint8_t out[QUERY_ANSWER_MAX], const struct query *query,
                       const struct name *name, uint32_t ttl_s)
{
    assert(query->question != NULL && query->has_addr); /* so the question is short */
    uint8_t *at = put_question(put_header(out, query, QUERY_OK, 1), query);
    at = put_owner(at, ns_t_ptr, ttl_s);
    uint8_t *end = put_name(at + 2, name);
    (void)put_u16(at, (unsigned)(end - at - 2));
    return finish(out, end, query, QUERY_OK);
}
