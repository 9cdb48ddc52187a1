/*
 * Whether a Unix socket takes datagrams. The sandbox gets datagram sockets, and with them a warden
 * that looks at every message that may name its receiver, only where one of the sockets that the
 * settings name needs it.
 *
 * Thread: any. Failure: none; what cannot be connected to takes nothing.
 */
#ifndef LAUNCHER_DATAGRAMS_H
#define LAUNCHER_DATAGRAMS_H

#include <stdbool.h>

/* `path` is such a socket, or a directory that has one directly in it. */
bool datagrams_at(const char *path);

#endif
