/*
 * Addresses that stand for names: what a sandbox's resolver answers with, so that the name is known
 * when a connection comes, and nothing has to be resolved before it was judged.
 *
 * A stand-in is an address of 198.18.0.0/15 (RFC 2544) and the same number in a range of its own of
 * fc00::/7 (RFC 4193). The set is bounded and forgets the name that was used the longest ago; one
 * that was used within STAND_IN_KEPT_S is never forgotten, and then there is none for a new name.
 * Numbers are given out in turn, so that a forgotten one stands for another name only after all
 * others have been used, which takes minutes at the fastest.
 *
 * Ownership: the creator's. Thread: one. Failure: as each function says; no memory ends the
 * process.
 */
#ifndef DNS_STAND_IN_H
#define DNS_STAND_IN_H

#include "dns/addr.h"
#include "dns/name.h"

enum {
    STAND_IN_MAX = 4096,    /* names that are known at a time */
    STAND_IN_KEPT_S = 30,   /* after its last use; what clients keep longer is asked for again */
    STAND_IN_FIRST = 256,   /* numbers below are never given out */
    STAND_IN_END = 1 << 17, /* as many addresses as the range has */
};

struct stand_ins;

/* Numbers are given out from `start` on, if it is one, or from one that follows from it. */
struct stand_ins *stand_ins_create(uint32_t start);
void stand_ins_free(struct stand_ins *set); /* NULL is allowed */
size_t stand_ins_count(const struct stand_ins *set);

/* The number of that name, which counts as a use; false: too many are in use. */
bool stand_ins_give(struct stand_ins *set, const struct name *name, double now_s, uint32_t *number);
/* The name that it stands for, which counts as a use; NULL: none, or it is forgotten. Valid until
 * the next call. */
const struct name *stand_ins_find(struct stand_ins *set, const struct addr *addr, double now_s);

/* Whether new names are refused a number; those that are known keep theirs. */
void stand_ins_freeze(struct stand_ins *set, bool frozen);

/* For another set that goes on where this one ends: its numbers, the one that was used the longest
 * ago first, and the next one that it would give out. */
typedef void stand_ins_fn(void *arg, const struct name *name, uint32_t number, double used_s);
void stand_ins_each(const struct stand_ins *set, stand_ins_fn *each, void *arg);
uint32_t stand_ins_next(const struct stand_ins *set);
/* In that order, into one that was created with that next number. False: the number is none, or it
 * or the name is there already, or there are too many. */
bool stand_ins_restore(struct stand_ins *set, const struct name *name, uint32_t number,
                       double used_s);

/* Of family 4 or 6. */
struct addr stand_in_addr(uint32_t number, uint8_t family);
/* Whether the address can only be a stand-in. */
bool stand_in_is(const struct addr *addr);

#endif
