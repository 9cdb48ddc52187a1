/*
 * Reads the server name out of a TLS ClientHello (RFC 8446 4.1.2, RFC 6066 3), split over records
 * as it may be. Pure; does not terminate TLS.
 *
 * Ownership: the caller's bytes. Thread: any.
 */
#ifndef WIRE_HELLO_H
#define WIRE_HELLO_H

#include "dns/name.h"
#include "srt/str.h"

enum { HELLO_MAX = 64 << 10 };

enum hello_result {
    HELLO_MORE,    /* could still become a ClientHello */
    HELLO_NOT_TLS, /* the first bytes are something else */
    HELLO_PARSED,  /* whole */
    HELLO_BAD,     /* TLS, but malformed, too long, or not a ClientHello first */
};

struct hello {
    bool has_name, name_is_valid; /* exactly one host_name that is canonical as a name */
    /* An encrypted_client_hello (or its drafts) extension is there. Chromium always sends one,
     * mostly as a decoy (GREASE): `name` is the outer one, which is all that a router on the way
     * can see. */
    bool has_ech;
    bool has_early_data; /* it is offered (RFC 8446 4.2.10) and may follow at once */
    struct name name;
};

/* Zeroed by the caller for each new connection, then left alone: how far the records have been
 * walked, so that a hello that comes byte by byte is read once. */
struct hello_scan {
    size_t at;      /* where the next record starts */
    size_t message; /* bytes of the handshake message in the records before it */
};

/* `bytes` starts with the first byte of the connection in every call; never more than HELLO_MAX of
 * it is needed. `out` is set when the result is HELLO_PARSED. */
enum hello_result hello_parse(struct str bytes, struct hello_scan *scan, struct hello *out);

/* A record of one fatal alert. */
enum hello_alert {
    HELLO_ACCESS_DENIED = 49,      /* RFC 8446 6.2 */
    HELLO_UNRECOGNIZED_NAME = 112, /* RFC 6066 9 */
};
enum { HELLO_ALERT_LEN = 7 };
void hello_alert(uint8_t out[HELLO_ALERT_LEN], enum hello_alert description);

#endif
