/*
 * The end of descriptors that somebody else made and passed to us.
 *
 * close() of one may wait for whoever is behind it: a file system in a process of the sender's own
 * answers the flush when it likes. So what is not known to close at once is closed on a thread of
 * its own, and while too many of those wait, none more should be taken in.
 *
 * Thread: any. Failure: without a thread the descriptor stays open, rather than that we wait.
 */
#ifndef CONTROL_FOREIGN_H
#define CONTROL_FOREIGN_H

#include <stdbool.h>

void foreign_close(int fd);
/* So many are being closed that descriptors should be left to the kernel to throw away. */
bool foreign_is_busy(void);

#endif
