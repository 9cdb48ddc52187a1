#include "dns/addr.h"

#include "srt/text.h"

#include <arpa/inet.h>
#include <assert.h>

enum { V4_BITS = 32, V6_BITS = 128, MAPPED_BITS = 96 };

static const uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

struct addr addr_of_v4(const uint8_t bytes[4])
{
    struct addr addr = {.family = 4};
    memcpy(addr.bytes, bytes, 4);
    return addr;
}

struct addr addr_of_v6(const uint8_t bytes[16])
{
    if (memcmp(bytes, mapped_prefix, sizeof(mapped_prefix)) == 0)
        return addr_of_v4(bytes + sizeof(mapped_prefix));
    struct addr addr = {.family = 6};
    memcpy(addr.bytes, bytes, 16);
    return addr;
}

bool addr_parse(struct addr *out, struct str text)
{
    char copy[INET6_ADDRSTRLEN];
    if (text.len == 0 || text.len >= sizeof(copy) || str_has(text, '\0'))
        return false;
    memcpy(copy, text.p, text.len);
    copy[text.len] = '\0';

    uint8_t bytes[16];
    const bool v6 = str_has(text, ':');
    if (inet_pton(v6 ? AF_INET6 : AF_INET, copy, bytes) != 1)
        return false;
    *out = v6 ? addr_of_v6(bytes) : addr_of_v4(bytes);
    return true;
}

/* inet_ntop() uses printf. */
static const char *format_v4(char out[ADDR_TEXT_MAX], const uint8_t bytes[4])
{
    size_t len = 0;
    for (size_t i = 0; i < 4; i++) {
        if (i > 0)
            out[len++] = '.';
        len += text_number(out + len, bytes[i]);
    }
    return out;
}

const char *addr_format(char out[ADDR_TEXT_MAX], const struct addr *addr)
{
    if (addr->family == 4)
        return format_v4(out, addr->bytes);
    const char *text = inet_ntop(AF_INET6, addr->bytes, out, ADDR_TEXT_MAX);
    assert(text != NULL);
    return text;
}

bool addr_eq(const struct addr *a, const struct addr *b)
{
    return a->family == b->family && memcmp(a->bytes, b->bytes, a->family == 4 ? 4 : 16) == 0;
}

bool addr_is_loopback(const struct addr *addr)
{
    static const uint8_t one[16] = {[15] = 1};
    return addr->family == 4 ? addr->bytes[0] == 127 : memcmp(addr->bytes, one, sizeof(one)) == 0;
}

/* The first `len` bits of both are the same. */
static bool same_prefix(const uint8_t *a, const uint8_t *b, unsigned len)
{
    if (memcmp(a, b, len / 8) != 0)
        return false;
    unsigned rest = len % 8;
    return rest == 0 || ((a[len / 8] ^ b[len / 8]) >> (8 - rest)) == 0;
}

static bool has_host_bits(const struct cidr *range)
{
    for (unsigned bit = range->len; bit < (range->base.family == 4 ? V4_BITS : V6_BITS); bit++)
        if (range->base.bytes[bit / 8] & (0x80 >> (bit % 8)))
            return true;
    return false;
}

bool cidr_parse(struct cidr *out, struct str text)
{
    struct str rest = text;
    const struct str base = str_take_until(&rest, '/');
    if (!addr_parse(&out->base, base))
        return false;

    const uint64_t max = str_has(base, ':') ? V6_BITS : V4_BITS;
    uint64_t len = max;
    if (base.len < text.len && !str_uint(rest, max, &len))
        return false;
    if (max == V6_BITS && out->base.family == 4) {
        if (len < MAPPED_BITS)
            return false;
        len -= MAPPED_BITS;
    }
    out->len = (uint8_t)len;
    return !has_host_bits(out);
}

bool cidr_contains(const struct cidr *range, const struct addr *addr)
{
    return range->base.family == addr->family &&
           same_prefix(range->base.bytes, addr->bytes, range->len);
}

/* Where an IPv6 address of a known kind keeps an IPv4 address. */
struct embedding {
    uint8_t prefix[16];
    uint8_t prefix_len;
    uint8_t offset;
    bool inverted;
};

static const struct embedding embeddings[] = {
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96, 12, false}, /* mapped, RFC 4291 2.5.5.2 */
    {{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96, 12, false},       /* translated, RFC 2765 2.1 */
    {{0}, 96, 12, false},                                        /* compatible, RFC 4291 2.5.5.1 */
    {{0, 0x64, 0xff, 0x9b}, 96, 12, false},                      /* NAT64, RFC 6052 2.1 */
    {{0, 0x64, 0xff, 0x9b, 0, 1}, 48, 12, false},                /* local-use NAT64, RFC 8215 */
    {{0x20, 0x02}, 16, 2, false},                                /* 6to4, RFC 3056 2 */
    {{0x20, 0x01, 0, 0}, 32, 12, true},                          /* Teredo, RFC 4380 4 */
};

/* ISATAP is known by its interface identifier, below any prefix (RFC 5214 6.1); the "universal" bit
 * is set or not. */
static bool is_isatap(const uint8_t bytes[16])
{
    return (bytes[8] & ~0x02) == 0 && bytes[9] == 0 && bytes[10] == 0x5e && bytes[11] == 0xfe;
}

static bool is_unspecified_or_loopback(const uint8_t bytes[16])
{
    static const uint8_t zero[15];
    return memcmp(bytes, zero, sizeof(zero)) == 0 && bytes[15] <= 1;
}

bool addr_embedded_v4(const struct addr *v6, struct addr *out)
{
    if (v6->family != 6 || is_unspecified_or_loopback(v6->bytes))
        return false;
    for (size_t i = 0; i < sizeof(embeddings) / sizeof(embeddings[0]); i++) {
        const struct embedding *e = &embeddings[i];
        if (!same_prefix(v6->bytes, e->prefix, e->prefix_len))
            continue;
        *out = addr_of_v4(v6->bytes + e->offset);
        for (size_t b = 0; e->inverted && b < 4; b++)
            out->bytes[b] = (uint8_t)~out->bytes[b];
        return true;
    }
    if (!is_isatap(v6->bytes))
        return false;
    *out = addr_of_v4(v6->bytes + 12);
    return true;
}

socklen_t addr_to_sockaddr(const struct addr *addr, uint16_t port, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof(*out));
    if (addr->family == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)out;
        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, addr->bytes, 4);
        return sizeof(*in);
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    memcpy(&in6->sin6_addr, addr->bytes, 16);
    return sizeof(*in6);
}

bool addr_from_sockaddr(const struct sockaddr *sa, struct addr *out, uint16_t *port)
{
    if (sa->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, sa, sizeof(in));
        *out = addr_of_v4((const uint8_t *)&in.sin_addr);
        *port = ntohs(in.sin_port);
        return true;
    }
    if (sa->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, sa, sizeof(in6));
        *out = addr_of_v6(in6.sin6_addr.s6_addr);
        *port = ntohs(in6.sin6_port);
        return true;
    }
    return false;
}
