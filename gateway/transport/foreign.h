/*
 * Descriptors that somebody else made and passed to us, and may have still.
 *
 * close() of one may wait for whoever is behind it: a file system in a process of the sender's own
 * answers the flush when it likes, and a connection that lingers waits until its bytes are taken.
 * The sender has the same file and can make it such a one at any moment, so what is looked at first
 * says nothing. And a socket has a lock, which the sender can have the kernel hold for as long as
 * it likes: by an option whose value lies in memory that a process of its own provides, or a
 * datagram that finds no room. Who accepts, sends, sets an option or asks for its address waits for
 * that lock, uninterruptibly, whatever flags say that nothing should wait; who looks what kind of
 * socket it is, polls it, or receives datagrams takes no lock.
 *
 * So what may wait is done by threads of their own. One makes call after call; when one takes long,
 * another goes on with the rest, so that everybody else waits a few milliseconds and whoever makes
 * us wait has a thread. While too many of those wait, nothing more should be taken in. Nor may the
 * kernel be left to throw descriptors away: it does so on the thread that reads, or that closes the
 * connection which they wait in.
 *
 * Thread: any. Failure: without a thread things stay undone, rather than that we wait.
 */
#ifndef TRANSPORT_FOREIGN_H
#define TRANSPORT_FOREIGN_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Something that may wait. The caller's until foreign_do(), and again from `done` or `drop` on. */
struct foreign_task {
    void (*run)(struct foreign_task *task);
    /* Behind it, on the same thread, where it must not wait; NULL: `drop` instead. */
    void (*done)(struct foreign_task *task);
    void (*drop)(struct foreign_task *task); /* nobody waits for it any more */
    /* transport/foreign.c's */
    STAILQ_ENTRY(foreign_task) link;
    bool forgotten, counted;
};

void foreign_do(struct foreign_task *task);
/* If it has not begun it will not, and it is dropped where it would have been done. To be called
 * before what `done` has told of is looked at, if at all. */
void foreign_forget(struct foreign_task *task);

/* Every `done` that has begun is over: what it uses may end. */
void foreign_settle(void);

void foreign_close(int fd);
/* Ends a Unix connection, for everybody who has it, and with it what was passed and not read. */
void foreign_hang_up(int fd);
/* Of a connection that was accepted from somebody else's Unix listener: nothing can be passed on it
 * from here on, where the kernel can say so (Linux 6.16). False: something was passed before, and
 * it has ended. `room` is written to. */
bool foreign_accepted(int fd, char *room, size_t size);
/* So many are being closed, or waited for, that what brings more should not be read, and nobody be
 * let in. */
bool foreign_is_busy(void);
/* recvmsg(), which does not wait. EBUSY: what comes brings descriptors, and is left where it is
 * while so many others are being closed. */
ssize_t foreign_receive(int fd, struct msghdr *header);

#endif
