#include "transport/reach.h"

#include "srt/must.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/random.h>

/* An address has one set, and a new one in a full set replaces the fact that is oldest. So nothing
 * has to be searched, and whoever fills the table only makes it forget. */
enum { WAYS = 4, ANSWER_MAX_S = 3600 };

struct fact {
    struct addr addr; /* family 0: empty */
    uint16_t port;
    bool failed;
    float answer_s; /* smoothed; of the last answer */
    double noted_s;
};

struct reach {
    uint64_t seed;
    uint32_t sets; /* a power of two */
    struct fact facts[];
};

struct reach *reach_create(uint32_t max_entries)
{
    uint32_t sets = 1;
    while (sets * WAYS < max_entries)
        sets *= 2;
    struct reach *reach = must(calloc(1, sizeof(*reach) + sizeof(struct fact) * WAYS * sets));
    reach->sets = sets;
    if (getrandom(&reach->seed, sizeof(reach->seed), 0) != sizeof(reach->seed))
        abort();
    return reach;
}

void reach_destroy(struct reach *reach)
{
    free(reach);
}

/* The finalizer of MurmurHash3. Who can choose addresses cannot see which sets they share. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

static size_t set_of(const struct reach *reach, const struct addr *addr, uint16_t port)
{
    uint64_t halves[2];
    memcpy(halves, addr->bytes, sizeof(halves));
    uint64_t hash = mix(reach->seed ^ halves[0]);
    hash = mix(hash ^ halves[1]);
    hash = mix(hash ^ ((uint64_t)port << 8 | addr->family));
    return (size_t)(hash & (reach->sets - 1)) * WAYS;
}

static const struct fact *find(const struct reach *reach, const struct addr *addr, uint16_t port)
{
    const struct fact *set = &reach->facts[set_of(reach, addr, port)];
    for (size_t i = 0; i < WAYS; i++)
        if (set[i].port == port && addr_eq(&set[i].addr, addr))
            return &set[i];
    return NULL;
}

static struct fact *find_or_make(struct reach *reach, const struct addr *addr, uint16_t port)
{
    struct fact *set = &reach->facts[set_of(reach, addr, port)], *oldest = set;
    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].port == port && addr_eq(&set[i].addr, addr))
            return &set[i];
        if (set[i].noted_s < oldest->noted_s)
            oldest = &set[i];
    }
    *oldest = (struct fact){.addr = *addr, .port = port, .failed = true};
    return oldest;
}

void reach_note_answer(struct reach *reach, const struct addr *addr, uint16_t port, double now_s,
                       double after_s)
{
    struct fact *fact = find_or_make(reach, addr, port);
    float latest = after_s <= 0 ? 0 : after_s < ANSWER_MAX_S ? (float)after_s : ANSWER_MAX_S;
    fact->answer_s = fact->failed ? latest : fact->answer_s + (latest - fact->answer_s) / 4;
    fact->failed = false;
    fact->noted_s = now_s;
}

void reach_note_failure(struct reach *reach, const struct addr *addr, uint16_t port, double now_s)
{
    struct fact *fact = find_or_make(reach, addr, port);
    fact->failed = true;
    fact->noted_s = now_s;
}

enum { RANK_UNKNOWN = 64, RANK_FAILED };

/* Powers of two of a millisecond: smaller differences are the weather. */
static uint8_t rank_of(const struct reach *reach, const struct addr *addr, uint16_t port,
                       double now_s)
{
    const struct fact *fact = reach != NULL ? find(reach, addr, port) : NULL;
    if (fact == NULL)
        return RANK_UNKNOWN;
    double age_s = now_s - fact->noted_s; /* negative when the clock was set back */
    if (age_s < 0 || age_s > (fact->failed ? REACH_FAILURE_S : REACH_ANSWER_S))
        return RANK_UNKNOWN;
    if (fact->failed)
        return RANK_FAILED;
    uint8_t magnitude = 0;
    for (uint32_t ms = (uint32_t)(fact->answer_s * 1000); ms >= 2; ms /= 2)
        magnitude++;
    return magnitude;
}

/* `from` is sorted by rank; those of one kind go to `to`, the families in turns. */
static void take_turns(const struct approved *approved, const uint32_t *from, uint32_t count,
                       uint32_t *to)
{
    uint32_t next[2] = {0, 0}; /* where to look for the next address of each family */
    bool six = count > 0 && approved->addrs[from[0]].family == 6;
    for (uint32_t n = 0; n < count; six = !six) {
        uint32_t i = next[six];
        while (i < count && (approved->addrs[from[i]].family == 6) != six)
            i++;
        next[six] = i + 1;
        if (i < count)
            to[n++] = from[i];
    }
}

void reach_order(const struct reach *reach, const struct approved *approved, double now_s,
                 uint32_t order[RESOLVER_MAX_ADDRS])
{
    uint8_t ranks[RESOLVER_MAX_ADDRS];
    uint32_t sorted[RESOLVER_MAX_ADDRS], hopeful = 0;
    assert(approved->count > 0 && approved->count <= RESOLVER_MAX_ADDRS);
    for (uint32_t i = 0; i < approved->count; i++) {
        uint32_t at = i;
        ranks[i] = rank_of(reach, &approved->addrs[i], approved->port, now_s);
        hopeful += ranks[i] != RANK_FAILED;
        for (; at > 0 && ranks[sorted[at - 1]] > ranks[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = i;
    }
    take_turns(approved, sorted, hopeful, order);
    take_turns(approved, sorted + hopeful, approved->count - hopeful, order + hopeful);
}
