/*
 * SOCKS5 messages (RFC 1928, RFC 1929) to values, and replies to bytes. Pure.
 *
 * Each parser looks at the bytes from the start of its message: PARSED with `*used`, MORE, or BAD.
 * Ownership: views point into the caller's bytes. Thread: any.
 */
#ifndef WIRE_SOCKS5_H
#define WIRE_SOCKS5_H

#include "dns/target.h"
#include "srt/str.h"

enum socks5_result { SOCKS5_PARSED, SOCKS5_MORE, SOCKS5_BAD };
enum { SOCKS5_VERSION = 5, SOCKS5_USERPASS_VERSION = 1 /* RFC 1929 2 */ };
enum { SOCKS5_NO_AUTH = 0x00, SOCKS5_USERPASS = 0x02, SOCKS5_NONE_ACCEPTABLE = 0xFF };
enum { SOCKS5_IPV4 = 1, SOCKS5_DOMAIN = 3, SOCKS5_IPV6 = 4 }; /* kinds of addresses */
enum { SOCKS5_CONNECT = 1, SOCKS5_BIND = 2, SOCKS5_UDP_ASSOCIATE = 3 };

struct socks5_greeting {
    bool no_auth, userpass; /* offered */
};

/* Look at it in this order: the address type, the command, the target (port 0 is usual, and
 * harmless, in UDP ASSOCIATE). */
struct socks5_request {
    uint8_t command;
    bool type_is_known;   /* false: reply 08, and nothing below is set */
    bool target_is_valid; /* false: reply 01, record bad-request */
    const char *why;      /* when the target is not valid: a fixed phrase */
    struct str host;      /* a domain's raw bytes, for the record; p == NULL for address types */
    uint16_t port;
    struct target target;
};

enum socks5_result socks5_parse_greeting(struct str bytes, struct socks5_greeting *out,
                                         size_t *used);
enum socks5_result socks5_parse_userpass(struct str bytes, struct str *user, struct str *password,
                                         size_t *used);
enum socks5_result socks5_parse_request(struct str bytes, struct socks5_request *out, size_t *used);

enum { SOCKS5_REPLY_MAX = 22 };
/* `bound` NULL: 0.0.0.0. Returns the length. */
size_t socks5_reply(uint8_t out[SOCKS5_REPLY_MAX], uint8_t code, const struct addr *bound,
                    uint16_t port);

/* The SOCKS4 refusal (0x5B), for clients that speak the old protocol. */
extern const uint8_t socks4_refusal[8];

#endif
