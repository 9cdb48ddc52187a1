/*
 * What was decided under each policy, for metrics.
 *
 * The counts live by the policy's name as long as the workers do, so a reload goes on with them; a
 * policy that is gone keeps its own. Ownership: the team's tree. Thread: found and read on the
 * control thread, counted on any worker.
 */
#ifndef SESSION_USAGE_H
#define SESSION_USAGE_H

#include <stdatomic.h>
#include <stdint.h>

struct usage {
    char *policy;
    _Atomic uint64_t allowed, denied; /* requests */
};

/* Those of all policies that there ever were; zeroed: none. */
struct usages {
    void *root;
};

/* That of the policy, made on first use. */
struct usage *usages_find(struct usages *usages, const char *policy);
void usages_free(struct usages *usages);

/* By name. */
void usages_each(const struct usages *usages, void (*each)(void *arg, const struct usage *usage),
                 void *arg);

#endif
