/*
 * Rules by host: a hash table over canonical names, suffixes and ranges, so that a decision costs
 * the same with ten rules and with a million (at most 128 look-ups for a name, one for each prefix
 * length in use for an address).
 *
 * With a million rules what costs is waiting for memory. So a bucket is one cache line, whose tags
 * tell nearly always whether the host is in it; every bucket that a question needs is asked for
 * before the first is looked at; and the rule and its text are asked for together. A decision waits
 * twice, however many suffixes are looked up: for buckets, and for what they point to.
 *
 * The hash is a polynomial over a prime field at a random point: whoever writes a list of a million
 * names cannot make them collide, and every suffix of a name is hashed in one pass from its end.
 *
 * Ownership: borrows the rules and their texts, which must not move afterwards. Thread: built on
 * one, then constant.
 */
#ifndef FILTERS_INDEX_H
#define FILTERS_INDEX_H

#include "dns/target.h"
#include "filters/rule.h"

enum { INDEX_WAYS = 5 };

/* One cache line. Filled from the first way on; nothing is ever taken out. */
struct index_bucket {
    uint32_t tag[INDEX_WAYS];  /* bits of the hash that the position does not use */
    uint32_t rule[INDEX_WAYS]; /* 1 + the number of the first rule for this host; 0 = free */
    uint32_t
        text[INDEX_WAYS]; /* where its text begins in `texts`: asked for before the rule says */
    uint32_t spilled;     /* some that belong here had to go to the next bucket */
};

_Static_assert(sizeof(struct index_bucket) == 64, "one cache line");

struct index {
    struct rule *rules;
    const char *texts;
    struct index_bucket *buckets;
    uint32_t bucket_count;
    uint64_t point;
    uint32_t any;        /* 1 + the first rule for `*`; 0 = none */
    uint64_t v4_lengths; /* bit set of the prefix lengths in use */
    uint64_t v6_lengths[3];
    uint64_t below_labels[2]; /* bit set of the numbers of labels that the x of some `*.x` has */
};

/* Rules for one host stay in the order of the array. Their texts stand in the block `texts`. */
void index_build(struct index *index, struct rule *rules, uint32_t count, const char *texts);
void index_free(struct index *index);

/* Memory for the rules, texts and buckets of an index, in whole cache lines and not zeroed; free().
 * When there is much of it, huge pages are asked for: with small ones half of each wait for memory
 * is one for page tables. Aborts when there is none. */
void *index_memory(size_t size);

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
