/*
 * The resolver inside a sandbox: every host name gets an address that stands for it
 * (dns/stand_in.h), at once, and nobody is asked. So a name that is denied is never resolved, and
 * its denial is told where the connection is made, by the record and in the words of any other.
 *
 * Thread: the sandbox's worker.
 */
#ifndef SESSION_NAMING_H
#define SESSION_NAMING_H

#include "dns/query.h"
#include "dns/target.h"

struct sandbox;

/* The length of the answer; 0: there is none to such a message. */
size_t naming_answer(struct sandbox *sandbox, struct str message, uint8_t out[QUERY_ANSWER_MAX]);

/* Another gateway is to know its names: they are written for it, as {"next":N, "names":[{"name":,
 * "number":, "used": milliseconds since the epoch}, ...]}, and no new one gets an address here. */
void naming_freeze(struct sandbox *sandbox);
void naming_thaw(struct sandbox *sandbox);

/* An address that stands for a name is replaced by it. False: the target is such an address, and
 * the name is not known (any more). */
bool naming_recall(const struct sandbox *sandbox, struct target *target);

#endif
