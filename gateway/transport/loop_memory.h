/*
 * Memory for libev's arrays, which grow with the number of connections and stay.
 *
 * On the heap they would come to lie above what connecting took and gave back, and keep that from
 * being given back to the system; so large ones have pages of their own, which also grow without
 * being copied.
 *
 * Thread: any; a block belongs to one. Failure: running out of memory ends the process.
 */
#ifndef TRANSPORT_LOOP_MEMORY_H
#define TRANSPORT_LOOP_MEMORY_H

/* As realloc(), and as ev_set_allocator() wants it: `size` 0 frees. */
void *loop_memory(void *block, long size);

#endif
