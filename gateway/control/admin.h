/*
 * The operators' door: HTTP/1.1 over Unix sockets and loopback TCP (INTERFACE 1.7).
 *
 * One request a connection. Reading is open to whoever reaches the socket; what changes something
 * needs, over TCP, the token of admin-token-file, and is recorded. A Host that is no loopback name
 * is refused over TCP, so that no web page can reach it through a name of its own.
 * control/admin_routes.c holds the answers. Ownership: the gateway's. Thread: control loop.
 */
#ifndef CONTROL_ADMIN_H
#define CONTROL_ADMIN_H

#include "control/gateway.h"

struct admin;
struct admin_client;

struct admin *admin_create(struct gateway *gateway);
/* Takes the listener over. */
void admin_listen(struct admin *admin, struct listener *listener);
/* NULL is allowed. Only after workers_stop(), since answers may be under way. */
void admin_free(struct admin *admin);

/* Paused, nobody new is let in. */
void admin_pause(struct admin *admin, bool paused);
/* For another process to take over, which then has them alone: admin_retire() ends event streams
 * and lets the other answers go out; admin_claim() is the other's. */
typedef void admin_offer_fn(void *arg, const struct listener *listener);
void admin_offer(const struct admin *admin, admin_offer_fn *offer, void *arg);
void admin_retire(struct admin *admin);
void admin_claim(struct admin *admin);

/* ` admin=ADDRESS` for each. */
void admin_append_addresses(const struct admin *admin, struct json *line);
/* A line of JSON that is no record, as an event of that name for everybody who follows /events. */
void admin_push(struct admin *admin, const char *event, struct str line);
bool admin_has_streams(const struct admin *admin);
/* The TCP ones, for the guard: at most `max` are written. */
size_t admin_addresses(const struct admin *admin, struct config_address *out, size_t max);

/* ---- for control/admin_routes.c ---- */

struct admin_request {
    struct admin_client *client;
    struct gateway *gateway;
    struct str path, query; /* query without its '?' */
    struct str id;          /* what stands for `*` in the route's path */
};

struct admin_route {
    const char *method;
    const char *path; /* one part may be `*`; a path has one method */
    bool changes;     /* needs the token over TCP, and is recorded by the handler */
    /* Answers now or later, exactly once. The request is valid during the call only. */
    void (*handle)(const struct admin_request *request);
};

extern const struct admin_route admin_routes[];
extern const size_t admin_route_count;

/* Takes the storage of `body` over. The client may be gone when it returns. */
void admin_answer(struct admin_client *client, int status, const char *type, struct json *body);
/* The same of a value, as application/json. */
void admin_answer_json(struct admin_client *client, int status, struct json *body);
/* {"error": "..."} */
__attribute__((format(printf, 3, 4))) void admin_refuse(struct admin_client *client, int status,
                                                        const char *format, ...);
/* From now on the audit log's lines as server-sent events. */
void admin_stream(struct admin_client *client);

/* `uid=,pid=` or `ip:port`, as long as the client lives. */
const char *admin_peer(const struct admin_client *client);
struct gateway *admin_gateway(const struct admin_client *client);

/* The last decisions, oldest first, as elements of the array at hand. */
void admin_write_decisions(const struct admin_client *client, size_t last, struct json *out);

#endif
