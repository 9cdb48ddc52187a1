#include "session/steps.h"

#include "session/ending.h"
#include "session/report.h"
#include "session/standing.h"

#define HEAR_S 1.0   /* for a client to begin to speak that has asked for nothing yet */
#define LEAVE_S 10.0 /* for a client to take the end of an answer */

static enum step say_no(struct session *s)
{
    bool goes_on = s->proto != NULL && s->proto->refuse(s);
    return goes_on && !s->client.deaf ? STEP_READ : STEP_LEAVE;
}

static enum step tell_refusal(struct session *s)
{
    const bool admitted = s->request.admitted;
    end_admission(s, s->cause);
    if (admitted || s->request.front != FRONT_HTTP)
        end_upstream(s);
    return s->proto != NULL && s->proto->understands != NULL ? STEP_HEAR : say_no(s);
}

enum step wake_hear(struct session *s)
{
    stream_fill(&s->client, HEAR_MAX);
    const bool ended = s->client.eof || s->client.broken || s->client.deaf;
    return ended || s->proto->understands(s) ? say_no(s) : STEP_WAIT;
}

double hear_deadline(const struct session *s)
{
    return s->entered + HEAR_S;
}

enum step hear_late(struct session *s)
{
    return say_no(s);
}

/* The record is there before the client knows; but a log that fails keeps nobody waiting. The
 * records of those that are refused for it are written when they can be. */
enum step enter_refuse(struct session *s)
{
    if (s->tenure == NULL)
        (void)standing_adopt(s); /* only for the record; the outcome stands */
    end_attempt(s);
    const uint64_t ticket = s->request.outcome == OUTCOME_AUDIT_FAILURE ? 0 : ticket_take(s);
    if (report_refusal(s, ticket) && ticket != 0)
        return STEP_WAIT;
    ticket_forget(s);
    return tell_refusal(s);
}

enum step wake_refuse(struct session *s)
{
    return s->record_written || s->record_failed ? tell_refusal(s) : STEP_WAIT;
}

enum step wake_leave(struct session *s)
{
    stream_flush(&s->client);
    if (s->client.deaf)
        return STEP_CLOSE;
    if (s->client.out.len > 0)
        return STEP_WAIT;
    end_client_slowly(s, s->resets);
    return STEP_CLOSE;
}

enum step enter_leave(struct session *s)
{
    end_request(s, s->cause);
    end_upstream(s);
    buf_free(&s->client.in);
    return wake_leave(s);
}

double leave_deadline(const struct session *s)
{
    return s->entered + LEAVE_S;
}

enum step leave_late(struct session *s)
{
    (void)s;
    return STEP_CLOSE;
}
