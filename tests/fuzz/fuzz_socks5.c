/*
 * SOCKS5 messages: the answer never depends on bytes behind the message or on how it was split, and
 * a target that is called valid has a canonical form that parses back to itself. The first byte
 * says which message it is.
 */
#include "wire/socks5.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum socks5_result parse(uint8_t kind, struct str bytes, struct socks5_request *request,
                                size_t *used)
{
    struct socks5_greeting greeting;
    struct str user = STR_NULL, password = STR_NULL;
    switch (kind % 3) {
    case 0:
        return socks5_parse_greeting(bytes, &greeting, used);
    case 1: {
        enum socks5_result result = socks5_parse_userpass(bytes, &user, &password, used);
        assert(result != SOCKS5_PARSED || 3 + user.len + password.len == *used);
        return result;
    }
    default:
        return socks5_parse_request(bytes, request, used);
    }
}

static void check_target(const struct socks5_request *request)
{
    char text[TARGET_TEXT_MAX];
    struct target again;
    assert(request->target_is_valid == (request->why == NULL));
    if (!request->target_is_valid)
        return;
    assert(request->target.port == request->port && request->port != 0);
    assert(target_parse(&again, str_of(target_format(text, &request->target)), NULL));
    assert(target_eq(&again, &request->target));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct socks5_request request = {0};
    size_t used = 0, used_in_pieces = 0;
    if (size == 0)
        return 0;
    struct str bytes = {(const char *)data + 1, size - 1};
    enum socks5_result in_pieces = SOCKS5_MORE;
    for (size_t len = 0; len <= bytes.len && in_pieces == SOCKS5_MORE; len++)
        in_pieces = parse(data[0], (struct str){bytes.p, len}, &request, &used_in_pieces);
    assert(parse(data[0], bytes, &request, &used) == in_pieces);
    assert(used == used_in_pieces && used <= bytes.len);
    if (in_pieces == SOCKS5_PARSED && data[0] % 3 == 2 && request.type_is_known)
        check_target(&request);
    return 0;
}
