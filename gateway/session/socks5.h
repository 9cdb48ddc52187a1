/* The state of a SOCKS5 handshake: a part of the session, on its worker; nothing to be freed. */
#ifndef SESSION_SOCKS5_H
#define SESSION_SOCKS5_H

#include <stdint.h>

enum socks5_phase {
    SOCKS5_GREETING,
    SOCKS5_LOGIN,
    SOCKS5_REQUEST,
    SOCKS5_OLD /* a SOCKS4 client */
};

struct socks5 {
    enum socks5_phase phase : 8;
    uint8_t reply; /* overrides the outcome's code; 0 = not */
};

#endif
