/*
 * The questions of one worker to a module in another process: who asks, which wait and which are
 * asked, and whose turn it is.
 *
 * Those of one sandbox, or one client, stand in line behind each other and not before anybody
 * else's: the askers take turns. And nobody takes all the room, neither to wait nor among what is
 * asked: whoever has as much as is left to all others gets no more, so that who comes finds some.
 *
 * Ownership: the queue owns its questions. Thread: one. Failure: none but that of memory.
 */
#ifndef FILTERS_REMOTE_QUEUE_H
#define FILTERS_REMOTE_QUEUE_H

#include "srt/filter.h"

#include <stdbool.h>
#include <sys/queue.h>

enum question_state {
    QUESTION_WAITS, /* for a connection, or for room among those that are asked */
    QUESTION_ASKED,
    QUESTION_ORPHAN, /* asked, and nobody waits for the answer: it takes up room until its time */
};

struct asker;

struct question {
    TAILQ_ENTRY(question) order; /* of `waiting` or `asked`: oldest first */
    TAILQ_ENTRY(question) line;  /* of its asker, while it waits */
    LIST_ENTRY(question) by_id, by_ticket;
    struct asker *asker;
    enum question_state state;
    uint64_t id;
    struct srt_filter_ticket ticket;
    char *object; /* what is asked, of `fields`: all until the module has said which it wants */
    unsigned fields;
    char *record;
    uint64_t timeout_ms;
    int64_t since_ms, request_ms; /* now, and as the gateway's loop had it */
    bool probe;
};

TAILQ_HEAD(question_list, question);

enum { QUESTION_BUCKETS = 1024, QUESTION_BYTES_MAX = 16 * 1024 * 1024 };

struct remote_queue {
    uint64_t asked_max, waiting_max;
    struct question_list waiting, asked;
    size_t waiting_count, asked_count;
    size_t held; /* bytes of all objects, QUESTION_BYTES_MAX at most */
    void *askers;
    TAILQ_HEAD(, asker) turns; /* who has questions that wait; whose turn is next in front */
    LIST_HEAD(, question) by_id[QUESTION_BUCKETS], by_ticket[QUESTION_BUCKETS];
    uint64_t last_id;
};

void remote_queue_init(struct remote_queue *queue, uint64_t asked_max, uint64_t waiting_max);

/* For one more question of whoever asks, with so many bytes. */
bool remote_queue_has_room(const struct remote_queue *queue,
                           const struct srt_filter_request *request, size_t bytes);
/* It waits. Takes `object`. */
struct question *remote_queue_add(struct remote_queue *queue,
                                  const struct srt_filter_request *request,
                                  const struct srt_filter_ticket *ticket, char *object,
                                  unsigned fields);
/* The one that is to be asked now; NULL: none waits, or there is no room for who does. */
struct question *remote_queue_next(const struct remote_queue *queue);
void remote_queue_set_asked(struct remote_queue *queue, struct question *question);
/* Another object in the place of its own. Takes `object`. */
void remote_queue_rewrite(struct remote_queue *queue, struct question *question, char *object,
                          unsigned fields);
void remote_queue_remove(struct remote_queue *queue, struct question *question); /* frees it */

struct question *remote_queue_find_id(const struct remote_queue *queue, uint64_t id);
struct question *remote_queue_find_ticket(const struct remote_queue *queue,
                                          const struct srt_filter_ticket *ticket);

#endif
