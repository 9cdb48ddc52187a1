#include "session/worker.h"

#include "session/errand.h"
#include "session/naming.h"
#include "session/session.h"
#include "session/team.h"
#include "srt/cleanup.h"
#include "srt/must.h"
#include "srt/queue.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

enum { DENIALS_WAITING_MAX = 4096 };

/* ---- what workers ask their team ---- */

unsigned workers_connections(const struct workers *team)
{
    return atomic_load_explicit(&team->connections, memory_order_relaxed);
}

void workers_connection_opened(struct workers *team)
{
    atomic_fetch_add_explicit(&team->connections, 1, memory_order_relaxed);
}

void workers_connection_closed(struct workers *team)
{
    atomic_fetch_sub_explicit(&team->connections, 1, memory_order_relaxed);
}

const char *workers_loop_token(const struct workers *team)
{
    return team->loop_token;
}

bool workers_may_complain(struct workers *team, double now)
{
    long long second = (long long)now;
    return atomic_exchange_explicit(&team->complained, second, memory_order_relaxed) != second;
}

/* ---- what is given back ---- */

struct release_mail {
    struct mail mail;
    struct snapshot *snapshot; /* or NULL */
    struct policy *policy;     /* likewise */
};

static void deliver_release(struct mail *mail, void *owner)
{
    struct release_mail *release = (struct release_mail *)mail;
    (void)owner; /* also when the team ends */
    snapshot_release(release->snapshot);
    policy_free(release->policy);
    free(release);
}

static void post_release(struct workers *team, struct snapshot *snapshot, struct policy *policy)
{
    struct release_mail *release = must(calloc(1, sizeof(*release)));
    release->mail.deliver = deliver_release;
    release->snapshot = snapshot;
    release->policy = policy;
    mailbox_post(&team->control, &release->mail);
}

void workers_release_snapshot(struct workers *team, struct snapshot *snapshot)
{
    post_release(team, snapshot, NULL);
}

void workers_release_policy(struct workers *team, struct policy *policy)
{
    post_release(team, NULL, policy);
}

/* ---- denials ---- */

struct denial_mail {
    struct mail mail;
    struct sandbox *sandbox; /* which the control thread frees, behind its last denial */
    struct denial denial;    /* its texts are the mail's */
};

static void deliver_denial(struct mail *mail, void *owner)
{
    struct denial_mail *denial_mail = (struct denial_mail *)mail;
    struct workers *team = owner;
    const struct denial *denial = &denial_mail->denial;
    if (team != NULL) {
        atomic_fetch_sub_explicit(&team->denials_waiting, 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&denial_mail->sandbox->denials_waiting, 1, memory_order_relaxed);
        team->on_denial(team->arg, denial);
    }
    free_const(denial->host);
    free_const(denial->rule);
    free_const(denial->policy);
    free_const(denial->message);
    free_const(denial->next_step);
    free_const(denial->request_id);
    free(denial_mail);
}

/* A sandbox can ask faster than the control thread can tell its launcher: as many of its denials
 * wait there as are left to all others. */
static bool take_denial_place(struct sandbox *sandbox)
{
    struct workers *team = sandbox->team;
    const unsigned all = atomic_load_explicit(&team->denials_waiting, memory_order_relaxed);
    const unsigned own = atomic_load_explicit(&sandbox->denials_waiting, memory_order_relaxed);
    if (all >= DENIALS_WAITING_MAX || own >= DENIALS_WAITING_MAX - all)
        return false;
    atomic_fetch_add_explicit(&team->denials_waiting, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&sandbox->denials_waiting, 1, memory_order_relaxed);
    return true;
}

void workers_post_denial(struct sandbox *sandbox, const struct denial *denial)
{
    struct workers *team = sandbox->team;
    if (team->on_denial == NULL)
        return;
    if (!take_denial_place(sandbox)) {
        sandbox->denials_missed++;
        return;
    }
    struct denial_mail *mail = must(calloc(1, sizeof(*mail)));
    mail->mail.deliver = deliver_denial;
    mail->sandbox = sandbox;
    mail->denial = *denial;
    mail->denial.missed = sandbox->denials_missed;
    sandbox->denials_missed = 0;
    mail->denial.host = must_copy(denial->host);
    mail->denial.rule = must_copy(denial->rule);
    mail->denial.policy = must_copy(denial->policy);
    mail->denial.message = must_copy(denial->message);
    mail->denial.next_step = must_copy(denial->next_step);
    mail->denial.request_id = must_copy(denial->request_id);
    mailbox_post(&team->control, &mail->mail);
}

/* ---- start and stop ---- */

static void *run_worker(void *arg)
{
    struct worker *worker = arg;
    ev_run(worker->loop, 0);
    return NULL;
}

/* Signals are the control thread's. */
static int start_thread(struct worker *worker)
{
    sigset_t all, before;
    char name[16];
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&worker->thread, NULL, run_worker, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        snprintf(name, sizeof(name), "worker-%u", worker->index % 10000);
        pthread_setname_np(worker->thread, name);
    }
    return error;
}

static struct listener **copy_listeners(const struct snapshot *snapshot,
                                        struct listener *const *listeners)
{
    const size_t count = snapshot->config->listen_count;
    struct listener **copy = must(calloc(count + 1, sizeof(struct listener *)));
    for (size_t i = 0; i < count; i++)
        copy[i] = listeners[i] != NULL ? listener_take(listeners[i]) : NULL;
    return copy;
}

static struct budget **find_budgets(struct workers *team, const struct gateway_config *config)
{
    struct budget **found = must(calloc(config->client_count + 1, sizeof(struct budget *)));
    for (size_t i = 0; i < config->client_count; i++)
        found[i] = budgets_find(&team->budgets, config->clients[i].name);
    return found;
}

static struct usage **find_usages(struct workers *team, const struct gateway_config *config)
{
    struct usage **found = must(calloc(config->policy_count + 1, sizeof(struct usage *)));
    for (size_t i = 0; i < config->policy_count; i++)
        found[i] = usages_find(&team->usages, config->policies[i].name);
    return found;
}

static bool run_stop(struct errand *errand)
{
    ev_break(errand->worker->loop, EVBREAK_ALL);
    return true;
}

static void free_team(struct workers *team)
{
    for (unsigned i = 0; i < team->count; i++)
        worker_end(&team->all[i]);
    mailbox_end(&team->control);
    budgets_free(&team->budgets);
    usages_free(&team->usages);
    free(team->all);
    free(team);
}

static void stop_threads(struct workers *team, unsigned started)
{
    struct round *round = round_create(team, round_finish_done, NULL);
    for (unsigned i = 0; i < started; i++)
        errand_send(errand_create(round, &team->all[i], run_stop));
    for (unsigned i = 0; i < started; i++)
        pthread_join(team->all[i].thread, NULL);
    if (started == 0)
        free(round);
}

void workers_stop(struct workers *team)
{
    if (team == NULL)
        return;
    stop_threads(team, team->count);
    audit_mute(team->audit); /* it must not wake workers that are gone */
    free_team(team);
}

static void make_token(char out[17])
{
    uint8_t random[8];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        abort();
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(out + 2 * i, 3, "%02x", random[i]);
}

static int init_workers(struct workers *team, const struct workers_config *config,
                        struct srt_err *err)
{
    for (unsigned i = 0; i < config->count; i++) {
        team->count++;
        if (worker_init(&team->all[i], team, i, config, err) != 0)
            return -1;
        /* As a reload does it, so that there is one way in. */
        if (worker_prepare(&team->all[i], config->snapshot,
                           copy_listeners(config->snapshot, config->listeners),
                           find_budgets(team, config->snapshot->config),
                           find_usages(team, config->snapshot->config), err) != 0)
            return -1;
        worker_commit(&team->all[i]);
    }
    return 0;
}

struct workers *workers_start(const struct workers_config *config, struct srt_err *err)
{
    assert(config->count > 0);
    struct workers *team = must(calloc(1, sizeof(*team)));
    team->all = must(calloc(config->count, sizeof(*team->all)));
    team->audit = config->audit;
    team->on_denial = config->on_denial;
    team->asks = config->asks;
    team->arg = config->arg;
    make_token(team->loop_token);
    mailbox_init(&team->control, config->control_loop, team);
    if (init_workers(team, config, err) != 0) {
        free_team(team);
        return NULL;
    }
    for (unsigned i = 0; i < team->count; i++) {
        int error = start_thread(&team->all[i]);
        if (error != 0) {
            srt_err_set(err, "no thread can be had for a worker: %s", strerror(error));
            stop_threads(team, i);
            free_team(team);
            return NULL;
        }
    }
    return team;
}

unsigned workers_count(const struct workers *team)
{
    return team->count;
}

/* ---- calls that every worker answers ---- */

struct preparation {
    struct snapshot *snapshot;
    struct listener **listeners;
    struct budget **budgets;
    struct usage **usages;
};

static bool run_prepare(struct errand *errand)
{
    struct srt_err err;
    struct preparation *preparation = errand->data;
    struct listener **listeners = preparation->listeners;
    struct budget **budgets = preparation->budgets;
    struct usage **usages = preparation->usages;
    preparation->listeners = NULL;
    preparation->budgets = NULL;
    preparation->usages = NULL;
    if (worker_prepare(errand->worker, preparation->snapshot, listeners, budgets, usages, &err) !=
        0)
        errand->error = must_copy(err.text);
    return true;
}

static void dispose_preparation(struct errand *errand)
{
    struct preparation *preparation = errand->data;
    if (preparation->listeners != NULL) {
        for (size_t i = 0; i < preparation->snapshot->config->listen_count; i++)
            listener_release(preparation->listeners[i]);
        free(preparation->listeners);
    }
    snapshot_release(preparation->snapshot);
    free(preparation->budgets);
    free(preparation->usages);
    free(preparation);
}

static void collect_error(struct errand *errand)
{
    if (errand->round->error != NULL || errand->error == NULL)
        return;
    errand->round->error = errand->error;
    errand->error = NULL;
}

static void finish_prepare(struct round *round)
{
    round->prepared(round->arg, round->error);
}

void workers_prepare(struct workers *team, struct snapshot *snapshot,
                     struct listener *const *listeners, workers_prepared_fn *done, void *arg)
{
    struct round *round = round_create(team, finish_prepare, arg);
    round->prepared = done;
    for (unsigned i = 0; i < team->count; i++) {
        struct errand *errand = errand_create(round, &team->all[i], run_prepare);
        struct preparation *preparation = must(calloc(1, sizeof(*preparation)));
        preparation->snapshot = snapshot_take(snapshot);
        preparation->listeners = copy_listeners(snapshot, listeners);
        preparation->budgets = find_budgets(team, snapshot->config);
        preparation->usages = find_usages(team, snapshot->config);
        errand->data = preparation;
        errand->collect = collect_error;
        errand->dispose = dispose_preparation;
        errand_send(errand);
    }
}

/* `done` may be NULL. */
static void ask_all(struct workers *team, bool (*run)(struct errand *), workers_done_fn *done,
                    void *arg)
{
    struct round *round = round_create(team, round_finish_done, arg);
    round->done = done;
    for (unsigned i = 0; i < team->count; i++)
        errand_send(errand_create(round, &team->all[i], run));
}

static bool run_commit(struct errand *errand)
{
    worker_commit(errand->worker);
    return true;
}

void workers_commit(struct workers *team, workers_done_fn *done, void *arg)
{
    ask_all(team, run_commit, done, arg);
}

static bool run_abort(struct errand *errand)
{
    worker_abort(errand->worker);
    return true;
}

void workers_abort(struct workers *team)
{
    ask_all(team, run_abort, NULL, NULL);
}

static void wake_idle(struct worker *worker)
{
    struct session *session, *next;
    LIST_FOREACH_SAFE(session, &worker->sessions, link, next)
        session_drain(session);
}

static bool run_drain(struct errand *errand)
{
    struct worker *worker = errand->worker;
    if (worker->drain != NULL)
        return true; /* already asked, by a call whose answer is still to come */
    worker->draining = true;
    worker->drain = errand;
    wake_idle(worker);
    worker_check_drained(worker);
    return false;
}

void workers_drain(struct workers *team, workers_done_fn *done, void *arg)
{
    ask_all(team, run_drain, done, arg);
}

/* ---- the place is another process's ---- */

static bool run_freeze_names(struct errand *errand)
{
    struct sandbox *sandbox;
    LIST_FOREACH(sandbox, &errand->worker->sandboxes, link)
        if (sandbox->names != NULL)
            naming_freeze(sandbox);
    return true;
}

static bool run_thaw_names(struct errand *errand)
{
    struct sandbox *sandbox;
    LIST_FOREACH(sandbox, &errand->worker->sandboxes, link)
        if (sandbox->names != NULL)
            naming_thaw(sandbox);
    return true;
}

void workers_freeze_names(struct workers *team, workers_done_fn *done, void *arg)
{
    ask_all(team, run_freeze_names, done, arg);
}

void workers_thaw_names(struct workers *team)
{
    ask_all(team, run_thaw_names, NULL, NULL);
}

static bool run_retire(struct errand *errand)
{
    struct worker *worker = errand->worker;
    struct door *door;
    struct sandbox *sandbox;
    worker->retiring = true;
    LIST_FOREACH(sandbox, &worker->sandboxes, link)
        json_free(&sandbox->names_written); /* the other process has them */
    LIST_FOREACH(door, &worker->doors, link)
        door_retire(door);
    return true;
}

void workers_retire(struct workers *team, workers_done_fn *done, void *arg)
{
    ask_all(team, run_retire, done, arg);
}

static bool run_hurry(struct errand *errand)
{
    errand->worker->hurrying = true;
    wake_idle(errand->worker);
    return true;
}

void workers_hurry(struct workers *team)
{
    ask_all(team, run_hurry, NULL, NULL);
}

static bool run_await_end(struct errand *errand)
{
    errand->worker->empty = errand;
    worker_check_drained(errand->worker);
    return false;
}

void workers_await_end(struct workers *team, workers_done_fn *done, void *arg)
{
    ask_all(team, run_await_end, done, arg);
}

/* ---- tunnels ---- */

static void free_tunnels(struct tunnel_info *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free_const(list[i].sandbox);
        free_const(list[i].client);
        free_const(list[i].listener);
        free_const(list[i].policy);
        free_const(list[i].host);
        free_const(list[i].addr);
    }
    free(list);
}

static bool run_tunnels(struct errand *errand)
{
    const struct session *session;
    size_t count = 0;
    LIST_FOREACH(session, &errand->worker->sessions, link)
        count += session_is_tunnel(session);
    struct tunnel_info *list = must(calloc(count + 1, sizeof(*list)));
    LIST_FOREACH(session, &errand->worker->sessions, link) {
        char host[NAME_MAX_LEN + 1], addr[ADDR_TEXT_MAX];
        struct tunnel_info *info = &list[errand->count];
        if (!session_is_tunnel(session))
            continue;
        session_describe(session, info, host, addr);
        info->sandbox = must_copy(info->sandbox);
        info->client = must_copy(info->client);
        info->listener = must_copy(info->listener);
        info->policy = must_copy(info->policy);
        info->host = must_copy(info->host);
        info->addr = must_copy(info->addr);
        errand->count++;
    }
    errand->data = list;
    return true;
}

static void dispose_tunnels(struct errand *errand)
{
    free_tunnels(errand->data, errand->count);
}

/* Moves the errand's tunnels behind the round's. */
static void collect_tunnels(struct errand *errand)
{
    struct round *round = errand->round;
    const struct tunnel_info *list = errand->data;
    round->list = must(reallocarray(round->list, round->count + errand->count + 1, sizeof(*list)));
    for (size_t i = 0; i < errand->count; i++)
        round->list[round->count++] = list[i];
    errand->count = 0;
}

static void finish_tunnels(struct round *round)
{
    round->tunnels(round->arg, round->list, round->count);
}

static void dispose_list(struct round *round)
{
    free_tunnels(round->list, round->count);
}

void workers_tunnels(struct workers *team, workers_tunnels_fn *done, void *arg)
{
    struct round *round = round_create(team, finish_tunnels, arg);
    round->dispose = dispose_list;
    round->tunnels = done;
    for (unsigned i = 0; i < team->count; i++) {
        struct errand *errand = errand_create(round, &team->all[i], run_tunnels);
        errand->collect = collect_tunnels;
        errand->dispose = dispose_tunnels;
        errand_send(errand);
    }
}

static bool has_id(const struct session *session, const void *id)
{
    return session_is_tunnel(session) && strcmp(session->request.id, id) == 0;
}

static bool run_cut(struct errand *errand)
{
    const struct session *session;
    LIST_FOREACH(session, &errand->worker->sessions, link)
        errand->found |= has_id(session, errand->id);
    worker_cut(errand->worker, CLOSE_CUT, has_id, errand->id);
    return true;
}

static void collect_found(struct errand *errand)
{
    errand->round->found |= errand->found;
}

static void finish_cut(struct round *round)
{
    round->cut(round->arg, round->id, round->found);
}

void workers_cut(struct workers *team, const char *id, workers_cut_fn *done, void *arg)
{
    struct round *round = round_create(team, finish_cut, arg);
    round->cut = done;
    snprintf(round->id, sizeof(round->id), "%s", id);
    for (unsigned i = 0; i < team->count; i++) {
        struct errand *errand = errand_create(round, &team->all[i], run_cut);
        snprintf(errand->id, sizeof(errand->id), "%s", id);
        errand->collect = collect_found;
        errand_send(errand);
    }
}

static bool run_ping(struct errand *errand)
{
    (void)errand;
    return true;
}

void workers_ping(struct workers *team, workers_done_fn *done, void *arg)
{
    ask_all(team, run_ping, done, arg);
}

/* ---- statistics ---- */

static uint64_t read_counter(const worker_counter *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void add_timings(const struct worker_counters *counters, struct workers_stats *out)
{
    for (size_t timing = 0; timing < TIMING_COUNT; timing++)
        for (size_t refused = 0; refused < 2; refused++) {
            struct metrics_histogram *sum = &out->timings[timing][refused];
            for (size_t i = 0; i < METRICS_BUCKETS; i++)
                sum->buckets[i] += read_counter(&counters->timings[timing][refused].buckets[i]);
            sum->sum_ns += read_counter(&counters->timings[timing][refused].sum_ns);
        }
}

void workers_stats(const struct workers *team, struct workers_stats *out)
{
    *out = (struct workers_stats){0};
    for (unsigned i = 0; i < team->count; i++) {
        const struct worker_counters *counters = &team->all[i].counters;
        /* The end is read before the beginning, so that a difference is never negative. */
        uint64_t closed = read_counter(&counters->connections_closed);
        uint64_t ended = read_counter(&counters->tunnels_closed);
        uint64_t connections = read_counter(&counters->connections);
        out->connections_total += connections;
        out->connections_open += connections - closed;
        out->tunnels_open += read_counter(&counters->tunnels) - ended;
        out->bytes_up += read_counter(&counters->bytes_up);
        out->bytes_down += read_counter(&counters->bytes_down);
        out->accept_pauses += read_counter(&counters->accept_pauses);
        add_timings(counters, out);
        for (size_t open = 0; open < 2; open++)
            out->filter_failures[open] += read_counter(&counters->filter_failures[open]);
        for (size_t front = 0; front < FRONT_COUNT; front++)
            for (size_t outcome = 0; outcome < OUTCOME_COUNT; outcome++)
                out->requests[front][outcome] += read_counter(&counters->requests[front][outcome]);
    }
}

void workers_usages(const struct workers *team, workers_usage_fn *each, void *arg)
{
    usages_each(&team->usages, each, arg);
}
