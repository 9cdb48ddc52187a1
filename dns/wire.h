/*
 * Reading a DNS message from its beginning, within its bounds.
 *
 * Ownership: borrows the message. Thread: any. Failure: false, and the position is then
 * unspecified.
 */
#ifndef DNS_WIRE_H
#define DNS_WIRE_H

#include <stdbool.h>
#include <stdint.h>

struct wire {
    const uint8_t *start, *at, *end;
};

static inline bool wire_u16(struct wire *wire, uint16_t *out)
{
    if (wire->end - wire->at < 2)
        return false;
    *out = (uint16_t)(wire->at[0] << 8 | wire->at[1]);
    wire->at += 2;
    return true;
}

static inline bool wire_u32(struct wire *wire, uint32_t *out)
{
    uint16_t high, low;
    if (!wire_u16(wire, &high) || !wire_u16(wire, &low))
        return false;
    *out = (uint32_t)high << 16 | low;
    return true;
}

enum wire_flags {
    WIRE_RESPONSE = 0x8000,
    WIRE_OPCODE = 0x7800,
    WIRE_AUTHORITATIVE = 0x0400,
    WIRE_TRUNCATED = 0x0200,
    WIRE_RECURSION_DESIRED = 0x0100,
    WIRE_RECURSION_AVAILABLE = 0x0080,
    WIRE_CHECKING_DISABLED = 0x0010,
    WIRE_RCODE = 0x000f,
};

struct wire_header {
    uint16_t id, flags;
    uint16_t questions, answers, authorities, additionals;
};

static inline bool wire_header(struct wire *wire, struct wire_header *out)
{
    return wire_u16(wire, &out->id) && wire_u16(wire, &out->flags) &&
           wire_u16(wire, &out->questions) && wire_u16(wire, &out->answers) &&
           wire_u16(wire, &out->authorities) && wire_u16(wire, &out->additionals);
}

#endif
