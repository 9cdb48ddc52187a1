/*
 * Room for things of one size, apart from the heap.
 *
 * Between a request and its tunnel much is taken and given back. On one heap that would leave holes
 * between the tunnels that stay, which are not given back to the system; here each kind lies by
 * itself, and what becomes empty goes.
 *
 * Ownership: slab_end() gives back the memory, after everything taken has been given back. Thread:
 * one. Failure: running out of memory ends the process.
 */
#ifndef TRANSPORT_SLAB_H
#define TRANSPORT_SLAB_H

#include <stddef.h>
#include <sys/queue.h>

struct slab_block;
LIST_HEAD(slab_blocks, slab_block);

struct slab {
    size_t size;             /* of a thing */
    struct slab_blocks some; /* with room, the one used last first */
    struct slab_blocks full;
    struct slab_blocks spare; /* a few empty ones, so that coming and going costs no system call */
    unsigned spare_count;
};

void slab_init(struct slab *slab, size_t size);
void slab_end(struct slab *slab);

/* Zeroed, and aligned for pointers and doubles. */
void *slab_take(struct slab *slab);
void slab_give(void *thing); /* or NULL */

#endif
