/*
 * Watches what a TLS client sends behind its first ClientHello, for a second one.
 *
 * A server may answer with a HelloRetryRequest (RFC 8446 4.1.4), and then the client sends another
 * ClientHello, in clear. Servers exist (OpenSSL is one: tried) that take the server name of the
 * second one: who judges only the first can be led past his judgement by a client that changes the
 * name in between. Everything else that a client sends before its handshake is encrypted tells that
 * no second hello will come, except what servers pass over: change_cipher_spec, alerts and rejected
 * early data.
 *
 * Ownership: the caller's struct and bytes. Thread: any.
 */
#ifndef WIRE_HELLO_WATCH_H
#define WIRE_HELLO_WATCH_H

#include "wire/hello.h"

struct hello_watch {
    struct hello_scan scan; /* of a second hello, which starts at the caller's first byte */
    size_t left;            /* of a record that is being passed */
    size_t passed;          /* bytes of such records in all */
    bool has_early_data;    /* the first hello offered it */
    bool is_broken;         /* what looked like a second one is none */
};

enum hello_watch_result {
    HELLO_WATCH_MORE,  /* `*pass` bytes may go on; the rest is held and fed again, at once if
                          there was something to pass, else when more has come */
    HELLO_WATCH_HELLO, /* the next `*pass` bytes are a second hello: they may go on if it is allowed
                        */
    HELLO_WATCH_OVER,  /* there is none: everything may go on, from now on */
    HELLO_WATCH_BAD,
};

/* `first` has been judged. */
void hello_watch_init(struct hello_watch *watch, const struct hello *first);

/* `bytes` are those that have not been passed. After HELLO nothing more is to be watched. */
enum hello_watch_result hello_watch_feed(struct hello_watch *watch, struct str bytes, size_t *pass,
                                         struct hello *second);

#endif
