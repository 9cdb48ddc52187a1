/*
 * The chunked coding: the same body, end and verdict however the bytes are split.
 */
#include "wire/http_chunked.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct decoded {
    enum chunked_result result;
    size_t used, len;
    char *body; /* as large as the input, which no body can exceed */
};

static void decode(struct decoded *out, struct str bytes, size_t step)
{
    struct chunked chunked;
    chunked_init(&chunked);
    out->result = CHUNKED_MORE;
    out->used = out->len = 0;
    while (out->result != CHUNKED_BAD && out->result != CHUNKED_DONE && out->used < bytes.len) {
        struct str piece = str_from(bytes, out->used), data;
        size_t used;
        piece.len = piece.len < step ? piece.len : step;
        out->result = chunked_feed(&chunked, piece, &used, &data);
        assert(used <= piece.len && (out->result != CHUNKED_MORE || used == piece.len));
        assert((out->result == CHUNKED_DATA) == (data.len > 0));
        if (data.len > 0)
            memcpy(out->body + out->len, data.p, data.len);
        out->len += data.len;
        out->used += used;
    }
    if (out->result == CHUNKED_DATA)
        out->result = CHUNKED_MORE; /* the bytes ended with data */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct decoded whole = {.body = malloc(size + 1)}, pieces = {.body = malloc(size + 1)};
    assert(whole.body != NULL && pieces.body != NULL);
    struct str bytes = {(const char *)data, size};
    decode(&whole, bytes, size);
    for (size_t step = 1; step <= 13; step += 4) {
        decode(&pieces, bytes, step);
        assert(pieces.result == whole.result && pieces.used == whole.used);
        assert(pieces.len == whole.len && memcmp(pieces.body, whole.body, whole.len) == 0);
    }
    free(whole.body);
    free(pieces.body);
    return 0;
}
