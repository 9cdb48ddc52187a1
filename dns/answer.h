/*
 * What one DNS message says about one question.
 *
 * The message comes from a name server, which may pass on what an attacker's server made: lengths,
 * counts and compression are bounded here, and an address counts only if a chain of CNAMEs leads to
 * it from the name that was asked.
 *
 * Ownership: a plain value. Thread: any. Failure: ANSWER_FAILURE, never a part of an answer.
 */
#ifndef DNS_ANSWER_H
#define DNS_ANSWER_H

#include "dns/resolver.h"

enum answer_status {
    ANSWER_OK = 0,
    ANSWER_NONE,    /* no address of this family */
    ANSWER_NO_NAME, /* no such name */
    ANSWER_FAILURE, /* an error code, a malformed message, another question, a loop of CNAMEs */
};

struct answer {
    enum answer_status status;
    uint32_t ttl_s;                        /* the least along the chain */
    uint32_t count;                        /* at least 1 if OK */
    struct addr addrs[RESOLVER_MAX_ADDRS]; /* in the order received */
};

/* `family` is 4 (A) or 6 (AAAA). */
void answer_read(struct answer *out, const uint8_t *message, size_t len, const struct name *asked,
                 uint8_t family);

#endif
