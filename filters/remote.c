/*
 * remote: asks a process of somebody else's. `module = unix:/path` is this with `socket = /path`.
 *
 * Each worker has a connection of its own (remote_link), a breaker and a cache of verdicts. A
 * request that has to be asked is a question: it waits until there is a connection and room, is
 * asked, and is answered once, by resume(). What goes wrong meanwhile is its SRT_FILTER_ERROR.
 */
#include "config/value.h"
#include "filters/breaker.h"
#include "filters/builtin.h"
#include "filters/remote_line.h"
#include "filters/remote_link.h"
#include "filters/remote_queue.h"
#include "filters/trusted_path.h"
#include "filters/verdict_cache.h"
#include "srt/cleanup.h"
#include "srt/clock.h"
#include "srt/must.h"
#include "srt/queue.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/un.h>

enum { RETRY_MS = 100 };

struct remote {
    const struct srt_filter_host *host;
    const char *name, *socket;
    uint64_t concurrency, queue, cache_entries, cache_ttl_ms, breaker_failures, breaker_pause_ms;
};

struct local {
    const struct remote *filter;
    unsigned worker;
    struct remote_link *link;
    struct remote_hello hello; /* the last one that was heard; no phases: none yet */
    struct breaker breaker;
    struct srt_filter_watch *pause; /* the breaker's */
    struct verdict_cache *cache;    /* NULL: none is kept */
    struct remote_queue queue;
    int64_t retry_ms; /* until the next attempt to connect, when this one fails */
    bool told_down;   /* the operator knows that there is no connection */
    char why[256];    /* there is none, or what failed last */
};

__attribute__((format(printf, 2, 3))) static void say(const struct local *local, const char *format,
                                                      ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    local->filter->host->log(local->filter->name, text);
}

/* ---- the section ---- */

static bool take_number(uint64_t *out, uint64_t least, uint64_t most,
                        const struct srt_filter_key *key, struct srt_filter_fault *fault)
{
    return (str_uint(str_of(key->value), most, out) && *out >= least) ||
           builtin_refuse(fault, key, "'%s' is not a number from %llu to %llu", key->value,
                          (unsigned long long)least, (unsigned long long)most);
}

static bool take_duration(uint64_t *out, uint64_t least_ms, const struct srt_filter_key *key,
                          struct srt_filter_fault *fault)
{
    const uint64_t most = UINT64_C(366) * 86400 * 1000;
    return (value_duration_ms(str_of(key->value), out) && *out >= least_ms && *out <= most) ||
           builtin_refuse(fault, key, "'%s' is not a duration from %llums to 366d", key->value,
                          (unsigned long long)least_ms);
}

/* One that does not exist yet is looked at when it is connected to, as it is every time. */
static bool take_socket(void *field, const struct srt_filter_key *key,
                        struct srt_filter_fault *fault)
{
    const char **path = field;
    struct stat st;
    struct srt_err err;
    const size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;
    *path = key->value;
    if (key->value[0] != '/')
        return builtin_refuse(fault, key, "'%s' is not an absolute path", key->value);
    if (strlen(key->value) > most)
        return builtin_refuse(fault, key, "a socket's path has at most %zu bytes", most);
    if (lstat(key->value, &st) != 0 && errno == ENOENT)
        return true;
    return trusted_path_check(key->value, S_IFSOCK, &err) == 0 ||
           builtin_refuse(fault, key, "%.500s", err.text);
}

#define TAKE(name, call)                                            \
    static bool name(void *field, const struct srt_filter_key *key, \
                     struct srt_filter_fault *fault)                \
    {                                                               \
        return call;                                                \
    }
TAKE(take_concurrency, take_number(field, 1, 100000, key, fault))
TAKE(take_queue, take_number(field, 0, 100000, key, fault))
TAKE(take_entries, take_number(field, 1, 1000000, key, fault))
TAKE(take_failures, take_number(field, 0, 1000000, key, fault))
TAKE(take_ttl, take_duration(field, 0, key, fault))
TAKE(take_pause, take_duration(field, RETRY_MS, key, fault))

#define AT(field) offsetof(struct remote, field)

static const struct builtin_key known_keys[] = {
    {"socket", false, take_socket, AT(socket)},
    {"concurrency", false, take_concurrency, AT(concurrency)},
    {"queue", false, take_queue, AT(queue)},
    {"cache-ttl", false, take_ttl, AT(cache_ttl_ms)},
    {"cache-entries", false, take_entries, AT(cache_entries)},
    {"breaker-failures", false, take_failures, AT(breaker_failures)},
    {"breaker-pause", false, take_pause, AT(breaker_pause_ms)},
    {NULL, false, NULL, 0},
};

static void *create(const struct srt_filter_host *host, const char *name,
                    const struct srt_filter_key *keys, size_t key_count,
                    struct srt_filter_fault *fault)
{
    struct remote *self = must_calloc(1, sizeof(*self));
    *self = (struct remote){.host = host,
                            .name = name,
                            .concurrency = 128,
                            .queue = 1024,
                            .cache_entries = 10000,
                            .breaker_failures = 5,
                            .breaker_pause_ms = 5000};
    bool good = builtin_take_keys(self, known_keys, keys, key_count, fault);
    if (good && self->socket == NULL)
        good = builtin_refuse(fault, NULL, "it has no socket");
    if (good)
        return self;
    free(self);
    return NULL;
}

/* ---- questions ---- */

static void forget(struct local *local, struct question *question)
{
    if (question->probe)
        breaker_forget_probe(&local->breaker);
    remote_queue_remove(&local->queue, question);
}

/* Its request goes on, or ends. */
static void settle(struct local *local, struct question *question, enum srt_filter_verdict verdict,
                   const char *reason)
{
    if (question->state != QUESTION_ORPHAN)
        local->filter->host->resume(&question->ticket, verdict, reason);
    forget(local, question);
}

static void fail_all(struct local *local, struct question_list *list, const char *why)
{
    while (!TAILQ_EMPTY(list))
        settle(local, TAILQ_FIRST(list), SRT_FILTER_ERROR, why);
}

/* An orphan's room is free again when its time is up: whoever does not answer is not spared, and
 * whoever does is not flooded. The oldest is in front. */
static void drop_old_orphans(struct local *local)
{
    struct question *question;
    const int64_t now = clock_ms();
    while ((question = TAILQ_FIRST(&local->queue.asked)) != NULL &&
           question->state == QUESTION_ORPHAN &&
           now - question->since_ms >= (int64_t)question->timeout_ms)
        forget(local, question);
}

/* Asks what waits, as long as there are a connection and room. */
static void pump(struct local *local)
{
    struct question *question;
    drop_old_orphans(local);
    while (remote_link_state(local->link) == REMOTE_LINK_UP &&
           (question = remote_queue_next(&local->queue)) != NULL) {
        autofree char *line = remote_line_request(question->id, question->record,
                                                  question->timeout_ms, question->object);
        if (remote_link_send(local->link, line))
            remote_queue_set_asked(&local->queue, question);
        else
            settle(local, question, SRT_FILTER_ERROR, "it does not read what it is asked");
    }
}

/* ---- the breaker ---- */

static void show_state(struct local *local)
{
    const struct remote *self = local->filter;
    self->host->set_state(self->host, self->name, local->worker,
                          breaker_word(breaker_look(&local->breaker, clock_ms())));
}

/* Something was tried and failed; when that was once too often, whoever waits has waited in vain.
 */
static void note_failure(struct local *local, const char *why)
{
    snprintf(local->why, sizeof(local->why), "%s", why);
    if (breaker_fail(&local->breaker, clock_ms())) {
        say(local,
            "worker %u: not asked for %llu ms after %llu failures in a row, the last being: %s",
            local->worker, (unsigned long long)local->filter->breaker_pause_ms,
            (unsigned long long)local->breaker.in_a_row, local->why);
        fail_all(local, &local->queue.waiting, local->why);
        local->filter->host->watch_time(local->pause, local->breaker.pause_ms);
    }
    show_state(local);
}

static void note_success(struct local *local, bool probe)
{
    if (probe && local->breaker.state != BREAKER_CLOSED)
        say(local, "worker %u: it answers again", local->worker);
    breaker_succeed(&local->breaker, probe);
    show_state(local);
}

/* The pause is over: the next request is the probe, and needs a connection. */
static void on_pause(void *arg, unsigned events)
{
    struct local *local = arg;
    const int64_t left_ms = local->breaker.until_ms - clock_ms();
    (void)events;
    show_state(local);
    /* The loop's clock may be a little ahead. */
    if (local->breaker.state == BREAKER_OPEN)
        local->filter->host->watch_time(local->pause, left_ms > 0 ? left_ms : 1);
    else if (remote_link_state(local->link) == REMOTE_LINK_DOWN)
        remote_link_connect(local->link);
}

/* ---- the connection ---- */

/* What it waits with is what the module that is there now wants to see; false: it has less. */
static bool narrow(struct local *local, struct question *question, unsigned fields)
{
    if ((fields & ~question->fields) != 0)
        return false;
    if (question->fields == fields)
        return true;
    remote_queue_rewrite(&local->queue, question, remote_narrow_request(question->object, fields),
                         fields);
    return true;
}

static void on_up(void *arg, const struct remote_hello *hello)
{
    struct local *local = arg;
    struct question *question, *next;
    local->hello = *hello;
    local->retry_ms = RETRY_MS;
    if (local->told_down)
        say(local, "worker %u: connected to %s", local->worker, local->filter->socket);
    local->told_down = false;
    /* Another process may think otherwise than the last one. */
    if (local->cache != NULL)
        verdict_cache_clear(local->cache);
    TAILQ_FOREACH_SAFE(question, &local->queue.waiting, order, next) {
        if ((hello->phases & REMOTE_REQUEST) == 0)
            settle(local, question, SRT_FILTER_PASS, NULL);
        else if (!narrow(local, question, hello->fields))
            settle(local, question, SRT_FILTER_ERROR, "another module took its place meanwhile");
    }
    pump(local);
}

static void on_down(void *arg, const char *why)
{
    struct local *local = arg;
    if (!local->told_down)
        say(local, "worker %u: no connection: %s", local->worker, why);
    local->told_down = true;
    fail_all(local, &local->queue.asked, why);
    note_failure(local, why);
    /* An open breaker connects when its pause is over. */
    if (local->breaker.state == BREAKER_OPEN)
        return;
    remote_link_connect_after(local->link, local->retry_ms);
    if (2 * local->retry_ms <= (int64_t)local->filter->breaker_pause_ms)
        local->retry_ms *= 2;
}

static void keep(struct local *local, const struct question *question,
                 const struct remote_answer *answer)
{
    int64_t ttl_ms = (int64_t)local->filter->cache_ttl_ms;
    if (answer->ttl_ms >= 0 && answer->ttl_ms < ttl_ms)
        ttl_ms = answer->ttl_ms;
    if (local->cache != NULL && ttl_ms > 0 &&
        (answer->verdict == SRT_FILTER_PASS || answer->verdict == SRT_FILTER_DENY))
        verdict_cache_put(local->cache, str_of(question->object),
                          answer->verdict == SRT_FILTER_PASS, answer->reason, clock_ms() + ttl_ms);
}

/* A second answer and a late one find no question; one to what was never asked is nonsense. */
static bool on_line(void *arg, struct str line, struct srt_err *why)
{
    struct local *local = arg;
    struct remote_answer answer;
    if (!remote_read_answer(line, &answer, why))
        return false;
    struct question *question = remote_queue_find_id(&local->queue, answer.id);
    if (question == NULL ? answer.id > local->queue.last_id : question->state == QUESTION_WAITS) {
        srt_err_set(why, "it answered what it was not asked");
        return false;
    }
    if (question == NULL)
        return true;
    const bool probe = question->probe;
    question->probe = false;
    keep(local, question, &answer);
    settle(local, question, answer.verdict, answer.reason);
    if (answer.verdict == SRT_FILTER_ERROR)
        note_failure(local, answer.reason[0] != '\0' ? answer.reason : "it gave no verdict");
    else
        note_success(local, probe);
    pump(local);
    return true;
}

/* ---- in a worker ---- */

static void leave(void *arg)
{
    struct local *local = arg;
    const struct remote *self = local->filter;
    fail_all(local, &local->queue.waiting, "");
    fail_all(local, &local->queue.asked, "");
    if (local->pause != NULL)
        self->host->watch_end(local->pause);
    remote_link_destroy(local->link);
    verdict_cache_free(local->cache);
    self->host->set_state(self->host, self->name, local->worker, NULL);
    free(local);
}

static void *enter(void *filter, unsigned worker)
{
    const struct remote *self = filter;
    struct local *local = must_calloc(1, sizeof(*local));
    local->filter = self;
    local->worker = worker;
    local->retry_ms = RETRY_MS;
    remote_queue_init(&local->queue, self->concurrency, self->queue);
    local->breaker = (struct breaker){.limit = self->breaker_failures,
                                      .pause_ms = (int64_t)self->breaker_pause_ms};
    if (self->cache_ttl_ms > 0)
        local->cache = verdict_cache_create(self->cache_entries);
    local->pause = self->host->watch_begin(worker, on_pause, local);
    local->link = remote_link_create(self->host, worker, self->name, self->socket,
                                     &(struct remote_link_user){on_up, on_line, on_down, local});
    if (local->pause == NULL || local->link == NULL) {
        leave(local);
        return NULL;
    }
    show_state(local);
    remote_link_connect(local->link);
    return local;
}

static bool is_asked_of_nobody(const struct local *local)
{
    return remote_link_state(local->link) == REMOTE_LINK_UP &&
           (local->hello.phases & REMOTE_REQUEST) == 0;
}

static enum srt_filter_verdict on_request(void *arg, const struct srt_filter_request *request,
                                          const struct srt_filter_ticket *ticket,
                                          struct srt_filter_edits *edits,
                                          struct srt_filter_ruling *ruling)
{
    struct local *local = arg;
    struct cached_verdict cached;
    bool probe;
    (void)edits;
    if (is_asked_of_nobody(local))
        return SRT_FILTER_PASS;
    const bool up = remote_link_state(local->link) == REMOTE_LINK_UP;
    const unsigned fields = up ? local->hello.fields : REMOTE_ALL;
    autofree char *object = remote_write_request(request, fields);
    if (up && local->cache != NULL &&
        verdict_cache_find(local->cache, str_of(object), clock_ms(), &cached))
        return cached.pass ? SRT_FILTER_PASS : builtin_deny(ruling, "%s", cached.reason);
    if (!breaker_admit(&local->breaker, clock_ms(), &probe))
        return builtin_fail(ruling, "it is not asked after what went wrong: %s", local->why);
    drop_old_orphans(local);
    if (!remote_queue_has_room(&local->queue, request, strlen(object))) {
        if (probe)
            breaker_forget_probe(&local->breaker);
        return builtin_fail(ruling, "%zu requests are asked and %zu wait already",
                            local->queue.asked_count, local->queue.waiting_count);
    }
    remote_queue_add(&local->queue, request, ticket, steal_ptr(object), fields)->probe = probe;
    pump(local);
    return SRT_FILTER_PENDING;
}

static void on_abandon(void *arg, const struct srt_filter_ticket *ticket)
{
    struct local *local = arg;
    struct question *question = remote_queue_find_ticket(&local->queue, ticket);
    if (question == NULL)
        return;
    /* Its time is up, or else its client is gone. The loop's clock is behind, never ahead. */
    const bool late = clock_wall_ms() - question->request_ms + 1 >= (int64_t)question->timeout_ms;
    const bool asked = question->state == QUESTION_ASKED;
    if (asked && (local->hello.phases & REMOTE_ABANDON) != 0) {
        autofree char *line = remote_line_abandon(question->id);
        (void)remote_link_send(local->link, line);
    }
    if (asked && !late && !question->probe)
        question->state = QUESTION_ORPHAN;
    else
        forget(local, question);
    /* A question that was never asked says nothing about who answers. */
    if (late && asked)
        note_failure(local, "it did not answer in time");
    pump(local);
}

/* It counts, and is told as long as it listens. */
static void on_end(void *arg, const struct srt_filter_request *request, uint64_t bytes_up,
                   uint64_t bytes_down)
{
    struct local *local = arg;
    if (remote_link_state(local->link) != REMOTE_LINK_UP || (local->hello.phases & REMOTE_END) == 0)
        return;
    autofree char *object = remote_write_request(request, local->hello.fields);
    autofree char *line =
        remote_line_end(++local->queue.last_id, request->id, object, bytes_up, bytes_down);
    (void)remote_link_send(local->link, line);
}

const struct srt_filter_module module_remote = {
    .abi = SRT_FILTER_ABI,
    .size = sizeof(struct srt_filter_module),
    .name = "remote",
    .create = create,
    .destroy = free,
    .enter = enter,
    .leave = leave,
    .on_request = on_request,
    .on_abandon = on_abandon,
    .on_end = on_end,
};
