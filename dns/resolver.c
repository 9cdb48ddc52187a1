#include "dns/resolver.h"

#include "dns/answer.h"
#include "dns/cache.h"
#include "dns/hosts.h"
#include "dns/upstream.h"
#include "dns/watched_file.h"
#include "srt/queue.h"

#include <assert.h>
#include <ev.h>
#include <search.h>
#include <stdlib.h>
#include <sys/queue.h>

/* Questions on their way at once. More are refused: an answer to one of a hundred thousand would
 * come too late anyway, and the identifiers of queries have only 16 bits. */
enum { MAX_QUESTIONS = 8192 };

static const char resolv_conf[] = "/etc/resolv.conf";

/* With addresses of one family at hand, how long the other is waited for: RFC 8305 3 gives a late
 * AAAA 50 ms. A late A gets more, since without it a host with broken IPv6 has nothing to fall back
 * to. */
static const double grace_for_aaaa_s = 0.05, grace_for_a_s = 0.25;

enum half_state {
    HALF_PENDING = 0,
    HALF_OK,
    HALF_NONE,    /* no such address */
    HALF_NO_NAME, /* no such name */
    HALF_FAILURE,
    HALF_TIMEOUT
};

/* The A or the AAAA part of a question. */
struct half {
    struct question *question;
    uint8_t family;
    enum half_state state;
    struct answer answer;
};

enum question_stage {
    STAGE_ASKING,
    STAGE_FINISHED,  /* the answer is there, the waiters get it from on_deliver() */
    STAGE_DELIVERED, /* kept only until the upstream has let go of both halves */
};

/* Who has asked questions that are on their way. */
struct asker {
    const void *key;
    uint32_t count;
};

/* One name that is being asked for. */
struct question {
    struct name name; /* first: the tree compares names */
    struct resolver *resolver;
    struct asker *asker; /* the first who did */
    enum question_stage stage;
    bool joinable; /* in the tree */
    unsigned asks; /* halves that the upstream still holds */
    struct half a, aaaa;
    ev_timer timer; /* the deadline, or the end of the grace */
    struct resolve_answer answer;
    TAILQ_HEAD(, resolver_query) waiters;
    TAILQ_ENTRY(question) all;
    TAILQ_ENTRY(question) finished;
};

struct resolver_query {
    struct question *question;
    resolver_done_fn *done;
    void *arg;
    TAILQ_ENTRY(resolver_query) waiters;
};

struct resolver {
    struct ev_loop *loop;
    struct resolver_config config;
    bool follows_system;
    double deadline_s;
    struct watched_file system_file;
    struct upstream *upstream;
    struct hosts *hosts;
    struct cache *cache;
    void *by_name; /* questions that a new query may join */
    void *askers;
    uint32_t count;
    bool delivering;
    ev_timer deliver; /* never started: fed to the loop when a question is finished */
    TAILQ_HEAD(, question) all;
    TAILQ_HEAD(, question) finished;
};

/* ---- askers ---- */

static int compare_askers(const void *a, const void *b)
{
    const uintptr_t left = (uintptr_t)((const struct asker *)a)->key;
    const uintptr_t right = (uintptr_t)((const struct asker *)b)->key;
    return (left > right) - (left < right);
}

static uint32_t questions_of(const struct resolver *resolver, const void *key)
{
    const struct asker like = {.key = key};
    struct asker *const *found = tfind(&like, &resolver->askers, compare_askers);
    return found != NULL ? (*found)->count : 0;
}

/* However many ask as much as they may, somebody who has not asked yet finds room. */
static bool has_room(const struct resolver *resolver, const void *key)
{
    return questions_of(resolver, key) < MAX_QUESTIONS - resolver->count;
}

/* NULL: no memory. */
static struct asker *enter_asker(struct resolver *resolver, const void *key)
{
    struct asker *asker = calloc(1, sizeof(*asker));
    if (asker == NULL)
        return NULL;
    asker->key = key;
    struct asker **place = tsearch(asker, &resolver->askers, compare_askers);
    if (place == NULL || *place != asker)
        free(asker);
    if (place == NULL)
        return NULL;
    (*place)->count++;
    return *place;
}

static void leave_asker(struct resolver *resolver, struct asker *asker)
{
    if (--asker->count > 0)
        return;
    tdelete(asker, &resolver->askers, compare_askers);
    free(asker);
}

/* ---- questions ---- */

static void leave_tree(struct question *question)
{
    if (question->joinable)
        tdelete(question, &question->resolver->by_name, name_compare);
    question->joinable = false;
}

static void question_free_if_done(struct question *question)
{
    if (question->stage != STAGE_DELIVERED || question->asks > 0)
        return;
    TAILQ_REMOVE(&question->resolver->all, question, all);
    question->resolver->count--;
    leave_asker(question->resolver, question->asker);
    free(question);
}

static bool is_empty(const struct half *half)
{
    return half->state == HALF_NONE || half->state == HALF_NO_NAME;
}

static bool is_settled(const struct half *half)
{
    return half->state != HALF_PENDING;
}

/* The two families in turn, AAAA first (RFC 8305 4). */
static void interleave(struct resolve_answer *out, const struct half *first,
                       const struct half *second)
{
    uint32_t firsts = first->state == HALF_OK ? first->answer.count : 0;
    uint32_t seconds = second->state == HALF_OK ? second->answer.count : 0;
    out->count = 0;
    for (uint32_t i = 0; i < firsts || i < seconds; i++) {
        if (i < firsts && out->count < RESOLVER_MAX_ADDRS)
            out->addrs[out->count++] = first->answer.addrs[i];
        if (i < seconds && out->count < RESOLVER_MAX_ADDRS)
            out->addrs[out->count++] = second->answer.addrs[i];
    }
}

static enum resolve_status combined_status(const struct half *a, const struct half *b)
{
    if (a->state == HALF_OK || b->state == HALF_OK)
        return RESOLVE_OK;
    if (a->state == HALF_FAILURE || b->state == HALF_FAILURE)
        return RESOLVE_FAILURE;
    if (!is_empty(a) || !is_empty(b))
        return RESOLVE_TIMEOUT;
    /* Some servers say of a family that they do not know that there is no such name. */
    bool no_name = a->state == HALF_NO_NAME && b->state == HALF_NO_NAME;
    return no_name ? RESOLVE_NXDOMAIN : RESOLVE_NODATA;
}

static uint32_t at_most(uint32_t value, uint32_t limit)
{
    return value < limit ? value : limit;
}

/* An answer that lacks a half for other reasons than that there is none lives no longer than a
 * negative one. Failures are not kept. */
static uint32_t ttl_of(const struct question *question)
{
    const struct resolver_config *config = &question->resolver->config;
    if (question->answer.status == RESOLVE_NXDOMAIN || question->answer.status == RESOLVE_NODATA)
        return config->negative_ttl_s;
    if (question->answer.status != RESOLVE_OK)
        return 0;
    uint32_t ttl_s = UINT32_MAX;
    bool whole = true;
    const struct half *halves[] = {&question->a, &question->aaaa};
    for (size_t i = 0; i < 2; i++) {
        if (halves[i]->state == HALF_OK)
            ttl_s = at_most(ttl_s, halves[i]->answer.ttl_s);
        else if (!is_empty(halves[i]))
            whole = false;
    }
    if (ttl_s < config->min_ttl_s)
        ttl_s = config->min_ttl_s;
    ttl_s = at_most(ttl_s, config->max_ttl_s);
    return whole ? ttl_s : at_most(ttl_s, config->negative_ttl_s);
}

static void question_finish(struct question *question)
{
    struct resolver *resolver = question->resolver;
    assert(question->stage == STAGE_ASKING);
    question->stage = STAGE_FINISHED;
    ev_timer_stop(resolver->loop, &question->timer);
    question->answer.status = combined_status(&question->a, &question->aaaa);
    interleave(&question->answer, &question->aaaa, &question->a);
    /* A question that cannot be joined was sent to servers that are no longer the configured ones.
     */
    uint32_t ttl_s = ttl_of(question);
    if (question->joinable && ttl_s > 0)
        cache_store(resolver->cache, &question->name, &question->answer, ev_now(resolver->loop),
                    ttl_s);
    leave_tree(question);
    TAILQ_INSERT_TAIL(&resolver->finished, question, finished);
    ev_feed_event(resolver->loop, &resolver->deliver, EV_CUSTOM);
}

static void restart_timer(struct question *question, double after_s)
{
    struct ev_loop *loop = question->resolver->loop;
    if (ev_is_active(&question->timer) && ev_timer_remaining(loop, &question->timer) < after_s)
        return;
    ev_timer_stop(loop, &question->timer);
    ev_timer_set(&question->timer, after_s, 0.0);
    ev_timer_start(loop, &question->timer);
}

static void question_judge(struct question *question)
{
    if (is_settled(&question->a) && is_settled(&question->aaaa))
        question_finish(question);
    else if (question->a.state == HALF_OK)
        restart_timer(question, grace_for_aaaa_s);
    else if (question->aaaa.state == HALF_OK)
        restart_timer(question, grace_for_a_s);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop, (void)events;
    question_finish(timer->data);
}

static enum half_state read_reply(struct half *half, enum upstream_status status,
                                  const uint8_t *message, size_t len)
{
    switch (status) {
    case UPSTREAM_REPLY:
        break;
    case UPSTREAM_NEVER:
        return HALF_NO_NAME;
    case UPSTREAM_TIMEOUT:
        return HALF_TIMEOUT;
    case UPSTREAM_FAILURE:
        return HALF_FAILURE;
    }
    answer_read(&half->answer, message, len, &half->question->name, half->family);
    switch (half->answer.status) {
    case ANSWER_OK:
        return HALF_OK;
    case ANSWER_NONE:
        return HALF_NONE;
    case ANSWER_NO_NAME:
        return HALF_NO_NAME;
    case ANSWER_FAILURE:
        break;
    }
    return HALF_FAILURE;
}

static void on_reply(void *arg, enum upstream_status status, const uint8_t *message, size_t len)
{
    struct half *half = arg;
    struct question *question = half->question;
    question->asks--;
    if (question->stage == STAGE_ASKING) {
        half->state = read_reply(half, status, message, len);
        question_judge(question);
    }
    question_free_if_done(question);
}

static void ask_half(struct question *question, struct half *half, uint8_t family)
{
    half->question = question;
    half->family = family;
    question->asks++;
    upstream_ask(question->resolver->upstream, &question->name, family, on_reply, half);
}

/* Nothing is asked yet, so that the first waiter is there before the first reply. */
static struct question *question_create(struct resolver *resolver, const struct name *name,
                                        const void *asker)
{
    if (!has_room(resolver, asker))
        return NULL;
    struct question *question = calloc(1, sizeof(*question));
    if (question == NULL)
        return NULL;
    question->name = *name;
    question->resolver = resolver;
    question->asker = enter_asker(resolver, asker);
    if (question->asker == NULL) {
        free(question);
        return NULL;
    }
    if (tsearch(question, &resolver->by_name, name_compare) == NULL) {
        leave_asker(resolver, question->asker);
        free(question);
        return NULL;
    }
    question->joinable = true;
    TAILQ_INIT(&question->waiters);
    TAILQ_INSERT_TAIL(&resolver->all, question, all);
    resolver->count++;
    ev_timer_init(&question->timer, on_timer, 0.0, 0.0);
    question->timer.data = question;
    return question;
}

static void question_ask(struct question *question)
{
    restart_timer(question, question->resolver->deadline_s);
    ask_half(question, &question->a, 4);
    ask_half(question, &question->aaaa, 6);
}

/* Waiters may start and cancel queries meanwhile, of this question too. */
static void question_deliver(struct question *question)
{
    struct resolver_query *query;
    while ((query = TAILQ_FIRST(&question->waiters)) != NULL) {
        resolver_done_fn *done = query->done;
        void *arg = query->arg;
        resolver_cancel(query);
        done(arg, &question->answer);
    }
    question->stage = STAGE_DELIVERED;
    question_free_if_done(question);
}

static void on_deliver(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop, (void)events;
    struct resolver *resolver = timer->data;
    struct question *question;
    resolver->delivering = true;
    while ((question = TAILQ_FIRST(&resolver->finished)) != NULL) {
        TAILQ_REMOVE(&resolver->finished, question, finished);
        question_deliver(question);
    }
    resolver->delivering = false;
}

static uint32_t longest_wait_ms(const struct resolver_config *config)
{
    return config->timeout_ms > RESOLVER_MAX_WAIT_MS ? config->timeout_ms : RESOLVER_MAX_WAIT_MS;
}

static double deadline_of(const struct resolver_config *config, size_t servers)
{
    double all_ms = (double)config->timeout_ms * config->tries * (double)servers;
    double limit_ms = longest_wait_ms(config);
    return (all_ms < limit_ms ? all_ms : limit_ms) / 1000;
}

/* Each round takes twice as long as the one before. Rounds that nobody would wait for are left out,
 * so that the upstream lets go of a question soon after its deadline. */
static uint32_t useful_tries(const struct resolver_config *config)
{
    uint32_t tries = 1;
    uint64_t end_ms = config->timeout_ms;
    while (tries < config->tries && end_ms < longest_wait_ms(config)) {
        end_ms += (uint64_t)config->timeout_ms << tries;
        tries++;
    }
    return tries;
}

static bool is_system(const struct resolver_config *config)
{
    return str_eq(str_of(config->servers), STR("system"));
}

static int read_servers(struct upstream_servers *out, const struct resolver_config *config,
                        struct srt_err *err)
{
    if (is_system(config))
        return upstream_servers_read(out, resolv_conf, err);
    return upstream_servers_parse(out, config->servers, err);
}

static int check_numbers(const struct resolver_config *config, struct srt_err *err)
{
    if (config->timeout_ms == 0 || config->timeout_ms > RESOLVER_MAX_TIMEOUT_MS)
        return srt_err_set(err, "timeout has to be from 1ms to %ds",
                           RESOLVER_MAX_TIMEOUT_MS / 1000);
    if (config->tries == 0 || config->tries > RESOLVER_MAX_TRIES)
        return srt_err_set(err, "tries has to be from 1 to %d", RESOLVER_MAX_TRIES);
    if (config->min_ttl_s > config->max_ttl_s)
        return srt_err_set(err, "min-ttl is greater than max-ttl");
    return 0;
}

int resolver_config_check(const struct resolver_config *config, struct srt_err *err)
{
    struct upstream_servers servers;
    if (check_numbers(config, err) != 0 || read_servers(&servers, config, err) != 0)
        return -1;
    if (config->hosts_file == NULL)
        return 0;
    struct hosts *hosts = hosts_open(config->hosts_file, err);
    hosts_close(hosts);
    return hosts != NULL ? 0 : -1;
}

struct resolver *resolver_create(struct ev_loop *loop, const struct resolver_config *config,
                                 struct srt_err *err)
{
    struct upstream_servers servers;
    struct watched_file system_file;
    watched_file_init(&system_file, resolv_conf);
    if (check_numbers(config, err) != 0 || read_servers(&servers, config, err) != 0)
        return NULL;
    struct resolver *resolver = calloc(1, sizeof(*resolver));
    if (resolver == NULL) {
        srt_err_set(err, "no memory for the resolver");
        return NULL;
    }
    resolver->loop = loop;
    resolver->config = *config;
    resolver->config.servers = resolver->config.hosts_file = NULL; /* the caller's, and read */
    resolver->follows_system = is_system(config);
    resolver->deadline_s = deadline_of(config, servers.count);
    TAILQ_INIT(&resolver->all);
    TAILQ_INIT(&resolver->finished);
    resolver->system_file = system_file;
    ev_timer_init(&resolver->deliver, on_deliver, 0.0, 0.0);
    resolver->deliver.data = resolver;

    resolver->upstream =
        upstream_create(loop, &servers, config->timeout_ms, useful_tries(config), err);
    bool ok = resolver->upstream != NULL;
    if (ok && config->hosts_file != NULL)
        ok = (resolver->hosts = hosts_open(config->hosts_file, err)) != NULL;
    if (ok && (resolver->cache = cache_create(config->cache_entries)) == NULL)
        ok = srt_err_set(err, "no memory for the resolver") == 0;
    if (!ok) {
        resolver_destroy(resolver);
        return NULL;
    }
    return resolver;
}

static void question_abandon(struct question *question)
{
    while (!TAILQ_EMPTY(&question->waiters))
        resolver_cancel(TAILQ_FIRST(&question->waiters));
    ev_timer_stop(question->resolver->loop, &question->timer);
    leave_tree(question);
    question->stage = STAGE_DELIVERED;
    question_free_if_done(question);
}

void resolver_destroy(struct resolver *resolver)
{
    if (resolver == NULL)
        return;
    assert(!resolver->delivering);
    struct question *question, *next;
    TAILQ_INIT(&resolver->finished);
    TAILQ_FOREACH_SAFE(question, &resolver->all, all, next)
        question_abandon(question);
    upstream_destroy(resolver->upstream); /* ends the asks, which frees the rest of the questions */
    assert(TAILQ_EMPTY(&resolver->all));
    ev_clear_pending(resolver->loop, &resolver->deliver);
    hosts_close(resolver->hosts);
    cache_destroy(resolver->cache);
    free(resolver);
}

/* What was learnt from other servers, and what is still asked of them, is no answer to a question
 * that comes after the change (a VPN goes up: internal names). Those who wait get what they asked
 * for. */
static void follow_system(struct resolver *resolver, double now_s)
{
    struct upstream_servers servers;
    if (!resolver->follows_system || !watched_file_changed(&resolver->system_file, now_s) ||
        upstream_servers_read(&servers, resolv_conf, NULL) != 0)
        return;
    upstream_set_servers(resolver->upstream, &servers);
    resolver->deadline_s = deadline_of(&resolver->config, servers.count);
    cache_clear(resolver->cache);
    for (struct question *q = TAILQ_FIRST(&resolver->all); q != NULL; q = TAILQ_NEXT(q, all))
        leave_tree(q);
}

static void answer_localhost(struct resolve_answer *out)
{
    static const uint8_t v4[4] = {127, 0, 0, 1}, v6[16] = {[15] = 1};
    out->status = RESOLVE_OK;
    out->count = 2;
    out->addrs[0] = addr_of_v4(v4);
    out->addrs[1] = addr_of_v6(v6);
}

static bool answer_at_hand(struct resolver *resolver, const struct name *name,
                           struct resolve_answer *out)
{
    double now_s = ev_now(resolver->loop);
    if (name_is_localhost(name)) {
        answer_localhost(out);
        return true;
    }
    if (resolver->hosts != NULL && hosts_find(resolver->hosts, name, now_s, out))
        return true;
    follow_system(resolver, now_s);
    return cache_find(resolver->cache, name, now_s, out);
}

static struct resolver_query *wait_for(struct question *question, resolver_done_fn *done, void *arg)
{
    struct resolver_query *query = malloc(sizeof(*query));
    if (query == NULL)
        return NULL;
    *query = (struct resolver_query){.question = question, .done = done, .arg = arg};
    TAILQ_INSERT_TAIL(&question->waiters, query, waiters);
    return query;
}

struct resolver_query *resolver_start(struct resolver *resolver, const struct name *name,
                                      const void *asker, struct resolve_answer *answer,
                                      resolver_done_fn *done, void *arg)
{
    if (answer_at_hand(resolver, name, answer))
        return NULL;

    struct question **found = tfind(name, &resolver->by_name, name_compare);
    struct question *question = found != NULL ? *found : question_create(resolver, name, asker);
    struct resolver_query *query = question != NULL ? wait_for(question, done, arg) : NULL;
    if (question != NULL && found == NULL)
        question_ask(question);
    if (query == NULL) {
        answer->status = RESOLVE_FAILURE;
        answer->count = 0;
    }
    return query;
}

void resolver_cancel(struct resolver_query *query)
{
    TAILQ_REMOVE(&query->question->waiters, query, waiters);
    free(query);
}
