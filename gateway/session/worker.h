/*
 * The workers, as the control thread sees them: N threads with one libev loop, one resolver and
 * their sessions each (session/core.h is what a worker's own code sees).
 *
 * Ownership: workers_start() gives the control thread the whole team; workers_stop() ends it.
 * Thread: every function here is called on the control thread, and every `done` and `on_...` runs
 * there too, from the control loop, never from within the call. Nothing here blocks but
 * workers_start() and workers_stop().
 */
#ifndef SESSION_WORKER_H
#define SESSION_WORKER_H

#include "filters/outcome.h"
#include "filters/rule.h"
#include "record/audit.h"
#include "record/metrics.h"
#include "session/listener.h"
#include "session/snapshot.h"
#include "session/usage.h"
#include "srt/err.h"

struct ev_loop;
struct workers;

enum { REQUEST_ID_LEN = 26 }; /* a ULID */

/* A refusal, for whoever watches a sandbox. Texts live only during the call; NULL = absent. */
struct denial {
    void *owner;      /* of struct sandbox_config */
    int64_t ts_ms;    /* since the epoch */
    const char *host; /* NULL when the request named none */
    uint16_t port;
    enum front front;
    enum outcome reason;
    const char *rule, *policy, *message, *next_step, *request_id;
    uint64_t missed; /* before it, since too many of its sandbox were on their way */
};

struct workers_asks;

struct workers_config {
    unsigned count;               /* at least 1 */
    struct ev_loop *control_loop; /* where answers are delivered */
    struct audit *audit;          /* borrowed; outlives the workers */
    struct snapshot *snapshot;    /* the first in force; a count is taken */
    /* One for each of snapshot->config->listens, in that order; each worker takes its count. */
    struct listener *const *listeners;
    bool trace; /* every step of every session on stderr, for developers */
    /* A request of an attached sandbox was refused (report mode does not refuse). */
    void (*on_denial)(void *arg, const struct denial *denial);
    void *arg;
    /* Requests wait for an approval, or no longer (session/approval.h); NULL: nobody can be asked.
     */
    const struct workers_asks *asks;
};

/* Returns once every thread serves. NULL and `err` when a thread, a loop or a resolver cannot be
 * had. */
struct workers *workers_start(const struct workers_config *config, struct srt_err *err);

/* Cuts what is left (close records with cause `drain`), joins the threads, frees. Calls that are
 * still unanswered end without their `done`; sandboxes that are still attached end too. The audit
 * log is muted: it is for one team of workers. */
void workers_stop(struct workers *workers);

unsigned workers_count(const struct workers *workers);

/* Reload, first half: every worker makes itself ready for `snapshot` (a count is taken) without
 * using it. `listeners` as above: those that are kept, and new ones; a listener that is not in the
 * array stops being accepted from at the commit. One reload at a time. `error` NULL: all ready. */
typedef void workers_prepared_fn(void *arg, const char *error);
void workers_prepare(struct workers *workers, struct snapshot *snapshot,
                     struct listener *const *listeners, workers_prepared_fn *done, void *arg);

/* Second half, after `done` said that all are ready: in force for every request whose head
 * completes from now on; open tunnels are judged again unless reload-tunnels = keep. `done` runs
 * when every worker has taken it up and cut what had to be cut. */
typedef void workers_done_fn(void *arg);
void workers_commit(struct workers *workers, workers_done_fn *done, void *arg);
/* Or forget it, after `done`, whatever it said. */
void workers_abort(struct workers *workers);

/* New requests get 503 `draining`, idle kept-alive connections are closed; `done` runs when no
 * tunnel and no exchange is left. Cannot be taken back. */
void workers_drain(struct workers *workers, workers_done_fn *done, void *arg);

/* Another process is to take every sandbox over: their resolvers wait, and what sandbox_names() is
 * does not change once `done` has run, until workers_thaw_names(). */
void workers_freeze_names(struct workers *workers, workers_done_fn *done, void *arg);
void workers_thaw_names(struct workers *workers);

/* Another process has taken every listener over: no worker accepts any more when `done` runs. What
 * is open is served on, and an answer is the last of its connection. From then on the listeners of
 * a snapshot are all NULL. Cannot be taken back. */
void workers_retire(struct workers *workers, workers_done_fn *done, void *arg);
/* After that: connections that have nothing to ask are closed. */
void workers_hurry(struct workers *workers);
/* `done` runs when no connection is left. Once, after workers_retire(). */
void workers_await_end(struct workers *workers, workers_done_fn *done, void *arg);

/* A tunnel or an exchange in progress. Texts live only during the call. */
struct tunnel_info {
    char id[REQUEST_ID_LEN + 1];
    const char *sandbox, *client, *listener, *policy; /* NULL = none */
    uint64_t generation;
    enum front front;
    const char *host;
    uint16_t port;
    const char *addr;
    uint64_t bytes_up, bytes_down;
    int64_t since_ms; /* since the epoch */
    uint64_t duration_ms, idle_ms;
};
typedef void workers_tunnels_fn(void *arg, const struct tunnel_info *tunnels, size_t count);
void workers_tunnels(struct workers *workers, workers_tunnels_fn *done, void *arg);

/* Cuts the tunnel of that id, close record with cause `cut`. */
typedef void workers_cut_fn(void *arg, const char *id, bool found);
void workers_cut(struct workers *workers, const char *id, workers_cut_fn *done, void *arg);

/* How long things took that a request waits for. */
enum timing {
    TIMING_DECISION, /* rules */
    TIMING_DNS,      /* of names, from the cache too */
    TIMING_CONNECT,  /* new connections */
    TIMING_MODULE,   /* one filter's verdict */
    TIMING_COUNT,
};

/* `done` runs when every worker has turned its loop once: none of them hangs. */
void workers_ping(struct workers *workers, workers_done_fn *done, void *arg);

/* Sums over the workers, read without stopping them. */
struct workers_stats {
    uint64_t connections_total, connections_open;
    uint64_t tunnels_open; /* tunnels and exchanges in progress */
    uint64_t bytes_up, bytes_down;
    uint64_t requests[FRONT_COUNT][OUTCOME_COUNT];
    uint64_t accept_pauses;                            /* times that descriptors ran out */
    struct metrics_histogram timings[TIMING_COUNT][2]; /* [1]: it ended in a refusal */
    uint64_t filter_failures[2]; /* filters that gave no verdict; [1]: the request went on */
};
void workers_stats(const struct workers *workers, struct workers_stats *out);

/* What was decided under each policy that there is or has been, by name. */
typedef void workers_usage_fn(void *arg, const struct usage *usage);
void workers_usages(const struct workers *workers, workers_usage_fn *each, void *arg);

#endif
