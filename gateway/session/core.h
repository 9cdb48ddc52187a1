/*
 * One worker from within: what its sessions, doors and sandboxes share on their thread.
 *
 * Everything here belongs to one worker and is touched on its thread only, except where `_Atomic`
 * says otherwise; so nothing here is locked. The control thread's view is session/worker.h.
 */
#ifndef SESSION_CORE_H
#define SESSION_CORE_H

#include "filters/grants.h"
#include "record/json.h"
#include "session/filtering.h"
#include "session/mailbox.h"
#include "session/request.h"
#include "session/sandbox.h"
#include "session/tickets.h"
#include "session/worker.h"
#include "transport/farewell.h"
#include "transport/reach.h"
#include "transport/relay.h"
#include "transport/slab.h"
#include "wire/http_head.h"

#include <stdatomic.h>

struct proto;
struct session;
struct visit;
struct errand;
struct stand_ins;
struct budget;
struct resolver;

/*
 * A worker's stay with a snapshot, counted by the requests that were judged under it. The counter
 * is a plain integer, so that the data path has neither atomics nor locks.
 */
struct tenure {
    struct workers *team;
    struct snapshot *snapshot;
    struct budget **budgets; /* one for each config->clients, in that order */
    struct usage **usages;   /* one for each config->policies, in that order */
    void **filters;          /* the filters in this worker, as in snapshot->filters */
    unsigned users;          /* requests, and one for being in force */
};

struct tenure *tenure_take(struct tenure *tenure);
void tenure_leave(struct tenure *tenure);

/* A resolver, counted by the questions that are out, so that a reload can replace it. The last of
 * them may leave from within the resolver's own call, so it is buried from the loop. */
struct name_service {
    SLIST_ENTRY(name_service) link;
    struct worker *worker;
    struct resolver *resolver;
    unsigned users;
};

void name_service_leave(struct name_service *service);

/* The policy of a sandbox's own settings, counted by the requests that were judged under it. */
struct narrowing {
    struct workers *team;
    struct policy *policy;
    unsigned users;
};

/* Takes `policy` over; NULL gives NULL. */
struct narrowing *narrowing_create(struct workers *team, struct policy *policy);
struct narrowing *narrowing_take(struct narrowing *narrowing);
void narrowing_leave(struct narrowing *narrowing);

/* A listener as one worker accepts from it. Lives until it is closed and its last session is gone.
 */
struct door {
    LIST_ENTRY(door) link;
    struct worker *worker;
    struct listener *listener; /* NULL when nothing is accepted any more */
    int gate;                  /* what is watched for it; -1: the listener itself */
    struct sandbox *sandbox;   /* NULL for the gateway's own */
    const struct config_listen
        *config;               /* of the worker's tenure; NULL for a sandbox's, and when closed */
    char *name;                /* the [listen] section; NULL for a sandbox's */
    const struct proto *proto; /* that is spoken here and nothing else; NULL: it is found out */
    ev_io readable;
    struct visit *visit; /* is under way, and then it is not watched; or NULL */
    unsigned sessions;   /* and connections that linger */
    unsigned vain;       /* times that it was said to be readable and was not, in a row */
    bool closed;
    bool shut; /* its launcher has made it useless; only the sandbox's end closes it */
};

struct door *door_open(struct worker *worker, struct listener *listener, struct sandbox *sandbox);
/* Stops accepting; sessions go on. */
void door_close(struct door *door);
/* The same, but it remains the door of its section: what is open is served on as ever. */
void door_retire(struct door *door);
void door_leave(struct door *door);
/* A connection of one of its sessions outlives that, and counts like it until door_unlinger(). */
void door_linger(struct door *door);
void door_unlinger(void *door);
/* A launcher has made the listener useless. Who connects there is refused by the kernel, and
 * everybody else is served. */
void door_shut(struct door *door, const char *why);
/* Or no longer, if something is in the way. */
void door_watch(struct door *door);
/* Nothing is heard of it before door_watch(). */
void door_unwatch(struct door *door);
/* Accepting begins again after descriptors had run out. */
void doors_resume(struct worker *worker);

struct sandbox {
    LIST_ENTRY(sandbox) link;
    struct workers *team;
    struct worker *worker;
    char *name, *client, *policy;
    uint32_t uid;
    int32_t pid;
    void *owner;
    struct narrowing *narrowing; /* the worker's from the attach mail on */
    struct grants grants;        /* the same */
    struct stand_ins *names;     /* the same; NULL: it has no resolver */
    struct json names_written;   /* while they are frozen, which the control thread may read */
    bool names_frozen;
    bool names_have_v6; /* its connections can be redirected by IPv6, too */
    struct door *doors[SANDBOX_MAX_LISTENERS];
    size_t door_count;
    atomic_uint denials_waiting; /* on their way to the control thread */
    uint64_t denials_missed;     /* the worker's: that were not sent there, since the last one */
};

/* Ends it without its launcher's leave: the worker stops. */
void sandbox_forget(struct sandbox *sandbox);

/* Only the worker writes them, so an addition needs no locked instruction; anybody may read. */
typedef _Atomic uint64_t worker_counter;

static inline void counter_add(worker_counter *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

struct worker_counters {
    worker_counter connections, connections_closed;
    worker_counter tunnels, tunnels_closed;
    worker_counter bytes_up, bytes_down;
    worker_counter requests[FRONT_COUNT][OUTCOME_COUNT];
    worker_counter accept_pauses;
    struct {
        worker_counter buckets[METRICS_BUCKETS], sum_ns;
    } timings[TIMING_COUNT][2];
    worker_counter filter_failures[2];
};

struct worker {
    struct workers *team;
    unsigned index;
    pthread_t thread;
    struct ev_loop *loop;
    struct mailbox mailbox;
    struct audit *audit;
    bool trace, draining;
    bool retiring; /* every door is retired */
    bool hurrying; /* retiring, and nobody is waited for that has nothing to ask */

    struct tenure *tenure;   /* in force */
    struct tenure *prepared; /* between prepare and commit */
    struct name_service *names, *prepared_names;
    SLIST_HEAD(, name_service) unused_names;
    ev_timer burial;
    struct listener **prepared_listeners;

    LIST_HEAD(, door) doors;
    unsigned visits; /* of theirs that are under way */
    LIST_HEAD(, sandbox) sandboxes;
    LIST_HEAD(, session) sessions;
    struct slab session_room, http_room, attempt_room, connector_room; /* what they are made of */
    TAILQ_HEAD(waiting, session) waiting; /* for their record to be on disk, by ticket */
    struct tickets *tickets;
    bool has_reported;       /* since the audit writer was woken */
    ev_prepare handing_over; /* wakes it, once a turn */
    struct filter_waits filter_waits;
    struct grants grants; /* of clients, listeners and policies */

    struct farewells farewells;
    struct tls_client *tls_client; /* NULL until an upstream needs it */
    struct reach *reach;
    ev_timer accept_pause;
    double accept_pause_s;

    /* Free between two calls; too big for the stack of every call or for every session. */
    struct relay_room room;
    struct resolve_answer *answer; /* from RESOLVE to VET */
    struct approved *approved;     /* from there to CONNECT */
    struct http_request *http_request;
    struct http_response *http_response;
    struct json json, squid; /* a record, and its line in that format */
    struct buf reply;        /* an answer of ours in the making */
    uint8_t random[512];
    size_t random_left;

    struct worker_counters counters;
    struct errand *drain; /* to be answered when nothing is left */
    struct errand *empty; /* to be answered when nobody is left */
};

/* Everything but the thread and a snapshot: worker_prepare() and worker_commit() come next. */
int worker_init(struct worker *worker, struct workers *team, unsigned index,
                const struct workers_config *config, struct srt_err *err);
/* After its thread has ended, or never began. */
void worker_end(struct worker *worker);

/* The two halves of a reload, on the worker's thread. The listeners' counts and both arrays are
 * taken over. */
int worker_prepare(struct worker *worker, struct snapshot *snapshot, struct listener **listeners,
                   struct budget **budgets, struct usage **usages, struct srt_err *err);
void worker_commit(struct worker *worker);
void worker_abort(struct worker *worker);

/* Every session for which `chosen` (NULL: all) says so. */
void worker_cut(struct worker *worker, enum close_cause cause,
                bool (*chosen)(const struct session *, const void *), const void *arg);

/* A 26-character ULID: 48 bits of milliseconds, 80 of chance. */
void worker_make_id(struct worker *worker, char out[REQUEST_ID_LEN + 1]);
/* For the histograms of the metrics. */
void worker_count_time(struct worker *worker, enum timing timing, bool refused, int64_t took_ns);
/* Whether an answer that begins now is the last of its connection. */
bool worker_answers_last(const struct worker *worker);
/* To be called whenever a session ended or became idle. */
void worker_check_drained(struct worker *worker);

/* Connections of the whole team that are open, and its bound. */
unsigned workers_connections(const struct workers *team);
void workers_connection_opened(struct workers *team);
void workers_connection_closed(struct workers *team);
/* A constant of this process that a Via field shows, so that a request that comes round is known.
 */
const char *workers_loop_token(const struct workers *team);
/* At most once a second for the whole team. */
bool workers_may_complain(struct workers *team, double now);
/* The worker's count of it is given back by the control thread, since the last one frees all rules
 * and lists, which can be millions. */
void workers_release_snapshot(struct workers *team, struct snapshot *snapshot);
/* Likewise of a sandbox's own lists, which a launcher may make long. */
void workers_release_policy(struct workers *team, struct policy *policy);
/* Copies the denial to the control thread; drops it when too many wait there. */
void workers_post_denial(struct sandbox *sandbox, const struct denial *denial);

#endif
