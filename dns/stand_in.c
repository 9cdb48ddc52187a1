#include "dns/stand_in.h"

#include "srt/must.h"

#include <search.h>
#include <sys/queue.h>

/* fd3c:5e1a:77d2::/96, drawn once by lot (RFC 4193 3.2), then the IPv4 address. */
static const uint8_t v6_base[16] = {0xfd, 0x3c, 0x5e, 0x1a, 0x77, 0xd2, [12] = 198, 18};
static const uint8_t v4_base[4] = {198, 18};

struct stand_in {
    struct name name; /* first: one tree compares names */
    uint32_t number;
    double used_s;
    TAILQ_ENTRY(stand_in) by_use;
};

TAILQ_HEAD(stand_in_list, stand_in);

struct stand_ins {
    void *by_name, *by_number;
    struct stand_in_list by_use; /* the most recently used first */
    size_t count;
    uint32_t next; /* number */
    bool frozen;
};

/* Trees compare what they hold with what is looked for, so a number is looked for in a stand-in. */
static int compare_numbers(const void *a, const void *b)
{
    const struct stand_in *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static bool is_number(uint32_t number)
{
    return number >= STAND_IN_FIRST && number < STAND_IN_END;
}

struct stand_ins *stand_ins_create(uint32_t start)
{
    struct stand_ins *set = must(calloc(1, sizeof(*set)));
    TAILQ_INIT(&set->by_use);
    set->next = is_number(start) ? start : STAND_IN_FIRST + start % (STAND_IN_END - STAND_IN_FIRST);
    return set;
}

static void forget(struct stand_ins *set, struct stand_in *one)
{
    tdelete(one, &set->by_name, name_compare);
    tdelete(one, &set->by_number, compare_numbers);
    TAILQ_REMOVE(&set->by_use, one, by_use);
    set->count--;
    free(one);
}

void stand_ins_free(struct stand_ins *set)
{
    if (set == NULL)
        return;
    while (!TAILQ_EMPTY(&set->by_use))
        forget(set, TAILQ_FIRST(&set->by_use));
    free(set);
}

size_t stand_ins_count(const struct stand_ins *set)
{
    return set->count;
}

static void use(struct stand_ins *set, struct stand_in *one, double now_s)
{
    one->used_s = now_s;
    TAILQ_REMOVE(&set->by_use, one, by_use);
    TAILQ_INSERT_HEAD(&set->by_use, one, by_use);
}

static struct stand_in *find_number(const struct stand_ins *set, uint32_t number)
{
    const struct stand_in asked = {.number = number};
    struct stand_in **found = tfind(&asked, &set->by_number, compare_numbers);
    return found != NULL ? *found : NULL;
}

/* There are more numbers than names at a time, so there always is one. */
static uint32_t next_number(struct stand_ins *set)
{
    uint32_t number;
    do {
        number = set->next++;
        if (set->next == STAND_IN_END)
            set->next = STAND_IN_FIRST;
    } while (find_number(set, number) != NULL);
    return number;
}

/* A clock that was set back makes nobody's use last for ever. */
static bool is_fresh(const struct stand_in *one, double now_s)
{
    return one->used_s <= now_s && now_s < one->used_s + STAND_IN_KEPT_S;
}

static bool make_room(struct stand_ins *set, double now_s)
{
    if (set->count < STAND_IN_MAX)
        return true;
    struct stand_in *oldest = TAILQ_LAST(&set->by_use, stand_in_list);
    if (is_fresh(oldest, now_s))
        return false;
    forget(set, oldest);
    return true;
}

static void add(struct stand_ins *set, const struct name *name, uint32_t number, double used_s)
{
    struct stand_in *one = must(calloc(1, sizeof(*one)));
    one->name = *name;
    one->number = number;
    one->used_s = used_s;
    TAILQ_INSERT_HEAD(&set->by_use, one, by_use);
    set->count++;
    must(tsearch(one, &set->by_name, name_compare));
    must(tsearch(one, &set->by_number, compare_numbers));
}

bool stand_ins_give(struct stand_ins *set, const struct name *name, double now_s, uint32_t *number)
{
    struct stand_in **found = tfind(name, &set->by_name, name_compare);
    if (found != NULL) {
        use(set, *found, now_s);
        *number = (*found)->number;
        return true;
    }
    if (set->frozen || !make_room(set, now_s))
        return false;
    *number = next_number(set);
    add(set, name, *number, now_s);
    return true;
}

void stand_ins_freeze(struct stand_ins *set, bool frozen)
{
    set->frozen = frozen;
}

void stand_ins_each(const struct stand_ins *set, stand_ins_fn *each, void *arg)
{
    const struct stand_in *one;
    TAILQ_FOREACH_REVERSE(one, &set->by_use, stand_in_list, by_use)
    each(arg, &one->name, one->number, one->used_s);
}

uint32_t stand_ins_next(const struct stand_ins *set)
{
    return set->next;
}

bool stand_ins_restore(struct stand_ins *set, const struct name *name, uint32_t number,
                       double used_s)
{
    if (!is_number(number) || set->count >= STAND_IN_MAX || find_number(set, number) != NULL ||
        tfind(name, &set->by_name, name_compare) != NULL)
        return false;
    add(set, name, number, used_s);
    return true;
}

static uint32_t number_of(const struct addr *addr)
{
    const uint8_t *low = addr->bytes + (addr->family == 4 ? 0 : 12);
    return (uint32_t)(low[1] & 1) << 16 | (uint32_t)low[2] << 8 | low[3];
}

const struct name *stand_ins_find(struct stand_ins *set, const struct addr *addr, double now_s)
{
    struct stand_in *one = stand_in_is(addr) ? find_number(set, number_of(addr)) : NULL;
    if (one == NULL)
        return NULL;
    use(set, one, now_s);
    return &one->name;
}

struct addr stand_in_addr(uint32_t number, uint8_t family)
{
    uint8_t bytes[16];
    memcpy(bytes, v6_base, sizeof(bytes));
    bytes[13] |= (uint8_t)(number >> 16 & 1);
    bytes[14] = (uint8_t)(number >> 8);
    bytes[15] = (uint8_t)number;
    return family == 4 ? addr_of_v4(bytes + 12) : addr_of_v6(bytes);
}

bool stand_in_is(const struct addr *addr)
{
    const bool v4 = addr->family == 4;
    const uint8_t *base = v4 ? v4_base : v6_base;
    const size_t same = v4 ? 1 : 13; /* bytes, and seven bits */
    return memcmp(addr->bytes, base, same) == 0 && (addr->bytes[same] & 0xfe) == base[same];
}
