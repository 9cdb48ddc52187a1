/*
 * Names to addresses, asynchronously, once: hosts file first, then the configured servers.
 *
 * One resolver belongs to one libev loop and is used on that loop's thread only. It asks for the
 * absolute name it was given (no search list, no ndots), A and AAAA together, coalesces concurrent
 * questions for one name, caches within the configured bounds, and answers within its own deadline
 * whatever the servers do. `localhost` names (RFC 6761) are the loopback addresses without a query.
 * It decides nothing about addresses: the guard does.
 *
 * Which half suffices: with addresses of one family at hand the other is waited for only a moment,
 * and its failure does not matter. Without any, a failure of either is a failure of the whole:
 * "there is no such name" needs the word of both.
 *
 * The hosts file and, for "system", /etc/resolv.conf are looked at again when a question comes, a
 * few times a second at most; a change counts from the next question on.
 */
#ifndef DNS_RESOLVER_H
#define DNS_RESOLVER_H

#include "dns/addr.h"
#include "dns/name.h"
#include "srt/err.h"

struct ev_loop;
struct resolver;
struct resolver_query;

enum { RESOLVER_MAX_ADDRS = 64 };

/* A question ends within timeout_ms * tries * servers and within RESOLVER_MAX_WAIT_MS, unless a
 * single timeout_ms is longer. */
enum { RESOLVER_MAX_WAIT_MS = 10000, RESOLVER_MAX_TIMEOUT_MS = 60000, RESOLVER_MAX_TRIES = 10 };

struct resolver_config {
    const char *servers;    /* "system", or a list of IPv4[:port] / [IPv6]:port, comma separated */
    const char *hosts_file; /* path, or NULL for none */
    uint32_t timeout_ms;    /* one try */
    uint32_t tries;         /* rounds over all servers */
    uint32_t cache_entries; /* 0 = no cache */
    uint32_t min_ttl_s, max_ttl_s, negative_ttl_s;
};

enum resolve_status {
    RESOLVE_OK = 0,
    RESOLVE_NXDOMAIN, /* no such name */
    RESOLVE_NODATA,   /* a name without addresses */
    RESOLVE_FAILURE,  /* SERVFAIL, REFUSED, a malformed answer, no server reachable */
    RESOLVE_TIMEOUT,
};

struct resolve_answer {
    enum resolve_status status;
    uint32_t count;
    struct addr addrs[RESOLVER_MAX_ADDRS]; /* in the order received, AAAA and A in turn */
};

/* Called on the loop's thread, never from within resolver_start(). `answer` is valid only during
 * the call, which may start and cancel queries but not destroy the resolver. */
typedef void resolver_done_fn(void *arg, const struct resolve_answer *answer);

/* NULL and `err` on faults of the configuration or lack of resources. Owned by the caller. */
struct resolver *resolver_create(struct ev_loop *loop, const struct resolver_config *config,
                                 struct srt_err *err);
/* Outstanding queries are dropped without a call, and their pointers are dead. NULL is allowed. */
void resolver_destroy(struct resolver *resolver);

/* If the answer is at hand (cache, hosts file, localhost, or no room for one more question) it is
 * written to `answer` and NULL is returned. Otherwise a query is returned that ends in exactly one
 * call of `done`, unless cancelled before; after either the pointer is dead. `asker` is only
 * compared: whoever has as many questions on their way as are left to all others has no room for
 * one more. */
struct resolver_query *resolver_start(struct resolver *resolver, const struct name *name,
                                      const void *asker, struct resolve_answer *answer,
                                      resolver_done_fn *done, void *arg);
void resolver_cancel(struct resolver_query *query);

/* Faults of the values and files that a configuration names, for `check`: 0 or -1 with `err`. */
int resolver_config_check(const struct resolver_config *config, struct srt_err *err);

#endif
