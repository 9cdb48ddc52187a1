#include "session/core.h"

#include "dns/resolver.h"
#include "filters/filter_set.h"
#include "record/ulid.h"
#include "session/errand.h"
#include "session/session.h"
#include "srt/must.h"
#include "srt/queue.h"
#include "transport/foreign.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/random.h>

enum { REACH_ENTRIES = 4096 }; /* addresses whose last outcome a worker remembers, 48 bytes each */

/* ---- tenures, narrowings, name services ---- */

static struct tenure *tenure_create(struct workers *team, struct snapshot *snapshot,
                                    struct budget **budgets, struct usage **usages, void **filters)
{
    struct tenure *tenure = must(calloc(1, sizeof(*tenure)));
    tenure->team = team;
    tenure->snapshot = snapshot_take(snapshot);
    tenure->budgets = budgets;
    tenure->usages = usages;
    tenure->filters = filters;
    tenure->users = 1;
    return tenure;
}

struct tenure *tenure_take(struct tenure *tenure)
{
    tenure->users++;
    return tenure;
}

void tenure_leave(struct tenure *tenure)
{
    if (tenure == NULL || --tenure->users > 0)
        return;
    filter_set_leave(tenure->snapshot->filters, tenure->filters);
    workers_release_snapshot(tenure->team, tenure->snapshot);
    free(tenure->budgets);
    free(tenure->usages);
    free(tenure);
}

struct narrowing *narrowing_create(struct workers *team, struct policy *policy)
{
    if (policy == NULL)
        return NULL;
    struct narrowing *narrowing = must(calloc(1, sizeof(*narrowing)));
    narrowing->team = team;
    narrowing->policy = policy;
    narrowing->users = 1;
    return narrowing;
}

struct narrowing *narrowing_take(struct narrowing *narrowing)
{
    if (narrowing != NULL)
        narrowing->users++;
    return narrowing;
}

void narrowing_leave(struct narrowing *narrowing)
{
    if (narrowing == NULL || --narrowing->users > 0)
        return;
    workers_release_policy(narrowing->team, narrowing->policy);
    free(narrowing);
}

static struct name_service *
name_service_create(struct worker *worker, const struct gateway_config *config, struct srt_err *err)
{
    const struct resolver_config resolver_config = snapshot_resolver(config);
    struct resolver *resolver = resolver_create(worker->loop, &resolver_config, err);
    if (resolver == NULL)
        return NULL;
    struct name_service *service = must(calloc(1, sizeof(*service)));
    service->worker = worker;
    service->resolver = resolver;
    service->users = 1;
    return service;
}

void name_service_leave(struct name_service *service)
{
    if (service == NULL || --service->users > 0)
        return;
    SLIST_INSERT_HEAD(&service->worker->unused_names, service, link);
    ev_timer_start(service->worker->loop, &service->worker->burial);
}

static void bury_names(struct worker *worker)
{
    while (!SLIST_EMPTY(&worker->unused_names)) {
        struct name_service *service = SLIST_FIRST(&worker->unused_names);
        SLIST_REMOVE_HEAD(&worker->unused_names, link);
        resolver_destroy(service->resolver);
        free(service);
    }
}

static void on_burial(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)loop, (void)revents;
    bury_names(timer->data);
}

/* ---- ids ---- */

void worker_make_id(struct worker *worker, char out[REQUEST_ID_LEN + 1])
{
    _Static_assert((int)REQUEST_ID_LEN == (int)ULID_LEN, "a request's id is a ULID");
    if (worker->random_left < ULID_CHANCE) {
        /* 256 bytes and less are never cut short (getrandom(2)); so the pool is filled in halves.
         */
        for (size_t at = 0; at < sizeof(worker->random); at += 256)
            if (getrandom(worker->random + at, 256, 0) != 256)
                abort();
        worker->random_left = sizeof(worker->random);
    }
    worker->random_left -= ULID_CHANCE;
    ulid_make(out, (int64_t)(ev_now(worker->loop) * 1000.), worker->random + worker->random_left);
}

/* ---- records that are waited for ---- */

/* Answers come in the order of the tickets, so the session is at the front unless it was cut. */
static struct session *find_waiting(struct worker *worker, uint64_t ticket)
{
    struct session *session;
    TAILQ_FOREACH(session, &worker->waiting, waiting_link)
        if (session->ticket >= ticket)
            return session->ticket == ticket ? session : NULL;
    return NULL;
}

static void on_answered(void *arg, uint64_t ticket, bool go)
{
    struct session *session = find_waiting(arg, ticket);
    if (session != NULL)
        session_record_written(session, go);
}

/* ---- times ---- */

void worker_count_time(struct worker *worker, enum timing timing, bool refused, int64_t took_ns)
{
    const uint64_t took = took_ns > 0 ? (uint64_t)took_ns : 0;
    counter_add(&worker->counters.timings[timing][refused].buckets[metrics_bucket(took)], 1);
    counter_add(&worker->counters.timings[timing][refused].sum_ns, took);
}

/* ---- drain ---- */

static bool is_saying_something(const struct worker *worker)
{
    const struct session *session;
    LIST_FOREACH(session, &worker->sessions, link)
        if (stream_is_sending(&session->client) || session->step == STEP_REFUSE)
            return true;
    return false;
}

static void answer_errand(struct errand **errand)
{
    struct errand *answered = *errand;
    *errand = NULL;
    errand_answer(answered);
}

bool worker_answers_last(const struct worker *worker)
{
    return worker->retiring || worker->draining;
}

void worker_check_drained(struct worker *worker)
{
    if (worker->empty != NULL && LIST_EMPTY(&worker->sessions) && worker->visits == 0)
        answer_errand(&worker->empty);
    const struct worker_counters *counters = &worker->counters;
    if (worker->drain == NULL || counters->tunnels != counters->tunnels_closed ||
        is_saying_something(worker))
        return;
    answer_errand(&worker->drain);
}

/* ---- life ---- */

static void on_accept_pause_end(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)loop, (void)revents;
    doors_resume(timer->data);
}

static void name_doors(struct worker *worker, struct listener *const *listeners)
{
    const struct gateway_config *config = worker->tenure->snapshot->config;
    struct door *door;
    LIST_FOREACH(door, &worker->doors, link) {
        for (size_t i = 0; door->sandbox == NULL && i < config->listen_count; i++) {
            if (listeners[i] != door->listener)
                continue;
            free(door->name);
            door->name = must_copy(config->listens[i].name);
            door->config = &config->listens[i];
        }
    }
}

static struct door *find_door(const struct worker *worker, const struct listener *listener)
{
    struct door *door;
    LIST_FOREACH(door, &worker->doors, link)
        if (door->listener == listener)
            return door;
    return NULL;
}

static bool is_listed(const struct listener *listener, struct listener *const *listeners,
                      size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (listeners[i] == listener)
            return true;
    return false;
}

static const struct config_listen *find_section(const struct gateway_config *config,
                                                const char *name)
{
    for (size_t i = 0; i < config->listen_count; i++)
        if (strcmp(config->listens[i].name, name) == 0)
            return &config->listens[i];
    return NULL;
}

/* Without listeners it is its section that a door is known by. */
static void use_sections(struct worker *worker)
{
    struct door *door, *next;
    LIST_FOREACH_SAFE(door, &worker->doors, link, next) {
        if (door->sandbox != NULL)
            continue;
        door->config = find_section(worker->tenure->snapshot->config, door->name);
        if (door->config == NULL)
            door_close(door);
    }
}

/* Opens what is new, closes what is gone, and lets every door know its section. */
static void use_listeners(struct worker *worker, struct listener **listeners)
{
    const size_t count = worker->tenure->snapshot->config->listen_count;
    struct door *door, *next;
    LIST_FOREACH_SAFE(door, &worker->doors, link, next)
        if (door->sandbox == NULL && !is_listed(door->listener, listeners, count))
            door_close(door);
    for (size_t i = 0; i < count; i++) {
        if (listeners[i] == NULL)
            continue;
        if (find_door(worker, listeners[i]) != NULL)
            listener_release(listeners[i]);
        else
            door_open(worker, listeners[i], NULL);
    }
    name_doors(worker, listeners);
}

/* Before the loop waits for the next events. */
static void on_turn_end(struct ev_loop *loop, ev_prepare *prepare, int revents)
{
    struct worker *worker = prepare->data;
    (void)loop, (void)revents;
    if (worker->has_reported)
        audit_wake(worker->audit);
    worker->has_reported = false;
}

int worker_init(struct worker *worker, struct workers *team, unsigned index,
                const struct workers_config *config, struct srt_err *err)
{
    *worker = (struct worker){.team = team, .index = index, .audit = config->audit};
    worker->trace = config->trace;
    LIST_INIT(&worker->doors);
    LIST_INIT(&worker->sandboxes);
    LIST_INIT(&worker->sessions);
    slab_init(&worker->session_room, sizeof(struct session));
    slab_init(&worker->http_room, sizeof(struct http));
    slab_init(&worker->attempt_room, sizeof(struct attempt));
    slab_init(&worker->connector_room, connector_size());
    TAILQ_INIT(&worker->waiting);
    worker->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
    if (worker->loop == NULL)
        return srt_err_set(err, "no event loop can be had for a worker");
    mailbox_init(&worker->mailbox, worker->loop, worker);
    filter_waits_init(&worker->filter_waits, worker);
    worker->tickets = tickets_create(worker->loop, on_answered, worker);
    ev_prepare_init(&worker->handing_over, on_turn_end);
    worker->handing_over.data = worker;
    ev_prepare_start(worker->loop, &worker->handing_over);
    ev_init(&worker->accept_pause, on_accept_pause_end);
    ev_timer_init(&worker->burial, on_burial, 0., 0.);
    worker->accept_pause.data = worker->burial.data = worker;
    farewells_init(&worker->farewells, worker->loop);
    worker->reach = reach_create(REACH_ENTRIES);
    relay_room_init(&worker->room);
    worker->answer = must(calloc(1, sizeof(*worker->answer)));
    worker->approved = must(calloc(1, sizeof(*worker->approved)));
    worker->http_request = must(calloc(1, sizeof(*worker->http_request)));
    worker->http_response = must(calloc(1, sizeof(*worker->http_response)));
    return 0;
}

void worker_cut(struct worker *worker, enum close_cause cause,
                bool (*chosen)(const struct session *, const void *), const void *arg)
{
    struct session *session, *next;
    LIST_FOREACH_SAFE(session, &worker->sessions, link, next)
        if (chosen == NULL || chosen(session, arg))
            session_cut(session, cause);
}

static void free_listeners(struct listener **listeners, size_t count)
{
    for (size_t i = 0; listeners != NULL && i < count; i++)
        listener_release(listeners[i]);
    free(listeners);
}

void worker_end(struct worker *worker)
{
    if (worker->loop == NULL)
        return;
    worker_cut(worker, CLOSE_DRAIN, NULL, NULL);
    worker_abort(worker);
    if (worker->drain != NULL)
        errand_drop(worker->drain);
    if (worker->empty != NULL)
        errand_drop(worker->empty);
    while (!LIST_EMPTY(&worker->sandboxes))
        sandbox_forget(LIST_FIRST(&worker->sandboxes));
    while (!LIST_EMPTY(&worker->doors))
        door_close(LIST_FIRST(&worker->doors));
    slab_end(&worker->session_room);
    slab_end(&worker->http_room);
    slab_end(&worker->attempt_room);
    slab_end(&worker->connector_room);
    farewells_end(&worker->farewells);
    reach_destroy(worker->reach);
    filter_waits_end(&worker->filter_waits);
    grants_free(&worker->grants);
    foreign_settle(); /* what posts here, although it has been delivered already */
    mailbox_end(&worker->mailbox);
    name_service_leave(worker->names);
    bury_names(worker);
    tenure_leave(worker->tenure);
    tickets_destroy(worker->tickets);
    ev_prepare_stop(worker->loop, &worker->handing_over);
    ev_timer_stop(worker->loop, &worker->accept_pause);
    ev_timer_stop(worker->loop, &worker->burial);
    ev_loop_destroy(worker->loop);
    json_free(&worker->json);
    json_free(&worker->squid);
    buf_free(&worker->reply);
    tls_client_free(worker->tls_client);
    relay_room_end(&worker->room);
    free(worker->answer);
    free(worker->approved);
    free(worker->http_request);
    free(worker->http_response);
}

/* ---- reload ---- */

int worker_prepare(struct worker *worker, struct snapshot *snapshot, struct listener **listeners,
                   struct budget **budgets, struct usage **usages, struct srt_err *err)
{
    assert(worker->prepared == NULL);
    void **filters = filter_set_enter(snapshot->filters, worker->index, err);
    worker->prepared = tenure_create(worker->team, snapshot, budgets, usages, filters);
    worker->prepared_listeners = listeners;
    if (filters == NULL)
        return -1;
    worker->prepared_names = name_service_create(worker, snapshot->config, err);
    return worker->prepared_names != NULL ? 0 : -1;
}

void worker_abort(struct worker *worker)
{
    if (worker->prepared == NULL)
        return;
    free_listeners(worker->prepared_listeners, worker->prepared->snapshot->config->listen_count);
    worker->prepared_listeners = NULL;
    name_service_leave(worker->prepared_names);
    worker->prepared_names = NULL;
    tenure_leave(worker->prepared);
    worker->prepared = NULL;
}

static bool is_idle_at_closed_door(const struct session *session, const void *arg)
{
    (void)arg;
    return session->door->closed && session->step == STEP_READ && session->began <= 0;
}

void worker_commit(struct worker *worker)
{
    assert(worker->prepared != NULL && worker->prepared_names != NULL);
    struct tenure *before = worker->tenure;
    struct name_service *names_before = worker->names;
    worker->tenure = worker->prepared;
    worker->names = worker->prepared_names;
    worker->prepared = NULL;
    worker->prepared_names = NULL;
    if (worker->retiring)
        use_sections(worker);
    else
        use_listeners(worker, worker->prepared_listeners);
    free(worker->prepared_listeners);
    worker->prepared_listeners = NULL;

    struct session *session, *next;
    if (worker->tenure->snapshot->config->reload_tunnels == RELOAD_RECHECK)
        LIST_FOREACH_SAFE(session, &worker->sessions, link, next)
            session_recheck(session);
    worker_cut(worker, CLOSE_POLICY, is_idle_at_closed_door, NULL);
    name_service_leave(names_before);
    tenure_leave(before);
}
