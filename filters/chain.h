/*
 * The chain that a request passes: the gateway's policy, then the sandbox's own narrowing, then the
 * addresses. The only maker of a struct approved, which is the only thing a connector dials.
 *
 * Thread: the worker's; pure apart from the policies, which are constant.
 */
#ifndef FILTERS_CHAIN_H
#define FILTERS_CHAIN_H

#include "dns/resolver.h"
#include "filters/guard.h"
#include "filters/policy.h"

/* A request must be allowed by both; either may be NULL (not both). Where there are two, addresses
 * are vetted by the policy, and the narrowing only denies more of them: exceptions are the
 * operator's. */
struct chain {
    const struct policy *policy;    /* of the gateway's configuration */
    const struct policy *narrowing; /* of the sandbox's settings */
};

/* Who has to say yes before a request passes that no rule denies. */
enum {
    CHAIN_ASKS_POLICY = 1,   /* the policy has default = ask, or the rule mode=ask */
    CHAIN_ASKS_SETTINGS = 2, /* the sandbox's own settings ask (srt-launch --ask) */
};

/* Whose yes a launcher's stands for; `for_policy`: the policy hears launchers. */
static inline unsigned chain_launcher_voice(bool for_policy)
{
    return CHAIN_ASKS_SETTINGS | (for_policy ? (unsigned)CHAIN_ASKS_POLICY : 0u);
}

/* The whole decision as it stands: what the record and the refusal's body say. */
struct decision {
    struct ruling ruling;   /* that decided (the denying one, else the policy's allow) */
    struct ruling narrowed; /* the narrowing's allow, when there is a policy too */
    uint8_t asks;           /* CHAIN_ASKS_... that have to say yes; 0: it is decided */
    bool report; /* verdict allow although `would` is deny; `ruling.rule` is the one that would */
    enum outcome would : 8; /* what report mode did not apply; OUTCOME_ALLOWED if nothing */
    /* The first address that was denied: why none is left, or (`dropped` of them) what was left out
     * of those that an allowed name resolves to. */
    enum addr_class addr_class : 8;
    struct addr denied_addr;
    uint16_t dropped;
    /* The filter that denied, or would have, or (`would` is OUTCOME_ALLOWED) was passed for want of
     * a verdict, and its words; both NULL: none did. Whoever asks the filters fills these in and
     * owns them. */
    const char *filter, *filter_reason;
    /* Why an approval that was needed is not there, a fixed phrase; NULL: nobody gave it. */
    const char *ask_why;
};

/* Addresses that may be dialled, and the port. Only chain_approve() and chain_approve_upstream()
 * fill it. */
struct approved {
    uint8_t count;
    uint16_t port;
    struct addr addrs[RESOLVER_MAX_ADDRS];
};

/* Judges name, port, front, method, path. Returns decision->ruling.outcome, which is
 * OUTCOME_ALLOWED where a denial was only reported. Fills the whole decision.
 *
 * OUTCOME_ASK_REFUSED with `asks`: nobody denies it, and somebody has to be asked. Then
 * chain_consent() or chain_refuse() says what came of it; whoever does neither denies. */
enum outcome chain_judge(const struct chain *chain, const struct question *question,
                         struct decision *decision);

/* Everybody who had to be asked has said yes: it is allowed, as far as names go. */
void chain_consent(struct decision *decision);
/* It ends as `outcome` instead, in the name of whoever asks. */
void chain_refuse(struct decision *decision, enum outcome outcome);

/* The target is an address that stands for a name nobody knows any more, whatever the policies say
 * of it. Returns OUTCOME_ADDRESS_DENIED and fills the decision. */
enum outcome chain_refuse_stand_in(const struct chain *chain, const struct target *target,
                                   struct decision *decision);

/* Vets the addresses of a target that chain_judge() allowed: those that pass are approved, in
 * order. None left: OUTCOME_ADDRESS_DENIED or OUTCOME_LOOP, and the decision's ruling and addresses
 * say what was first denied (no addresses at all: ADDR_UNSPECIFIED). One that is an own listener
 * makes it OUTCOME_LOOP whatever the others are. */
enum outcome chain_approve(const struct chain *chain, const struct guard_host *host,
                           const struct target *target, const struct addr *addrs, size_t count,
                           struct decision *decision, struct approved *approved);

/* The addresses of an upstream proxy, which the operator has named and no policy judges.
 * OUTCOME_LOOP when one is an own listener, OUTCOME_CONNECT_UNREACHABLE when there are none. */
enum outcome chain_approve_upstream(const struct guard_host *host, uint16_t port,
                                    const struct addr *addrs, size_t count,
                                    struct approved *approved);

/* The server name of a tunnel's hello; `sni` NULL: absent. OUTCOME_ALLOWED or OUTCOME_SNI_MISMATCH;
 * one that report mode does not apply becomes the decision's `would`, where there is none yet. */
enum outcome chain_judge_sni(const struct chain *chain, const struct question *question,
                             struct decision *decision, const struct name *sni);
/* Likewise of first bytes that name nobody, whatever the target is: what is no hello or has no name
 * of a host in it, or (`plain`) no TLS at all, which only a rule's own sni=match minds. */
enum outcome chain_judge_no_sni(struct decision *decision, bool plain);

#endif
