#include "filters/remote_queue.h"

#include "filters/builtin.h"
#include "srt/clock.h"
#include "srt/must.h"

#include <search.h>

/* Whose questions they are: a sandbox's, a client's, or, without a name, those of whoever a
 * listener lets in. It is there as long as there is a question of its. */
struct asker {
    bool sandbox;
    struct str name;
    size_t waiting, asked, held;
    struct question_list line;
    TAILQ_ENTRY(asker) turn;
};

/* ---- askers ---- */

static int compare_askers(const void *a, const void *b)
{
    const struct asker *left = a, *right = b;
    if (left->sandbox != right->sandbox)
        return left->sandbox ? 1 : -1;
    if (left->name.len != right->name.len)
        return left->name.len < right->name.len ? -1 : 1;
    return left->name.len > 0 ? memcmp(left->name.p, right->name.p, left->name.len) : 0;
}

static struct asker who_asks(const struct srt_filter_request *request)
{
    const bool sandbox = request->sandbox.p != NULL;
    return (struct asker){.sandbox = sandbox,
                          .name = builtin_str(sandbox ? request->sandbox : request->client)};
}

static struct asker *enter(struct remote_queue *queue, const struct srt_filter_request *request)
{
    const struct asker who = who_asks(request);
    struct asker *const *found = tfind(&who, &queue->askers, compare_askers);
    if (found != NULL)
        return *found;
    struct asker *asker = must(malloc(sizeof(*asker)));
    *asker = who;
    char *name = must_calloc(who.name.len, 1);
    if (who.name.len > 0)
        memcpy(name, who.name.p, who.name.len);
    asker->name.p = name;
    TAILQ_INIT(&asker->line);
    must(tsearch(asker, &queue->askers, compare_askers));
    return asker;
}

static void leave(struct remote_queue *queue, struct asker *asker)
{
    if (asker->waiting > 0 || asker->asked > 0)
        return;
    tdelete(asker, &queue->askers, compare_askers);
    free((char *)(uintptr_t)asker->name.p);
    free(asker);
}

/* ---- room ---- */

/* However many have as much as they may, somebody who has nothing yet finds room. */
static bool is_left(uint64_t own, uint64_t all, uint64_t most)
{
    return all < most && own < most - all;
}

bool remote_queue_has_room(const struct remote_queue *queue,
                           const struct srt_filter_request *request, size_t bytes)
{
    const struct asker who = who_asks(request), nobody = {0};
    struct asker *const *found = tfind(&who, &queue->askers, compare_askers);
    const struct asker *asker = found != NULL ? *found : &nobody;
    return is_left(asker->asked + asker->waiting, queue->asked_count + queue->waiting_count,
                   queue->asked_max + queue->waiting_max) &&
           is_left(asker->held + bytes, queue->held, QUESTION_BYTES_MAX);
}

/* ---- questions ---- */

void remote_queue_init(struct remote_queue *queue, uint64_t asked_max, uint64_t waiting_max)
{
    *queue = (struct remote_queue){.asked_max = asked_max, .waiting_max = waiting_max};
    TAILQ_INIT(&queue->waiting);
    TAILQ_INIT(&queue->asked);
    TAILQ_INIT(&queue->turns);
}

static void count_bytes(struct remote_queue *queue, const struct question *question, bool more)
{
    const size_t bytes = strlen(question->object);
    queue->held = more ? queue->held + bytes : queue->held - bytes;
    question->asker->held = more ? question->asker->held + bytes : question->asker->held - bytes;
}

static void stand_in_line(struct remote_queue *queue, struct question *question)
{
    struct asker *asker = question->asker;
    TAILQ_INSERT_TAIL(&queue->waiting, question, order);
    TAILQ_INSERT_TAIL(&asker->line, question, line);
    queue->waiting_count++;
    if (asker->waiting++ == 0)
        TAILQ_INSERT_TAIL(&queue->turns, asker, turn);
}

static void leave_line(struct remote_queue *queue, struct question *question)
{
    struct asker *asker = question->asker;
    TAILQ_REMOVE(&queue->waiting, question, order);
    TAILQ_REMOVE(&asker->line, question, line);
    queue->waiting_count--;
    if (--asker->waiting == 0)
        TAILQ_REMOVE(&queue->turns, asker, turn);
}

struct question *remote_queue_add(struct remote_queue *queue,
                                  const struct srt_filter_request *request,
                                  const struct srt_filter_ticket *ticket, char *object,
                                  unsigned fields)
{
    struct question *question = must_calloc(1, sizeof(*question));
    *question = (struct question){.asker = enter(queue, request),
                                  .id = ++queue->last_id,
                                  .ticket = *ticket,
                                  .object = object,
                                  .fields = fields,
                                  .record = must(strndup(request->id.p, request->id.len)),
                                  .timeout_ms = request->timeout_ms,
                                  .since_ms = clock_ms(),
                                  .request_ms = request->now_ms};
    count_bytes(queue, question, true);
    stand_in_line(queue, question);
    LIST_INSERT_HEAD(&queue->by_id[question->id % QUESTION_BUCKETS], question, by_id);
    LIST_INSERT_HEAD(&queue->by_ticket[ticket->serial % QUESTION_BUCKETS], question, by_ticket);
    return question;
}

struct question *remote_queue_next(const struct remote_queue *queue)
{
    const struct asker *asker;
    if (queue->asked_count >= queue->asked_max)
        return NULL;
    TAILQ_FOREACH(asker, &queue->turns, turn)
        if (is_left(asker->asked, queue->asked_count, queue->asked_max))
            return TAILQ_FIRST(&asker->line);
    return NULL;
}

void remote_queue_set_asked(struct remote_queue *queue, struct question *question)
{
    struct asker *asker = question->asker;
    leave_line(queue, question);
    question->state = QUESTION_ASKED;
    TAILQ_INSERT_TAIL(&queue->asked, question, order);
    queue->asked_count++;
    asker->asked++;
    if (asker->waiting == 0)
        return;
    TAILQ_REMOVE(&queue->turns, asker, turn);
    TAILQ_INSERT_TAIL(&queue->turns, asker, turn);
}

void remote_queue_rewrite(struct remote_queue *queue, struct question *question, char *object,
                          unsigned fields)
{
    count_bytes(queue, question, false);
    free(question->object);
    question->object = object;
    question->fields = fields;
    count_bytes(queue, question, true);
}

void remote_queue_remove(struct remote_queue *queue, struct question *question)
{
    count_bytes(queue, question, false);
    if (question->state == QUESTION_WAITS) {
        leave_line(queue, question);
    } else {
        TAILQ_REMOVE(&queue->asked, question, order);
        queue->asked_count--;
        question->asker->asked--;
    }
    leave(queue, question->asker);
    LIST_REMOVE(question, by_id);
    LIST_REMOVE(question, by_ticket);
    free(question->object);
    free(question->record);
    free(question);
}

struct question *remote_queue_find_id(const struct remote_queue *queue, uint64_t id)
{
    struct question *question;
    LIST_FOREACH(question, &queue->by_id[id % QUESTION_BUCKETS], by_id)
        if (question->id == id)
            return question;
    return NULL;
}

struct question *remote_queue_find_ticket(const struct remote_queue *queue,
                                          const struct srt_filter_ticket *ticket)
{
    struct question *question;
    LIST_FOREACH(question, &queue->by_ticket[ticket->serial % QUESTION_BUCKETS], by_ticket)
        if (question->ticket.serial == ticket->serial)
            return question;
    return NULL;
}
