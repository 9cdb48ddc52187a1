/*
 * The first byte chooses the family, the rest is the message. Whatever it is, an answer that is OK
 * has addresses of that family (or IPv4 from a mapped AAAA) and a TTL within RFC 2181, and others
 * have none.
 */
#include "dns/answer.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct name asked = {.len = 9, .text = "good.test"};
    static struct answer answer;
    if (size == 0)
        return 0;
    uint8_t family = data[0] % 2 == 0 ? 4 : 6;
    answer_read(&answer, data + 1, size - 1, &asked, family);
    if (answer.status != ANSWER_OK) {
        assert(answer.count == 0 && answer.ttl_s == 0);
        return 0;
    }
    assert(answer.count >= 1 && answer.count <= RESOLVER_MAX_ADDRS && answer.ttl_s <= INT32_MAX);
    for (uint32_t i = 0; i < answer.count; i++)
        assert(answer.addrs[i].family == 4 || (family == 6 && answer.addrs[i].family == 6));
    return 0;
}
