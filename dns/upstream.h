/*
 * The name servers: one question goes out, one reply comes back, whatever happens on the way.
 *
 * A thin owner of c-ares (1.18: not thread-safe, no cancel of a single query, callbacks from within
 * any call, servers fixed while a query is out). Each set of servers, and each order of them, is a
 * channel of its own; a channel that is no longer current finishes what it was asked and goes.
 *
 * c-ares asks the servers in turn, over UDP, and over TCP at the same port after truncation. A
 * round over all servers takes `timeout_ms`, the next ones twice as long each; a late reply still
 * counts. A server that answers after others have kept silent is asked first from then on.
 *
 * Ownership: the creator's. Thread: that of the loop. Failure: in the reply.
 */
#ifndef DNS_UPSTREAM_H
#define DNS_UPSTREAM_H

#include "dns/addr.h"
#include "dns/name.h"
#include "srt/err.h"

enum { UPSTREAM_MAX_SERVERS = 8, UPSTREAM_RESOLV_CONF_MAX_SIZE = 64 << 10 };

struct ev_loop;
struct upstream;

struct upstream_server {
    struct addr addr;
    uint16_t port;
};

struct upstream_servers {
    size_t count;
    struct upstream_server at[UPSTREAM_MAX_SERVERS];
};

enum upstream_status {
    UPSTREAM_REPLY = 0, /* a message with the question that was asked; its code may be an error */
    UPSTREAM_NEVER,     /* a name that no name server is asked for (.onion, RFC 7686) */
    UPSTREAM_TIMEOUT,
    UPSTREAM_FAILURE, /* every server refused, failed or could not be reached */
};

/* May be called from within upstream_ask(). `message` is valid only during the call. Must not
 * destroy the upstream. */
typedef void upstream_done_fn(void *arg, enum upstream_status status, const uint8_t *message,
                              size_t len);

/* A list of IPv4[:port] and [IPv6][:port], separated by commas. -1 and `err` on faults. */
int upstream_servers_parse(struct upstream_servers *out, const char *list, struct srt_err *err);

/* The name servers of a resolv.conf(5); the local one if it names none or does not exist. -1 if it
 * cannot be read. Search lists and options of the file are not looked at. */
int upstream_servers_read(struct upstream_servers *out, const char *path, struct srt_err *err);

struct upstream *upstream_create(struct ev_loop *loop, const struct upstream_servers *servers,
                                 uint32_t timeout_ms, uint32_t tries, struct srt_err *err);

/* Outstanding questions are answered with UPSTREAM_FAILURE. NULL is allowed. */
void upstream_destroy(struct upstream *upstream);

/* From now on these servers are asked. If that fails the old ones stay. */
void upstream_set_servers(struct upstream *upstream, const struct upstream_servers *servers);

/* `family` is 4 (A) or 6 (AAAA). Ends in exactly one call of `done`. */
void upstream_ask(struct upstream *upstream, const struct name *name, uint8_t family,
                  upstream_done_fn *done, void *arg);

#endif
