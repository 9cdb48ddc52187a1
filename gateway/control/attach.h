/*
 * Where launchers attach their sandboxes (include/srt/attach.h).
 *
 * The connection is the sandbox's life. A launcher may be hostile or stuck: everything here is
 * non-blocking, bounded in number, bytes and time, and a fault ends that one connection only.
 * Ownership: the gateway's. Thread: control loop.
 */
#ifndef CONTROL_ATTACH_H
#define CONTROL_ATTACH_H

#include "control/gateway.h"

struct attach_server *attach_create(struct gateway *gateway);
/* Every connection ends; records of what was attached are written. NULL is allowed. Only after
 * workers_stop(). */
void attach_free(struct attach_server *server);

/* Takes the listener over; launchers are let in as soon as the loop runs. */
void attach_listen(struct attach_server *server, struct listener *listener);
/* ` control=ADDRESS`, when it listens. */
void attach_append_address(const struct attach_server *server, struct json *line);
/* The launcher's end of a private gateway: `fd` is taken over, and the gateway ends with it. */
void attach_serve_private(struct attach_server *server, int fd);

/* workers_config.on_denial, with the server as `arg`. */
void attach_on_denial(void *arg, const struct denial *denial);

/* ---- for control/desk.c; `owner` is what struct ask has ---- */

/* Its launcher has somebody who answers, and is there. */
bool attach_asks(const void *owner);
/* Sends a message of that type with these members, which are freed. False: it reads too slowly. */
bool attach_tell(void *owner, const char *type, struct json *members);
/* NULL while it is ending. */
struct sandbox *attach_sandbox(void *owner);
/* The owner of that name, or NULL. `policy` (may be NULL) gets the one it is under, "" for its
 * settings alone. */
void *attach_find(struct attach_server *server, const char *name, const char **policy);

size_t attach_count(const struct attach_server *server);

#endif
