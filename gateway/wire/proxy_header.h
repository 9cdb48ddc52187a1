/*
 * The PROXY protocol header, versions 1 and 2 (haproxy proxy-protocol.txt), strictly.
 *
 * Pure: plain values, any thread. Failure: PROXY_HEADER_BAD, and nothing else that came is looked
 * at.
 */
#ifndef WIRE_PROXY_HEADER_H
#define WIRE_PROXY_HEADER_H

#include "dns/addr.h"
#include "srt/str.h"

enum proxy_header_result { PROXY_HEADER_PARSED, PROXY_HEADER_MORE, PROXY_HEADER_BAD };

struct proxy_header {
    bool has_source; /* false: LOCAL or UNKNOWN */
    struct addr source;
    uint16_t source_port;
};

enum proxy_header_result proxy_header_parse(struct str bytes, struct proxy_header *out,
                                            size_t *used);

#endif
