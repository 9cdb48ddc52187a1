/*
 * What glibc's <sys/queue.h> lacks of BSD's queue(3): loops whose body may remove and free the item
 * at hand, and no other. `next` is a variable of the caller's, of the item's pointer type.
 */
#ifndef SRT_QUEUE_H
#define SRT_QUEUE_H

#include <stdbool.h>
#include <sys/queue.h>

#ifndef LIST_FOREACH_SAFE
#define LIST_FOREACH_SAFE(item, head, field, next)                                             \
    for ((item) = LIST_FIRST(head); (item) != NULL && ((next) = LIST_NEXT(item, field), true); \
         (item) = (next))
#endif

#ifndef TAILQ_FOREACH_SAFE
#define TAILQ_FOREACH_SAFE(item, head, field, next)                                              \
    for ((item) = TAILQ_FIRST(head); (item) != NULL && ((next) = TAILQ_NEXT(item, field), true); \
         (item) = (next))
#endif

#endif
