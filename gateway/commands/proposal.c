#include "commands/proposal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool proposal_helps(const struct history_record *record)
{
    /* What a whole policy only reports has no reason, and names a rule if one decided. */
    return record->outcome == OUTCOME_NOT_ALLOWED || record->outcome == OUTCOME_ASK_REFUSED ||
           record->outcome == OUTCOME_ASK_TIMEOUT ||
           (record->would_deny && record->rule == NULL && !record->in_tunnel);
}

bool proposal_concerns(const struct history_record *record)
{
    return outcome_row(record->outcome)->policy || (record->would_deny && !record->in_tunnel);
}

const char *proposal_host(char out[PROPOSAL_HOST_MAX], const struct target *target)
{
    char host[NAME_MAX_LEN + 1];
    const bool brackets = target->is_addr && target->addr.family == 6;
    target_host(host, target);
    snprintf(out, PROPOSAL_HOST_MAX, brackets ? "[%s]" : "%s", host);
    return out;
}

static int compare_ports(const void *a, const void *b)
{
    return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

const char *proposal_ports(char out[PROPOSAL_PORTS_MAX], uint16_t *ports, size_t count)
{
    bool plain = true;
    assert(count > 0);
    out[0] = '\0';
    if (count > PROPOSAL_PORTS) {
        snprintf(out, PROPOSAL_PORTS_MAX, ":*");
        return out;
    }
    for (size_t i = 0; i < count; i++)
        plain = plain && (ports[i] == 80 || ports[i] == 443);
    if (plain)
        return out;
    qsort(ports, count, sizeof(ports[0]), compare_ports);
    int len = snprintf(out, PROPOSAL_PORTS_MAX, count == 1 ? ":%u" : " ports=%u", ports[0]);
    for (size_t i = 1; i < count; i++)
        len += snprintf(out + len, PROPOSAL_PORTS_MAX - (size_t)len, ",%u", ports[i]);
    return out;
}

const char *proposal_note(char out[PROPOSAL_NOTE_MAX], const struct history_record *record)
{
    const char *word = outcome_row(record->outcome)->word;
    if (record->outcome == OUTCOME_ADDRESS_DENIED && record->addr != NULL && record->rule != NULL)
        snprintf(out, PROPOSAL_NOTE_MAX, "leads to %s (rule %s): no allow line lifts that",
                 record->addr, record->rule);
    else if (record->outcome == OUTCOME_ADDRESS_DENIED && record->addr != NULL)
        snprintf(out, PROPOSAL_NOTE_MAX,
                 "leads to %s: only its rule's `to=%s` or `allow-addresses = %s` lifts that",
                 record->addr, record->addr, record->addr);
    else if (record->would_deny)
        snprintf(out, PROPOSAL_NOTE_MAX, "only reported, by rule %s", record->rule);
    else if (record->outcome == OUTCOME_METHOD_NOT_ALLOWED)
        snprintf(out, PROPOSAL_NOTE_MAX, "%s: only a line with that method= lifts that", word);
    else if (record->rule != NULL)
        snprintf(out, PROPOSAL_NOTE_MAX, "%s (rule %s); no allow line lifts that", word,
                 record->rule);
    else
        snprintf(out, PROPOSAL_NOTE_MAX, "%s; no allow line lifts that", word);
    return out;
}
