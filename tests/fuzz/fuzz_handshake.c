/*
 * What an upstream proxy answers: the end of the handshake never depends on how the bytes were
 * split, and no byte behind it is taken. The first byte says which proxy it is and what it was
 * told.
 */
#include "transport/handshake.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct http_response head;

struct ending {
    enum handshake_result result;
    struct handshake handshake;
    size_t left, said;
};

static struct ending run(uint8_t kind, struct str bytes, size_t step)
{
    static const char *const proxies[] = {"http://p.test:1", "socks5://p.test:1"};
    struct config_upstream upstream = {0};
    struct target target;
    struct ending ending = {.result = HANDSHAKE_MORE};
    struct buf in = {0}, out = {0};
    const char *why;
    bool parsed = upstream_parse(&upstream, str_of(proxies[kind & 1]), &why) &&
                  ((kind & 2) == 0 || upstream_set_credentials(&upstream, STR("a:b"), &why)) &&
                  target_parse(&target, (kind & 4) == 0 ? STR("t.test:1") : STR("[::2]:1"), NULL);
    assert(parsed);
    handshake_begin(&ending.handshake, &upstream, &target, NULL, &out);
    size_t at = 0;
    while (ending.result == HANDSHAKE_MORE && at < bytes.len) {
        size_t len = bytes.len - at < step ? bytes.len - at : step;
        buf_append(&in, (struct str){bytes.p + at, len});
        at += len;
        ending.result = handshake_turn(&ending.handshake, &in, false, &out, &head);
        assert(in.len <= at);
    }
    ending.left = in.len + bytes.len - at;
    ending.said = out.len;
    buf_free(&in);
    buf_free(&out);
    return ending;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct str bytes = {(const char *)data + 1, size - 1};
    const struct ending whole = run(data[0], bytes, bytes.len), split = run(data[0], bytes, 1);
    assert(whole.result == split.result);
    if (whole.result == HANDSHAKE_DONE)
        assert(whole.left == split.left && whole.said == split.said);
    if (whole.result == HANDSHAKE_FAILED)
        assert(whole.handshake.outcome == split.handshake.outcome &&
               whole.handshake.status == split.handshake.status && whole.handshake.why != NULL);
    return 0;
}
