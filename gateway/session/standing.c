#include "session/standing.h"

#include "session/session.h"
#include "srt/must.h"

#include <stdlib.h>

const struct gateway_config *session_config(const struct session *s)
{
    return (s->tenure != NULL ? s->tenure : s->worker->tenure)->snapshot->config;
}

size_t session_head_limit(const struct session *s)
{
    return session_config(s)->max_header_bytes + 1;
}

void standing_leave(struct session *s)
{
    tenure_leave(s->tenure);
    s->tenure = NULL;
    narrowing_leave(s->narrowing);
    s->narrowing = NULL;
    s->identity = (struct identity){0};
}

static struct narrowing *narrowing_in_force(const struct session *s)
{
    return s->door->sandbox != NULL ? s->door->sandbox->narrowing : NULL;
}

const struct policy *standing_policy(const struct session *s)
{
    if (s->identity.policy != NULL || s->narrowing == NULL)
        return s->identity.policy;
    return s->narrowing->policy;
}

bool standing_is_current(const struct session *s)
{
    return s->tenure == s->worker->tenure && s->narrowing == narrowing_in_force(s);
}

enum outcome session_identify(struct session *s, const struct snapshot *snapshot,
                              struct identity *out)
{
    const struct sandbox *sandbox = s->door->sandbox;
    if (sandbox != NULL) {
        const struct attached attached = {
            .client = sandbox->client, .policy = sandbox->policy, .uid = sandbox->uid};
        return identity_find(snapshot, NULL, &attached, &s->peer, s->credentials, out);
    }
    *out = (struct identity){0};
    if (s->door->config == NULL)
        return OUTCOME_DRAINING; /* its listener has been removed */
    return identity_find(snapshot, s->door->config, NULL, &s->peer, s->credentials, out);
}

static void tie_configuration(struct session *s)
{
    struct tenure *tenure = tenure_take(s->worker->tenure);
    struct narrowing *narrowing = narrowing_take(narrowing_in_force(s));
    standing_leave(s);
    s->tenure = tenure;
    s->narrowing = narrowing;
}

enum outcome standing_adopt(struct session *s)
{
    tie_configuration(s);
    s->request.decision = (struct decision){0};
    s->request.generation = s->tenure->snapshot->generation;
    return session_identify(s, s->tenure->snapshot, &s->identity);
}

static struct chain make_chain(const struct identity *identity, const struct narrowing *narrowing)
{
    return (struct chain){
        .policy = identity->policy,
        .narrowing = narrowing != NULL ? narrowing->policy : NULL,
    };
}

struct chain session_chain(const struct session *s)
{
    return make_chain(&s->identity, s->narrowing);
}

bool standing_has_chain(const struct identity *identity, const struct narrowing *narrowing)
{
    return identity->policy != NULL || (identity->narrowed_only && narrowing != NULL);
}

struct question standing_question(const struct session *s)
{
    return (struct question){
        .target = &s->request.target,
        .front = s->request.front,
        .method = str_of(s->request.method),
        .path = str_of(s->request.path),
        .now = (int64_t)session_now(s),
    };
}

bool standing_reads_hello(const struct decision *decision)
{
    return policy_sni_matters(&decision->ruling, NULL) ||
           (decision->narrowed.policy != NULL && policy_sni_matters(&decision->narrowed, NULL));
}

/* What went by unread may have named any server, so what has to be read now lets it go no further.
 * Where nothing has gone by, session_recheck() sees to it that it is read. */
static enum outcome judge_hello_again(const struct session *s, const struct chain *chain,
                                      const struct question *question, struct decision *decision)
{
    const struct request *request = &s->request;
    struct name sni;
    if (request->front == FRONT_HTTP || !standing_reads_hello(decision))
        return OUTCOME_ALLOWED;
    switch (request->first_bytes) {
    case FIRST_UNREAD:
        return s->relay.up.bytes == 0 ? OUTCOME_ALLOWED : chain_judge_no_sni(decision, false);
    case FIRST_PLAIN:
        return chain_judge_no_sni(decision, true);
    case FIRST_HELLO:
        break;
    }
    if (request->sni == NULL)
        return chain_judge_sni(chain, question, decision, NULL);
    return name_parse(&sni, str_of(request->sni)) == NAME_OK
               ? chain_judge_sni(chain, question, decision, &sni)
               : OUTCOME_SNI_MISMATCH;
}

/* Judges what was let through once more, by what is in force now; the server name that was seen
 * too. */
static enum outcome judge_again(const struct session *s, const struct identity *identity,
                                struct decision *decision)
{
    const struct request *request = &s->request;
    const struct chain chain = make_chain(identity, narrowing_in_force(s));
    const struct question question = standing_question(s);
    if (!standing_has_chain(identity, narrowing_in_force(s)))
        return OUTCOME_NOT_ALLOWED;
    enum outcome outcome = chain_judge(&chain, &question, decision);
    if (decision->asks != 0 && approval_covers(s, identity->policy, decision->asks)) {
        chain_consent(decision);
        outcome = OUTCOME_ALLOWED;
    }
    if (outcome != OUTCOME_ALLOWED)
        return outcome;
    const struct addr *addr = via_judged_addr(request);
    if (addr == NULL)
        return judge_hello_again(s, &chain, &question, decision);
    struct approved *approved = must(malloc(sizeof(*approved)));
    outcome = chain_approve(&chain, s->worker->tenure->snapshot->host, &request->target, addr, 1,
                            decision, approved);
    free(approved);
    return outcome == OUTCOME_ALLOWED ? judge_hello_again(s, &chain, &question, decision) : outcome;
}

/* Who the client is now. Where its listener is gone, what said who this is went with it, and the
 * name of the policy remains. */
static enum outcome identify_again(struct session *s, struct identity *out)
{
    const struct snapshot *snapshot = s->worker->tenure->snapshot;
    if (s->door->sandbox != NULL || s->door->config != NULL)
        return session_identify(s, snapshot, out);
    *out = (struct identity){0};
    if (s->identity.policy != NULL)
        out->policy = snapshot_policy(snapshot, policy_name(s->identity.policy));
    return OUTCOME_ALLOWED;
}

static bool is_same_policy(const struct policy *a, const struct policy *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(policy_name(a), policy_name(b)) == 0;
}

bool standing_still_asks(struct session *s)
{
    struct identity identity;
    struct decision decision = {0};
    return identify_again(s, &identity) == OUTCOME_ALLOWED &&
           is_same_policy(identity.policy, s->identity.policy) &&
           judge_again(s, &identity, &decision) == OUTCOME_ASK_REFUSED && decision.asks != 0;
}

enum outcome standing_move(struct session *s, bool even_if_denied)
{
    struct identity identity;
    struct decision decision = {0};
    enum outcome outcome = identify_again(s, &identity);
    if (outcome == OUTCOME_ALLOWED)
        outcome = judge_again(s, &identity, &decision);
    if (outcome != OUTCOME_ALLOWED && !even_if_denied)
        return outcome;
    tie_configuration(s);
    s->identity = identity;
    s->request.decision = decision;
    return outcome;
}

void standing_lapse(struct session *s)
{
    if (s->attempt != NULL)
        s->attempt->lapsed = true;
}
