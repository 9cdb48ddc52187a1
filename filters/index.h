/*
 * Rules by host: an open-addressing hash table over canonical names, suffixes and ranges, so that a
 * decision costs the same with ten rules and with a million (at most 128 look-ups for a name, one
 * for each prefix length in use for an address).
 *
 * The hash is a polynomial over a prime field at a random point: whoever writes a list of a million
 * names cannot make them collide, and every suffix of a name is hashed in one pass from its end.
 *
 * Ownership: borrows the rules, which must not move afterwards. Thread: built on one, then
 * constant.
 */
#ifndef FILTERS_INDEX_H
#define FILTERS_INDEX_H

#include "dns/target.h"
#include "filters/rule.h"

struct index_slot {
    uint32_t tag;  /* bits of the hash that the position does not use */
    uint32_t rule; /* 1 + the number of the first rule for this host; 0 = free */
};

struct index {
    struct rule *rules;
    struct index_slot *slots;
    size_t mask;
    uint64_t point;
    uint32_t any;        /* 1 + the first rule for `*`; 0 = none */
    uint64_t v4_lengths; /* bit set of the prefix lengths in use */
    uint64_t v6_lengths[3];
    uint64_t below_labels[2]; /* bit set of the numbers of labels that the x of some `*.x` has */
};

/* Rules for one host stay in the order of the array. */
void index_build(struct index *index, struct rule *rules, uint32_t count);
void index_free(struct index *index);

enum { INDEX_MAX_HEADS = 132 };

/* The rules whose host part fits `target`, as heads of chains; returns how many. RULE_ANY is a
 * chain of its own, for names and addresses alike. */
size_t index_find(const struct index *index, const struct target *target,
                  const struct rule *heads[INDEX_MAX_HEADS]);

static inline const struct rule *index_next(const struct index *index, const struct rule *rule)
{
    return rule->next != 0 ? &index->rules[rule->next - 1] : NULL;
}

#endif
