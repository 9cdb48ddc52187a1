#include "control/desk.h"

#include "control/admin.h"
#include "control/attach.h"
#include "control/deed.h"
#include "control/granting.h"
#include "control/inquiry.h"
#include "filters/chain.h"
#include "record/ulid.h"
#include "srt/must.h"
#include "srt/queue.h"

#include <assert.h>
#include <ev.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

/* A sandbox, client or listener that asks, while it does. */
struct asker {
    char *key;
    size_t waiting;
};

TAILQ_HEAD(inquiries, inquiry);

struct desk {
    struct gateway *gateway;
    struct workers_asks asks;
    struct inquiries inquiries; /* oldest first */
    void *by_key, *by_id;       /* trees of them */
    void *waiters;              /* tree, by ticket */
    void *askers;               /* tree */
    size_t waiting;
    struct granting granting;
};

/* ---- small things ---- */

static int64_t now_ms(const struct desk *desk)
{
    return (int64_t)(ev_now(desk->gateway->loop) * 1000.);
}

static int compare_inquiries(const void *a, const void *b)
{
    return strcmp(((const struct inquiry *)a)->key, ((const struct inquiry *)b)->key);
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const struct inquiry *)a)->id, ((const struct inquiry *)b)->id);
}

static int compare_askers(const void *a, const void *b)
{
    return strcmp(((const struct asker *)a)->key, ((const struct asker *)b)->key);
}

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_waiters(const void *left, const void *right)
{
    const struct srt_filter_ticket *a = &((const struct waiter *)left)->ticket;
    const struct srt_filter_ticket *b = &((const struct waiter *)right)->ticket;
    int order = compare_numbers(a->worker, b->worker);
    if (order == 0)
        order = compare_numbers(a->slot, b->slot);
    return order != 0 ? order : compare_numbers(a->serial, b->serial);
}

static void add_to(void **tree, void *item, int (*compare)(const void *, const void *))
{
    void **place = must(tsearch(item, tree, compare));
    assert(*place == item);
}

static void *find_in(void *const *tree, const void *like,
                     int (*compare)(const void *, const void *))
{
    void **place = tfind(like, tree, compare);
    return place != NULL ? *place : NULL;
}

const char *desk_result_text(enum desk_result result)
{
    static const char *const texts[DESK_RESULT_COUNT] = {
        [DESK_DONE] = "done",
        [DESK_UNKNOWN] = "nothing waits under this id: answered, timed out, or its client left",
        [DESK_NOT_YOURS] = "this is not yours to answer",
        [DESK_FULL] = "there are as many grants as can be kept; revoke some",
    };
    return texts[result];
}

/* ---- askers ---- */

/* Its place among those who ask; NULL: it has as many waiting as it may. */
static struct asker *enter_asker(struct desk *desk, const struct ask *ask)
{
    struct asker *asker = must(calloc(1, sizeof(*asker)));
    asker->key = must_format("%s %s", grant_scope_word(inquiry_scope(ask)), inquiry_name(ask));
    struct asker *known = find_in(&desk->askers, asker, compare_askers);
    if (known != NULL) {
        free(asker->key);
        free(asker);
        asker = known;
    } else {
        add_to(&desk->askers, asker, compare_askers);
    }
    if (asker->waiting >= desk->gateway->snapshot->config->ask_limit_each)
        return NULL; /* it has others, which keep it in being */
    asker->waiting++;
    return asker;
}

static void leave_asker(struct desk *desk, struct asker *asker)
{
    if (--asker->waiting > 0)
        return;
    tdelete(asker, &desk->askers, compare_askers);
    free(asker->key);
    free(asker);
}

/* ---- inquiries ---- */

/* For whoever follows /events. */
static void tell_operators(struct desk *desk, const struct inquiry *inquiry, const char *verdict,
                           const char *peer)
{
    struct json line = {0};
    if (desk->gateway->admin == NULL || !admin_has_streams(desk->gateway->admin))
        return;
    json_object_open(&line, NULL);
    json_text(&line, "schema", STR("srt.ask/1"));
    json_text(&line, "kind", verdict == NULL ? STR("ask") : STR("answer"));
    inquiry_put(inquiry, &line);
    if (verdict != NULL) {
        json_text(&line, "verdict", str_of(verdict));
        json_text(&line, "by", str_of(peer));
    }
    json_object_close(&line);
    admin_push(desk->gateway->admin, "ask", (struct str){line.data, line.len});
    json_free(&line);
}

static void close_inquiry(struct desk *desk, struct inquiry *inquiry)
{
    assert(inquiry->waiting == 0);
    tdelete(inquiry, &desk->by_key, compare_inquiries);
    tdelete(inquiry, &desk->by_id, compare_ids);
    TAILQ_REMOVE(&desk->inquiries, inquiry, link);
    inquiry_free(inquiry);
}

/* A request that a reload has put under another policy asks again, maybe while others still wait
 * for what it asked first: its id is that question's. */
static struct inquiry *open_inquiry(struct desk *desk, const struct ask *ask)
{
    struct inquiry *inquiry = inquiry_create(ask);
    while (find_in(&desk->by_id, inquiry, compare_ids) != NULL)
        ulid_next(inquiry->id);
    TAILQ_INSERT_TAIL(&desk->inquiries, inquiry, link);
    add_to(&desk->by_key, inquiry, compare_inquiries);
    add_to(&desk->by_id, inquiry, compare_ids);
    return inquiry;
}

/* ---- waiters ---- */

static void drop_waiter(struct desk *desk, struct waiter *waiter)
{
    struct inquiry *inquiry = waiter->inquiry;
    tdelete(waiter, &desk->waiters, compare_waiters);
    TAILQ_REMOVE(&inquiry->waiters, waiter, link);
    inquiry->waiting--;
    desk->waiting--;
    leave_asker(desk, inquiry->asker);
    free(waiter);
}

/* Those that nothing is missing for any more go on. Returns how many. */
static size_t release(struct desk *desk, struct inquiry *inquiry, const char *text)
{
    size_t count = 0;
    struct waiter *waiter, *next;
    TAILQ_FOREACH_SAFE(waiter, &inquiry->waiters, link, next) {
        waiter->missing &= ~inquiry->said;
        if (waiter->missing != 0)
            continue;
        workers_answer_ask(&waiter->ticket, ASK_SAID_APPROVED, text);
        drop_waiter(desk, waiter);
        count++;
    }
    return count;
}

static size_t turn_away(struct desk *desk, struct inquiry *inquiry, enum ask_said said)
{
    size_t count = inquiry->waiting;
    while (!TAILQ_EMPTY(&inquiry->waiters)) {
        struct waiter *waiter = TAILQ_FIRST(&inquiry->waiters);
        workers_answer_ask(&waiter->ticket, said, NULL);
        drop_waiter(desk, waiter);
    }
    return count;
}

/* Who could say yes to all that is missing is there. */
static bool can_be_answered(const struct desk *desk, const struct ask *ask)
{
    unsigned voices = desk->gateway->snapshot->config->admin_count > 0 ? CHAIN_ASKS_POLICY : 0u;
    if (ask->owner != NULL && attach_asks(ask->owner))
        voices |= chain_launcher_voice(ask->hears_launcher);
    return (ask->missing & ~voices) == 0;
}

/* What a grant says that came into force when the request was on its way here. Its worker has it by
 * now, but for what it sent before. */
static unsigned hear_grants(const struct desk *desk, const struct ask *ask, bool *refused)
{
    unsigned missing = ask->missing;
    for (unsigned scope = 0; scope < GRANT_SCOPE_COUNT; scope++)
        for (unsigned by = 0; by < GRANT_BY_COUNT; by++) {
            const char *name = scope == GRANT_SANDBOX    ? ask->sandbox
                               : scope == GRANT_CLIENT   ? ask->client
                               : scope == GRANT_LISTENER ? ask->listener
                                                         : "";
            const struct grant about = {.scope = (enum grant_scope)scope,
                                        .by = (enum grant_by)by,
                                        .name = name,
                                        .policy = ask->policy != NULL ? ask->policy : "",
                                        .target = ask->target};
            const struct grant *grant =
                name != NULL ? grants_find(&desk->granting.table, &about, now_ms(desk) / 1000)
                             : NULL;
            if (grant == NULL)
                continue;
            *refused |= grant->refuses;
            missing &= ~(by == GRANT_BY_OPERATOR ? (unsigned)CHAIN_ASKS_POLICY
                                                 : chain_launcher_voice(ask->hears_launcher));
        }
    return missing;
}

static void add_waiter(struct desk *desk, struct inquiry *inquiry, const struct ask *ask,
                       unsigned missing)
{
    struct waiter *waiter = must(calloc(1, sizeof(*waiter)));
    waiter->inquiry = inquiry;
    waiter->ticket = ask->ticket;
    waiter->missing = missing;
    TAILQ_INSERT_TAIL(&inquiry->waiters, waiter, link);
    add_to(&desk->waiters, waiter, compare_waiters);
    inquiry->waiting++;
    desk->waiting++;
    inquiry->until_ms = ask->until_ms;
}

static struct inquiry *find_inquiry(const struct desk *desk, const struct ask *ask)
{
    const struct inquiry like = {.key = inquiry_key(ask)};
    struct inquiry *inquiry = find_in(&desk->by_key, &like, compare_inquiries);
    free(like.key);
    return inquiry;
}

/* Nothing here grows with the number of those who wait for the same. */
static void on_ask(void *arg, const struct ask *ask)
{
    struct desk *desk = arg;
    bool refused = false;
    unsigned missing = hear_grants(desk, ask, &refused);
    struct inquiry *inquiry = find_inquiry(desk, ask);
    if (inquiry != NULL)
        missing &= ~inquiry->said;
    if (desk->gateway->retired) {
        workers_answer_ask(&ask->ticket, ASK_SAID_GONE, NULL);
        return;
    }
    if (refused || missing == 0 || !can_be_answered(desk, ask)) {
        workers_answer_ask(&ask->ticket,
                           refused        ? ASK_SAID_REFUSED
                           : missing == 0 ? ASK_SAID_APPROVED
                                          : ASK_SAID_NOBODY,
                           "approved by a grant");
        return;
    }
    struct asker *asker = enter_asker(desk, ask);
    if (asker == NULL) {
        workers_answer_ask(&ask->ticket, ASK_SAID_TOO_MANY, NULL);
        return;
    }
    const bool is_new = inquiry == NULL;
    if (is_new)
        inquiry = open_inquiry(desk, ask);
    inquiry->asker = asker;
    add_waiter(desk, inquiry, ask, missing);
    if (is_new)
        tell_operators(desk, inquiry, NULL, NULL);
    inquiry_tell(inquiry, missing);
}

static void on_ask_ended(void *arg, const struct srt_filter_ticket *ticket, enum ask_end why)
{
    static const char *const words[] = {
        [ASK_TIMED_OUT] = "timeout", [ASK_LEFT] = "left", [ASK_OVERTAKEN] = "overtaken"};
    struct desk *desk = arg;
    const struct waiter like = {.ticket = *ticket};
    struct waiter *waiter = find_in(&desk->waiters, &like, compare_waiters);
    if (waiter == NULL)
        return; /* its answer was on the way */
    struct inquiry *inquiry = waiter->inquiry;
    drop_waiter(desk, waiter);
    if (inquiry->waiting > 0)
        return;
    inquiry_untell(inquiry, words[why]);
    tell_operators(desk, inquiry, words[why], NULL);
    close_inquiry(desk, inquiry);
}

/* ---- answers ---- */

/* Yes or no to everybody who waits for it. */
static size_t settle(struct desk *desk, struct inquiry *inquiry, bool approves, unsigned voice,
                     const char *peer)
{
    char text[128];
    size_t count;
    snprintf(text, sizeof(text), "approved by %s", peer);
    if (approves)
        inquiry->said |= voice;
    count = approves ? release(desk, inquiry, text) : turn_away(desk, inquiry, ASK_SAID_REFUSED);
    if (inquiry->waiting > 0) {
        inquiry_tell(inquiry, inquiry_missing(inquiry));
        return count;
    }
    inquiry_untell(inquiry, approves ? "approve" : "refuse");
    tell_operators(desk, inquiry, approves ? "approve" : "refuse", peer);
    return count;
}

/* What this one's yes is worth there. */
static unsigned voice_in(const struct inquiry *inquiry, const void *owner)
{
    return owner == NULL ? (unsigned)CHAIN_ASKS_POLICY
                         : chain_launcher_voice(inquiry->hears_launcher);
}

static enum desk_result check(const struct inquiry *inquiry, const struct desk_answer *answer)
{
    if (inquiry == NULL || (answer->owner != NULL && inquiry->owner != answer->owner))
        return DESK_UNKNOWN; /* a launcher learns nothing about others */
    const unsigned missing = inquiry_missing(inquiry);
    if ((missing & voice_in(inquiry, answer->owner)) == 0)
        return DESK_NOT_YOURS;
    return DESK_DONE;
}

static void put_answer(const struct inquiry *inquiry, const struct desk_answer *answer,
                       const struct grant *grant, size_t count, struct json *out)
{
    json_text(out, "id", str_of(inquiry->id));
    json_text(out, "verdict", answer->approves ? STR("approve") : STR("refuse"));
    json_text(out, "host", str_of(inquiry->host));
    json_number(out, "port", inquiry->port);
    json_number(out, "answered", (int64_t)count);
    inquiry_put_missing(inquiry_missing(inquiry), out);
    json_text(out, "grant", grant != NULL ? str_of(grant->id) : STR_NULL);
    if (grant != NULL && grant->until != 0)
        json_time(out, "until", grant->until * 1000);
    else
        json_none(out, "until");
    json_text(out, "policy", str_of(inquiry->policy));
    char line[TARGET_TEXT_MAX + 16];
    snprintf(line, sizeof(line), "%s = %s", answer->approves ? "allow" : "deny", inquiry->target);
    json_text(out, "rule", str_of(line));
}

enum desk_result desk_answer(struct desk *desk, const struct desk_answer *answer, struct json *out)
{
    struct inquiry like = {.key = NULL}, *inquiry = NULL;
    if (answer->id.len == REQUEST_ID_LEN) {
        memcpy(like.id, answer->id.p, REQUEST_ID_LEN);
        inquiry = find_in(&desk->by_id, &like, compare_ids);
    }
    enum desk_result result = check(inquiry, answer);
    struct grant grant = {.name = NULL};
    if (result == DESK_DONE && answer->keeps) {
        grant = inquiry->about;
        grant.by = answer->owner != NULL ? GRANT_BY_LAUNCHER : GRANT_BY_OPERATOR;
        grant.refuses = !answer->approves;
        grant.until = granting_until(&desk->granting, answer->for_ms);
        grant.who = answer->peer;
        assert(grant.until != 0 || grant.scope == GRANT_SANDBOX);
        result = granting_keep(&desk->granting, &grant,
                               inquiry->owner); /* before the answer, for those behind it */
    }
    struct deed deed = {.action = answer->approves ? "approve" : "refuse",
                        .peer = answer->peer,
                        .by = answer->owner != NULL ? "launcher" : "operator",
                        .request = like.id[0] != '\0' ? like.id : NULL,
                        .waiting = DEED_WAITS_NOBODY,
                        .result = result == DESK_DONE        ? "ok"
                                  : result == DESK_UNKNOWN   ? "not-found"
                                  : result == DESK_NOT_YOURS ? "not-yours"
                                                             : "full"};
    if (result != DESK_DONE) {
        deed_record(desk->gateway, &deed);
        return result;
    }
    const size_t count =
        settle(desk, inquiry, answer->approves, voice_in(inquiry, answer->owner), answer->peer);
    deed.target = inquiry->target;
    deed.scope = grant_scope_word(inquiry->about.scope);
    deed.name = inquiry->about.name;
    deed.policy = inquiry->policy;
    deed.grant = answer->keeps ? grant.id : NULL;
    deed.limited = grant.until != 0;
    deed.until_ms = grant.until * 1000;
    deed.waiting = (int64_t)count;
    deed_record(desk->gateway, &deed);
    put_answer(inquiry, answer, answer->keeps ? &grant : NULL, count, out);
    if (inquiry->waiting == 0)
        close_inquiry(desk, inquiry);
    return DESK_DONE;
}

/* ---- grants ---- */

static bool concerns(const struct grant *grant, const struct inquiry *inquiry)
{
    const char *name = grant->scope == GRANT_SANDBOX    ? inquiry->sandbox
                       : grant->scope == GRANT_CLIENT   ? inquiry->client
                       : grant->scope == GRANT_LISTENER ? inquiry->listener
                                                        : "";
    return name != NULL && strcmp(name, grant->name) == 0 &&
           strcmp(inquiry->target, grant->target) == 0 &&
           strcmp(inquiry->about.policy, grant->policy) == 0;
}

enum desk_result desk_grant(struct desk *desk, struct grant *grant, uint64_t for_ms, void *owner,
                            struct json *out)
{
    grant->by = GRANT_BY_OPERATOR;
    grant->until = granting_until(&desk->granting, for_ms);
    enum desk_result result = granting_keep(&desk->granting, grant, owner);
    if (result != DESK_DONE)
        return result;
    size_t count = 0;
    struct inquiry *inquiry, *next;
    TAILQ_FOREACH_SAFE(inquiry, &desk->inquiries, link, next) {
        if (!concerns(grant, inquiry))
            continue;
        count += settle(desk, inquiry, !grant->refuses, CHAIN_ASKS_POLICY, grant->who);
        if (inquiry->waiting == 0)
            close_inquiry(desk, inquiry);
    }
    deed_record(desk->gateway, &(struct deed){.action = "grant",
                                              .peer = grant->who,
                                              .by = "operator",
                                              .target = grant->target,
                                              .scope = grant_scope_word(grant->scope),
                                              .name = grant->name,
                                              .policy = grant->policy,
                                              .grant = grant->id,
                                              .limited = grant->until != 0,
                                              .until_ms = grant->until * 1000,
                                              .waiting = (int64_t)count,
                                              .result = grant->refuses ? "refuse" : "approve"});
    granting_put(grant, out);
    json_number(out, "answered", (int64_t)count);
    return DESK_DONE;
}

void desk_retire(struct desk *desk)
{
    struct inquiry *inquiry;
    while ((inquiry = TAILQ_FIRST(&desk->inquiries)) != NULL) {
        (void)turn_away(desk, inquiry, ASK_SAID_GONE);
        inquiry_untell(inquiry, "overtaken");
        tell_operators(desk, inquiry, "overtaken", NULL);
        close_inquiry(desk, inquiry);
    }
}

/* ---- lists ---- */

void desk_write_pending(const struct desk *desk, struct json *out)
{
    const struct inquiry *inquiry;
    TAILQ_FOREACH(inquiry, &desk->inquiries, link) {
        json_object_open(out, NULL);
        inquiry_put(inquiry, out);
        json_object_close(out);
    }
}

struct granting *desk_granting(struct desk *desk)
{
    return &desk->granting;
}

size_t desk_waiting(const struct desk *desk)
{
    return desk->waiting;
}

/* ---- life ---- */

struct desk *desk_create(struct gateway *gateway)
{
    struct desk *desk = must(calloc(1, sizeof(*desk)));
    desk->gateway = gateway;
    desk->asks = (struct workers_asks){on_ask, on_ask_ended, desk};
    TAILQ_INIT(&desk->inquiries);
    granting_init(&desk->granting, gateway);
    return desk;
}

const struct workers_asks *desk_asks(const struct desk *desk)
{
    return &desk->asks;
}

void desk_free(struct desk *desk)
{
    if (desk == NULL)
        return;
    while (!TAILQ_EMPTY(&desk->inquiries)) {
        struct inquiry *inquiry = TAILQ_FIRST(&desk->inquiries);
        while (!TAILQ_EMPTY(&inquiry->waiters))
            drop_waiter(desk, TAILQ_FIRST(&inquiry->waiters));
        close_inquiry(desk, inquiry);
    }
    granting_end(&desk->granting);
    free(desk);
}
