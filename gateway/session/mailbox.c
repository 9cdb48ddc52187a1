#include "session/mailbox.h"

static void deliver_all(struct mailbox *mailbox, void *owner)
{
    STAILQ_HEAD(, mail) mails = STAILQ_HEAD_INITIALIZER(mails);
    pthread_mutex_lock(&mailbox->lock);
    STAILQ_CONCAT(&mails, &mailbox->mails);
    pthread_mutex_unlock(&mailbox->lock);
    while (!STAILQ_EMPTY(&mails)) {
        struct mail *mail = STAILQ_FIRST(&mails);
        STAILQ_REMOVE_HEAD(&mails, link);
        mail->deliver(mail, owner);
    }
}

static void on_wake(struct ev_loop *loop, ev_async *wake, int revents)
{
    (void)loop, (void)revents;
    struct mailbox *mailbox = wake->data;
    deliver_all(mailbox, mailbox->owner);
}

void mailbox_init(struct mailbox *mailbox, struct ev_loop *loop, void *owner)
{
    mailbox->loop = loop;
    mailbox->owner = owner;
    pthread_mutex_init(&mailbox->lock, NULL);
    STAILQ_INIT(&mailbox->mails);
    ev_async_init(&mailbox->wake, on_wake);
    mailbox->wake.data = mailbox;
    ev_async_start(loop, &mailbox->wake);
}

void mailbox_post(struct mailbox *mailbox, struct mail *mail)
{
    pthread_mutex_lock(&mailbox->lock);
    STAILQ_INSERT_TAIL(&mailbox->mails, mail, link);
    pthread_mutex_unlock(&mailbox->lock);
    ev_async_send(mailbox->loop, &mailbox->wake);
}

void mailbox_deliver(struct mailbox *mailbox)
{
    deliver_all(mailbox, mailbox->owner);
}

void mailbox_end(struct mailbox *mailbox)
{
    ev_async_stop(mailbox->loop, &mailbox->wake);
    deliver_all(mailbox, NULL);
    pthread_mutex_destroy(&mailbox->lock);
}
