/*
 * What became of the latest connections to each address: facts that order the next attempts
 * (RFC 8305 4), and decide nothing. An address that is not approved is not dialled however near it
 * is, and one that failed is still tried, only later.
 *
 * Bounded: new facts push out old ones, and facts are forgotten after a while, failures sooner.
 * Ownership: the creator's. Thread: one. Failure: none; what does not fit is not known.
 */
#ifndef TRANSPORT_REACH_H
#define TRANSPORT_REACH_H

#include "filters/chain.h"

enum { REACH_ANSWER_S = 600, REACH_FAILURE_S = 60 };

struct reach;

/* Room for about `max_entries` addresses. Aborts without memory. */
struct reach *reach_create(uint32_t max_entries);
void reach_destroy(struct reach *reach); /* NULL is allowed */

/* It answered `after_s` seconds after it was asked, or did not answer in all that time. */
void reach_note_answer(struct reach *reach, const struct addr *addr, uint16_t port, double now_s,
                       double after_s);
void reach_note_failure(struct reach *reach, const struct addr *addr, uint16_t port, double now_s);

/*
 * The order in which the addresses are tried: index i of `order` is an index into `approved`.
 *
 * Known to answer, the nearest first; then unknown; then those that failed lately. What is alike
 * keeps its order, and times of one magnitude are alike, so that a name server that turns its
 * answers round still spreads the load. Within the first two together and within the last, families
 * take turns, beginning with the first address's. `reach` NULL: nothing is known.
 */
void reach_order(const struct reach *reach, const struct approved *approved, double now_s,
                 uint32_t order[RESOLVER_MAX_ADDRS]);

#endif
