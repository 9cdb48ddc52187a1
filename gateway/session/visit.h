/*
 * What may wait at a socket that a launcher brought (transport/foreign.h), on a thread that may.
 *
 * A worker looks whether there is something to do at such a socket, and receives datagrams; what
 * takes the socket's lock is done by a visit, one for a door at a time, while the door is not
 * watched. So who makes us wait has its own clients wait, and nobody else's.
 *
 * Ownership: a visit is its door's from visit_begin() until it is back, and then frees itself. A
 * door that is closed forgets it. Thread: the worker's, but for `act`.
 */
#ifndef SESSION_VISIT_H
#define SESSION_VISIT_H

#include "dns/query.h"
#include "session/core.h"
#include "transport/foreign.h"

#include <sys/queue.h>
#include <sys/socket.h>

enum { GUESTS_MAX = 16 }; /* before others get their turn */

struct guest {
    int fd;
    struct sockaddr_storage peer;
};

/* Connections that were accepted in one turn. */
struct guests {
    struct guest list[GUESTS_MAX];
    size_t count;
    int error; /* that ended it; 0: there are no more for now, or it was a whole turn */
};

void guests_accept(struct guests *guests, int listener);

/* An answer to a datagram. */
struct reply {
    STAILQ_ENTRY(reply) link;
    struct sockaddr_in6 peer; /* or what is shorter */
    socklen_t peer_len;
    /* From which address (ip(7), ipv6(7)). */
    _Alignas(struct cmsghdr) char from[CMSG_SPACE(sizeof(struct in6_pktinfo))];
    size_t from_len, len;
    uint8_t bytes[];
};
STAILQ_HEAD(replies, reply);

struct visit {
    struct foreign_task task;
    struct mail mail;
    struct door *door; /* NULL: nobody waits for it */
    struct mailbox *home;
    struct listener *listener; /* a count */
    void (*act)(struct visit *visit);
    void (*back)(struct visit *visit); /* then, on the worker; NULL: nothing is to be done */
    bool failed;
    struct guests *guests; /* or NULL */
    struct replies replies;
};

/* To be filled and sent. */
struct visit *visit_create(struct door *door, void (*act)(struct visit *));
/* The door is not watched until it is back. */
void visit_begin(struct visit *visit);
/* Nobody waits for it from the beginning. */
void visit_begin_alone(struct visit *visit);
void visit_forget(struct visit *visit);

#endif
