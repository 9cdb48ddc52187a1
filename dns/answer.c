#include "dns/answer.h"

#include "dns/wire.h"

#include <arpa/nameser.h>
#include <resolv.h>

/* An honest answer has a few CNAMEs and a few addresses in a message of a kilobyte. The bounds keep
 * the work small for one that is not: what unpacking a name costs grows with the message. */
enum {
    MAX_MESSAGE = 16 << 10,
    MAX_RECORDS = 128,
    MAX_CHAIN = 16,
};

struct wire_name {
    uint8_t bytes[NS_MAXCDNAME]; /* uncompressed, ends with the root label */
};

struct record {
    struct wire_name owner;
    uint16_t type;
    uint32_t ttl_s;
    const uint8_t *data;
    uint16_t data_len;
};

static bool take_name(struct wire *wire, struct wire_name *out)
{
    int used = ns_name_unpack(wire->start, wire->end, wire->at, out->bytes, sizeof(out->bytes));
    if (used < 0)
        return false;
    wire->at += used;
    return true;
}

/* The length bytes of labels are below 'A', so folding the case of all bytes folds only letters. */
static bool wire_name_eq(const struct wire_name *a, const struct wire_name *b)
{
    for (size_t i = 0; i < sizeof(a->bytes); i += 1u + a->bytes[i]) {
        if (a->bytes[i] != b->bytes[i])
            return false;
        if (a->bytes[i] == 0)
            return true;
        if (!str_ieq((struct str){(const char *)a->bytes + i + 1, a->bytes[i]},
                     (struct str){(const char *)b->bytes + i + 1, a->bytes[i]}))
            return false;
    }
    return false;
}

/* The question must come back as it was asked (RFC 5452 9.1). */
static bool take_question(struct wire *wire, const struct wire_name *asked, uint16_t type)
{
    struct wire_name name;
    uint16_t got_type, got_class;
    return take_name(wire, &name) && wire_u16(wire, &got_type) && wire_u16(wire, &got_class) &&
           wire_name_eq(&name, asked) && got_type == type && got_class == ns_c_in;
}

/* Records of other classes get a type that nothing asks for. */
static bool take_record(struct wire *wire, struct record *out)
{
    uint16_t class;
    if (!take_name(wire, &out->owner) || !wire_u16(wire, &out->type) || !wire_u16(wire, &class) ||
        !wire_u32(wire, &out->ttl_s) || !wire_u16(wire, &out->data_len))
        return false;
    if (wire->end - wire->at < out->data_len)
        return false;
    out->data = wire->at;
    wire->at += out->data_len;
    if (class != ns_c_in)
        out->type = ns_t_invalid;
    if (out->ttl_s > INT32_MAX) /* RFC 2181 8 */
        out->ttl_s = 0;
    return true;
}

static const struct record *find_record(const struct record *records, size_t count,
                                        const struct wire_name *owner, uint16_t type)
{
    for (size_t i = 0; i < count; i++)
        if (records[i].type == type && wire_name_eq(&records[i].owner, owner))
            return &records[i];
    return NULL;
}

static void lower_ttl(struct answer *out, const struct record *record)
{
    if (record->ttl_s < out->ttl_s)
        out->ttl_s = record->ttl_s;
}

/* Leaves in `*name` the name at the end of the chain; the records may come in any order. */
static bool follow_chain(struct answer *out, const struct wire *message,
                         const struct record *records, size_t count, struct wire_name *name)
{
    for (int hops = 0; hops <= MAX_CHAIN; hops++) {
        const struct record *cname = find_record(records, count, name, ns_t_cname);
        if (cname == NULL)
            return true;
        struct wire target = {message->start, cname->data, message->end};
        if (!take_name(&target, name) || target.at != cname->data + cname->data_len)
            return false;
        lower_ttl(out, cname);
    }
    return false;
}

static bool collect_addrs(struct answer *out, const struct record *records, size_t count,
                          const struct wire_name *owner, uint8_t family)
{
    uint16_t type = family == 4 ? ns_t_a : ns_t_aaaa;
    for (size_t i = 0; i < count && out->count < RESOLVER_MAX_ADDRS; i++) {
        const struct record *record = &records[i];
        if (record->type != type || !wire_name_eq(&record->owner, owner))
            continue;
        if (record->data_len != (family == 4 ? NS_INADDRSZ : NS_IN6ADDRSZ))
            return false;
        lower_ttl(out, record);
        out->addrs[out->count++] =
            family == 4 ? addr_of_v4(record->data) : addr_of_v6(record->data);
    }
    return true;
}

static enum answer_status read_message(struct answer *out, struct wire *wire,
                                       const struct name *asked, uint8_t family)
{
    struct wire_header header;
    struct wire_name name;
    if (ns_name_pton(asked->text, name.bytes, sizeof(name.bytes)) < 0 ||
        !wire_header(wire, &header) || (header.flags & WIRE_RESPONSE) == 0 ||
        (header.flags & (WIRE_OPCODE | WIRE_TRUNCATED)) != 0 || header.questions != 1 ||
        !take_question(wire, &name, family == 4 ? ns_t_a : ns_t_aaaa))
        return ANSWER_FAILURE;

    unsigned rcode = header.flags & WIRE_RCODE;
    if (rcode == ns_r_nxdomain)
        return ANSWER_NO_NAME;
    if (rcode != ns_r_noerror)
        return ANSWER_FAILURE;

    struct record records[MAX_RECORDS];
    size_t count = header.answers < MAX_RECORDS ? header.answers : MAX_RECORDS;
    for (size_t i = 0; i < count; i++)
        if (!take_record(wire, &records[i]))
            return ANSWER_FAILURE;
    if (!follow_chain(out, wire, records, count, &name) ||
        !collect_addrs(out, records, count, &name, family))
        return ANSWER_FAILURE;
    return out->count > 0 ? ANSWER_OK : ANSWER_NONE;
}

void answer_read(struct answer *out, const uint8_t *message, size_t len, const struct name *asked,
                 uint8_t family)
{
    out->ttl_s = UINT32_MAX;
    out->count = 0;
    struct wire wire = {message, message, message + len};
    out->status = len <= MAX_MESSAGE ? read_message(out, &wire, asked, family) : ANSWER_FAILURE;
    if (out->status != ANSWER_OK)
        out->ttl_s = out->count = 0;
}
