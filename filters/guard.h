/*
 * Which addresses may be dialled: the built-in classes and a policy's exceptions
 * (docs/addresses.md).
 *
 * The class table follows IANA's special-purpose registries (RFC 6890 and successors); IPv4 inside
 * IPv6 is judged by the IPv4. Explicit denials beat exceptions, exceptions beat built-in classes;
 * own listeners are never reachable. Thread: any; everything read is constant or owned by the
 * caller.
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
    ADDR_DENIED,       /* by a rule or deny-addresses */
    ADDR_OUTSIDE_TO,   /* a rule's to= leaves it out */
    ADDR_NOT_LOOPBACK, /* of a localhost name */
    ADDR_OWN_LISTENER,
    ADDR_STAND_IN, /* for a name, of a sandbox's own resolver */
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

/* One of our own listeners, which nothing may be connected to. */
bool guard_is_own_listener(const struct guard_host *host, const struct addr *addr, uint16_t port);

/* What was found out about one address. */
struct guard_verdict {
    enum addr_class class;     /* ADDR_PUBLIC: it may be dialled; otherwise why not */
    const struct rule *rule;   /* that denied it, if one did */
    const struct rule *report; /* a rule that would have denied it, but only reports */
};

/* May `addr` be dialled for `ruling` (one that lets pass), given that `target` is or resolves to
 * it? */
struct guard_verdict guard_check(const struct guard_host *host, const struct ruling *ruling,
                                 const struct target *target, const struct addr *addr);

/* The part of it that a sandbox's settings keep when the gateway's policy vets as well: the
 * settings can deny more addresses, but need not repeat the gateway's exceptions. */
struct guard_verdict guard_check_denials(const struct ruling *ruling, const struct target *target,
                                         const struct addr *addr);

#endif
