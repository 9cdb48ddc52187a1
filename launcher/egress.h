/*
 * The way out: the listeners opened inside the sandbox's network namespace and the connection to
 * the gateway that accepts on them (include/srt/attach.h says what goes over it).
 *
 * The launcher keeps the listeners, so that a gateway that comes back can be given them again; a
 * connection made meanwhile waits in the kernel. Nothing here relays a byte.
 *
 * Ownership: egress_close() ends everything, a private gateway included. Thread: the launcher's
 * only one. Failure: -1 or NULL with `err`, which names the remedy; the caller must not start the
 * command.
 */
#ifndef LAUNCHER_EGRESS_H
#define LAUNCHER_EGRESS_H

#include "launcher/inside.h"
#include "srt/attach.h"

#include <jansson.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct egress_options {
    const char *socket_path;  /* of a shared gateway; NULL: a private one is started */
    const char *gateway_path; /* the program of a private one */
    const char *name, *policy, *command;
    bool asks; /* somebody answers what is asked */
};

/* Another narrowing, which the gateway has not answered yet. */
struct egress_change {
    STAILQ_ENTRY(egress_change) link;
    uint64_t serial;
    char *network_json;
};

struct egress_listener {
    const char *kind; /* as srt/attach.h calls it; a literal */
    int fd;
};

struct egress {
    struct egress_options options; /* its strings outlive the egress */
    char *network_json; /* the narrowing that is in force: what any gateway is told first */
    STAILQ_HEAD(, egress_change)
    changes; /* oldest first; a gateway that comes back hears them too */
    struct egress_listener listeners[ATTACH_MAX_LISTENERS];
    size_t listener_count; /* 0: given up */
    int connection;        /* -1 while there is no gateway */
    pid_t gateway;         /* private; 0 = none */
    char *in;              /* bytes of a frame that is not complete */
    size_t in_len, in_capacity;
    json_t *attached_frame; /* the gateway's last "attached" */
    unsigned private_starts;
    int64_t last_by_ms; /* when egress_last() stops waiting */
    bool attached;
};

/* A private gateway is started here and gets itself ready while the sandbox is being made. */
int egress_begin(struct egress *egress, const struct egress_options *options, struct srt_err *err);

/* Takes the listeners. Returns when the gateway has said "attached". `network_json` may be NULL,
 * which narrows nothing. */
int egress_attach(struct egress *egress, const char *network_json,
                  const struct egress_listener *listeners, size_t count, struct srt_err *err);

/* What the gateway's answer to the attach message lists: the places that it wants kept out of the
 * sandbox's reach ("hide", "protect"), what it says of the settings' network ("faults" after a
 * refusal, "warnings"): an array of strings, or NULL. Lives until the next attach. */
const json_t *egress_list(const struct egress *egress, const char *list);

/* The policy that the gateway took the sandbox under. */
const char *egress_policy(const struct egress *egress);

/* After the connection was lost: one try, -1 when it has to be tried again later. A private gateway
 * is started anew a few times; after that the sandbox has no way out. */
int egress_attach_again(struct egress *egress, struct srt_err *err);

/* The connection is readable: takes what is there. Returns the next whole frame (the caller frees
 * it with json_decref()), or NULL; then `*lost` says that the connection has ended. */
json_t *egress_next(struct egress *egress, bool *lost);
/* Another whole frame among the bytes that are here already, or NULL. */
json_t *egress_pending(struct egress *egress);

/* Replaces the narrowing; the answer comes as a frame, now or when there is a gateway again. */
int egress_update(struct egress *egress, uint64_t serial, const char *network_json,
                  struct srt_err *err);
/* The gateway has answered up to that one. One that it rejects changes nothing. */
void egress_answered(struct egress *egress, uint64_t serial, bool in_force);
/* To an "ask"; `keeps`: also whenever the same is asked again. */
int egress_answer(struct egress *egress, const char *id, bool approves, bool keeps,
                  struct srt_err *err);
/* Everything inside has ended, and the gateway is told. */
void egress_hang_up(struct egress *egress);
/* After that: the frames that still come, then NULL; from then on there is no connection. The
 * caller frees each with json_decref(). */
json_t *egress_last(struct egress *egress);
void egress_close(struct egress *egress);

#endif
