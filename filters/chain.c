#include "filters/chain.h"

#include <assert.h>

/* -- judging -- */

/* A denial that report mode does not apply becomes an allow that remembers it; the first one stays.
 */
static void pass(struct decision *decision, struct ruling *ruling)
{
    if (ruling->outcome != OUTCOME_ALLOWED && decision->would == OUTCOME_ALLOWED) {
        decision->report = true;
        decision->would = ruling->outcome;
    }
    ruling->outcome = OUTCOME_ALLOWED;
}

static bool denies(const struct ruling *ruling)
{
    return ruling->outcome != OUTCOME_ALLOWED && !ruling->report;
}

static bool asks(const struct ruling *ruling)
{
    return ruling->outcome == OUTCOME_ASK_REFUSED && !ruling->report;
}

/* What stays a question is not passed; a denial behind it still ends it, without anybody asked. */
static void pass_or_ask(struct decision *decision, struct ruling *ruling, uint8_t who)
{
    if (asks(ruling))
        decision->asks |= who;
    else
        pass(decision, ruling);
}

enum outcome chain_judge(const struct chain *chain, const struct question *question,
                         struct decision *decision)
{
    const struct policy *first = chain->policy != NULL ? chain->policy : chain->narrowing;
    assert(first != NULL);
    *decision = (struct decision){.ruling = policy_judge(first, question)};
    if (denies(&decision->ruling) && !asks(&decision->ruling))
        return decision->ruling.outcome;
    pass_or_ask(decision, &decision->ruling,
                chain->policy != NULL ? CHAIN_ASKS_POLICY : CHAIN_ASKS_SETTINGS);
    if (chain->policy == NULL || chain->narrowing == NULL)
        return decision->ruling.outcome;

    decision->narrowed = policy_judge(chain->narrowing, question);
    if (denies(&decision->narrowed) && !asks(&decision->narrowed)) {
        decision->ruling = decision->narrowed;
        decision->report = false;
        decision->would = OUTCOME_ALLOWED;
        decision->asks = 0;
        return decision->ruling.outcome;
    }
    pass_or_ask(decision, &decision->narrowed, CHAIN_ASKS_SETTINGS);
    return decision->asks != 0 ? OUTCOME_ASK_REFUSED : OUTCOME_ALLOWED;
}

void chain_consent(struct decision *decision)
{
    if (asks(&decision->ruling))
        decision->ruling.outcome = OUTCOME_ALLOWED;
    if (asks(&decision->narrowed))
        decision->narrowed.outcome = OUTCOME_ALLOWED;
    decision->asks = 0;
}

void chain_refuse(struct decision *decision, enum outcome outcome)
{
    assert(outcome != OUTCOME_ALLOWED);
    if (!asks(&decision->ruling) && asks(&decision->narrowed))
        decision->ruling = decision->narrowed;
    decision->ruling.outcome = outcome;
    decision->report = false;
    decision->would = OUTCOME_ALLOWED;
    decision->asks = 0;
}

/* -- addresses -- */

enum outcome chain_refuse_stand_in(const struct chain *chain, const struct target *target,
                                   struct decision *decision)
{
    const struct policy *first = chain->policy != NULL ? chain->policy : chain->narrowing;
    *decision = (struct decision){
        .ruling = {.policy = first, .outcome = OUTCOME_ADDRESS_DENIED},
        .addr_class = ADDR_STAND_IN,
        .denied_addr = target->addr,
    };
    return OUTCOME_ADDRESS_DENIED;
}

/* What both policies say about one address; `by` is the one that denies. */
static struct guard_verdict vet(const struct guard_host *host, const struct decision *decision,
                                const struct target *target, const struct addr *addr,
                                const struct ruling **by)
{
    *by = &decision->ruling;
    struct guard_verdict verdict = guard_check(host, &decision->ruling, target, addr);
    if (verdict.class != ADDR_PUBLIC || decision->narrowed.policy == NULL)
        return verdict;
    struct guard_verdict narrowed = guard_check_denials(&decision->narrowed, target, addr);
    if (narrowed.class != ADDR_PUBLIC) {
        *by = &decision->narrowed;
        return narrowed;
    }
    return verdict;
}

static void note_report(struct decision *decision, const struct rule *rule, const struct addr *addr)
{
    if (rule == NULL || decision->would != OUTCOME_ALLOWED)
        return;
    decision->report = true;
    decision->would = OUTCOME_ADDRESS_DENIED;
    decision->ruling.rule = rule;
    decision->addr_class = ADDR_DENIED;
    decision->denied_addr = *addr;
}

/* What a report rule would have denied is more worth knowing. */
static void note_dropped(struct decision *decision, enum addr_class class, const struct addr *addr)
{
    if (decision->dropped == 0 || decision->would == OUTCOME_ADDRESS_DENIED)
        return;
    decision->addr_class = class;
    decision->denied_addr = *addr;
}

enum outcome chain_approve(const struct chain *chain, const struct guard_host *host,
                           const struct target *target, const struct addr *addrs, size_t count,
                           struct decision *decision, struct approved *approved)
{
    assert(chain->policy != NULL || chain->narrowing != NULL);
    assert(decision->ruling.policy != NULL && decision->ruling.outcome == OUTCOME_ALLOWED);
    struct guard_verdict first_denial = {.class = ADDR_UNSPECIFIED}; /* should there be none */
    const struct ruling *first_by = &decision->ruling;
    struct addr first_addr = {0};
    struct ruling denying;
    *approved = (struct approved){.port = target->port};
    decision->dropped = 0;

    for (size_t i = 0; i < count && approved->count < RESOLVER_MAX_ADDRS &&
                       first_denial.class != ADDR_OWN_LISTENER;
         i++) {
        const struct ruling *by;
        struct guard_verdict verdict = vet(host, decision, target, &addrs[i], &by);
        if (verdict.class == ADDR_PUBLIC) {
            note_report(decision, verdict.report, &addrs[i]);
            approved->addrs[approved->count++] = addrs[i];
            continue;
        }
        if (decision->dropped++ == 0 || verdict.class == ADDR_OWN_LISTENER) {
            first_denial = verdict;
            first_by = by;
            first_addr = addrs[i];
        }
    }
    /* A name that leads to us among others is a way round to us (`localhost` is ::1 too). */
    if (approved->count > 0 && first_denial.class != ADDR_OWN_LISTENER) {
        note_dropped(decision, first_denial.class, &first_addr);
        return OUTCOME_ALLOWED;
    }

    approved->count = 0;
    denying = *first_by;
    denying.rule = first_denial.rule;
    denying.outcome =
        first_denial.class == ADDR_OWN_LISTENER ? OUTCOME_LOOP : OUTCOME_ADDRESS_DENIED;
    decision->ruling = denying;
    decision->report = false;
    decision->would = OUTCOME_ALLOWED;
    decision->addr_class = first_denial.class;
    decision->denied_addr = first_addr;
    return denying.outcome;
}

enum outcome chain_approve_upstream(const struct guard_host *host, uint16_t port,
                                    const struct addr *addrs, size_t count,
                                    struct approved *approved)
{
    *approved = (struct approved){.port = port};
    for (size_t i = 0; i < count && i < RESOLVER_MAX_ADDRS; i++) {
        if (guard_is_own_listener(host, &addrs[i], port))
            return OUTCOME_LOOP;
        approved->addrs[approved->count++] = addrs[i];
    }
    return approved->count > 0 ? OUTCOME_ALLOWED : OUTCOME_CONNECT_UNREACHABLE;
}

/* -- server names -- */

/* In the order of their weight. */
enum sni_verdict { SNI_FITS, SNI_REPORTED, SNI_DIFFERS };

static enum sni_verdict differs(const struct ruling *ruling)
{
    return policy_reports(ruling->policy) ? SNI_REPORTED : SNI_DIFFERS;
}

static enum sni_verdict judge_name(const struct ruling *ruling, const struct question *question,
                                   const struct name *sni)
{
    const struct target *target = question->target;
    if (ruling->policy == NULL || !policy_sni_matters(ruling, NULL))
        return SNI_FITS;
    if (sni == NULL)
        return target->is_addr ? SNI_FITS : differs(ruling);
    if (!target->is_addr && name_eq(sni, &target->name))
        return SNI_FITS;
    const struct ruling named = policy_judge_server_name(ruling->policy, sni, question);
    if (named.outcome == OUTCOME_ALLOWED)
        return SNI_FITS;
    return named.report ? SNI_REPORTED : SNI_DIFFERS;
}

static enum sni_verdict judge_no_name(const struct ruling *ruling, bool plain)
{
    bool strict;
    if (ruling->policy == NULL || !policy_sni_matters(ruling, &strict) || (plain && !strict))
        return SNI_FITS;
    return differs(ruling);
}

static enum outcome settle_sni(struct decision *decision, enum sni_verdict a, enum sni_verdict b)
{
    const enum sni_verdict verdict = a > b ? a : b;
    if (verdict == SNI_REPORTED && decision->would == OUTCOME_ALLOWED) {
        decision->report = true;
        decision->would = OUTCOME_SNI_MISMATCH;
    }
    return verdict == SNI_DIFFERS ? OUTCOME_SNI_MISMATCH : OUTCOME_ALLOWED;
}

enum outcome chain_judge_sni(const struct chain *chain, const struct question *question,
                             struct decision *decision, const struct name *sni)
{
    assert(chain->policy != NULL || chain->narrowing != NULL);
    return settle_sni(decision, judge_name(&decision->ruling, question, sni),
                      judge_name(&decision->narrowed, question, sni));
}

enum outcome chain_judge_no_sni(struct decision *decision, bool plain)
{
    return settle_sni(decision, judge_no_name(&decision->ruling, plain),
                      judge_no_name(&decision->narrowed, plain));
}
