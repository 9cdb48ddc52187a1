#include "wire/socks5.h"

#include <arpa/inet.h>

const uint8_t socks4_refusal[8] = {0, 0x5b};

static uint8_t byte_at(struct str bytes, size_t at)
{
    return (uint8_t)bytes.p[at];
}

enum socks5_result socks5_parse_greeting(struct str bytes, struct socks5_greeting *out,
                                         size_t *used)
{
    if (bytes.len >= 1 && byte_at(bytes, 0) != SOCKS5_VERSION)
        return SOCKS5_BAD;
    if (bytes.len < 2 || bytes.len < 2u + byte_at(bytes, 1))
        return SOCKS5_MORE;
    *used = 2u + byte_at(bytes, 1);
    *out = (struct socks5_greeting){.no_auth = false};
    for (size_t i = 2; i < *used; i++) {
        out->no_auth |= byte_at(bytes, i) == SOCKS5_NO_AUTH;
        out->userpass |= byte_at(bytes, i) == SOCKS5_USERPASS;
    }
    return SOCKS5_PARSED;
}

/* A length byte and as many bytes; `*at` moves behind them. */
static bool take_counted(struct str bytes, size_t *at, struct str *out)
{
    if (bytes.len <= *at || bytes.len - *at - 1 < byte_at(bytes, *at))
        return false;
    *out = (struct str){bytes.p + *at + 1, byte_at(bytes, *at)};
    *at += 1 + out->len;
    return true;
}

enum socks5_result socks5_parse_userpass(struct str bytes, struct str *user, struct str *password,
                                         size_t *used)
{
    size_t at = 1;
    if (bytes.len >= 1 && byte_at(bytes, 0) != SOCKS5_USERPASS_VERSION)
        return SOCKS5_BAD;
    if (!take_counted(bytes, &at, user) || !take_counted(bytes, &at, password))
        return SOCKS5_MORE;
    *used = at;
    return SOCKS5_PARSED;
}

static void read_address(struct socks5_request *out, struct str bytes)
{
    const uint8_t *addr = (const uint8_t *)bytes.p;
    out->target = (struct target){.is_addr = true,
                                  .port = out->port,
                                  .addr = bytes.len == 4 ? addr_of_v4(addr) : addr_of_v6(addr)};
    out->target_is_valid = out->port != 0;
    out->why = out->target_is_valid ? NULL : "the port is 0";
}

/* The size of an address of this type; 0 while that is not known, SIZE_MAX if it never will be. */
static size_t address_size(struct str bytes)
{
    enum { TYPE_AT = 3, DOMAIN_AT = 4 };
    switch (byte_at(bytes, TYPE_AT)) {
    case SOCKS5_IPV4:
        return 4;
    case SOCKS5_IPV6:
        return 16;
    case SOCKS5_DOMAIN:
        return bytes.len > DOMAIN_AT ? 1u + byte_at(bytes, DOMAIN_AT) : 0;
    default:
        return SIZE_MAX;
    }
}

enum socks5_result socks5_parse_request(struct str bytes, struct socks5_request *out, size_t *used)
{
    enum { COMMAND_AT = 1, RESERVED_AT = 2, TYPE_AT = 3, ADDRESS_AT = 4, PORT_LEN = 2 };
    if (bytes.len >= 1 && byte_at(bytes, 0) != SOCKS5_VERSION)
        return SOCKS5_BAD;
    if (bytes.len > RESERVED_AT && byte_at(bytes, RESERVED_AT) != 0)
        return SOCKS5_BAD;
    if (bytes.len < ADDRESS_AT)
        return SOCKS5_MORE;
    *out = (struct socks5_request){.command = byte_at(bytes, COMMAND_AT)};
    size_t size = address_size(bytes);
    if (size == SIZE_MAX) {
        *used = ADDRESS_AT;
        return SOCKS5_PARSED;
    }
    if (size == 0 || bytes.len < ADDRESS_AT + size + PORT_LEN)
        return SOCKS5_MORE;
    *used = ADDRESS_AT + size + PORT_LEN;
    out->type_is_known = true;
    out->port = (uint16_t)(byte_at(bytes, *used - 2) << 8 | byte_at(bytes, *used - 1));
    struct str address = {bytes.p + ADDRESS_AT, size};
    if (byte_at(bytes, TYPE_AT) == SOCKS5_DOMAIN) {
        out->host = str_from(address, 1);
        out->target_is_valid = target_parse_host(&out->target, out->host, out->port, &out->why);
    } else {
        read_address(out, address);
    }
    return SOCKS5_PARSED;
}

size_t socks5_reply(uint8_t out[SOCKS5_REPLY_MAX], uint8_t code, const struct addr *bound,
                    uint16_t port)
{
    static const struct addr none = {.family = 4};
    const struct addr *addr = bound != NULL ? bound : &none;
    size_t size = addr->family == 4 ? 4 : 16;
    uint16_t wire_port = htons(bound != NULL ? port : 0);
    out[0] = SOCKS5_VERSION;
    out[1] = code;
    out[2] = 0;
    out[3] = addr->family == 4 ? SOCKS5_IPV4 : SOCKS5_IPV6;
    memcpy(out + 4, addr->bytes, size);
    memcpy(out + 4 + size, &wire_port, sizeof(wire_port));
    return 4 + size + sizeof(wire_port);
}
