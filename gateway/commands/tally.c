#include "commands/tally.h"

#include "srt/must.h"

#include <stdlib.h>

enum { SLOTS = TALLY_ROWS * 2 }; /* a power of two, so that half of them stay empty */

struct tally {
    struct tally_row *rows[TALLY_ROWS + 1]; /* and one for the others, at the end */
    size_t count;
    struct tally_row *others; /* NULL until it is needed */
    uint32_t hashes[TALLY_ROWS];
    uint32_t slots[SLOTS]; /* index of a row + 1, 0: empty */
};

struct tally *tally_create(void)
{
    return must_calloc(1, sizeof(struct tally));
}

static void free_row(struct tally_row *row)
{
    if (row == NULL)
        return;
    free(row->key);
    free(row->note);
    free(row);
}

void tally_free(struct tally *tally)
{
    if (tally == NULL)
        return;
    for (size_t i = 0; i < tally->count; i++)
        free_row(tally->rows[i]);
    free_row(tally->others);
    free(tally);
}

/* FNV-1a. Names that were chosen to collide make this slower, up to the bound of the table, and
 * nothing worse: it reads files, not requests. */
static uint32_t hash_of(struct str key)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < key.len; i++)
        hash = (hash ^ (unsigned char)key.p[i]) * 16777619u;
    return hash;
}

static struct tally_row *others(struct tally *tally)
{
    if (tally->others == NULL)
        tally->others = must_calloc(1, sizeof(struct tally_row));
    return tally->others;
}

struct tally_row *tally_row(struct tally *tally, struct str key)
{
    const uint32_t hash = hash_of(key);
    uint32_t slot = hash % SLOTS;
    for (; tally->slots[slot] != 0; slot = (slot + 1) % SLOTS) {
        const size_t index = tally->slots[slot] - 1;
        struct tally_row *row = tally->rows[index];
        if (tally->hashes[index] == hash && strncmp(row->key, key.p, key.len) == 0 &&
            row->key[key.len] == '\0')
            return row;
    }
    if (tally->count == TALLY_ROWS)
        return others(tally);
    struct tally_row *row = must_calloc(1, sizeof(*row));
    row->key = must(strndup(key.p, key.len));
    tally->rows[tally->count] = row;
    tally->hashes[tally->count] = hash;
    tally->slots[slot] = (uint32_t)++tally->count;
    return row;
}

void tally_add_port(struct tally_row *row, uint16_t port)
{
    const size_t known = row->port_count < TALLY_PORTS ? row->port_count : TALLY_PORTS;
    for (size_t i = 0; i < known; i++)
        if (row->ports[i] == port)
            return;
    if (known < TALLY_PORTS)
        row->ports[known] = port;
    row->port_count = known + 1;
}

static int compare(const void *a, const void *b, void *weight)
{
    const struct tally_row *x = *(struct tally_row *const *)a, *y = *(struct tally_row *const *)b;
    const uint64_t heavy_x = (*(tally_weight **)weight)(x), heavy_y = (*(tally_weight **)weight)(y);
    if (heavy_x != heavy_y)
        return heavy_x > heavy_y ? -1 : 1;
    return strcmp(x->key, y->key);
}

/* The slots lead nowhere afterwards, so they are made anew: rows have changed places. */
static void index_rows(struct tally *tally)
{
    memset(tally->slots, 0, sizeof(tally->slots));
    for (size_t i = 0; i < tally->count; i++) {
        tally->hashes[i] = hash_of(str_of(tally->rows[i]->key));
        uint32_t slot = tally->hashes[i] % SLOTS;
        while (tally->slots[slot] != 0)
            slot = (slot + 1) % SLOTS;
        tally->slots[slot] = (uint32_t)i + 1;
    }
}

struct tally_row **tally_sorted(struct tally *tally, tally_weight *weight, size_t *count)
{
    qsort_r(tally->rows, tally->count, sizeof(void *), compare, &weight);
    index_rows(tally);
    *count = tally->count;
    if (tally->others != NULL)
        tally->rows[(*count)++] = tally->others;
    return tally->rows;
}
