/*
 * The processes whose place this one took (control/handover.h), as long as they still serve what
 * they had: what they are told and asked, and what they tell.
 *
 * One that does not listen is cut off, which ends its sandboxes there. Ownership: the gateway's.
 * Thread: control loop.
 */
#ifndef CONTROL_PREDECESSORS_H
#define CONTROL_PREDECESSORS_H

#include "control/channel.h"
#include "control/gateway.h"

struct predecessors;

struct predecessors *predecessors_create(struct gateway *gateway);
/* Whoever asked is answered with NULL. NULL is allowed. */
void predecessors_free(struct predecessors *predecessors);

/* Takes the channel over, and hears it from now on. */
void predecessors_add(struct predecessors *predecessors, struct channel *channel);
/* The newest one, who says that it serves no more: `retired` runs then, or when it has ended. */
void predecessors_succeed(struct predecessors *predecessors, struct channel *channel,
                          void (*retired)(void *arg), void *arg);
size_t predecessors_count(const struct predecessors *predecessors); /* NULL: none */

/* To a process that takes our place: their channels. False: it does not take them. */
bool predecessors_send(const struct predecessors *predecessors, struct channel *successor);
/* They are another process's now. */
void predecessors_hand_on(struct predecessors *predecessors);

/* ---- NULL is allowed for all of these: there are none ---- */

/* `reload` or `reopen`. */
void predecessors_tell(struct predecessors *predecessors, const char *what);
void predecessors_detach(struct predecessors *predecessors, const char *sandbox);

struct predecessors_question {
    const char *type;         /* `update`, `tunnels`, `cut` */
    const char *sandbox, *id; /* or NULL */
    const char *parcel;       /* or NULL */
};
/* `answer` runs once for each that was asked: with what it said, or with NULL when it has ended.
 * Returns how many that will be. */
typedef void predecessors_answer_fn(void *arg, struct channel_message *message);
unsigned predecessors_ask(struct predecessors *predecessors,
                          const struct predecessors_question *question,
                          predecessors_answer_fn *answer, void *arg);

#endif
