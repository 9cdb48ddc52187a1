/*
 * What is open, as operators see it: in this process, and in those whose place it took and that
 * still serve what they had (control/handover.h).
 *
 * Thread: control loop. `done` runs once, never within the call.
 */
#ifndef CONTROL_TUNNELS_H
#define CONTROL_TUNNELS_H

#include "control/gateway.h"

/* `elements` are those of a JSON array; lives during the call. */
typedef void tunnels_listed_fn(void *arg, struct str elements);
void tunnels_list(struct gateway *gateway, tunnels_listed_fn *done, void *arg);

typedef void tunnels_cut_fn(void *arg, const char *id, bool found);
void tunnels_cut(struct gateway *gateway, const char *id, tunnels_cut_fn *done, void *arg);

/* At the end: whoever asked is gone. Only after workers_stop() and handover_free(). */
void tunnels_forget(struct gateway *gateway);

/* For the successor, who asked with that serial: what is open in this process alone. */
void tunnels_tell(struct gateway *gateway, int64_t serial);
void tunnels_cut_here(struct gateway *gateway, const char *id, int64_t serial);

#endif
