/*
 * What went past the proxy: programs that know none look names up and connect by themselves, which
 * finds no way in a network of loopback alone. Nobody judges that, so nobody could tell of it; but
 * the kernel counts it, for each network namespace (/proc/net/snmp, RFC 4293 and RFC 4113).
 *
 * Thread: the launcher's only one; it waits for a short-lived child (inside.h). Failure: what
 * cannot be read is taken for nothing.
 */
#ifndef LAUNCHER_STRAYS_H
#define LAUNCHER_STRAYS_H

#include "launcher/inside.h"

enum strays {
    STRAYS_ROUTE = 1,    /* something found no route: a connection, or a datagram */
    STRAYS_DATAGRAM = 2, /* a datagram came to a port of loopback where nobody is */
};

/* A set of those. */
unsigned strays_seen(const struct inside *inside);

/* Pure, for strays_seen(): from the texts of snmp and snmp6; NULL is an empty one. */
unsigned strays_of(const char *snmp, const char *snmp6);

#endif
