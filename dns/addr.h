/*
 * IP addresses and ranges as values.
 *
 * Ownership: plain values. Thread: any. Parsers return false and leave `out` unspecified.
 */
#ifndef DNS_ADDR_H
#define DNS_ADDR_H

#include "srt/str.h"

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

enum { ADDR_TEXT_MAX = INET6_ADDRSTRLEN };

struct addr {
    uint8_t family;    /* 4 or 6 */
    uint8_t bytes[16]; /* network order; the first 4 for IPv4, the rest zero */
};

struct cidr {
    struct addr base; /* host bits are zero */
    uint8_t len;      /* 0-32 or 0-128 */
};

/* From 4 or 16 bytes in network order. Mapped addresses become IPv4, as everywhere. */
struct addr addr_of_v4(const uint8_t bytes[4]);
struct addr addr_of_v6(const uint8_t bytes[16]);

/*
 * IPv4: exactly four decimal numbers without leading zeros; IPv6: RFC 4291 2.2, no zone, no
 * brackets. An IPv4-mapped IPv6 address (::ffff:a.b.c.d) becomes the IPv4 address: the kernel dials
 * that.
 */
bool addr_parse(struct addr *out, struct str text);

/* RFC 5952; returns `out`. */
const char *addr_format(char out[ADDR_TEXT_MAX], const struct addr *addr);

bool addr_eq(const struct addr *a, const struct addr *b);

/* 127.0.0.0/8 or ::1. */
bool addr_is_loopback(const struct addr *addr);

/* ADDR or ADDR/LEN; IPv6 without brackets. Host bits that are set are a fault (returns false).
 * A mapped base needs a length of at least 96 and becomes the IPv4 range. */
bool cidr_parse(struct cidr *out, struct str text);
bool cidr_contains(const struct cidr *range, const struct addr *addr);

/* The IPv4 address that `v6` carries, in any of the known embeddings: mapped and translated
 * (RFC 4291, RFC 2765), compatible, NAT64 well-known and local-use (RFC 6052, RFC 8215), 6to4
 * (RFC 3056), Teredo (RFC 4380, the client), ISATAP (RFC 5214). */
bool addr_embedded_v4(const struct addr *v6, struct addr *out);

/* Host order port in, filled sockaddr and its length out. */
socklen_t addr_to_sockaddr(const struct addr *addr, uint16_t port, struct sockaddr_storage *out);

/* False for families other than AF_INET and AF_INET6. Mapped addresses become IPv4. */
bool addr_from_sockaddr(const struct sockaddr *sa, struct addr *out, uint16_t *port);

#endif
