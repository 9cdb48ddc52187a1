/*
 * The steps of a session, each with the functions of its row in the table of session.c, and the
 * little that they share. Private to session.c and the files step_*.c.
 *
 * enter_X and wake_X return the next step, or STEP_WAIT; X_deadline is a time on the loop's clock,
 * 0 for none, and X_late what follows when it has come. Thread: the session's worker.
 */
#ifndef SESSION_STEPS_H
#define SESSION_STEPS_H

#include "session/session.h"

#include <time.h>

enum { HEAR_MAX = 64 };             /* bytes, of which a language is known by the first few */
enum { UNANSWERED_MAX = 64 << 10 }; /* of answers that a client does not read */
#define CLIENT_FIN_S 2.0 /* for an answer to begin after the client has closed its half */

/* For what is measured finer than the loop's clock does. */
static inline int64_t session_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline enum step step_refuse(struct session *s, enum outcome outcome)
{
    s->request.outcome = outcome;
    return STEP_REFUSE;
}

static inline enum step step_over_limit(struct session *s)
{
    s->cause = CLOSE_LIMIT;
    return STEP_CLOSE;
}

/* step_read.c: bytes become a request. */
enum step enter_read(struct session *s);
enum step wake_read(struct session *s);
double read_deadline(const struct session *s);
enum step read_late(struct session *s);
/* What an idle upstream says, or its end, is nobody's answer (RFC 9112 9.3 allows to close it). */
void look_at_idle_upstream(struct session *s);

/* step_judge.c: the verdict on the request alone. */
enum step enter_judge(struct session *s);
enum step enter_filter(struct session *s);
enum step wake_filter(struct session *s);
double filter_deadline(const struct session *s);
enum step filter_late(struct session *s);

/* step_connect.c: from a name that is allowed to a connection. */
enum step enter_resolve(struct session *s);
/* When a client that nobody watches is to be watched: most ways are over before. */
double way_deadline(const struct session *s);
enum step way_late(struct session *s);
/* On that way, the client is gone for good. What was not decided about is recorded as what it was
 * to be: allowed, and over. */
bool client_has_left(const struct session *s);
enum step way_abandon(struct session *s);
enum step wake_resolve(struct session *s);
enum step enter_vet(struct session *s);
enum step enter_connect(struct session *s);
enum step wake_connect(struct session *s);
enum step enter_handshake(struct session *s);
enum step wake_handshake(struct session *s);
double handshake_deadline(const struct session *s);
enum step handshake_late(struct session *s);

/* step_record.c: the decision is on record, then the client is told. */
enum step enter_record(struct session *s);
enum step wake_record(struct session *s);
enum step enter_answer(struct session *s);
void admit(struct session *s);
/* A ticket for the next record, or 0 when there is nothing to wait for. */
uint64_t ticket_take(struct session *s);
void ticket_forget(struct session *s);
/* It was admitted, nothing of an answer has been passed on, and what is in force now denies it. */
enum step refuse_as_overtaken(struct session *s, enum outcome outcome);

/* step_tunnel.c: the server name is seen, then bytes go both ways. */
enum step wake_hello(struct session *s);
double hello_deadline(const struct session *s);
enum step hello_late(struct session *s);
enum step enter_relay(struct session *s);
enum step wake_relay(struct session *s);
double relay_deadline(const struct session *s);
enum step relay_late(struct session *s);

/* step_exchange.c: one request and its answer (session/exchange.h). */
enum step enter_exchange(struct session *s);
enum step wake_exchange(struct session *s);
double exchange_deadline(const struct session *s);
enum step exchange_late(struct session *s);

/* step_refuse.c: the client is told no, if need be after it has shown in which language; the end of
 * an answer reaches it. */
enum step enter_refuse(struct session *s);
enum step wake_refuse(struct session *s);
enum step wake_hear(struct session *s);
double hear_deadline(const struct session *s);
enum step hear_late(struct session *s);
enum step enter_leave(struct session *s);
enum step wake_leave(struct session *s);
double leave_deadline(const struct session *s);
enum step leave_late(struct session *s);

#endif
