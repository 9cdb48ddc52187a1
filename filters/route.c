#include "filters/route.h"

/* Without brackets and port: one colon ends a name or an IPv4 address, more are IPv6. */
static struct str host_part(struct str entry)
{
    if (entry.p[0] == '[' && str_has(entry, ']'))
        return str_until(str_from(entry, 1), ']');
    struct str rest = entry;
    const struct str host = str_take_until(&rest, ':');
    return str_has(rest, ':') ? entry : host;
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
    while (str_next_word(&no_proxy, STR(", \t"), &entry))
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
