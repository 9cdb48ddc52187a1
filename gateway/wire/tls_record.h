/*
 * How TLS frames what it carries (RFC 8446 5.1): a type, a version, a length, and as many bytes.
 *
 * Pure. Ownership: the caller's bytes. Thread: any.
 */
#ifndef WIRE_TLS_RECORD_H
#define WIRE_TLS_RECORD_H

#include "srt/str.h"

#include <stdint.h>

enum {
    RECORD_HEADER = 5,
    RECORD_MAX = 1 << 14,
    RECORD_CHANGE_CIPHER_SPEC = 20,
    RECORD_ALERT = 21,
    RECORD_HANDSHAKE = 22,
    RECORD_APPLICATION_DATA = 23,
    RECORD_HEARTBEAT = 24,    /* RFC 6520; the last there is */
    MESSAGE_CLIENT_HELLO = 1, /* the first byte of a handshake message */
};

/* What the record at `at` carries, whose header has come. */
static inline size_t record_len(struct str bytes, size_t at)
{
    return (size_t)(uint8_t)bytes.p[at + 3] << 8 | (uint8_t)bytes.p[at + 4];
}

#endif
