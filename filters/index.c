#include "filters/index.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/random.h>

/* What is hashed: a kind, then a name's bytes from the last to the first, or a range's bytes. */
enum key_kind { KEY_NAME = 256, KEY_BELOW, KEY_CIDR4, KEY_CIDR6 = KEY_CIDR4 + 33 };

static const uint64_t prime = (UINT64_C(1) << 61) - 1;

/* hash * point + byte, modulo the prime. */
static uint64_t hash_add(const struct index *index, uint64_t hash, uint64_t value)
{
    unsigned __int128 product = (unsigned __int128)hash * index->point + value + 1;
    uint64_t sum = ((uint64_t)product & prime) + (uint64_t)(product >> 61);
    return sum >= prime ? sum - prime : sum;
}

static size_t position(const struct index *index, uint64_t hash)
{
    return (size_t)((hash * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & index->mask;
}

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> 24);
}

static struct cidr cidr_of(const struct addr *addr, uint8_t len)
{
    struct cidr range = {.base = {.family = addr->family}, .len = len};
    memcpy(range.base.bytes, addr->bytes, len / 8);
    if (len % 8 != 0)
        range.base.bytes[len / 8] = (uint8_t)(addr->bytes[len / 8] & (0xff00u >> (len % 8)));
    return range;
}

static uint64_t hash_cidr(const struct index *index, const struct cidr *range)
{
    enum key_kind family = range->base.family == 4 ? KEY_CIDR4 : KEY_CIDR6;
    uint64_t hash = hash_add(index, 0, (uint64_t)family + range->len);
    for (size_t i = 0; i < (range->base.family == 4 ? 4 : 16); i++)
        hash = hash_add(index, hash, range->base.bytes[i]);
    return hash;
}

static uint64_t hash_rule(const struct index *index, const struct rule *rule)
{
    if (rule->host == RULE_CIDR)
        return hash_cidr(index, &rule->cidr);
    struct str name = rule_name(rule);
    uint64_t hash = 0;
    for (size_t i = name.len; i > 0; i--)
        hash = hash_add(index, hash, (unsigned char)name.p[i - 1]);
    return hash_add(index, hash, rule->host == RULE_NAME ? KEY_NAME : KEY_BELOW);
}

static bool same_cidr(const struct cidr *a, const struct cidr *b)
{
    return a->len == b->len && addr_eq(&a->base, &b->base);
}

/* The host part of a rule, which is what look-ups compare. */
struct key {
    enum rule_host host;
    struct str name;
    const struct cidr *cidr; /* RULE_CIDR; otherwise NULL */
};

static struct key key_of(const struct rule *rule)
{
    if (rule->host == RULE_CIDR)
        return (struct key){.host = RULE_CIDR, .cidr = &rule->cidr};
    return (struct key){.host = rule->host, .name = rule_name(rule)};
}

static bool has_host(const struct rule *rule, const struct key *key)
{
    if (rule->host != key->host)
        return false;
    if (key->cidr != NULL)
        return same_cidr(&rule->cidr, key->cidr);
    return str_eq(rule_name(rule), key->name);
}

static void note_length(struct index *index, const struct cidr *range)
{
    if (range->base.family == 4)
        index->v4_lengths |= UINT64_C(1) << range->len;
    else
        index->v6_lengths[range->len / 64] |= UINT64_C(1) << (range->len % 64);
}

static void note_labels(struct index *index, struct str name)
{
    unsigned labels = 1;
    for (size_t i = 0; i < name.len; i++)
        labels += name.p[i] == '.';
    index->below_labels[labels / 64] |= UINT64_C(1) << (labels % 64);
}

static void prepend(struct index *index, struct rule *rule, uint32_t *first)
{
    rule->next = *first;
    *first = (uint32_t)(rule - index->rules) + 1;
}

static void insert(struct index *index, struct rule *rule)
{
    if (rule->host == RULE_ANY) {
        prepend(index, rule, &index->any);
        return;
    }
    if (rule->host == RULE_CIDR)
        note_length(index, &rule->cidr);
    else if (rule->host == RULE_BELOW)
        note_labels(index, rule_name(rule));
    struct key key = key_of(rule);
    uint64_t hash = hash_rule(index, rule);
    size_t at = position(index, hash);
    struct index_slot *slot;
    while (slot = &index->slots[at], slot->rule != 0) {
        if (slot->tag == tag_of(hash) && has_host(&index->rules[slot->rule - 1], &key))
            break;
        at = (at + 1) & index->mask;
    }
    slot->tag = tag_of(hash);
    prepend(index, rule, &slot->rule);
}

/* Like rules, a table that cannot be built is no reason to run without one. */
void index_build(struct index *index, struct rule *rules, uint32_t count)
{
    *index = (struct index){.rules = rules, .mask = 15};
    while (index->mask < (size_t)count * 3 / 2)
        index->mask = index->mask * 2 + 1;
    index->slots = calloc(index->mask + 1, sizeof(*index->slots));
    if (index->slots == NULL ||
        getrandom(&index->point, sizeof(index->point), 0) != sizeof(index->point))
        abort();
    index->point = index->point % (prime - 512) + 512;
    for (uint32_t i = count; i > 0; i--) /* chains grow at their head */
        insert(index, &rules[i - 1]);
}

void index_free(struct index *index)
{
    free(index->slots);
    *index = (struct index){0};
}

static const struct rule *find(const struct index *index, uint64_t hash, const struct key *key)
{
    const struct index_slot *slot;
    for (size_t at = position(index, hash); slot = &index->slots[at], slot->rule != 0;
         at = (at + 1) & index->mask) {
        const struct rule *first = &index->rules[slot->rule - 1];
        if (slot->tag == tag_of(hash) && has_host(first, key))
            return first;
    }
    return NULL;
}

static bool has_labels(const struct index *index, unsigned labels)
{
    return (index->below_labels[labels / 64] >> (labels % 64) & 1) != 0;
}

static size_t find_name(const struct index *index, const struct name *name,
                        const struct rule **heads)
{
    size_t count = 0;
    uint64_t hash = 0;
    unsigned labels = 0;
    for (size_t i = name->len; i > 0; i--) {
        if (name->text[i - 1] == '.' && has_labels(index, ++labels)) {
            struct key below = {.host = RULE_BELOW, .name = {name->text + i, name->len - i}};
            heads[count] = find(index, hash_add(index, hash, KEY_BELOW), &below);
            count += heads[count] != NULL;
        }
        hash = hash_add(index, hash, (unsigned char)name->text[i - 1]);
    }
    struct key exact = {.host = RULE_NAME, .name = name_str(name)};
    heads[count] = find(index, hash_add(index, hash, KEY_NAME), &exact);
    return count + (heads[count] != NULL);
}

static bool has_length(const struct index *index, const struct addr *addr, unsigned len)
{
    uint64_t lengths = addr->family == 4 ? index->v4_lengths : index->v6_lengths[len / 64];
    return (lengths >> (len % 64) & 1) != 0;
}

static size_t find_addr(const struct index *index, const struct addr *addr,
                        const struct rule **heads)
{
    size_t count = 0;
    unsigned longest = addr->family == 4 ? 32 : 128;
    for (unsigned len = 0; len <= longest; len++) {
        if (!has_length(index, addr, len))
            continue;
        struct cidr range = cidr_of(addr, (uint8_t)len);
        struct key key = {.host = RULE_CIDR, .cidr = &range};
        heads[count] = find(index, hash_cidr(index, &range), &key);
        count += heads[count] != NULL;
    }
    return count;
}

size_t index_find(const struct index *index, const struct target *target,
                  const struct rule *heads[INDEX_MAX_HEADS])
{
    size_t count = target->is_addr ? find_addr(index, &target->addr, heads)
                                   : find_name(index, &target->name, heads);
    if (index->any != 0)
        heads[count++] = &index->rules[index->any - 1];
    assert(count < INDEX_MAX_HEADS);
    return count;
}
