#include "session/steps.h"

#include "session/filtering.h"
#include "session/naming.h"
#include "session/spending.h"
#include "session/standing.h"

enum step enter_judge(struct session *s)
{
    struct request *request = &s->request;
    enum outcome identified = standing_adopt(s);
    /* First of all, as every refusal is to name what was meant. In clear the name would have to be
     * in the request's own words. */
    const bool known =
        request->front == FRONT_HTTP || naming_recall(s->door->sandbox, &request->target);
    s->client_fin = 0;
    if (s->worker->draining)
        return step_refuse(s, OUTCOME_DRAINING);
    if (s->at_door != OUTCOME_ALLOWED) {
        request->retry_after_s = 1;
        if (s->at_door == OUTCOME_LIMIT)
            request->why = "max-sandbox-connections";
        return step_refuse(s, s->at_door);
    }
    if (!audit_healthy(s->worker->audit))
        return step_refuse(s, OUTCOME_AUDIT_FAILURE);
    if (identified != OUTCOME_ALLOWED)
        return step_refuse(s, identified);
    if (!standing_has_chain(&s->identity, s->narrowing))
        return step_refuse(s, OUTCOME_NOT_ALLOWED);
    const struct chain chain = session_chain(s);
    if (!known)
        return step_refuse(s, chain_refuse_stand_in(&chain, &request->target, &request->decision));
    const struct question question = standing_question(s);
    enum outcome outcome = chain_judge(&chain, &question, &request->decision);
    if (outcome != OUTCOME_ALLOWED && request->decision.asks == 0)
        return step_refuse(s, outcome);
    if (s->http != NULL && s->http->loops)
        return step_refuse(s, OUTCOME_LOOP);
    if (!spending_begin(s))
        return step_refuse(s, OUTCOME_LIMIT);
    return STEP_FILTER;
}

static enum step after_filters(struct session *s, enum filtering result)
{
    switch (result) {
    case FILTERING_PASSED:
        return STEP_RESOLVE;
    case FILTERING_WAITS:
        return STEP_WAIT;
    case FILTERING_DENIED:
        break;
    }
    return step_refuse(s, s->request.decision.ruling.outcome);
}

enum step enter_filter(struct session *s)
{
    return after_filters(s, filtering_begin(s));
}

/* A client that has closed may have closed only its half; it has as long as in an exchange. */
enum step wake_filter(struct session *s)
{
    stream_fill(&s->client, session_head_limit(s));
    if (s->client.broken || s->client.deaf)
        return after_filters(s, filtering_give_up(s, true));
    if (s->client.eof && s->client_fin <= 0)
        s->client_fin = session_now(s);
    return after_filters(s, filtering_go_on(s));
}

double filter_deadline(const struct session *s)
{
    const double end = filtering_deadline(s), gone = s->client_fin + CLIENT_FIN_S;
    return s->client_fin > 0 && gone < end ? gone : end;
}

enum step filter_late(struct session *s)
{
    const bool left = session_now(s) < filtering_deadline(s) - .001;
    return after_filters(s, filtering_give_up(s, left));
}
