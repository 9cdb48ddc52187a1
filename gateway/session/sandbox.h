/*
 * A sandbox that a launcher attached: its listeners are its identity.
 *
 * It is pinned to one worker, so its state needs no locks: listeners, sessions and narrowing are
 * touched there only. Ownership: sandbox_attach() gives the control thread the handle, dead after
 * sandbox_detach(). Thread: control thread; answers come there as in session/worker.h.
 */
#ifndef SESSION_SANDBOX_H
#define SESSION_SANDBOX_H

#include "filters/policy.h"
#include "session/listener.h"
#include "session/worker.h"

struct sandbox;
struct stand_ins;

enum { SANDBOX_MAX_LISTENERS = 4 };

struct sandbox_config {
    const char *name;   /* copied; the `sandbox` field of records */
    const char *client; /* copied; the [client] that the launcher's uid matched, or NULL */
    uint32_t uid;       /* of the launcher, by SO_PEERCRED */
    int32_t pid;
    const char *policy; /* copied; of the snapshot in force, looked up at each request: gone means
                           that everything is denied. NULL: `narrowing` alone decides (a private
                           gateway) */
    struct policy *narrowing;                          /* taken over; NULL only beside a policy */
    struct listener *listeners[SANDBOX_MAX_LISTENERS]; /* each count is taken over */
    size_t listener_count;
    void *owner;             /* given back in struct denial */
    struct stand_ins *names; /* taken over; NULL: none that addresses stand for yet */
};

/* Accepting begins as soon as the worker gets to it; the kernel queues until then. Cannot fail. */
struct sandbox *sandbox_attach(struct workers *workers, const struct sandbox_config *config);

/* Replaces the narrowing (taken over). `done` runs once it is in force and every open tunnel that
 * it denies has been cut (cause `policy`). */
void sandbox_update(struct sandbox *sandbox, struct policy *narrowing, workers_done_fn *done,
                    void *arg);

/* Its names, for another gateway (session/naming.h), after workers_freeze_names(); empty: it has no
 * resolver. */
struct str sandbox_names(const struct sandbox *sandbox);

/* Closes the listeners and cuts the tunnels (cause `detach`). After `done` no denial of it comes
 * any more and its `owner` may go. Updates still under way are answered before. */
void sandbox_detach(struct sandbox *sandbox, workers_done_fn *done, void *arg);

#endif
