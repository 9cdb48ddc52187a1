#include "transport/slab.h"

#include "srt/must.h"
#include "srt/sanitized.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A sanitizer is to know what is in use, and finds what is only referred to from its own heap. */
#if SRT_SANITIZED
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, size) ((void)(p), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(p, size) ((void)(p), (void)(size))
#endif

enum {
    BLOCK = 32 << 10, /* and so aligned: a thing's address tells its block */
    ALIGN = sizeof(double),
    SPARE_THINGS = 96, /* for about so many, room is kept */
};

struct slot {
    struct slot *next;
};

struct slab_block {
    struct slab *slab;
    LIST_ENTRY(slab_block) link;
    struct slot *unused;
    size_t used;
    size_t fresh; /* where the part begins that was never touched */
};

enum { FIRST = (sizeof(struct slab_block) + ALIGN - 1) / ALIGN * ALIGN };

#if SRT_SANITIZED
static void *map_block(void)
{
    return aligned_alloc(BLOCK, BLOCK);
}

static void unmap_block(void *block)
{
    ASAN_UNPOISON_MEMORY_REGION(block, BLOCK);
    free(block);
}
#else
static char *map_pages(size_t size)
{
    void *area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return area != MAP_FAILED ? area : NULL;
}

static void *map_block(void)
{
    /* The kernel likes to place one right below the other, so that often the first try will do. */
    char *area = map_pages(BLOCK);
    if (area == NULL || (uintptr_t)area % BLOCK == 0)
        return area;
    (void)munmap(area, BLOCK);
    area = map_pages(2 * BLOCK);
    if (area == NULL)
        return NULL;
    const size_t skip = (BLOCK - (uintptr_t)area % BLOCK) % BLOCK;
    if (skip > 0)
        (void)munmap(area, skip);
    (void)munmap(area + skip + BLOCK, BLOCK - skip);
    return area + skip;
}

static void unmap_block(void *block)
{
    (void)munmap(block, BLOCK);
}
#endif

void slab_init(struct slab *slab, size_t size)
{
    *slab = (struct slab){.size = (size + ALIGN - 1) / ALIGN * ALIGN};
    assert(slab->size >= sizeof(struct slot) && FIRST + slab->size <= BLOCK);
    LIST_INIT(&slab->some);
    LIST_INIT(&slab->full);
    LIST_INIT(&slab->spare);
}

static struct slab_block *take_spare(struct slab *slab)
{
    struct slab_block *block = LIST_FIRST(&slab->spare);
    if (block == NULL)
        return NULL;
    LIST_REMOVE(block, link);
    slab->spare_count--;
    return block;
}

void slab_end(struct slab *slab)
{
    assert(LIST_EMPTY(&slab->some) && LIST_EMPTY(&slab->full));
    for (struct slab_block *block; (block = take_spare(slab)) != NULL;)
        unmap_block(block);
}

static struct slab_block *make_block(struct slab *slab)
{
    struct slab_block *block = must(map_block());
    *block = (struct slab_block){.slab = slab, .fresh = FIRST};
    ASAN_POISON_MEMORY_REGION((char *)block + FIRST, BLOCK - FIRST);
    return block;
}

static struct slab_block *block_with_room(struct slab *slab)
{
    struct slab_block *block = LIST_FIRST(&slab->some);
    if (block != NULL)
        return block;
    block = take_spare(slab);
    if (block == NULL)
        block = make_block(slab);
    LIST_INSERT_HEAD(&slab->some, block, link);
    return block;
}

static bool is_full(const struct slab *slab, const struct slab_block *block)
{
    return block->unused == NULL && block->fresh + slab->size > BLOCK;
}

static void *take_slot(const struct slab *slab, struct slab_block *block)
{
    struct slot *slot = block->unused;
    if (slot == NULL) {
        slot = (struct slot *)(void *)((char *)block + block->fresh);
        block->fresh += slab->size;
        ASAN_UNPOISON_MEMORY_REGION(slot, slab->size);
    } else {
        ASAN_UNPOISON_MEMORY_REGION(slot, slab->size);
        block->unused = slot->next;
    }
    block->used++;
    return memset(slot, 0, slab->size);
}

void *slab_take(struct slab *slab)
{
    struct slab_block *block = block_with_room(slab);
    void *thing = take_slot(slab, block);
    if (is_full(slab, block)) {
        LIST_REMOVE(block, link);
        LIST_INSERT_HEAD(&slab->full, block, link);
    }
    return thing;
}

static void retire_block(struct slab *slab, struct slab_block *block)
{
    LIST_REMOVE(block, link);
    if (slab->spare_count > SPARE_THINGS * slab->size / BLOCK) {
        unmap_block(block);
        return;
    }
    LIST_INSERT_HEAD(&slab->spare, block, link);
    slab->spare_count++;
}

void slab_give(void *thing)
{
    if (thing == NULL)
        return;
    struct slab_block *block = (struct slab_block *)((uintptr_t)thing & ~(uintptr_t)(BLOCK - 1));
    struct slab *slab = block->slab;
    if (is_full(slab, block)) {
        LIST_REMOVE(block, link);
        LIST_INSERT_HEAD(&slab->some, block, link);
    }
    *(struct slot *)thing = (struct slot){block->unused};
    block->unused = thing;
    ASAN_POISON_MEMORY_REGION(thing, slab->size);
    assert(block->used > 0);
    if (--block->used == 0)
        retire_block(slab, block);
}
