#include "filters/guard.h"

#include <assert.h>

const char *addr_class_text(enum addr_class class)
{
    static const char *const texts[ADDR_CLASS_COUNT] = {
        [ADDR_PUBLIC] = "a public address",
        [ADDR_UNSPECIFIED] = "an unspecified address",
        [ADDR_LOOPBACK] = "a loopback address",
        [ADDR_LINK_LOCAL] = "a link-local address",
        [ADDR_MULTICAST] = "a multicast address",
        [ADDR_BROADCAST] = "the broadcast address",
        [ADDR_RESERVED] = "a reserved address",
        [ADDR_METADATA] = "a cloud metadata address",
        [ADDR_THIS_HOST] = "an address of the gateway's own machine",
        [ADDR_PRIVATE] = "a private address",
        [ADDR_DENIED] = "a denied address",
        [ADDR_OUTSIDE_TO] = "outside the addresses that the rule's to= allows",
        [ADDR_NOT_LOOPBACK] = "not a loopback address, although localhost names are loopback",
        [ADDR_OWN_LISTENER] = "the gateway itself",
        [ADDR_STAND_IN] = "an address that stood for a name which is not known here any more",
    };
    assert((unsigned)class < ADDR_CLASS_COUNT);
    return texts[class];
}

/*
 * The special-purpose address registries of IANA (RFC 6890, RFC 8190), the address spaces around
 * them, and where clouds keep credentials. The longest prefix that contains an address says what it
 * is. "Globally reachable: True" is ADDR_PUBLIC; everything else that has no better word is
 * RESERVED.
 */
struct special {
    uint8_t prefix[16];
    uint8_t len;
    enum addr_class class;
};

#define V4(a, b, c, d, len, class)      \
    {                                   \
        {a, b, c, d}, len, ADDR_##class \
    }

static const struct special v4_specials[] = {
    V4(0, 0, 0, 0, 0, PUBLIC),
    V4(0, 0, 0, 0, 8, UNSPECIFIED), /* RFC 791 3.2: this network; connect() takes it for here */
    V4(10, 0, 0, 0, 8, PRIVATE),    /* RFC 1918 */
    V4(100, 64, 0, 0, 10, PRIVATE), /* RFC 6598: shared, carrier-grade NAT */
    V4(100, 100, 100, 200, 32, METADATA), /* Alibaba Cloud */
    V4(127, 0, 0, 0, 8, LOOPBACK),        /* RFC 1122 3.2.1.3 */
    V4(168, 63, 129, 16, 32, METADATA),   /* Azure: wire server and resolver, a public address */
    V4(169, 254, 0, 0, 16, LINK_LOCAL),   /* RFC 3927 */
    V4(169, 254, 0, 23, 32, METADATA),    /* Tencent Cloud */
    V4(169, 254, 42, 42, 32, METADATA),   /* Scaleway */
    V4(169, 254, 169, 253, 32, METADATA), /* AWS: resolver of the VPC */
    V4(169, 254, 169, 254, 32,
       METADATA), /* AWS, Azure, DigitalOcean, GCP, Hetzner, OpenStack, Oracle */
    V4(169, 254, 170, 2, 32, METADATA),    /* AWS ECS: task credentials */
    V4(169, 254, 170, 23, 32, METADATA),   /* AWS EKS: pod identity */
    V4(172, 16, 0, 0, 12, PRIVATE),        /* RFC 1918 */
    V4(192, 0, 0, 0, 24, RESERVED),        /* RFC 6890 2.1: IETF protocol assignments */
    V4(192, 0, 0, 9, 32, PUBLIC),          /* RFC 7723: PCP anycast, globally reachable */
    V4(192, 0, 0, 10, 32, PUBLIC),         /* RFC 8155: TURN anycast, globally reachable */
    V4(192, 0, 0, 192, 32, METADATA),      /* Oracle Cloud */
    V4(192, 0, 2, 0, 24, RESERVED),        /* RFC 5737: TEST-NET-1 */
    V4(192, 31, 196, 0, 24, PUBLIC),       /* RFC 7535: AS112-v4 */
    V4(192, 52, 193, 0, 24, PUBLIC),       /* RFC 7450: AMT */
    V4(192, 88, 99, 0, 24, RESERVED),      /* RFC 7526: deprecated 6to4 relay anycast */
    V4(192, 168, 0, 0, 16, PRIVATE),       /* RFC 1918 */
    V4(192, 175, 48, 0, 24, PUBLIC),       /* RFC 7534: direct delegation AS112 */
    V4(198, 18, 0, 0, 15, RESERVED),       /* RFC 2544: benchmarking */
    V4(198, 51, 100, 0, 24, RESERVED),     /* RFC 5737: TEST-NET-2 */
    V4(203, 0, 113, 0, 24, RESERVED),      /* RFC 5737: TEST-NET-3 */
    V4(224, 0, 0, 0, 4, MULTICAST),        /* RFC 5771 */
    V4(240, 0, 0, 0, 4, RESERVED),         /* RFC 1112 4 */
    V4(255, 255, 255, 255, 32, BROADCAST), /* RFC 919 7 */
};

#define G(group) (group) >> 8, (group)&0xff
#define V6(a, b, c, d, e, f, g, h, len, class)                              \
    {                                                                       \
        {G(a), G(b), G(c), G(d), G(e), G(f), G(g), G(h)}, len, ADDR_##class \
    }

static const struct special v6_specials[] = {
    V6(0, 0, 0, 0, 0, 0, 0, 0, 0, RESERVED),      /* RFC 4291 2.4: all but 2000::/3 is unassigned */
    V6(0x2000, 0, 0, 0, 0, 0, 0, 0, 3, PUBLIC),   /* RFC 3587: global unicast */
    V6(0, 0, 0, 0, 0, 0, 0, 0, 128, UNSPECIFIED), /* RFC 4291 2.5.2 */
    V6(0, 0, 0, 0, 0, 0, 0, 1, 128, LOOPBACK),    /* RFC 4291 2.5.3 */
    V6(0, 0, 0, 0, 0, 0, 0, 0, 96, PUBLIC),       /* RFC 4291 2.5.5.1: compatible; by its IPv4 */
    V6(0, 0, 0, 0, 0xffff, 0, 0, 0, 96, PUBLIC),  /* RFC 2765: translated; by its IPv4 */
    V6(0x64, 0xff9b, 0, 0, 0, 0, 0, 0, 96, PUBLIC),    /* RFC 6052: NAT64; by its IPv4 */
    V6(0x64, 0xff9b, 1, 0, 0, 0, 0, 0, 48, RESERVED),  /* RFC 8215: NAT64 of some local network */
    V6(0x100, 0, 0, 0, 0, 0, 0, 0, 64, RESERVED),      /* RFC 6666: discard-only */
    V6(0x100, 0, 0, 1, 0, 0, 0, 0, 64, RESERVED),      /* RFC 9780: dummy prefix */
    V6(0x2001, 0, 0, 0, 0, 0, 0, 0, 23, RESERVED),     /* RFC 2928: IETF protocol assignments */
    V6(0x2001, 0, 0, 0, 0, 0, 0, 0, 32, PUBLIC),       /* RFC 4380: Teredo; by its client's IPv4 */
    V6(0x2001, 1, 0, 0, 0, 0, 0, 1, 128, PUBLIC),      /* RFC 7723: PCP anycast */
    V6(0x2001, 1, 0, 0, 0, 0, 0, 2, 128, PUBLIC),      /* RFC 8155: TURN anycast */
    V6(0x2001, 1, 0, 0, 0, 0, 0, 3, 128, PUBLIC),      /* RFC 9665: SRP anycast */
    V6(0x2001, 2, 0, 0, 0, 0, 0, 0, 48, RESERVED),     /* RFC 5180: benchmarking */
    V6(0x2001, 3, 0, 0, 0, 0, 0, 0, 32, PUBLIC),       /* RFC 7450: AMT */
    V6(0x2001, 4, 0x112, 0, 0, 0, 0, 0, 48, PUBLIC),   /* RFC 7535: AS112-v6 */
    V6(0x2001, 0x10, 0, 0, 0, 0, 0, 0, 28, RESERVED),  /* RFC 4843: deprecated ORCHID */
    V6(0x2001, 0x20, 0, 0, 0, 0, 0, 0, 28, PUBLIC),    /* RFC 7343: ORCHIDv2 */
    V6(0x2001, 0x30, 0, 0, 0, 0, 0, 0, 28, PUBLIC),    /* RFC 9374: DRIP entity tags */
    V6(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0, 32, RESERVED), /* RFC 3849: documentation */
    V6(0x2002, 0, 0, 0, 0, 0, 0, 0, 16, PUBLIC),       /* RFC 3056: 6to4; by its IPv4 */
    V6(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0, 48, PUBLIC),  /* RFC 7534: direct delegation AS112 */
    V6(0x3fff, 0, 0, 0, 0, 0, 0, 0, 20, RESERVED),        /* RFC 9637: documentation */
    V6(0x5f00, 0, 0, 0, 0, 0, 0, 0, 16, RESERVED),        /* RFC 9602: SRv6 segment identifiers */
    V6(0xfc00, 0, 0, 0, 0, 0, 0, 0, 7, PRIVATE),          /* RFC 4193: unique local */
    V6(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42, 128, METADATA), /* Scaleway */
    V6(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe, 128, METADATA), /* Oracle Cloud */
    V6(0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200, 128, METADATA),  /* Alibaba Cloud */
    V6(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0, 32, METADATA), /* AWS: IMDS, ECS, EKS, resolver, clock */
    V6(0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1, 128, METADATA), /* Akamai (Linode) */
    V6(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254, 128, METADATA),    /* GCP */
    V6(0xfe80, 0, 0, 0, 0, 0, 0, 0, 10, LINK_LOCAL),          /* RFC 4291 2.5.6 */
    V6(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe, 128, METADATA), /* OpenStack */
    V6(0xfec0, 0, 0, 0, 0, 0, 0, 0, 10,
       PRIVATE), /* RFC 3879: deprecated site-local, still routed */
    V6(0xff00, 0, 0, 0, 0, 0, 0, 0, 8, MULTICAST), /* RFC 4291 2.7 */
};

static bool within(const struct special *special, const struct addr *addr)
{
    unsigned whole = special->len / 8, rest = special->len % 8;
    if (memcmp(special->prefix, addr->bytes, whole) != 0)
        return false;
    return rest == 0 ||
           ((special->prefix[whole] ^ addr->bytes[whole]) & (0xff00u >> rest) & 0xff) == 0;
}

static enum addr_class registered_class(const struct addr *addr)
{
    const struct special *table = addr->family == 4 ? v4_specials : v6_specials, *best = table;
    size_t count = addr->family == 4 ? sizeof(v4_specials) / sizeof(v4_specials[0])
                                     : sizeof(v6_specials) / sizeof(v6_specials[0]);
    for (size_t i = 1; i < count; i++)
        if (table[i].len >= best->len && within(&table[i], addr))
            best = &table[i];
    return best->class;
}

enum addr_class addr_classify(const struct addr *addr)
{
    enum addr_class outer = registered_class(addr);
    struct addr inner;
    if (outer != ADDR_PUBLIC && outer != ADDR_PRIVATE)
        return outer;
    if (!addr_embedded_v4(addr, &inner))
        return outer;
    enum addr_class class = registered_class(&inner);
    return class == ADDR_PUBLIC ? outer : class;
}

static bool is_own(const struct guard_host *host, const struct addr *addr)
{
    for (size_t i = 0; i < host->own_addr_count; i++)
        if (addr_eq(&host->own_addrs[i], addr))
            return true;
    return false;
}

/* Whether a packet to `addr` stays on this machine. */
static bool is_here(const struct guard_host *host, const struct addr *addr)
{
    enum addr_class class = registered_class(addr);
    return class == ADDR_LOOPBACK || class == ADDR_UNSPECIFIED || is_own(host, addr);
}

static bool is_own_listener(const struct guard_host *host, const struct addr *addr, uint16_t port)
{
    for (size_t i = 0; i < host->own_listener_count; i++) {
        const struct config_address *listener = &host->own_listeners[i];
        if (listener->path != NULL || listener->port != port)
            continue;
        if (addr_eq(&listener->addr, addr))
            return true;
        /* A wildcard listener hears every local address (an IPv6 one IPv4 too), and a connection to
         * the unspecified address reaches whichever local listener there is. */
        if (registered_class(&listener->addr) == ADDR_UNSPECIFIED && is_here(host, addr))
            return true;
        if (registered_class(addr) == ADDR_UNSPECIFIED)
            return true;
    }
    return false;
}

bool guard_is_own_listener(const struct guard_host *host, const struct addr *addr, uint16_t port)
{
    struct addr inner;
    return is_own_listener(host, addr, port) ||
           (addr_embedded_v4(addr, &inner) && is_own_listener(host, &inner, port));
}

/* The built-in denials that a policy's settings leave standing. */
static enum addr_class class_for(const struct guard_host *host, const struct policy *policy,
                                 const struct addr *addr)
{
    struct addr inner;
    enum addr_class class = addr_classify(addr);
    if (class != ADDR_PUBLIC && class != ADDR_PRIVATE)
        return class;
    if (is_own(host, addr) || (addr_embedded_v4(addr, &inner) && is_own(host, &inner)))
        return ADDR_THIS_HOST;
    if (class == ADDR_PRIVATE && policy_private_allowed(policy))
        return ADDR_PUBLIC;
    return class;
}

/* Denials count for the address and for the IPv4 address that it carries, exceptions only for the
 * address as it stands: a translator between decides where the inner one leads. */
static struct address_rules rules_about(const struct ruling *ruling, const struct target *target,
                                        const struct addr *addr)
{
    struct address_rules found = policy_address_rules(ruling, target, addr);
    struct addr inner;
    if (addr_embedded_v4(addr, &inner)) {
        struct address_rules within_it = policy_address_rules(ruling, target, &inner);
        if (found.deny == NULL)
            found.deny = within_it.deny;
        if (found.report == NULL)
            found.report = within_it.report;
    }
    return found;
}

/* In a policy that only reports, no rule denies for good. */
static struct guard_verdict denial(const struct ruling *ruling, const struct address_rules *rules)
{
    if (rules->deny == NULL)
        return (struct guard_verdict){.report = rules->report};
    if (policy_reports(ruling->policy))
        return (struct guard_verdict){.report = rules->deny};
    return (struct guard_verdict){.class = ADDR_DENIED, .rule = rules->deny};
}

static bool names_localhost(const struct ruling *ruling)
{
    return ruling->allow != NULL && ruling->allow->host == RULE_NAME;
}

struct guard_verdict guard_check(const struct guard_host *host, const struct ruling *ruling,
                                 const struct target *target, const struct addr *addr)
{
    if (guard_is_own_listener(host, addr, target->port))
        return (struct guard_verdict){.class = ADDR_OWN_LISTENER};

    struct address_rules rules = rules_about(ruling, target, addr);
    struct guard_verdict verdict = denial(ruling, &rules);
    if (verdict.class != ADDR_PUBLIC)
        return verdict;

    const bool localhost = !target->is_addr && name_is_localhost(&target->name);
    if (localhost && registered_class(addr) != ADDR_LOOPBACK) {
        verdict.class = ADDR_NOT_LOOPBACK;
    } else if (ruling->allow != NULL && rule_has_to(ruling->allow)) {
        if (!rule_to_contains(ruling->allow, addr))
            verdict.class = ADDR_OUTSIDE_TO;
    } else if (localhost) {
        if (!names_localhost(ruling) && !rules.excepted)
            verdict.class = ADDR_LOOPBACK;
    } else if (!rules.excepted) {
        verdict.class = class_for(host, ruling->policy, addr);
    }
    return verdict;
}

struct guard_verdict guard_check_denials(const struct ruling *ruling, const struct target *target,
                                         const struct addr *addr)
{
    struct address_rules rules = rules_about(ruling, target, addr);
    return denial(ruling, &rules);
}
