/*
 * This machine's own addresses, which the guard keeps sandboxes away from (INTERFACE 1.4 step 4).
 *
 * Read at the start and again whenever the kernel says that one came or went (rtnetlink); changes
 * within a tenth of a second are one. Ownership: the control thread's. Thread: the control loop's.
 * Failure: without netlink the list is only read once, and the caller is told by `err`.
 */
#ifndef CONTROL_ADDRESSES_H
#define CONTROL_ADDRESSES_H

#include "dns/addr.h"
#include "srt/err.h"

struct ev_loop;
struct addresses;

/* A sorted list without doubles, the caller's to free(). */
struct addr *addresses_read(size_t *count);

/* `changed` runs on the loop, only when the list is another one than before. */
struct addresses *addresses_watch(struct ev_loop *loop, void (*changed)(void *arg), void *arg,
                                  struct srt_err *err);
void addresses_free(struct addresses *addresses); /* NULL is allowed */

/* Valid until the loop runs again. */
const struct addr *addresses_list(const struct addresses *addresses, size_t *count);

#endif
