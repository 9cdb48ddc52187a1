/*
 * The chunked coding (RFC 9112 7.1), strictly, as a state machine over any split of the bytes.
 *
 * Only the data comes out; the forwarder writes its own chunk lines, so no odd spelling is ever
 * passed on. Trailer fields are checked and dropped. Ownership: the caller's struct, no memory of
 * its own. Thread: any.
 */
#ifndef WIRE_HTTP_CHUNKED_H
#define WIRE_HTTP_CHUNKED_H

#include "srt/str.h"

#include <stdint.h>

struct chunked {
    uint64_t left; /* of the chunk at hand */
    uint32_t line; /* bytes of the size line or the trailers so far */
    uint8_t state;
    uint8_t digits;
};

enum chunked_result {
    CHUNKED_MORE, /* all of `bytes` is consumed and more is needed */
    CHUNKED_DATA, /* `data` holds bytes of the body; call again with the rest */
    CHUNKED_DONE, /* the last chunk and its trailers are through */
    CHUNKED_BAD,
};

void chunked_init(struct chunked *chunked);
/* Takes from `bytes`; `*used` says how much of it was consumed (DATA included). */
enum chunked_result chunked_feed(struct chunked *chunked, struct str bytes, size_t *used,
                                 struct str *data);

#endif
