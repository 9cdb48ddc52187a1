#include "dns/target.h"

#include "srt/text.h"

static bool fail(const char **why, const char *phrase)
{
    if (why != NULL)
        *why = phrase;
    return false;
}

static bool parse_port(uint16_t *out, struct str digits, const char **why)
{
    uint64_t value;
    if (digits.len == 0)
        return fail(why, "the port is missing");
    if (!str_uint(digits, UINT16_MAX, &value) || value == 0)
        return fail(why, "the port is not a number from 1 to 65535");
    *out = (uint16_t)value;
    return true;
}

/* What stands between brackets: IPv6 and nothing else. */
static bool set_ipv6(struct target *out, struct str inner, const char **why)
{
    if (!str_has(inner, ':') || !addr_parse(&out->addr, inner))
        return fail(why, "only an IPv6 address can stand in brackets");
    out->is_addr = true;
    return true;
}

static bool set_name_or_ipv4(struct target *out, struct str host, const char **why)
{
    if (!str_has(host, ':') && addr_parse(&out->addr, host)) {
        out->is_addr = true;
        return true;
    }
    enum name_fault fault = name_parse(&out->name, host);
    return fault == NAME_OK || fail(why, name_fault_text(fault));
}

/* Sets the host and leaves in `*rest` what follows it: nothing, or ":" and a port. */
static bool parse_host_part(struct target *out, struct str authority, struct str *rest,
                            const char **why)
{
    memset(out, 0, sizeof(*out));
    if (authority.len == 0)
        return fail(why, "the host is missing");
    if (authority.p[0] == '[') {
        const struct str inner = str_until(str_from(authority, 1), ']');
        *rest = str_from(authority, inner.len + 2);
        if (inner.len + 1 == authority.len)
            return fail(why, "a bracket is not closed");
        return set_ipv6(out, inner, why);
    }
    const struct str host = str_until(authority, ':');
    *rest = str_from(authority, host.len);
    if (str_has(str_from(*rest, 1), ':'))
        return fail(why,
                    "more than one colon: an IPv6 address needs brackets, userinfo is refused");
    return set_name_or_ipv4(out, host, why);
}

bool target_parse(struct target *out, struct str authority, const char **why)
{
    struct str rest;
    if (!parse_host_part(out, authority, &rest, why))
        return false;
    if (rest.len == 0 || rest.p[0] != ':')
        return fail(why, "the port is missing");
    return parse_port(&out->port, str_from(rest, 1), why);
}

bool target_parse_default(struct target *out, struct str authority, uint16_t default_port,
                          const char **why)
{
    struct str rest;
    if (!parse_host_part(out, authority, &rest, why))
        return false;
    if (rest.len == 0 ||
        str_eq(rest, STR(":"))) { /* RFC 3986 6.2.3: an empty port is the default */
        out->port = default_port;
        return true;
    }
    if (rest.p[0] != ':')
        return fail(why, "only a port can follow the host");
    return parse_port(&out->port, str_from(rest, 1), why);
}

bool target_parse_host(struct target *out, struct str host, uint16_t port, const char **why)
{
    memset(out, 0, sizeof(*out));
    if (host.len == 0)
        return fail(why, "the host is missing");
    if (port == 0)
        return fail(why, "the port is not a number from 1 to 65535");
    out->port = port;
    if (host.p[0] == '[') {
        if (host.p[host.len - 1] != ']')
            return fail(why, "a bracket is not closed");
        return set_ipv6(out, (struct str){host.p + 1, host.len - 2}, why);
    }
    out->is_addr = addr_parse(&out->addr, host);
    return out->is_addr || set_name_or_ipv4(out, host, why);
}

const char *target_host(char out[NAME_MAX_LEN + 1], const struct target *target)
{
    if (target->is_addr)
        return addr_format(out, &target->addr);
    memcpy(out, target->name.text, (size_t)target->name.len + 1);
    return out;
}

const char *target_format(char out[TARGET_TEXT_MAX], const struct target *target)
{
    char host[NAME_MAX_LEN + 1], port[TEXT_NUMBER_MAX];
    const bool brackets = target->is_addr && target->addr.family == 6;
    text_number(port, target->port);
    TEXT_JOIN(out, TARGET_TEXT_MAX, brackets ? "[" : NULL, target_host(host, target),
              brackets ? "]:" : ":", port);
    return out;
}

bool target_eq(const struct target *a, const struct target *b)
{
    if (a->is_addr != b->is_addr || a->port != b->port)
        return false;
    return a->is_addr ? addr_eq(&a->addr, &b->addr) : name_eq(&a->name, &b->name);
}
