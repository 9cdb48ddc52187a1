/*
 * The end of descriptors that somebody else made and passed to us.
 *
 * close() of one may wait for whoever is behind it: a file system in a process of the sender's own
 * answers the flush when it likes, and a connection that lingers waits until its bytes are taken.
 * The sender has the same file and can make it such a one at any moment, so what is looked at first
 * says nothing: it is always a thread of its own that closes, and while too many of those wait,
 * none more should be taken in.
 *
 * Thread: any. Failure: without a thread the descriptor stays open, rather than that we wait.
 */
#ifndef TRANSPORT_FOREIGN_H
#define TRANSPORT_FOREIGN_H

#include <stdbool.h>

void foreign_close(int fd);
/* So many are being closed that descriptors should be left to the kernel to throw away. */
bool foreign_is_busy(void);

#endif
