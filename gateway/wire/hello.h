/*
 * Reads the server name out of a TLS ClientHello (RFC 8446 4.1.2, RFC 6066 3), split over records as it
 * may be. Pure; does not terminate TLS.
 *
 * Ownership: the caller's bytes. Thread: any.
 */
#ifndef WIRE_HELLO_H
#define WIRE_HELLO_H

#include "dns/name.h"
#include "srt/str.h"

enum { HELLO_MAX = 64 << 10 };

enum hello_result {
    HELLO_MORE,     /* could still become a ClientHello */
    HELLO_NOT_TLS,  /* the first bytes are something else */
    HELLO_PARSED,   /* whole */
    HELLO_BAD,      /* TLS, but malformed, too long, or not a ClientHello first */
};

struct hello {
    bool has_name, name_is_valid; /* exactly one host_name that is canonical as a name */
    bool has_ech;                 /* encrypted_client_hello extension: `name` is the outer one */
    struct name name;
};

enum hello_result hello_parse(struct str bytes, struct hello *out);

/* A fatal access_denied (49) or unrecognized_name (112) alert record, 7 bytes. */
void hello_alert(uint8_t out[7], uint8_t description);

#endif
