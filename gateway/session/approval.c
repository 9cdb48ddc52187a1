#include "session/approval.h"

#include "filters/route.h"
#include "record/event.h"
#include "session/errand.h"
#include "session/report.h"
#include "session/session.h"
#include "session/team.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <assert.h>
#include <stdlib.h>

/* ---- what a request has been told ---- */

void approval_free(struct approval *approval)
{
    if (approval == NULL)
        return;
    free(approval->policy);
    free(approval->text);
    free(approval);
}

/* Settings alone are under no policy of the gateway's. */
static const char *name_of(const struct policy *policy)
{
    return policy != NULL ? policy_name(policy) : "";
}

bool approval_covers(const struct session *session, const struct policy *policy, unsigned asks)
{
    const struct approval *approval = session->request.approval;
    return approval != NULL && approval->policy != NULL &&
           strcmp(approval->policy, name_of(policy)) == 0 && (asks & ~approval->asks) == 0;
}

static enum approval_state give(struct session *session, const char *text, const char *grant)
{
    struct request *request = &session->request;
    struct approval *approval = must(calloc(1, sizeof(*approval)));
    approval->asks = request->decision.asks;
    approval->policy = must_copy(name_of(session->identity.policy));
    approval->text = must_copy(text);
    if (grant != NULL)
        memcpy(approval->grant, grant, sizeof(approval->grant));
    approval_free(request->approval);
    request->approval = approval;
    chain_consent(&request->decision);
    return APPROVAL_GIVEN;
}

static enum approval_state refuse(struct session *session, enum outcome outcome, const char *why)
{
    chain_refuse(&session->request.decision, outcome);
    session->request.decision.ask_why = why;
    return APPROVAL_REFUSED;
}

/* ---- grants ---- */

/* Whose yes this grant stands for. */
static unsigned voice_of(const struct session *session, enum grant_by by)
{
    const struct policy *policy = session->identity.policy;
    if (by == GRANT_BY_OPERATOR)
        return CHAIN_ASKS_POLICY;
    return chain_launcher_voice(policy != NULL && policy_hears_launchers(policy));
}

static const char *scope_name(const struct session *session, enum grant_scope scope)
{
    const struct sandbox *sandbox = session->door->sandbox;
    switch (scope) {
    case GRANT_SANDBOX:
        return sandbox != NULL ? sandbox->name : NULL;
    case GRANT_CLIENT:
        return session->identity.client_name;
    case GRANT_LISTENER:
        return session->door->name;
    case GRANT_POLICY:
    case GRANT_SCOPE_COUNT:
        break;
    }
    return "";
}

static const struct grant *find(const struct session *session, enum grant_scope scope,
                                enum grant_by by, const char *target)
{
    const struct sandbox *sandbox = session->door->sandbox;
    const struct grants *grants =
        scope == GRANT_SANDBOX && sandbox != NULL ? &sandbox->grants : &session->worker->grants;
    const struct grant about = {.scope = scope,
                                .by = by,
                                .name = scope_name(session, scope),
                                .policy = name_of(session->identity.policy),
                                .target = target};
    return about.name != NULL ? grants_find(grants, &about, (int64_t)ev_now(session->worker->loop))
                              : NULL;
}

/* What is still missing when the grants have been heard. A refusal among them ends it. */
static unsigned hear_grants(const struct session *session, unsigned missing,
                            const struct grant **used, const struct grant **refusal)
{
    char target[TARGET_TEXT_MAX];
    target_format(target, &session->request.target);
    for (unsigned scope = 0; scope < GRANT_SCOPE_COUNT; scope++)
        for (unsigned by = 0; by < GRANT_BY_COUNT; by++) {
            const struct grant *grant =
                find(session, (enum grant_scope)scope, (enum grant_by)by, target);
            if (grant == NULL)
                continue;
            if (grant->refuses)
                *refusal = grant;
            else if ((missing & voice_of(session, grant->by)) != 0)
                *used = grant;
            missing &= grant->refuses ? missing : ~voice_of(session, grant->by);
        }
    return missing;
}

/* ---- before anybody is asked ---- */

/* A literal that the guard will refuse is not worth anybody's time. */
static bool guard_refuses(struct session *session)
{
    struct request *request = &session->request;
    struct decision decision = request->decision;
    if (!request->target.is_addr)
        return false;
    chain_consent(&decision);
    if (route_choose(&decision, &request->target) != NULL)
        return false; /* its way is another's to judge */
    struct approved *approved = must(malloc(sizeof(*approved)));
    const struct chain chain = session_chain(session);
    const enum outcome outcome =
        chain_approve(&chain, session->tenure->snapshot->host, &request->target,
                      &request->target.addr, 1, &decision, approved);
    free(approved);
    if (outcome == OUTCOME_ALLOWED)
        return false;
    request->decision = decision;
    request->decision.asks = 0;
    request->has_addr = true;
    request->addr = request->target.addr;
    return true;
}

static unsigned still_missing(const struct session *session, bool by_filter)
{
    const unsigned asks = session->request.decision.asks;
    return by_filter ? asks & ~(unsigned)CHAIN_ASKS_POLICY : asks;
}

enum approval_state approval_look(struct session *session, bool by_filter)
{
    const struct decision *decision = &session->request.decision;
    const struct grant *used = NULL, *refusal = NULL;
    char text[128] = "approved by a filter";
    assert(decision->asks != 0);
    if (approval_covers(session, session->identity.policy, decision->asks)) {
        chain_consent(&session->request.decision);
        return APPROVAL_GIVEN;
    }
    if (guard_refuses(session))
        return APPROVAL_REFUSED;
    const unsigned missing =
        hear_grants(session, still_missing(session, by_filter), &used, &refusal);
    if (refusal != NULL)
        return refuse(session, OUTCOME_ASK_REFUSED, "it was refused for a time");
    if (missing != 0)
        return APPROVAL_MISSING;
    if (used != NULL)
        snprintf(text, sizeof(text), "approved by grant %s", used->id);
    return give(session, text, used != NULL ? used->id : NULL);
}

/* ---- asking, and what becomes of it ---- */

struct ask_mail {
    struct mail mail;
    struct ask ask; /* its texts are the mail's */
};

static void deliver_ask(struct mail *mail, void *owner)
{
    struct ask_mail *ask_mail = (struct ask_mail *)mail;
    const struct workers *team = owner;
    const struct ask *ask = &ask_mail->ask;
    if (team != NULL)
        team->asks->opened(team->asks->arg, ask);
    free_const(ask->sandbox);
    free_const(ask->client);
    free_const(ask->listener);
    free_const(ask->policy);
    free_const(ask->rule);
    free_const(ask->peer);
    free_const(ask->method);
    free_const(ask->path);
    free_const(ask->request_id);
    free_const(ask->host);
    free_const(ask->target);
    free(ask_mail);
}

/* False: too many wait already. The count falls when the control thread has heard of an end, so it
 * bounds what is on its way there, too. */
static bool take_place(struct workers *team, uint64_t limit)
{
    if (atomic_fetch_add_explicit(&team->asks_waiting, 1, memory_order_relaxed) < limit)
        return true;
    atomic_fetch_sub_explicit(&team->asks_waiting, 1, memory_order_relaxed);
    return false;
}

static void give_place_back(struct workers *team)
{
    atomic_fetch_sub_explicit(&team->asks_waiting, 1, memory_order_relaxed);
}

static int64_t ms_of(double seconds)
{
    return (int64_t)(seconds * 1000.);
}

static void post_ask(struct session *session, const struct srt_filter_ticket *ticket,
                     unsigned missing)
{
    const struct request *request = &session->request;
    const struct rule *rule = request->decision.ruling.rule;
    const struct sandbox *sandbox = session->door->sandbox;
    const struct policy *policy = session->identity.policy;
    const struct str path = str_of(request->path);
    char host[NAME_MAX_LEN + 1], target[TARGET_TEXT_MAX], id[RULE_ID_MAX], peer[PEER_TEXT_MAX];
    const double now = ev_now(session->worker->loop);
    struct ask_mail *mail = must(calloc(1, sizeof(*mail)));
    mail->mail.deliver = deliver_ask;
    mail->ask = (struct ask){
        .ticket = *ticket,
        .missing = missing,
        .hears_launcher = policy != NULL && policy_hears_launchers(policy),
        .owner = sandbox != NULL ? sandbox->owner : NULL,
        .sandbox = must_copy(sandbox != NULL ? sandbox->name : NULL),
        .client = must_copy(session->identity.client_name),
        .listener = must_copy(session->door->name),
        .policy = must_copy(policy != NULL ? policy_name(policy) : NULL),
        .rule = must_copy(rule != NULL ? rule_id(rule, id) : NULL),
        .peer = must_copy(report_peer(session, peer)),
        .method = must_copy(request->method),
        .path = path.p != NULL ? request_copy_text(event_cut_query(path)) : NULL,
        .request_id = must_copy(request->id),
        .front = request->front,
        .host = must_copy(target_host(host, &request->target)),
        .target = must_copy(target_format(target, &request->target)),
        .port = request->target.port,
        .since_ms = ms_of(now),
        .until_ms = ms_of(now) + (int64_t)session_config(session)->ask_timeout_ms,
    };
    mailbox_post(&session->worker->team->control, &mail->mail);
}

bool approval_ask(struct session *session, const struct srt_filter_ticket *ticket, bool by_filter)
{
    struct workers *team = session->worker->team;
    const struct grant *used = NULL, *refusal = NULL;
    if (team->asks == NULL) {
        refuse(session, OUTCOME_ASK_REFUSED, "nobody can be asked for it");
        return false;
    }
    if (!take_place(team, session_config(session)->ask_limit)) {
        refuse(session, OUTCOME_OVERLOAD, NULL);
        return false;
    }
    post_ask(session, ticket,
             hear_grants(session, still_missing(session, by_filter), &used, &refusal));
    return true;
}

struct end_mail {
    struct mail mail;
    struct srt_filter_ticket ticket;
    enum ask_end why;
};

static void deliver_end(struct mail *mail, void *owner)
{
    struct end_mail *end = (struct end_mail *)mail;
    struct workers *team = owner;
    if (team != NULL) {
        give_place_back(team);
        team->asks->ended(team->asks->arg, &end->ticket, end->why);
    }
    free(end);
}

void approval_leave(struct session *session, const struct srt_filter_ticket *ticket,
                    enum ask_end why)
{
    struct end_mail *end = must(calloc(1, sizeof(*end)));
    end->mail.deliver = deliver_end;
    end->ticket = *ticket;
    end->why = why;
    mailbox_post(&session->worker->team->control, &end->mail);
    refuse(session, OUTCOME_ASK_TIMEOUT,
           why == ASK_LEFT ? "its client left before anybody answered" : NULL);
}

enum approval_state approval_take(struct session *session, enum ask_said said, const char *text)
{
    give_place_back(session->worker->team);
    switch (said) {
    case ASK_SAID_APPROVED:
        return give(session, text, NULL);
    case ASK_SAID_TOO_MANY:
        session->request.why = "ask-limit-each";
        return refuse(session, OUTCOME_LIMIT, NULL);
    case ASK_SAID_GONE:
        return refuse(session, OUTCOME_DRAINING, NULL);
    case ASK_SAID_NOBODY:
        return refuse(session, OUTCOME_ASK_REFUSED, "nobody can be asked for it");
    case ASK_SAID_REFUSED:
        break;
    }
    return refuse(session, OUTCOME_ASK_REFUSED, "it was refused");
}

/* ---- grants, from the control thread ---- */

struct grant_change {
    struct sandbox *sandbox; /* NULL: for the whole worker */
    struct grant *grant;     /* NULL: it goes */
    char id[GRANT_ID_LEN + 1];
};

static bool came_by(const struct session *session, const void *id)
{
    const struct approval *approval = session->request.approval;
    return session_is_tunnel(session) && approval != NULL && strcmp(approval->grant, id) == 0;
}

static bool is_over(const struct grant *grant, const void *now)
{
    return grant_is_over(grant, *(const int64_t *)now);
}

static bool run_change(struct errand *errand)
{
    const struct grant_change *change = errand->data;
    struct worker *worker = errand->worker;
    struct grants *grants = change->sandbox != NULL ? &change->sandbox->grants : &worker->grants;
    if (change->grant != NULL) {
        const int64_t now = (int64_t)ev_now(worker->loop);
        grants_remove_if(grants, is_over, &now); /* nobody tells a worker that a time is over */
        grants_put(grants, change->grant);
    } else {
        grants_remove(grants, change->id);
        worker_cut(worker, CLOSE_POLICY, came_by, change->id);
    }
    return true;
}

static void dispose_change(struct errand *errand)
{
    struct grant_change *change = errand->data;
    grant_free(change->grant);
    free(change);
}

static void send_change(struct round *round, struct worker *worker, struct sandbox *sandbox,
                        const struct grant *grant, const char *id)
{
    struct errand *errand = errand_create(round, worker, run_change);
    struct grant_change *change = must(calloc(1, sizeof(*change)));
    change->sandbox = sandbox;
    change->grant = grant != NULL ? grant_copy(grant) : NULL;
    snprintf(change->id, sizeof(change->id), "%s", id);
    errand->data = change;
    errand->dispose = dispose_change;
    errand_send(errand);
}

static void change_grants(struct workers *team, struct sandbox *sandbox, const struct grant *grant,
                          const char *id)
{
    struct round *round = round_create(team, round_finish_done, NULL);
    if (sandbox != NULL) {
        send_change(round, sandbox->worker, sandbox, grant, id);
        return;
    }
    for (unsigned i = 0; i < team->count; i++)
        send_change(round, &team->all[i], NULL, grant, id);
}

void workers_grant(struct workers *team, struct sandbox *sandbox, const struct grant *grant)
{
    assert((sandbox != NULL) == (grant->scope == GRANT_SANDBOX));
    change_grants(team, sandbox, grant, grant->id);
}

void workers_revoke(struct workers *team, struct sandbox *sandbox, const char *id)
{
    change_grants(team, sandbox, NULL, id);
}
