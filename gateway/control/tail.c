#include "control/tail.h"

#include "srt/must.h"

#include <pthread.h>

enum { WAITING_MAX = 4 << 20 }; /* bytes between the writer's thread and the loop */

struct tail {
    struct ev_loop *loop;
    struct audit *audit; /* that is observed; or NULL */
    ev_async wake;
    tail_lines_fn *lines;
    void *arg;

    pthread_mutex_t lock;                /* what follows is shared with the audit writer */
    char *decisions[TAIL_DECISIONS_MAX]; /* a ring */
    size_t decision_next, decision_count;
    bool followed;
    struct json waiting; /* not yet given to the followers */
    uint64_t missed;
};

static bool is_decision(struct str line)
{
    static const char kind[] = "\"kind\":\"decision\"";
    size_t head = line.len < 128 ? line.len : 128; /* schema, ts and seq stand before it */
    return memmem(line.p, head, kind, sizeof(kind) - 1) != NULL;
}

static void keep_decision(struct tail *tail, struct str line)
{
    char **place = &tail->decisions[tail->decision_next];
    free(*place);
    *place = must(strndup(line.p, line.len - 1)); /* without the newline */
    tail->decision_next = (tail->decision_next + 1) % TAIL_DECISIONS_MAX;
    if (tail->decision_count < TAIL_DECISIONS_MAX)
        tail->decision_count++;
}

/* On the audit writer's thread. */
static void on_line(void *arg, struct str line)
{
    struct tail *tail = arg;
    pthread_mutex_lock(&tail->lock);
    if (is_decision(line))
        keep_decision(tail, line);
    if (tail->followed) {
        if (tail->waiting.len < WAITING_MAX)
            json_append(&tail->waiting, line);
        else
            tail->missed++;
        ev_async_send(tail->loop, &tail->wake);
    }
    pthread_mutex_unlock(&tail->lock);
}

static void on_wake(struct ev_loop *loop, ev_async *wake, int events)
{
    struct tail *tail = wake->data;
    (void)loop;
    (void)events;
    pthread_mutex_lock(&tail->lock);
    struct json lines = tail->waiting;
    uint64_t missed = tail->missed;
    tail->waiting = (struct json){0};
    tail->missed = 0;
    pthread_mutex_unlock(&tail->lock);
    tail->lines(tail->arg, (struct str){lines.data, lines.len}, missed);
    json_free(&lines);
}

struct tail *tail_create(struct ev_loop *loop, tail_lines_fn *lines, void *arg)
{
    struct tail *tail = must(calloc(1, sizeof(*tail)));
    tail->loop = loop;
    tail->lines = lines;
    tail->arg = arg;
    pthread_mutex_init(&tail->lock, NULL);
    ev_async_init(&tail->wake, on_wake);
    tail->wake.data = tail;
    return tail;
}

void tail_observe(struct tail *tail, struct audit *audit)
{
    if (tail->audit != NULL)
        return;
    tail->audit = audit;
    ev_async_start(tail->loop, &tail->wake);
    audit_observe(audit, on_line, tail);
}

void tail_follow(struct tail *tail, bool followed)
{
    pthread_mutex_lock(&tail->lock);
    tail->followed = followed;
    if (!followed)
        json_free(&tail->waiting);
    pthread_mutex_unlock(&tail->lock);
}

void tail_write_decisions(struct tail *tail, size_t last, struct json *out)
{
    pthread_mutex_lock(&tail->lock);
    size_t count = last < tail->decision_count ? last : tail->decision_count;
    for (size_t i = count; i > 0; i--) {
        size_t at = (tail->decision_next + TAIL_DECISIONS_MAX - i) % TAIL_DECISIONS_MAX;
        json_raw(out, NULL, str_of(tail->decisions[at]));
    }
    pthread_mutex_unlock(&tail->lock);
}

void tail_free(struct tail *tail)
{
    if (tail->audit != NULL) {
        audit_observe(tail->audit, NULL, NULL);
        ev_async_stop(tail->loop, &tail->wake);
    }
    for (size_t i = 0; i < TAIL_DECISIONS_MAX; i++)
        free(tail->decisions[i]);
    json_free(&tail->waiting);
    pthread_mutex_destroy(&tail->lock);
    free(tail);
}
