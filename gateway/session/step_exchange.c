#include "session/steps.h"

#include "session/ending.h"
#include "session/exchange.h"
#include "session/spending.h"

/* Who has not been answered is told. */
static enum step exchange_over_limit(struct session *s)
{
    if (s->http->head_passed)
        return step_over_limit(s);
    s->cause = CLOSE_LIMIT;
    session_refuse_request(s, OUTCOME_LIMIT, 0, "bytes-up");
    return STEP_REFUSE;
}

enum step wake_exchange(struct session *s)
{
    enum exchange_result result = exchange_turn(s);
    if (!spending_charge(s) && (result == EXCHANGE_WAIT || result == EXCHANGE_UPGRADED))
        return exchange_over_limit(s); /* what is through is through; the next is refused */
    switch (result) {
    case EXCHANGE_WAIT:
        return STEP_WAIT;
    case EXCHANGE_NEXT:
        s->cause = CLOSE_UPSTREAM;
        if (!s->http->upstream_stays)
            end_upstream(s);
        return STEP_READ;
    case EXCHANGE_LEAVE:
        s->cause = CLOSE_UPSTREAM;
        return STEP_LEAVE;
    case EXCHANGE_UPGRADED:
        end_attempt(s);
        http_free(s->http);
        s->http = NULL;
        relay_init(&s->relay, &s->client, &s->upstream);
        return STEP_RELAY;
    case EXCHANGE_RETRY:
        s->cause = CLOSE_ERROR; /* should the second try fail */
        return s->attempt->lapsed ? STEP_RESOLVE : STEP_CONNECT;
    case EXCHANGE_REFUSED:
        s->cause = s->request.outcome == OUTCOME_BAD_REQUEST ? CLOSE_CLIENT : CLOSE_ERROR;
        return STEP_REFUSE;
    case EXCHANGE_ABORTED:
        s->resets = exchange_would_look_whole(s);
        return s->cause == CLOSE_CLIENT ? STEP_CLOSE : STEP_LEAVE;
    }
    return STEP_CLOSE;
}

enum step enter_exchange(struct session *s)
{
    exchange_begin(s);
    if (!s->http->reused)
        end_attempt(s);
    return wake_exchange(s);
}

double exchange_deadline(const struct session *s)
{
    double end = relay_deadline(s);
    double gone = s->client_fin + CLIENT_FIN_S;
    return s->client_fin > 0 && !s->http->head_passed && gone < end ? gone : end;
}

enum step exchange_late(struct session *s)
{
    if (s->client_fin > 0 && !s->http->head_passed) {
        s->cause = CLOSE_CLIENT;
        return STEP_CLOSE;
    }
    enum step next = relay_late(s);
    if (s->http->head_passed)
        return next;
    if (exchange_waits_for_client(s))
        session_refuse_request(s, OUTCOME_TIMEOUT, 408, "its body was not complete in time");
    else
        session_refuse_request(s, OUTCOME_TIMEOUT, 504, "the server did not answer in time");
    return STEP_REFUSE;
}
