#include "filters/route.h"

static bool is_separator(char c)
{
    return c == ',' || c == ' ' || c == '\t';
}

static bool next_entry(struct str *rest, struct str *entry)
{
    size_t len = 0;
    while (rest->len > 0 && is_separator(rest->p[0]))
        *rest = str_from(*rest, 1);
    while (len < rest->len && !is_separator(rest->p[len]))
        len++;
    *entry = (struct str){rest->p, len};
    *rest = str_from(*rest, len);
    return len > 0;
}

/* Without brackets and port: one colon ends a name or an IPv4 address, more are IPv6. */
static struct str host_part(struct str entry)
{
    const char *close = entry.p[0] == '[' ? memchr(entry.p, ']', entry.len) : NULL;
    if (close != NULL)
        return (struct str){entry.p + 1, (size_t)(close - entry.p) - 1};
    const char *colon = memchr(entry.p, ':', entry.len);
    if (colon == NULL || colon != memrchr(entry.p, ':', entry.len))
        return entry;
    return (struct str){entry.p, (size_t)(colon - entry.p)};
}

static bool covers_name(struct str entry, const struct name *name)
{
    if (str_starts(entry, STR("*.")))
        entry = str_from(entry, 2);
    else if (str_starts(entry, STR(".")))
        entry = str_from(entry, 1);
    if (entry.len > 0 && entry.p[entry.len - 1] == '.')
        entry.len--;
    if (entry.len == 0 || entry.len > name->len)
        return false;
    const size_t at = (size_t)name->len - entry.len;
    return str_ieq(entry, (struct str){name->text + at, entry.len}) &&
           (at == 0 || name->text[at - 1] == '.');
}

static bool covers(struct str entry, const struct target *target)
{
    struct cidr range;
    if (str_eq(entry, STR("*")))
        return true;
    entry = host_part(entry);
    if (!target->is_addr)
        return covers_name(entry, &target->name);
    return cidr_parse(&range, entry) && cidr_contains(&range, &target->addr);
}

bool route_is_excepted(struct str no_proxy, const struct target *target)
{
    struct str entry;
    while (next_entry(&no_proxy, &entry))
        if (covers(entry, target))
            return true;
    return false;
}

/* What is called so on another machine is not what was allowed. */
static bool stays_here(const struct target *target)
{
    return target->is_addr ? addr_classify(&target->addr) == ADDR_LOOPBACK
                           : name_is_localhost(&target->name);
}

static const struct config_upstream *of_parent(const struct policy_parent *parent, enum front front,
                                               const struct target *target)
{
    const bool plain = front == FRONT_HTTP;
    if (plain ? !parent->has_http : !parent->has_https)
        return NULL;
    if (parent->no_proxy != NULL && route_is_excepted(str_of(parent->no_proxy), target))
        return NULL;
    return plain ? &parent->http : &parent->https;
}

const struct config_upstream *route_choose(const struct decision *decision,
                                           const struct target *target)
{
    const struct ruling *ruling = &decision->ruling;
    const struct rule_extra *extra = ruling->allow != NULL ? rule_extra(ruling->allow) : NULL;
    if (ruling->policy == NULL || stays_here(target))
        return NULL;
    if (extra != NULL && extra->via != NULL)
        return extra->upstream;
    const struct policy_parent *parent = policy_parent(ruling->policy);
    if (parent != NULL)
        return of_parent(parent, ruling->front, target);
    return policy_upstream(ruling->policy);
}
