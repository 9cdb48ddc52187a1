/*
 * How one thread tells another's loop to do something: a locked queue and an ev_async.
 *
 * For control messages only; nothing on the data path goes through here. Ownership: a mail belongs
 * to the mailbox from mailbox_post() until `deliver` is called with it on the loop's thread, which
 * then owns it. Thread: mailbox_post() from any thread, the rest on the loop's or while no thread
 * runs it.
 */
#ifndef SESSION_MAILBOX_H
#define SESSION_MAILBOX_H

#include <ev.h>
#include <pthread.h>
#include <sys/queue.h>

struct mail {
    STAILQ_ENTRY(mail) link;
    /* `owner` is the mailbox's, NULL when it is being thrown away: then only free. */
    void (*deliver)(struct mail *mail, void *owner);
};

struct mailbox {
    struct ev_loop *loop;
    void *owner;
    ev_async wake;
    pthread_mutex_t lock;
    STAILQ_HEAD(, mail) mails;
};

void mailbox_init(struct mailbox *mailbox, struct ev_loop *loop, void *owner);
void mailbox_post(struct mailbox *mailbox, struct mail *mail);
/* What has come is delivered now, where the loop would do so in its next turn. */
void mailbox_deliver(struct mailbox *mailbox);
/* Throws away what was not delivered. */
void mailbox_end(struct mailbox *mailbox);

#endif
