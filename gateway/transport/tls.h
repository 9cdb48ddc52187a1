/*
 * TLS to an upstream proxy, as its client: version 1.2 at least, and a certificate for its name
 * from somebody who is believed, or nothing is said to it.
 *
 * The only place that knows OpenSSL's SSL_*. Belongs to a stream (transport/stream.h), which owns
 * the socket and reads and writes through it; whoever holds a stream need not know. Never blocks.
 * The process has to ignore SIGPIPE: OpenSSL writes without MSG_NOSIGNAL. Ownership: tls_free().
 * Thread: one at a time. Failure: a fixed phrase, for tls_handshake(); TLS_BROKEN otherwise.
 */
#ifndef TRANSPORT_TLS_H
#define TRANSPORT_TLS_H

#include "dns/target.h"

#include <sys/types.h>

struct tls_client; /* what connections have in common */
struct tls;
struct x509_store_st;

struct tls_client *tls_client_create(void);
void tls_client_free(struct tls_client *client);

/* `fd` stays the caller's and has to outlive it. `peer` is whom its certificate has to name. */
struct tls *tls_create(const struct tls_client *client, int fd, const struct target *peer,
                       struct x509_store_st *trust);
void tls_free(struct tls *tls);

enum tls_result {
    TLS_DONE,
    TLS_WANTS_READ,
    TLS_WANTS_WRITE,
    TLS_END,    /* close_notify: the peer will say no more */
    TLS_BROKEN, /* also: it is gone without close_notify, and nobody knows what is missing */
};

/* Until it says TLS_DONE nothing below may be called. `*why` goes with TLS_BROKEN. */
enum tls_result tls_handshake(struct tls *tls, const char **why);

enum tls_result tls_read(struct tls *tls, void *p, size_t size, size_t *done);
/* Bytes that were not taken have to come again, first. */
enum tls_result tls_write(struct tls *tls, const void *p, size_t size, size_t *done);
/* close_notify; the peer may go on. */
enum tls_result tls_finish(struct tls *tls);

/* Bytes that tls_read() has at hand and no watcher of the socket will tell of. */
bool tls_has_pending(const struct tls *tls);

#endif
