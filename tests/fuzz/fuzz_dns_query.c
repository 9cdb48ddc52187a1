/*
 * A client's DNS message: whatever it is, what is answered fits, is an answer to it, and (where it
 * asks for a host's address) reads back as the address that was given.
 */
#include "dns/answer.h"
#include "dns/query.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_header(const uint8_t *answer, size_t len, const uint8_t *asked,
                         enum query_rcode rcode)
{
    assert(len >= 12 && len <= QUERY_ANSWER_MAX);
    assert(memcmp(answer, asked, 2) == 0);
    assert((answer[2] & 0x80) != 0 && (answer[3] & 0xf) == ((unsigned)rcode & 0xf));
}

static void check_addr(const struct query *query, const uint8_t *asked)
{
    static struct answer read;
    uint8_t answer[QUERY_ANSWER_MAX];
    const uint8_t bytes[16] = {0xfd, 1, 2, 3}, family = query->about == QUERY_A ? 4 : 6;
    const struct addr addr = family == 4 ? addr_of_v4(bytes) : addr_of_v6(bytes);
    const size_t len = query_give_addr(answer, query, &addr, 5);
    check_header(answer, len, asked, QUERY_OK);
    answer_read(&read, answer, len, &query->name, family);
    assert(read.status == ANSWER_OK && read.count == 1 && addr_eq(&read.addrs[0], &addr));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct query query;
    uint8_t answer[QUERY_ANSWER_MAX];
    switch (query_read(&query, data, size)) {
    case QUERY_IGNORED:
        return 0;
    case QUERY_WRONG:
        assert(query.rcode != QUERY_OK);
        check_header(answer, query_refuse(answer, &query, query.rcode), data, query.rcode);
        return 0;
    case QUERY_ASKS:
        break;
    }
    check_header(answer, query_refuse(answer, &query, QUERY_NO_NAME), data, QUERY_NO_NAME);
    if (query.has_name && (query.about == QUERY_A || query.about == QUERY_AAAA))
        check_addr(&query, data);
    if (query.has_addr)
        check_header(answer, query_give_name(answer, &query, &query.name, 5), data, QUERY_OK);
    return 0;
}
