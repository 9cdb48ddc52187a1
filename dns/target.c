#include "dns/target.h"

#include "srt/text.h"

enum { PORT_MAX = 65535 };

static bool fail(const char **why, const char *phrase)
{
    if (why != NULL)
        *why = phrase;
    return false;
}

static bool parse_port(uint16_t *out, struct str digits, const char **why)
{
    unsigned value = 0;
    if (digits.len == 0)
        return fail(why, "the port is missing");
    if (digits.len > 5 || digits.p[0] == '0')
        return fail(why, "the port is not a number from 1 to 65535");
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.p[i] < '0' || digits.p[i] > '9')
            return fail(why, "the port is not a number from 1 to 65535");
        value = 10 * value + (unsigned)(digits.p[i] - '0');
    }
    if (value > PORT_MAX)
        return fail(why, "the port is not a number from 1 to 65535");
    *out = (uint16_t)value;
    return true;
}

static bool has_colon(struct str text)
{
    return text.len > 0 && memchr(text.p, ':', text.len) != NULL;
}

/* What stands between brackets: IPv6 and nothing else. */
static bool set_ipv6(struct target *out, struct str inner, const char **why)
{
    if (!has_colon(inner) || !addr_parse(&out->addr, inner))
        return fail(why, "only an IPv6 address can stand in brackets");
    out->is_addr = true;
    return true;
}

static bool set_name_or_ipv4(struct target *out, struct str host, const char **why)
{
    if (!has_colon(host) && addr_parse(&out->addr, host)) {
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
        const char *end = memchr(authority.p, ']', authority.len);
        if (end == NULL)
            return fail(why, "a bracket is not closed");
        size_t inner_len = (size_t)(end - authority.p) - 1;
        *rest = str_from(authority, inner_len + 2);
        return set_ipv6(out, (struct str){authority.p + 1, inner_len}, why);
    }
    const char *colon = memchr(authority.p, ':', authority.len);
    size_t host_len = colon != NULL ? (size_t)(colon - authority.p) : authority.len;
    *rest = str_from(authority, host_len);
    if (has_colon(str_from(*rest, 1)))
        return fail(why,
                    "more than one colon: an IPv6 address needs brackets, userinfo is refused");
    return set_name_or_ipv4(out, (struct str){authority.p, host_len}, why);
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
    if (has_colon(host))
        return set_ipv6(out, host, why);
    return set_name_or_ipv4(out, host, why);
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
