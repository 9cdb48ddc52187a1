/*
 * Which addresses may be dialled: the built-in classes and a policy's exceptions (docs/addresses.md).
 *
 * The class table follows IANA's special-purpose registries (RFC 6890 and successors); IPv4 inside
 * IPv6 is judged by the IPv4. Explicit denials beat exceptions, exceptions beat built-in classes;
 * own listeners are never reachable. Thread: any; everything read is constant or owned by the caller.
 */
#ifndef FILTERS_GUARD_H
#define FILTERS_GUARD_H

#include "filters/policy.h"

enum addr_class {
    ADDR_PUBLIC = 0,
    ADDR_UNSPECIFIED,
    ADDR_LOOPBACK,
    ADDR_LINK_LOCAL,
    ADDR_MULTICAST,
    ADDR_BROADCAST,
    ADDR_RESERVED,
    ADDR_METADATA,
    ADDR_THIS_HOST,
    ADDR_PRIVATE,
    ADDR_DENIED,   /* by a rule or deny-addresses */
    ADDR_OUTSIDE_TO, /* a rule's to= leaves it out */
    ADDR_OWN_LISTENER,
    ADDR_CLASS_COUNT
};

const char *addr_class_text(enum addr_class class); /* "a cloud metadata address" */

/* The class by the registries alone. */
enum addr_class addr_classify(const struct addr *addr);

/* What the machine is, kept current by its owner; an immutable copy is passed to each call. */
struct guard_host {
    const struct addr *own_addrs; /* of this machine's interfaces */
    size_t own_addr_count;
    const struct config_address *own_listeners; /* TCP ones, with real ports */
    size_t own_listener_count;
};

/* ADDR_PUBLIC when `addr` may be dialled for `ruling` (an allow), otherwise why not. `rule` gets the
 * rule that denied it, if one did. */
enum addr_class guard_check(const struct guard_host *host, const struct ruling *ruling,
                            const struct target *target, const struct addr *addr,
                            const struct rule **rule);

#endif
