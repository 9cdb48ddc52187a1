/*
 * The end of descriptors that somebody else made and passed to us.
 *
 * close() of one may wait for whoever is behind it: a file system in a process of the sender's own
 * answers the flush when it likes, and a connection that lingers waits until its bytes are taken.
 * The sender has the same file and can make it such a one at any moment, so what is looked at first
 * says nothing: it is always a thread of its own that closes, and while too many of those wait,
 * none more should be taken in. Nor may the kernel be left to throw them away: it does so on the
 * thread that reads, or that closes the connection which they wait in.
 *
 * Thread: any. Failure: without a thread the descriptor stays open, rather than that we wait.
 */
#ifndef TRANSPORT_FOREIGN_H
#define TRANSPORT_FOREIGN_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

void foreign_close(int fd);
/* Ends a Unix connection, for everybody who has it, and with it what was passed and not read. */
void foreign_hang_up(int fd);
/* Of a connection that was accepted from somebody else's Unix listener: nothing can be passed on it
 * from here on, where the kernel can say so (Linux 6.16). False: something was passed before, and
 * it has ended. `room` is written to. */
bool foreign_accepted(int fd, char *room, size_t size);
/* So many are being closed that what brings more should not be read, and nobody be let in. */
bool foreign_is_busy(void);
/* recvmsg(), which does not wait. EBUSY: what comes brings descriptors, and is left where it is
 * while so many others are being closed. */
ssize_t foreign_receive(int fd, struct msghdr *header);

#endif
