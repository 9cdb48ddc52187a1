/*
 * Requests that the rules allow only when somebody says yes: they wait as for a filter that is
 * pending (session/filtering.h), and the control thread is told what they ask for.
 *
 * What was answered for a time is a grant (filters/grants.h). A worker has a table of those of
 * clients, listeners and policies, a sandbox its own; so a grant is found without a lock and
 * without asking anybody. Ownership: the worker's. Thread: the worker's, except where it says
 * control thread. Failure: none; what is not answered is refused.
 */
#ifndef SESSION_APPROVAL_H
#define SESSION_APPROVAL_H

#include "filters/grants.h"
#include "session/worker.h"
#include "srt/filter.h"

struct sandbox;
struct session;

/* ---- for the control thread ---- */

/* A request that waits. Texts live only during the call; NULL = absent. */
struct ask {
    struct srt_filter_ticket ticket;
    unsigned missing;    /* CHAIN_ASKS_... */
    bool hears_launcher; /* the sandbox's launcher may answer for the policy, too */
    void *owner;         /* of struct sandbox_config, or NULL */
    const char *sandbox, *client, *listener, *policy, *rule, *peer, *method, *path, *request_id;
    enum front front;
    const char *host, *target; /* target_host(), target_format() */
    uint16_t port;
    int64_t since_ms, until_ms; /* since the epoch */
};

/* Why one that was told of is not waited for any more. */
enum ask_end { ASK_TIMED_OUT, ASK_LEFT, ASK_OVERTAKEN };

/* What workers_config gives; constant, and as long as the workers. */
struct workers_asks {
    void (*opened)(void *arg, const struct ask *ask);
    /* Of one that the control thread has not answered, or not yet when it was over. */
    void (*ended)(void *arg, const struct srt_filter_ticket *ticket, enum ask_end why);
    void *arg;
};

enum ask_said {
    ASK_SAID_REFUSED,
    ASK_SAID_APPROVED,
    ASK_SAID_NOBODY,   /* can be asked */
    ASK_SAID_TOO_MANY, /* of this one's requests wait */
    ASK_SAID_GONE,     /* are those who could: another process has taken the place */
};

/* `text` (may be NULL) says in the record who has approved. One that has gone is not found. */
void workers_answer_ask(const struct srt_filter_ticket *ticket, enum ask_said said,
                        const char *text);
/* In force for every request that is judged from then on; before answers that are given later. A
 * grant for GRANT_SANDBOX needs its sandbox, the others NULL. */
void workers_grant(struct workers *workers, struct sandbox *sandbox, const struct grant *grant);
/* It ends, and so do the tunnels that it has let through (cause `policy`). `sandbox` as above. */
void workers_revoke(struct workers *workers, struct sandbox *sandbox, const char *id);

/* ---- for sessions ---- */

/* Of a request: who has been heard about it. */
struct approval {
    unsigned asks; /* CHAIN_ASKS_... that have said yes */
    char *policy;  /* under which */
    char *text;    /* for the record: who, or by which grant */
    char grant[GRANT_ID_LEN + 1];
};

void approval_free(struct approval *approval); /* or NULL */

enum approval_state { APPROVAL_GIVEN, APPROVAL_REFUSED, APPROVAL_MISSING };

/* What can be said at once, about a decision that asks. `by_filter`: a filter has said yes in the
 * policy's name. GIVEN: the decision is allowed. REFUSED: the decision's ruling says how. */
enum approval_state approval_look(struct session *session, bool by_filter);
/* The same without asking again or changing anything, of a decision under what is in force now. */
bool approval_covers(const struct session *session, const struct policy *policy, unsigned asks);

/* MISSING: tells the control thread. False: as many wait as may, and it is refused. */
bool approval_ask(struct session *session, const struct srt_filter_ticket *ticket, bool by_filter);
/* It was told, and waits no more without an answer. */
void approval_leave(struct session *session, const struct srt_filter_ticket *ticket,
                    enum ask_end why);
/* The answer is here. */
enum approval_state approval_take(struct session *session, enum ask_said said, const char *text);

#endif
