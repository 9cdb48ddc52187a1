/*
 * What a client asks for: a canonical name or an address literal, and a port.
 *
 * Ownership: a plain value. Thread: any. Failure: false, and a phrase that says why.
 */
#ifndef DNS_TARGET_H
#define DNS_TARGET_H

#include "dns/addr.h"
#include "dns/name.h"

struct target {
    bool is_addr;  /* selects `addr`; otherwise `name` */
    uint16_t port; /* host order, 1-65535 */
    union {
        struct addr addr;
        struct name name;
    };
};

enum { TARGET_TEXT_MAX = NAME_MAX_LEN + 8 + 2 };

/* HOST:PORT, [IPv6]:PORT (RFC 9110 9.3.6: the port is not optional). No userinfo, no zone. Ports
 * are 1-65535 in plain digits. `*why` (may be NULL) gets a phrase on failure. */
bool target_parse(struct target *out, struct str authority, const char **why);

/* The same where the port may be missing (absolute-form requests). */
bool target_parse_default(struct target *out, struct str authority, uint16_t default_port,
                          const char **why);

/* A bare host as SOCKS carries it: a name, an IPv4 literal, or an IPv6 literal with or without
 * brackets. */
bool target_parse_host(struct target *out, struct str host, uint16_t port, const char **why);

/* The host alone, without brackets, as records show it. `out` must hold NAME_MAX_LEN + 1. */
const char *target_host(char out[NAME_MAX_LEN + 1], const struct target *target);

/* host:port, IPv6 in brackets. */
const char *target_format(char out[TARGET_TEXT_MAX], const struct target *target);

bool target_eq(const struct target *a, const struct target *b);

#endif
