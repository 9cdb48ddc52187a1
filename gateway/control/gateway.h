/*
 * The running gateway, as the control thread's parts see it.
 *
 * Ownership: control/run.c makes it and its parts and ends them. Thread: the control loop's;
 * nothing here is touched by workers.
 */
#ifndef CONTROL_GATEWAY_H
#define CONTROL_GATEWAY_H

#include "record/audit.h"
#include "record/json.h"
#include "session/worker.h"

#include <ev.h>
#include <sys/queue.h>

struct addresses;
struct apart;
struct poll; /* control/tunnels.c */
LIST_HEAD(polls, poll);
struct admin;
struct attach_server;
struct desk;
struct handover;
struct predecessors;
struct reloader;
struct watch;

struct gateway {
    struct ev_loop *loop;
    struct apart *apart;     /* for what other processes have, too */
    const char *config_path; /* NULL: private */
    char *audit_path;        /* or "stderr" or "none"; outlives the snapshot that said so */
    struct audit *audit;
    struct snapshot *snapshot;   /* in force */
    struct listener **listeners; /* one for each of snapshot->config->listens */
    struct workers *workers;
    struct addresses *addresses;
    struct watch *watch;
    struct reloader *reloader;
    struct attach_server *attach;
    struct admin *admin;
    struct handover *handover; /* NULL: private, and so: */
    struct predecessors *predecessors;
    struct polls polls; /* under way */
    struct desk *desk;
    bool draining;
    ev_timer drain_deadline;
    bool retired; /* another process has taken the place; what is open is served to its end */
};

/* snapshot_load() with every fault on stderr; NULL: none is in force. `warnings` may be NULL. */
struct snapshot *gateway_load(const char *path, size_t *warnings);

/* Refuses new requests, lets the open ones end within drain-timeout, then stops. */
void gateway_drain(struct gateway *gateway);
/* Ends the loop; what is open is cut. */
void gateway_stop(struct gateway *gateway);

/* Hands a record without waiters to the audit log, and frees it. */
void gateway_record(struct gateway *gateway, struct json *fields);

/* A view of this machine for the guard: its addresses, and its listeners (one for each of the
 * configuration's; NULL: another process's) with their real ports. */
struct guard_host *gateway_make_host(const struct gateway *gateway,
                                     const struct gateway_config *config,
                                     struct listener *const *listeners);

#endif
