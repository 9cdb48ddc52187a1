/*
 * The filters of a request's policy, asked one after the other after its rules have said yes.
 *
 * A filter that has to wait takes a ticket; its answer comes through the worker's mailbox and finds
 * the session by it, or nothing. Each pending request has a place in its worker's table of waits,
 * so that an answer costs the same with one and with ten thousand of them.
 *
 * Ownership: the state is the session's and lives while filters are asked. Thread: the session's
 * worker; a module answers from any.
 */
#ifndef SESSION_FILTERING_H
#define SESSION_FILTERING_H

#include "filters/outcome.h"
#include "srt/filter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct session;
struct worker;

struct filter_wait {
    struct session *session; /* NULL: free */
    uint64_t serial;
    uint32_t next_free; /* 1 + its place; 0 = none */
};

/* A worker's. */
struct filter_waits {
    LIST_ENTRY(filter_waits) link; /* among all of the process */
    struct worker *worker;
    uint64_t number; /* the `worker` of its tickets; never used again in this process */
    uint64_t serial;
    struct filter_wait *items;
    uint32_t count;
    uint32_t free; /* 1 + the first free place */
};

void filter_waits_init(struct filter_waits *waits, struct worker *worker);
/* From here on nothing is posted to the worker's mailbox. */
void filter_waits_end(struct filter_waits *waits);

/* What modules may call. */
extern const struct srt_filter_host filtering_host;

enum filtering { FILTERING_PASSED, FILTERING_WAITS, FILTERING_DENIED };

/* Asks from the first filter on, until all have passed, one denies, or one has to wait; then, where
 * the rules ask, for the approval. DENIED: the decision says who and why, and its ruling the
 * outcome. */
enum filtering filtering_begin(struct session *session);
/* Something has happened: WAITS while there is no answer. */
enum filtering filtering_go_on(struct session *session);
/* The time is up, or (`left`) the client is gone. */
enum filtering filtering_give_up(struct session *session, bool left);
/* Every filter has passed it, and somebody has to say yes (session/approval.h). */
bool filtering_awaits_approval(const struct session *session);
/* On the loop's clock. */
double filtering_deadline(const struct session *session);

/* The request ends, whatever it waits for. */
void filtering_forget(struct session *session);
/* An admitted request ended: tells the filters that count. */
void filtering_end(struct session *session);

#endif
