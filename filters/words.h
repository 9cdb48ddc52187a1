/*
 * What a refusal says to people and agents: which rule, whose reason, and what to do next.
 *
 * Every outcome has words, also those that end a request before any policy was asked (a zeroed
 * decision, `target` NULL). Ownership: none. Thread: any; pure.
 */
#ifndef FILTERS_WORDS_H
#define FILTERS_WORDS_H

#include "filters/chain.h"

/* How the message begins of what was found in a tunnel that was let through already. */
#define WORDS_IN_TUNNEL "in the tunnel to "

/* One sentence for people, such as "evil.test:443 is not on the allow list of policy build", and
 * what to do next. Both are NUL-terminated and contain no control bytes. */
void decision_message(const struct decision *decision, const struct target *target,
                      enum outcome outcome, char *out, size_t size);
void decision_next_step(const struct decision *decision, const struct target *target,
                        enum outcome outcome, char *out, size_t size);

/* "not dialled: 127.0.0.9, a loopback address, and 1 more"; empty when nothing was dropped. */
void decision_dropped(const struct decision *decision, char *out, size_t size);

/* What an admitted request's record has to say: the denial that report mode did not apply, else the
 * filter that was passed for want of a verdict, else the addresses that were dropped; empty when
 * there is nothing. */
void decision_note(const struct decision *decision, const struct target *target, char *out,
                   size_t size);

#endif
