#include "filters/index.h"

#include "filters/secret_hash.h"
#include "srt/must.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* What is hashed: a kind, then a name's bytes from the last to the first, or a range's bytes. */
enum key_kind { KEY_NAME = 256, KEY_BELOW, KEY_CIDR4, KEY_CIDR6 = KEY_CIDR4 + 33 };

static uint64_t hash_add(const struct index *index, uint64_t hash, uint64_t value)
{
    return secret_hash_add(index->point, hash, value);
}

static struct index_bucket *home_of(const struct index *index, uint64_t hash)
{
    uint64_t spread = hash * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    return &index->buckets[spread * index->bucket_count >> 32];
}

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> 29);
}

static struct index_bucket *next_bucket(const struct index *index,
                                        const struct index_bucket *bucket)
{
    size_t at = (size_t)(bucket - index->buckets) + 1;
    return &index->buckets[at < index->bucket_count ? at : 0];
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

/* The host part of a rule, which is what look-ups compare. */
struct key {
    enum rule_host host;
    struct str name;
    struct cidr cidr; /* RULE_CIDR */
};

static uint64_t hash_key(const struct index *index, const struct key *key)
{
    uint64_t hash = 0;
    if (key->host == RULE_CIDR)
        return hash_cidr(index, &key->cidr);
    for (size_t i = key->name.len; i > 0; i--)
        hash = hash_add(index, hash, (unsigned char)key->name.p[i - 1]);
    return hash_add(index, hash, key->host == RULE_NAME ? KEY_NAME : KEY_BELOW);
}

static bool same_cidr(const struct cidr *a, const struct cidr *b)
{
    return a->len == b->len && addr_eq(&a->base, &b->base);
}

static struct key key_of(const struct rule *rule)
{
    if (rule->host == RULE_CIDR)
        return (struct key){.host = RULE_CIDR, .cidr = rule_cidr(rule)};
    return (struct key){.host = rule->host, .name = rule_name(rule)};
}

static bool has_host(const struct rule *rule, const struct key *key)
{
    if (rule->host != key->host)
        return false;
    if (key->host == RULE_CIDR) {
        const struct cidr range = rule_cidr(rule);
        return same_cidr(&range, &key->cidr);
    }
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

/* The way of the host in this bucket, or the free one where it would stand; INDEX_WAYS: neither. */
static size_t way_for(const struct index *index, const struct index_bucket *bucket, uint32_t tag,
                      const struct key *key)
{
    size_t way = 0;
    while (way < INDEX_WAYS && bucket->rule[way] != 0 &&
           (bucket->tag[way] != tag || !has_host(&index->rules[bucket->rule[way] - 1], key)))
        way++;
    return way;
}

static void insert(struct index *index, struct rule *rule)
{
    if (rule->host == RULE_ANY) {
        prepend(index, rule, &index->any);
        return;
    }
    struct key key = key_of(rule);
    if (key.host == RULE_CIDR)
        note_length(index, &key.cidr);
    else if (key.host == RULE_BELOW)
        note_labels(index, key.name);
    uint64_t hash = hash_key(index, &key);
    struct index_bucket *bucket = home_of(index, hash);
    size_t way;
    while ((way = way_for(index, bucket, tag_of(hash), &key)) == INDEX_WAYS) {
        bucket->spilled = 1;
        bucket = next_bucket(index, bucket);
    }
    bucket->tag[way] = tag_of(hash);
    bucket->text[way] = (uint32_t)(rule->text - index->texts);
    prepend(index, rule, &bucket->rule[way]);
}

/* Seven in ten places are taken: five hosts in a line, 18 bytes for each. */
static uint32_t buckets_for(uint32_t rules)
{
    return (uint32_t)((uint64_t)rules * 10 / (7 * INDEX_WAYS) + 2);
}

void *index_memory(size_t size)
{
    enum { LINE = sizeof(struct index_bucket), MUCH = 4 << 20 };
    char *memory = must(aligned_alloc(LINE, (size / LINE + 1) * LINE));
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t skip = page - (uintptr_t)memory % page;
    if (size >= MUCH) /* where the system lends none, it is only slower */
        (void)madvise(memory + skip, (size - skip) / page * page, MADV_HUGEPAGE);
    return memory;
}

/* Like rules, a table that cannot be built is no reason to run without one. */
void index_build(struct index *index, struct rule *rules, uint32_t count, const char *texts)
{
    *index = (struct index){.rules = rules, .texts = texts, .bucket_count = buckets_for(count)};
    size_t size = index->bucket_count * sizeof(*index->buckets);
    index->buckets = index_memory(size);
    memset(index->buckets, 0, size);
    index->point = secret_hash_point();
    for (uint32_t i = count; i > 0; i--) /* chains grow at their head */
        insert(index, &rules[i - 1]);
}

void index_free(struct index *index)
{
    free(index->buckets);
    *index = (struct index){0};
}

/* -- looking up -- */

/* One host that a question is about. */
struct probe {
    struct key key;
    uint32_t tag;
    const struct index_bucket *home;
};

struct probes {
    const struct index *index;
    struct probe items[INDEX_MAX_HEADS];
    size_t count;
};

/* Asks for its bucket, and goes on without waiting. */
static void add_probe(struct probes *probes, const struct key *key, uint64_t hash)
{
    struct probe *probe = &probes->items[probes->count++];
    assert(probes->count < INDEX_MAX_HEADS);
    *probe = (struct probe){.key = *key, .tag = tag_of(hash), .home = home_of(probes->index, hash)};
    __builtin_prefetch(probe->home);
}

/* Asks for the rules that are likely to be it, and for their texts. False: there is none. */
static bool fetch_rules(const struct index *index, const struct probe *probe)
{
    bool likely = probe->home->spilled != 0;
    for (size_t way = 0; way < INDEX_WAYS && probe->home->rule[way] != 0; way++) {
        if (probe->home->tag[way] != probe->tag)
            continue;
        __builtin_prefetch(&index->rules[probe->home->rule[way] - 1]);
        __builtin_prefetch(index->texts + probe->home->text[way]);
        likely = true;
    }
    return likely;
}

static const struct rule *find(const struct index *index, const struct probe *probe)
{
    const struct index_bucket *bucket = probe->home;
    size_t way;
    while ((way = way_for(index, bucket, probe->tag, &probe->key)) == INDEX_WAYS) {
        if (!bucket->spilled)
            return NULL;
        bucket = next_bucket(index, bucket);
    }
    return bucket->rule[way] != 0 ? &index->rules[bucket->rule[way] - 1] : NULL;
}

static size_t find_all(const struct probes *probes, const struct rule **heads)
{
    size_t likely[INDEX_MAX_HEADS], likely_count = 0, count = 0;
    for (size_t i = 0; i < probes->count; i++)
        if (fetch_rules(probes->index, &probes->items[i]))
            likely[likely_count++] = i;
    for (size_t i = 0; i < likely_count; i++) {
        heads[count] = find(probes->index, &probes->items[likely[i]]);
        count += heads[count] != NULL;
    }
    return count;
}

static bool has_labels(const struct index *index, unsigned labels)
{
    return (index->below_labels[labels / 64] >> (labels % 64) & 1) != 0;
}

static void probe_name(struct probes *probes, const struct name *name)
{
    const struct index *index = probes->index;
    uint64_t hash = 0;
    unsigned labels = 0;
    for (size_t i = name->len; i > 0; i--) {
        if (name->text[i - 1] == '.' && has_labels(index, ++labels)) {
            struct key below = {.host = RULE_BELOW, .name = {name->text + i, name->len - i}};
            add_probe(probes, &below, hash_add(index, hash, KEY_BELOW));
        }
        hash = hash_add(index, hash, (unsigned char)name->text[i - 1]);
    }
    struct key exact = {.host = RULE_NAME, .name = name_str(name)};
    add_probe(probes, &exact, hash_add(index, hash, KEY_NAME));
}

static bool has_length(const struct index *index, const struct addr *addr, unsigned len)
{
    uint64_t lengths = addr->family == 4 ? index->v4_lengths : index->v6_lengths[len / 64];
    return (lengths >> (len % 64) & 1) != 0;
}

static void probe_addr(struct probes *probes, const struct addr *addr)
{
    unsigned longest = addr->family == 4 ? 32 : 128;
    for (unsigned len = 0; len <= longest; len++) {
        if (!has_length(probes->index, addr, len))
            continue;
        struct key key = {.host = RULE_CIDR, .cidr = cidr_of(addr, (uint8_t)len)};
        add_probe(probes, &key, hash_cidr(probes->index, &key.cidr));
    }
}

size_t index_find(const struct index *index, const struct target *target,
                  const struct rule *heads[INDEX_MAX_HEADS])
{
    struct probes probes;
    probes.index = index;
    probes.count = 0;
    if (target->is_addr)
        probe_addr(&probes, &target->addr);
    else
        probe_name(&probes, &target->name);
    size_t count = find_all(&probes, heads);
    if (index->any != 0)
        heads[count++] = &index->rules[index->any - 1];
    assert(count < INDEX_MAX_HEADS);
    return count;
}
