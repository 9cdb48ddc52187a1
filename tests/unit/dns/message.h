/*
 * DNS messages made by hand, byte by byte, so that wrong ones can be made as well.
 */
#ifndef TESTS_DNS_MESSAGE_H
#define TESTS_DNS_MESSAGE_H

#include "dns/addr.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

enum { TYPE_A = 1, TYPE_CNAME = 5, TYPE_AAAA = 28 };
enum { RCODE_OK = 0, RCODE_FORMERR = 1, RCODE_SERVFAIL = 2, RCODE_NXDOMAIN = 3, RCODE_REFUSED = 5 };

struct message {
    size_t len;
    uint8_t bytes[20000];
};

static inline void put_u16(struct message *m, unsigned value)
{
    assert(m->len + 2 <= sizeof(m->bytes));
    m->bytes[m->len++] = (uint8_t)(value >> 8);
    m->bytes[m->len++] = (uint8_t)value;
}

static inline void put_u32(struct message *m, uint32_t value)
{
    put_u16(m, value >> 16);
    put_u16(m, value & 0xffff);
}

static inline void put_bytes(struct message *m, const void *bytes, size_t len)
{
    assert(m->len + len <= sizeof(m->bytes));
    memcpy(m->bytes + m->len, bytes, len);
    m->len += len;
}

/* Uncompressed. */
static inline void put_name(struct message *m, const char *name)
{
    while (*name != '\0') {
        size_t label = strcspn(name, ".");
        uint8_t len = (uint8_t)label;
        put_bytes(m, &len, 1);
        put_bytes(m, name, label);
        name += label + (name[label] == '.');
    }
    put_bytes(m, "", 1);
}

static inline void set_u16(struct message *m, size_t at, unsigned value)
{
    m->bytes[at] = (uint8_t)(value >> 8);
    m->bytes[at + 1] = (uint8_t)value;
}

static inline unsigned get_u16(const uint8_t *bytes)
{
    return (unsigned)(bytes[0] << 8 | bytes[1]);
}

/* A response with no records yet. */
static inline void message_start(struct message *m, unsigned id, unsigned rcode,
                                 const char *question, unsigned type)
{
    m->len = 0;
    put_u16(m, id);
    put_u16(m, 0x8180 | rcode);
    put_u16(m, 1);
    put_u16(m, 0);
    put_u16(m, 0);
    put_u16(m, 0);
    put_name(m, question);
    put_u16(m, type);
    put_u16(m, 1);
}

static inline void count_answer(struct message *m)
{
    set_u16(m, 6, get_u16(m->bytes + 6) + 1);
}

static inline void put_record(struct message *m, const char *owner, unsigned type, uint32_t ttl_s,
                              const void *data, size_t len)
{
    put_name(m, owner);
    put_u16(m, type);
    put_u16(m, 1);
    put_u32(m, ttl_s);
    put_u16(m, (unsigned)len);
    put_bytes(m, data, len);
    count_answer(m);
}

static inline void put_addr(struct message *m, const char *owner, uint32_t ttl_s, const char *text)
{
    struct addr addr;
    bool ok = addr_parse(&addr, str_of(text));
    assert(ok);
    if (addr.family == 4)
        put_record(m, owner, TYPE_A, ttl_s, addr.bytes, 4);
    else
        put_record(m, owner, TYPE_AAAA, ttl_s, addr.bytes, 16);
}

static inline void put_cname(struct message *m, const char *owner, uint32_t ttl_s,
                             const char *target)
{
    struct message data = {0};
    put_name(&data, target);
    put_record(m, owner, TYPE_CNAME, ttl_s, data.bytes, data.len);
}

#endif
