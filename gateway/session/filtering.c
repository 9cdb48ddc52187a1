#include "session/filtering.h"

#include "filters/filter_set.h"
#include "record/log.h"
#include "session/approval.h"
#include "session/edits.h"
#include "session/session.h"
#include "session/steps.h"
#include "session/watches.h"
#include "srt/must.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* Of a request whose filters are being asked. */
struct filtering_state {
    size_t at;    /* the filter at hand, in the policy's order */
    bool waits;   /* it has a place in the worker's table */
    bool pending; /* it was told that its answer is waited for */
    bool answered;
    bool allowed; /* a filter has said yes where the rules ask */
    bool person;  /* every filter has passed it, and an approval is waited for */
    uint32_t slot;
    double until;
    int64_t asked_ns;
    enum srt_filter_verdict verdict;
    enum ask_said said; /* the same of an approval */
    struct srt_filter_ruling ruling;
};

/* ---- tickets ---- */

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, filter_waits) all_waits = LIST_HEAD_INITIALIZER(all_waits);
static uint64_t last_number;

void filter_waits_init(struct filter_waits *waits, struct worker *worker)
{
    *waits = (struct filter_waits){.worker = worker};
    pthread_mutex_lock(&all_lock);
    waits->number = ++last_number;
    LIST_INSERT_HEAD(&all_waits, waits, link);
    pthread_mutex_unlock(&all_lock);
}

void filter_waits_end(struct filter_waits *waits)
{
    pthread_mutex_lock(&all_lock);
    LIST_REMOVE(waits, link);
    pthread_mutex_unlock(&all_lock);
    free(waits->items);
}

static struct filter_wait *grow_waits(struct filter_waits *waits)
{
    waits->items = must(reallocarray(waits->items, waits->count + 1u, sizeof(*waits->items)));
    return &waits->items[waits->count++];
}

static struct srt_filter_ticket take_place(struct session *session)
{
    struct filter_waits *waits = &session->worker->filter_waits;
    struct filter_wait *wait;
    if (waits->free != 0) {
        wait = &waits->items[waits->free - 1];
        waits->free = wait->next_free;
    } else {
        wait = grow_waits(waits);
    }
    *wait = (struct filter_wait){.session = session, .serial = ++waits->serial};
    session->filtering->slot = (uint32_t)(wait - waits->items);
    session->filtering->waits = true;
    return (struct srt_filter_ticket){waits->number, session->filtering->slot, wait->serial};
}

static struct srt_filter_ticket ticket_of(const struct session *session)
{
    const struct filter_waits *waits = &session->worker->filter_waits;
    const uint32_t slot = session->filtering->slot;
    return (struct srt_filter_ticket){waits->number, slot, waits->items[slot].serial};
}

static void leave_place(struct session *session)
{
    struct filter_waits *waits = &session->worker->filter_waits;
    struct filtering_state *state = session->filtering;
    if (!state->waits)
        return;
    waits->items[state->slot] = (struct filter_wait){.next_free = waits->free};
    waits->free = state->slot + 1;
    state->waits = false;
}

static struct session *find_waiting(const struct filter_waits *waits,
                                    const struct srt_filter_ticket *ticket)
{
    if (ticket->slot >= waits->count || waits->items[ticket->slot].serial != ticket->serial)
        return NULL;
    return waits->items[ticket->slot].session;
}

/* ---- answers, from any thread ---- */

struct answer_mail {
    struct mail mail;
    struct srt_filter_ticket ticket;
    enum srt_filter_verdict verdict;
    enum ask_said said;
    char reason[sizeof(((struct srt_filter_ruling *)0)->reason)];
};

static void deliver_answer(struct mail *mail, void *owner)
{
    struct answer_mail *answer = (struct answer_mail *)mail;
    struct worker *worker = owner;
    struct session *session =
        worker != NULL ? find_waiting(&worker->filter_waits, &answer->ticket) : NULL;
    if (session != NULL) {
        struct filtering_state *state = session->filtering;
        state->answered = true;
        state->verdict = answer->verdict;
        state->said = answer->said;
        memcpy(state->ruling.reason, answer->reason, sizeof(state->ruling.reason));
    }
    free(answer);
    if (session != NULL)
        session_run(session);
}

static void post_answer(const struct srt_filter_ticket *ticket, enum srt_filter_verdict verdict,
                        enum ask_said said, const char *reason)
{
    struct filter_waits *waits;
    struct answer_mail *answer = must(calloc(1, sizeof(*answer)));
    answer->mail.deliver = deliver_answer;
    answer->ticket = *ticket;
    answer->verdict = verdict;
    answer->said = said;
    if (reason != NULL)
        snprintf(answer->reason, sizeof(answer->reason), "%s", reason);
    /* The lock keeps the worker's mailbox in being for the call. */
    pthread_mutex_lock(&all_lock);
    LIST_FOREACH(waits, &all_waits, link)
        if (waits->number == ticket->worker)
            break;
    if (waits != NULL)
        mailbox_post(&waits->worker->mailbox, &answer->mail);
    pthread_mutex_unlock(&all_lock);
    if (waits == NULL)
        free(answer);
}

static struct srt_filter_watch *begin_watch(unsigned worker, void (*on_event)(void *, unsigned),
                                            void *arg)
{
    struct filter_waits *waits;
    pthread_mutex_lock(&all_lock);
    LIST_FOREACH(waits, &all_waits, link)
        if (waits->worker->index == worker)
            break;
    pthread_mutex_unlock(&all_lock);
    return waits != NULL ? watch_begin(waits->worker, on_event, arg) : NULL;
}

/* A module that names a ticket which is not its own says no with it, whatever it says. */
static void resume(const struct srt_filter_ticket *ticket, enum srt_filter_verdict verdict,
                   const char *reason)
{
    post_answer(ticket, verdict, ASK_SAID_REFUSED, reason);
}

void workers_answer_ask(const struct srt_filter_ticket *ticket, enum ask_said said,
                        const char *text)
{
    post_answer(ticket, SRT_FILTER_DENY, said, text);
}

static void log_text(const char *filter, const char *text)
{
    log_line("filter %s: %s", filter, text);
}

const struct srt_filter_host filtering_host = {
    .size = sizeof(struct srt_filter_host),
    .resume = resume,
    .field_set = edits_set,
    .field_remove = edits_remove,
    .log = log_text,
    .watch_begin = begin_watch,
    .watch_fd = watch_fd,
    .watch_time = watch_time,
    .watch_end = watch_end,
};

/* ---- asking ---- */

static struct policy_filters filters_of(const struct session *session)
{
    const struct policy *policy = session->identity.policy;
    return policy != NULL ? policy_filters(policy) : (struct policy_filters){NULL, 0};
}

/* The one that is asked, or was asked last; its tenure keeps it while the request waits. */
static uint32_t filter_at_hand(const struct session *session)
{
    const struct policy_filters filters = filters_of(session);
    assert(filters.at != NULL && session->filtering->at < filters.count);
    return filters.at[session->filtering->at];
}

static const struct filter *filter_at(const struct session *session, uint32_t at)
{
    return &session->tenure->snapshot->filters->items[at];
}

static struct srt_filter_text text_of(const char *text)
{
    return (struct srt_filter_text){text, text != NULL ? strlen(text) : 0};
}

static int64_t body_len(const struct session *session)
{
    if (session->http == NULL || session->request.method == NULL)
        return -1;
    switch (session->http->body.kind) {
    case HTTP_BODY_NONE:
        return 0;
    case HTTP_BODY_LENGTH:
        return session->http->body.left <= INT64_MAX ? (int64_t)session->http->body.left
                                                     : INT64_MAX;
    case HTTP_BODY_CHUNKED:
    case HTTP_BODY_UNTIL_CLOSE:
        break;
    }
    return -1;
}

static struct srt_filter_request describe(const struct session *session,
                                          char host[NAME_MAX_LEN + 1])
{
    const struct request *request = &session->request;
    const struct sandbox *sandbox = session->door->sandbox;
    return (struct srt_filter_request){
        .size = sizeof(struct srt_filter_request),
        .id = text_of(request->id),
        .sandbox = text_of(sandbox != NULL ? sandbox->name : NULL),
        .client = text_of(session->identity.client_name),
        .policy = text_of(policy_name(session->identity.policy)),
        .front = text_of(front_word(request->front)),
        .host = text_of(target_host(host, &request->target)),
        .port = request->target.port,
        .method = text_of(request->method),
        .path = text_of(request->path),
        .body_len = -1,
        .now_ms = (int64_t)(ev_now(session->worker->loop) * 1000.),
    };
}

/* The head that would go on; absent where there is none to be seen. */
static struct str visible_head(const struct session *session)
{
    if (session->http == NULL || session->request.method == NULL)
        return STR_NULL;
    return buf_view(&session->http->forward);
}

/* Before the first change, so that a request that is judged again starts as it came. */
static void keep_original(struct http *http)
{
    if (http->original.len == 0)
        buf_append(&http->original, buf_view(&http->forward));
}

static void restore_original(struct http *http)
{
    if (http == NULL || http->original.len == 0)
        return;
    buf_free(&http->forward);
    buf_append(&http->forward, buf_view(&http->original));
}

static bool is_yes(enum srt_filter_verdict verdict)
{
    return verdict == SRT_FILTER_PASS || verdict == SRT_FILTER_ALLOW;
}

/* A call that blocked held up everybody of the worker; what it says so late counts no more than
 * what resume() would have said then. */
static enum srt_filter_verdict in_time(struct session *session, const struct filter *filter,
                                       enum srt_filter_verdict verdict)
{
    struct filtering_state *state = session->filtering;
    const int64_t took_ms = (session_clock_ns() - state->asked_ns) / 1000000;
    if ((!is_yes(verdict) && verdict != SRT_FILTER_DENY) ||
        took_ms < (int64_t)filter->config->timeout_ms)
        return verdict;
    snprintf(state->ruling.reason, sizeof(state->ruling.reason),
             "it blocked its worker for %lld ms, and has %llu", (long long)took_ms,
             (unsigned long long)filter->config->timeout_ms);
    log_line("filter %s: %s", filter->config->name, state->ruling.reason);
    return SRT_FILTER_ERROR;
}

static enum srt_filter_verdict ask(struct session *session, uint32_t number)
{
    const struct filter *filter = filter_at(session, number);
    struct filtering_state *state = session->filtering;
    char host[NAME_MAX_LEN + 1];
    struct srt_filter_request request = describe(session, host);
    const struct str head = visible_head(session);
    struct srt_filter_edits edits = {.visible = head.p != NULL};
    struct srt_filter_field *fields = NULL;
    if (edits.visible) {
        const struct str path = head_path(head);
        fields = must(calloc(head_count_lines(head), sizeof(*fields)));
        request.path = (struct srt_filter_text){path.p, path.len};
        request.fields = fields;
        request.field_count = head_fields(head, fields);
        request.body_len = body_len(session);
    }
    request.timeout_ms = filter->config->timeout_ms;
    request.asks = (session->request.decision.asks & CHAIN_ASKS_POLICY) != 0;
    state->asked_ns = session_clock_ns();
    state->ruling = (struct srt_filter_ruling){.size = sizeof(state->ruling)};
    const struct srt_filter_ticket ticket = take_place(session);
    enum srt_filter_verdict verdict = filter->module->on_request(
        session->tenure->filters[number], &request, &ticket, &edits, &state->ruling);
    if ((is_yes(verdict) || verdict == SRT_FILTER_PENDING) && edits.count > 0) {
        keep_original(session->http);
        edits_apply(&edits, &session->http->forward);
    }
    edits_free(&edits);
    free(fields);
    return in_time(session, filter, verdict);
}

/* ---- verdicts ---- */

static void clean_reason(char *reason, size_t size, const char *fallback)
{
    reason[size - 1] = '\0';
    for (char *p = reason; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    if (reason[0] == '\0')
        snprintf(reason, size, "%s", fallback);
}

/* Its words go into the decision. */
static void note_words(struct session *session, const char *filter, const char *fallback)
{
    struct request *request = &session->request;
    struct filtering_state *state = session->filtering;
    clean_reason(state->ruling.reason, sizeof(state->ruling.reason), fallback);
    free(request->filter_reason);
    request->filter_reason = request_copy_text(str_of(state->ruling.reason));
    request->decision.filter = filter;
    request->decision.filter_reason = request->filter_reason;
}

/* It ends here, and no rule has decided. */
static void apply_denial(struct session *session, const char *filter, enum outcome outcome,
                         const char *fallback)
{
    struct decision *decision = &session->request.decision;
    note_words(session, filter, fallback);
    decision->ruling.outcome = outcome;
    decision->ruling.rule = NULL;
    decision->report = false;
    decision->would = OUTCOME_ALLOWED;
}

/* Whether the request goes on all the same: report mode records and does not apply. */
static bool take_denial(struct session *session, uint32_t number, enum outcome outcome,
                        const char *fallback)
{
    struct decision *decision = &session->request.decision;
    const char *name = filter_at(session, number)->config->name;
    if (!policy_reports(session->identity.policy)) {
        apply_denial(session, name, outcome, fallback);
        return false;
    }
    if (decision->would == OUTCOME_ALLOWED) {
        note_words(session, name, fallback);
        decision->report = true;
        decision->would = outcome;
    }
    return true;
}

/* A module may answer anything: whatever is neither yes nor no is no verdict. */
static bool take_failure(struct session *session, uint32_t number)
{
    static const char fallback[] = "what it answered is no verdict";
    const struct decision *decision = &session->request.decision;
    const struct config_filter *config = filter_at(session, number)->config;
    counter_add(&session->worker->counters.filter_failures[config->fail_open], 1);
    if (!config->fail_open)
        return take_denial(session, number, OUTCOME_MODULE_ERROR, fallback);
    if (decision->filter == NULL && decision->would == OUTCOME_ALLOWED)
        note_words(session, config->name, fallback);
    return true;
}

/* Whether the request goes on. */
static bool take_verdict(struct session *session, uint32_t number, enum srt_filter_verdict verdict)
{
    struct filtering_state *state = session->filtering;
    worker_count_time(session->worker, TIMING_MODULE, !is_yes(verdict),
                      session_clock_ns() - state->asked_ns);
    state->allowed |= verdict == SRT_FILTER_ALLOW;
    if (is_yes(verdict))
        return true;
    return verdict == SRT_FILTER_DENY ? take_denial(session, number, OUTCOME_FILTER, "it says no")
                                      : take_failure(session, number);
}

static void end_asking(struct session *session)
{
    leave_place(session);
    free(session->filtering);
    session->filtering = NULL;
}

/* ---- approvals ---- */

static enum filtering after_approval(struct session *session, enum approval_state state)
{
    assert(state != APPROVAL_MISSING);
    end_asking(session);
    return state == APPROVAL_GIVEN ? FILTERING_PASSED : FILTERING_DENIED;
}

/* It waits in the same place, and is answered in the same way, as one whose filter is pending. */
static enum filtering wait_for_approval(struct session *session)
{
    struct filtering_state *state = session->filtering;
    const struct srt_filter_ticket ticket = take_place(session);
    if (!approval_ask(session, &ticket, state->allowed))
        return after_approval(session, APPROVAL_REFUSED);
    state->person = state->pending = true;
    state->until =
        ev_now(session->worker->loop) + (double)session_config(session)->ask_timeout_ms / 1000.;
    return FILTERING_WAITS;
}

/* Nobody is asked about what a filter would have denied. */
static enum filtering end_filters(struct session *session)
{
    if (session->request.decision.asks == 0) {
        end_asking(session);
        return FILTERING_PASSED;
    }
    const enum approval_state state = approval_look(session, session->filtering->allowed);
    return state == APPROVAL_MISSING ? wait_for_approval(session) : after_approval(session, state);
}

static enum filtering take_approval(struct session *session)
{
    struct filtering_state *state = session->filtering;
    state->pending = false;
    return after_approval(session, approval_take(session, state->said, state->ruling.reason));
}

static enum filtering give_approval_up(struct session *session, enum ask_end why)
{
    const struct srt_filter_ticket ticket = ticket_of(session);
    session->filtering->pending = false;
    approval_leave(session, &ticket, why);
    return after_approval(session, APPROVAL_REFUSED);
}

bool filtering_awaits_approval(const struct session *session)
{
    return session->filtering != NULL && session->filtering->person;
}

/* Takes the verdict of the filter at hand and asks the ones behind it. */
static enum filtering proceed(struct session *session, enum srt_filter_verdict verdict)
{
    struct filtering_state *state = session->filtering;
    const struct policy_filters filters = filters_of(session);
    for (;;) {
        const uint32_t number = filter_at_hand(session);
        if (verdict == SRT_FILTER_PENDING && !state->answered) {
            const uint64_t timeout_ms = filter_at(session, number)->config->timeout_ms;
            state->pending = true;
            state->until = ev_now(session->worker->loop) + (double)timeout_ms / 1000.;
            return FILTERING_WAITS;
        }
        leave_place(session);
        state->pending = state->answered = false;
        if (!take_verdict(session, number, verdict)) {
            end_asking(session);
            return FILTERING_DENIED;
        }
        if (++state->at == filters.count)
            return end_filters(session);
        verdict = ask(session, filters.at[state->at]);
    }
}

enum filtering filtering_begin(struct session *session)
{
    const struct policy_filters filters = filters_of(session);
    restore_original(session->http);
    if (filters.count == 0 && session->request.decision.asks == 0)
        return FILTERING_PASSED;
    assert(session->filtering == NULL);
    session->filtering = must(calloc(1, sizeof(*session->filtering)));
    return filters.count > 0 ? proceed(session, ask(session, filters.at[0])) : end_filters(session);
}

enum filtering filtering_go_on(struct session *session)
{
    struct filtering_state *state = session->filtering;
    if (!state->answered)
        return FILTERING_WAITS;
    return state->person ? take_approval(session) : proceed(session, state->verdict);
}

/* The module is told, once, that nobody waits for it any more. */
static void abandon(struct session *session)
{
    struct filtering_state *state = session->filtering;
    const uint32_t number = filter_at_hand(session);
    const struct srt_filter_module *module = filter_at(session, number)->module;
    const struct srt_filter_ticket ticket = ticket_of(session);
    leave_place(session);
    state->pending = false;
    if (module->on_abandon != NULL)
        module->on_abandon(session->tenure->filters[number], &ticket);
}

enum filtering filtering_give_up(struct session *session, bool left)
{
    struct filtering_state *state = session->filtering;
    if (state->person)
        return give_approval_up(session, left ? ASK_LEFT : ASK_TIMED_OUT);
    const uint32_t number = filter_at_hand(session);
    abandon(session);
    if (left)
        snprintf(state->ruling.reason, sizeof(state->ruling.reason),
                 "the client left before it answered");
    else
        snprintf(state->ruling.reason, sizeof(state->ruling.reason),
                 "it did not answer within %llu ms",
                 (unsigned long long)filter_at(session, number)->config->timeout_ms);
    state->answered = true;
    if (!left)
        return proceed(session, SRT_FILTER_ERROR);
    /* Nobody is there for whom it could go on, not in report mode either. */
    apply_denial(session, filter_at(session, number)->config->name, OUTCOME_FILTER, "");
    end_asking(session);
    return FILTERING_DENIED;
}

double filtering_deadline(const struct session *session)
{
    return session->filtering->until;
}

void filtering_forget(struct session *session)
{
    if (session->filtering == NULL)
        return;
    if (session->filtering->person) {
        (void)give_approval_up(session, ASK_OVERTAKEN);
        return;
    }
    if (session->filtering->pending)
        abandon(session);
    end_asking(session);
}

void filtering_end(struct session *session)
{
    const struct policy_filters filters = filters_of(session);
    for (size_t i = 0; i < filters.count; i++) {
        const struct srt_filter_module *module = filter_at(session, filters.at[i])->module;
        if (module->on_end == NULL)
            continue;
        char host[NAME_MAX_LEN + 1];
        const struct srt_filter_request request = describe(session, host);
        module->on_end(session->tenure->filters[filters.at[i]], &request, session->request.bytes_up,
                       session->request.bytes_down);
    }
}
