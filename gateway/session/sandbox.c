#include "session/sandbox.h"

#include "dns/stand_in.h"
#include "session/errand.h"
#include "session/session.h"
#include "session/team.h"
#include "srt/must.h"
#include "srt/queue.h"

#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>

static void sandbox_free(struct sandbox *sandbox)
{
    stand_ins_free(sandbox->names);
    json_free(&sandbox->names_written);
    free(sandbox->name);
    free(sandbox->client);
    free(sandbox->policy);
    free(sandbox);
}

/* ---- attach ---- */

struct attachment {
    struct sandbox *sandbox; /* NULL once the worker has it */
    struct listener *listeners[SANDBOX_MAX_LISTENERS];
    size_t listener_count;
};

static bool run_attach(struct errand *errand)
{
    struct attachment *attachment = errand->data;
    struct sandbox *sandbox = attachment->sandbox;
    attachment->sandbox = NULL;
    LIST_INSERT_HEAD(&errand->worker->sandboxes, sandbox, link);
    for (size_t i = 0; i < attachment->listener_count; i++)
        sandbox->doors[sandbox->door_count++] =
            door_open(errand->worker, attachment->listeners[i], sandbox);
    return true;
}

static void dispose_attachment(struct errand *errand)
{
    struct attachment *attachment = errand->data;
    if (attachment->sandbox != NULL) {
        for (size_t i = 0; i < attachment->listener_count; i++)
            listener_release(attachment->listeners[i]);
        narrowing_leave(attachment->sandbox->narrowing);
        sandbox_free(attachment->sandbox);
    }
    free(attachment);
}

static bool is_for_v6(const struct listener *listener)
{
    int domain = AF_UNSPEC;
    socklen_t len = sizeof(domain);
    return getsockopt(listener_fd(listener), SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
           domain == AF_INET6;
}

/* Where addresses begin is left to chance: what another gateway has given out for this sandbox will
 * hardly stand for another name here. */
static void make_names(struct sandbox *sandbox, const struct sandbox_config *config)
{
    uint32_t start;
    sandbox->names = config->names;
    for (size_t i = 0; i < config->listener_count; i++) {
        const enum listener_kind kind = listener_kind(config->listeners[i]);
        if (kind == LISTENER_TRANSPARENT)
            sandbox->names_have_v6 = is_for_v6(config->listeners[i]);
        if (sandbox->names != NULL || (kind != LISTENER_DNS_UDP && kind != LISTENER_DNS_TCP))
            continue;
        if (getrandom(&start, sizeof(start), 0) != (ssize_t)sizeof(start))
            abort();
        sandbox->names = stand_ins_create(start);
    }
}

struct str sandbox_names(const struct sandbox *sandbox)
{
    return (struct str){sandbox->names_written.data, sandbox->names_written.len};
}

struct sandbox *sandbox_attach(struct workers *team, const struct sandbox_config *config)
{
    struct sandbox *sandbox = must(calloc(1, sizeof(*sandbox)));
    struct attachment *attachment = must(calloc(1, sizeof(*attachment)));
    sandbox->team = team;
    sandbox->worker = &team->all[team->next_worker++ % team->count];
    sandbox->name = must_copy(config->name);
    sandbox->client = must_copy(config->client);
    sandbox->policy = must_copy(config->policy);
    sandbox->uid = config->uid;
    sandbox->pid = config->pid;
    sandbox->owner = config->owner;
    sandbox->narrowing = narrowing_create(team, config->narrowing);
    make_names(sandbox, config);
    attachment->sandbox = sandbox;
    attachment->listener_count = config->listener_count;
    memcpy(attachment->listeners, config->listeners, sizeof(attachment->listeners));

    struct round *round = round_create(team, round_finish_done, NULL);
    struct errand *errand = errand_create(round, sandbox->worker, run_attach);
    errand->data = attachment;
    errand->dispose = dispose_attachment;
    errand_send(errand);
    return sandbox;
}

/* ---- update ---- */

static bool belongs_to(const struct session *session, const void *sandbox)
{
    return session->door->sandbox == sandbox;
}

struct narrowing_change {
    struct sandbox *sandbox;
    struct policy *policy; /* NULL once it is in force */
};

static bool run_update(struct errand *errand)
{
    struct narrowing_change *change = errand->data;
    struct sandbox *sandbox = change->sandbox;
    struct narrowing *before = sandbox->narrowing;
    sandbox->narrowing = narrowing_create(sandbox->team, change->policy);
    change->policy = NULL;
    narrowing_leave(before);
    struct session *session, *next;
    LIST_FOREACH_SAFE(session, &errand->worker->sessions, link, next)
        if (belongs_to(session, sandbox))
            session_recheck(session);
    return true;
}

static void dispose_update(struct errand *errand)
{
    struct narrowing_change *change = errand->data;
    policy_free(change->policy);
    free(change);
}

void sandbox_update(struct sandbox *sandbox, struct policy *narrowing, workers_done_fn *done,
                    void *arg)
{
    struct round *round = round_create(sandbox->team, round_finish_done, arg);
    struct errand *errand = errand_create(round, sandbox->worker, run_update);
    struct narrowing_change *change = must(calloc(1, sizeof(*change)));
    change->sandbox = sandbox;
    change->policy = narrowing;
    round->done = done;
    errand->data = change;
    errand->dispose = dispose_update;
    errand_send(errand);
}

/* ---- detach ---- */

static void sandbox_end(struct sandbox *sandbox)
{
    LIST_REMOVE(sandbox, link);
    for (size_t i = 0; i < sandbox->door_count; i++)
        sandbox->doors[i]->sessions++; /* so that it lives until its last session is cut */
    worker_cut(sandbox->worker, CLOSE_DETACH, belongs_to, sandbox);
    for (size_t i = 0; i < sandbox->door_count; i++) {
        if (!sandbox->doors[i]->closed)
            door_close(sandbox->doors[i]);
        sandbox->doors[i]->sandbox = NULL; /* connections that linger may keep it */
        door_leave(sandbox->doors[i]);
    }
    narrowing_leave(sandbox->narrowing);
    sandbox->narrowing = NULL;
    grants_free(&sandbox->grants);
    sandbox->door_count = 0;
}

void sandbox_forget(struct sandbox *sandbox)
{
    sandbox_end(sandbox);
    sandbox_free(sandbox);
}

static bool run_detach(struct errand *errand)
{
    sandbox_end(errand->data);
    errand->found = true;
    return true;
}

/* An errand that never arrived leaves the sandbox to its worker. */
static void dispose_detach(struct errand *errand)
{
    if (errand->found)
        sandbox_free(errand->data);
}

void sandbox_detach(struct sandbox *sandbox, workers_done_fn *done, void *arg)
{
    struct round *round = round_create(sandbox->team, round_finish_done, arg);
    struct errand *errand = errand_create(round, sandbox->worker, run_detach);
    round->done = done;
    errand->data = sandbox;
    errand->dispose = dispose_detach;
    errand_send(errand);
}
