/*
 * Sockets of callers, and the addresses they name: what connect(), bind() and the calls that send
 * (sends.c) have in common.
 *
 * Process: the warden. Failure: a negative errno.
 */
#ifndef LAUNCHER_WARDEN_SOCKETS_H
#define LAUNCHER_WARDEN_SOCKETS_H

#include "launcher/warden/call.h"

#include <sys/socket.h>
#include <sys/un.h>

union socket_address {
    struct sockaddr any;
    struct sockaddr_un un;
    struct sockaddr_storage storage;
};

int socket_option(int sock, int name); /* of SOL_SOCKET; -1 = no socket */

/* Whether a socket at this path may be connected to: the settings name it, or it is of the private
 * memory directory, which holds none of the host's. A link that the command may change does not
 * count for where a name leads. */
bool socket_is_named(const struct ward *ward, const char *path);
/* Whether there may be such names in a directory. */
bool socket_names_below(const struct ward *ward, const char *dir);

int socket_read_address(struct call *call, uint64_t address, uint64_t len,
                        union socket_address *out);
/* Makes an address of a Unix socket by path the one that was judged: `*held` keeps it, and its name
 * below our own descriptors, relative to the host's /proc, is what is used. Nothing is done to
 * other addresses. -EPERM: it is not allowed, and has been reported. */
int socket_aim(struct call *call, const char *operation, union socket_address *address,
               socklen_t *len, int *held);
/* Nobody has the name of this network namespace that was asked for, though somebody outside might.
 */
void socket_report_abstract(struct call *call, const char *operation,
                            const union socket_address *to, socklen_t len);

#endif
