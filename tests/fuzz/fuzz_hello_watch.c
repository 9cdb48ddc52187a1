/*
 * What follows a ClientHello: the same verdict and the same bytes passed however they come. The
 * first byte says whether early data was offered.
 */
#include "wire/hello_watch.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct verdict {
    enum hello_watch_result result;
    size_t passed; /* a second hello included */
    struct hello second;
};

static void watch_all(struct verdict *out, struct str bytes, bool has_early_data, size_t step)
{
    struct hello first = {.has_early_data = has_early_data};
    struct hello_watch watch;
    size_t come = 0, pass = 0;
    hello_watch_init(&watch, &first);
    *out = (struct verdict){.result = HELLO_WATCH_MORE};
    while (out->result == HELLO_WATCH_MORE && (come < bytes.len || pass > 0)) {
        if (pass == 0)
            come = bytes.len - come < step ? bytes.len : come + step;
        struct str piece = {bytes.p + out->passed, come - out->passed};
        out->result = hello_watch_feed(&watch, piece, &pass, &out->second);
        assert(pass <= piece.len);
        if (out->result == HELLO_WATCH_MORE || out->result == HELLO_WATCH_HELLO)
            out->passed += pass;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct verdict whole, pieces;
    if (size == 0)
        return 0;
    struct str bytes = {(const char *)data + 1, size - 1};
    watch_all(&whole, bytes, data[0] == 'E', size);
    for (size_t step = 1; step <= 13; step += 12) {
        watch_all(&pieces, bytes, data[0] == 'E', step);
        assert(pieces.result == whole.result);
        if (whole.result == HELLO_WATCH_MORE || whole.result == HELLO_WATCH_HELLO)
            assert(pieces.passed == whole.passed);
        if (whole.result == HELLO_WATCH_HELLO)
            assert(
                pieces.second.name_is_valid == whole.second.name_is_valid &&
                (!whole.second.name_is_valid || name_eq(&pieces.second.name, &whole.second.name)));
    }
    return 0;
}
