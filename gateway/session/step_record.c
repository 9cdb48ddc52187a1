#include "session/steps.h"

#include "session/ending.h"
#include "session/report.h"
#include "session/standing.h"

#include <assert.h>

void admit(struct session *s)
{
    s->request.admitted = true;
    s->request.since = session_now(s);
    counter_add(&s->worker->counters.tunnels, 1);
}

uint64_t ticket_take(struct session *s)
{
    assert(s->ticket == 0);
    s->record_written = s->record_failed = false;
    if (!audit_waits(s->worker->audit))
        return 0;
    s->ticket = tickets_take(s->worker->tickets);
    TAILQ_INSERT_TAIL(&s->worker->waiting, s, waiting_link);
    return s->ticket;
}

void ticket_forget(struct session *s)
{
    if (s->ticket != 0)
        TAILQ_REMOVE(&s->worker->waiting, s, waiting_link);
    s->ticket = 0;
    s->record_written = s->record_failed = false;
}

enum step enter_record(struct session *s)
{
    /* What was put in force while we resolved and connected applies to what begins now. */
    if (!standing_is_current(s) || s->worker->draining) {
        end_attempt(s);
        if (s->http == NULL || !s->http->reused)
            end_upstream(s);
        s->request.has_addr = false;
        return STEP_JUDGE;
    }
    const uint64_t ticket = ticket_take(s);
    if (!report_admission(s, ticket)) {
        ticket_forget(s);
        return step_refuse(s, OUTCOME_AUDIT_FAILURE);
    }
    admit(s);
    return ticket != 0 ? STEP_WAIT : STEP_ANSWER;
}

enum step refuse_as_overtaken(struct session *s, enum outcome outcome)
{
    s->request.generation = s->tenure->snapshot->generation;
    s->cause = CLOSE_POLICY;
    return step_refuse(s, outcome);
}

enum step wake_record(struct session *s)
{
    if (s->record_failed) {
        /* The log has said itself that the record is lost; so it has nothing to close. */
        s->request.admitted = false;
        counter_add(&s->worker->counters.tunnels_closed, 1);
        return step_refuse(s, OUTCOME_AUDIT_FAILURE);
    }
    if (!s->record_written)
        return STEP_WAIT;
    if (standing_is_current(s))
        return STEP_ANSWER;
    enum outcome outcome = standing_move(s, true);
    standing_lapse(s);
    return outcome == OUTCOME_ALLOWED ? STEP_ANSWER : refuse_as_overtaken(s, outcome);
}

void session_record_written(struct session *s, bool go)
{
    ticket_forget(s);
    s->record_written = go;
    s->record_failed = !go;
    session_run(s);
}

enum step enter_answer(struct session *s)
{
    s->proto->accept(s);
    s->active = session_now(s);
    if (s->request.front == FRONT_HTTP)
        return STEP_EXCHANGE;
    end_attempt(s);
    http_free(s->http);
    s->http = NULL;
    relay_init(&s->relay, &s->client, &s->upstream);
    s->relay.up.held = standing_reads_hello(&s->request.decision);
    s->began = 0;
    return s->relay.up.held ? STEP_HELLO : STEP_RELAY;
}
