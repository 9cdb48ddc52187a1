/*
 * Watching files that another process has, too, or will have: a listener that is handed on, a
 * launcher's connection, a channel.
 *
 * libev leaves to close() to take a file out of its epoll instance. That does not while another
 * process has the file open: epoll goes on telling of it by the number that it had here (epoll(7),
 * questions and answers), which another thread may have by then, and libev asks to have that
 * removed and makes its instance anew. So such files are watched by an instance of our own, out of
 * which each is taken when it is no longer watched.
 *
 * Ownership: the gateway's; watches are their owners'. Thread: control loop. Failure: what cannot
 * be watched ends the process, as memory that cannot be had.
 */
#ifndef CONTROL_APART_H
#define CONTROL_APART_H

struct apart;
struct ev_loop;

struct apart *apart_create(struct ev_loop *loop);
void apart_free(struct apart *apart); /* NULL is allowed */

struct apart_watch {
    int fd;
    int events; /* of libev: EV_READ, EV_WRITE; 0: it is not watched */
    void (*heard)(struct apart_watch *watch, int events); /* may end it */
    void *data;
};

/* 0, before the file is closed: no more. */
void apart_set(struct apart *apart, struct apart_watch *watch, int events);

#endif
