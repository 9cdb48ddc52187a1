/*
 * PROXY headers: the answer never depends on bytes behind the header or on how it was split.
 */
#include "wire/proxy_header.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct proxy_header whole = {0}, pieces = {0};
    size_t used = 0, used_in_pieces = 0;
    struct str bytes = {(const char *)data, size};
    enum proxy_header_result in_pieces = PROXY_HEADER_MORE;
    for (size_t len = 0; len <= size && in_pieces == PROXY_HEADER_MORE; len++)
        in_pieces = proxy_header_parse((struct str){bytes.p, len}, &pieces, &used_in_pieces);
    assert(proxy_header_parse(bytes, &whole, &used) == in_pieces);
    if (in_pieces != PROXY_HEADER_PARSED)
        return 0;
    assert(used == used_in_pieces && used <= size);
    assert(whole.has_source == pieces.has_source);
    if (whole.has_source)
        assert(addr_eq(&whole.source, &pieces.source) && whole.source_port == pieces.source_port);
    return 0;
}
