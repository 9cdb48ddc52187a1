/*
 * Which bytes may stand where in HTTP/1.1 (RFC 9110 5.6.2 and 5.5, RFC 3986). Locale-free.
 *
 * Ownership: none. Thread: any.
 */
#ifndef WIRE_HTTP_SYNTAX_H
#define WIRE_HTTP_SYNTAX_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HTTP_BYTE_TOKEN = 1,  /* tchar */
    HTTP_BYTE_TARGET = 2, /* a printable ASCII byte but '#' and '\' */
    HTTP_BYTE_VALUE = 4,  /* printable ASCII, space, tab and obs-text (0x80 and above) */
    HTTP_BYTE_PRINT = 8,  /* printable ASCII without the space */
};

extern const uint8_t http_byte_classes[256];

static inline bool http_byte_is(char c, uint8_t class)
{
    return (http_byte_classes[(uint8_t)c] & class) != 0;
}

#endif
