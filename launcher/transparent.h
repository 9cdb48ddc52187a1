/*
 * The network of a sandbox whose programs need to know no proxy (--egress transparent).
 *
 * Every address of both families is the sandbox's own, so that nothing is unreachable and nothing
 * ever leaves; nftables leads what is connected to, other than loopback, to one listener, and the
 * kernel tells who accepts there where it was meant to go. Port 53 of every address is a resolver.
 * The listeners go to the gateway; nobody inside has the capability to change any of this.
 *
 * Thread: the launcher's only one. Failure: -1 with `err`, which names the remedy.
 */
#ifndef LAUNCHER_TRANSPARENT_H
#define LAUNCHER_TRANSPARENT_H

#include "launcher/inside.h"

enum { TRANSPARENT_LISTENERS = 3 };
/* What they are called in the attach message (srt/attach.h), in the order of the gift. */
extern const char *const transparent_kinds[TRANSPARENT_LISTENERS];

/* An inside_work without context, for INSIDE_NET: the gift is the listeners. */
int transparent_open(void *nothing, const struct inside *inside, struct inside_gift *gift,
                     struct srt_err *err);

#endif
