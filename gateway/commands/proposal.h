/*
 * From a request that was denied to the rule line that would allow it, for `learn` and `summary`.
 *
 * Ownership: the caller's buffers. Thread: main. Failure: none.
 */
#ifndef COMMANDS_PROPOSAL_H
#define COMMANDS_PROPOSAL_H

#include "commands/history.h"

enum {
    PROPOSAL_PORTS = 16, /* more are a scan rather than a service: `:*` */
    PROPOSAL_HOST_MAX = NAME_MAX_LEN + 3,
    PROPOSAL_PORTS_MAX = 128,
    PROPOSAL_NOTE_MAX = 1024,
};

/* Whether it was denied, or in report mode would have been, for want of a rule: then an allow line
 * helps. */
bool proposal_helps(const struct history_record *record);
/* Whether it was denied, or would have been, by the policy's say, so that somebody may miss a rule.
 */
bool proposal_concerns(const struct history_record *record);

/* The host as rules spell it, with brackets where they are needed. */
const char *proposal_host(char out[PROPOSAL_HOST_MAX], const struct target *target);
/* What stands behind it: "" for 80 and 443, `:PORT`, ` ports=LIST`. `ports` has room for all that
 * are counted, up to PROPOSAL_PORTS; it is sorted here. */
const char *proposal_ports(char out[PROPOSAL_PORTS_MAX], uint16_t *ports, size_t count);

/* What would lift a denial for which proposal_helps() says no. */
const char *proposal_note(char out[PROPOSAL_NOTE_MAX], const struct history_record *record);

#endif
