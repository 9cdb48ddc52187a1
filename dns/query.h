/*
 * What a client asks a name server, and the answers to it (RFC 1035, RFC 6891). Pure.
 *
 * The message comes from a client that may be hostile: one question, without compression, whatever
 * else is in it is skipped within its bounds or makes it malformed. An answer has at most one
 * record and always fits into QUERY_ANSWER_MAX bytes, which is less than what every client takes
 * over UDP.
 *
 * Ownership: a query borrows its message. Thread: any. Failure: an enum query_result.
 */
#ifndef DNS_QUERY_H
#define DNS_QUERY_H

#include "dns/addr.h"
#include "dns/name.h"

enum {
    QUERY_MAX = 4096, /* no honest one is longer */
    QUERY_ANSWER_MAX = 512,
};

enum query_about {
    QUERY_A,
    QUERY_AAAA,
    QUERY_PTR,
    QUERY_OTHER,
};

/* What an answer says (RFC 1035 4.1.1); the numbers go out as they are. */
enum query_rcode {
    QUERY_OK = 0, /* without a record: there is none of that type */
    QUERY_MALFORMED = 1,
    QUERY_FAILED = 2,
    QUERY_NO_NAME = 3,
    QUERY_NOT_DONE = 4,
    QUERY_REFUSED = 5,
    QUERY_BAD_VERSION = 16, /* of EDNS (RFC 6891 6.1.3) */
};

struct query {
    uint16_t id, flags;
    bool extended;           /* by EDNS, so the answer is, too */
    enum query_rcode rcode;  /* of one that is wrong */
    const uint8_t *question; /* as it came, or NULL */
    size_t question_len;
    enum query_about about;
    bool has_name; /* it is a host name; other names have no addresses */
    struct name name;
    bool has_addr; /* of a QUERY_PTR: the address that the name is about */
    struct addr addr;
};

enum query_result {
    QUERY_ASKS,
    QUERY_WRONG,   /* to be answered with its rcode */
    QUERY_IGNORED, /* too short, or an answer: never answered, or two servers could talk for ever */
};

enum query_result query_read(struct query *out, const uint8_t *message, size_t len);

/* Each returns the length of the answer. */
size_t query_refuse(uint8_t out[QUERY_ANSWER_MAX], const struct query *query,
                    enum query_rcode rcode);
/* `addr` is of the family that was asked for. */
size_t query_give_addr(uint8_t out[QUERY_ANSWER_MAX], const struct query *query,
                       const struct addr *addr, uint32_t ttl_s);
size_t query_give_name(uint8_t out[QUERY_ANSWER_MAX], const struct query *query,
                       const struct name *name, uint32_t ttl_s);

#endif
