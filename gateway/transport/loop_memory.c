#include "transport/loop_memory.h"

#include "srt/must.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LARGE = 16 << 10 };

struct block {
    size_t size; /* with this head */
    max_align_t bytes[];
};

static struct block *check(void *block)
{
    if (block == NULL || block == MAP_FAILED)
        must_end();
    return block;
}

static struct block *map(size_t size)
{
    return check(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void release(struct block *block)
{
    if (block != NULL && block->size >= LARGE)
        (void)munmap(block, block->size);
    else
        free(block);
}

static struct block *resize(struct block *before, size_t size)
{
    const bool was_large = before != NULL && before->size >= LARGE, large = size >= LARGE;
    if (was_large && large)
        return check(mremap(before, before->size, size, MREMAP_MAYMOVE));
    if (!was_large && !large)
        return check(realloc(before, size));
    struct block *block = large ? map(size) : check(malloc(size));
    if (before != NULL)
        memcpy(block->bytes, before->bytes,
               (before->size < size ? before->size : size) - sizeof(*block));
    release(before);
    return block;
}

void *loop_memory(void *p, long size)
{
    struct block *before =
        p != NULL ? (struct block *)(void *)((char *)p - offsetof(struct block, bytes)) : NULL;
    if (size == 0) {
        release(before);
        return NULL;
    }
    struct block *block = resize(before, (size_t)size + sizeof(*block));
    block->size = (size_t)size + sizeof(*block);
    return block->bytes;
}
