/*
 * One launcher, and the inside of struct attach_server: for control/launch.c, control/attach.c and
 * control/attach_move.c only.
 *
 * A launch is in the list of those that wait or of those that are attached, by its state. Thread:
 * control loop. A function that returns false has ended the launch.
 */
#ifndef CONTROL_LAUNCH_H
#define CONTROL_LAUNCH_H

#include "config/digest.h"
#include "control/apart.h"
#include "control/attach.h"
#include "control/frame.h"
#include "session/sandbox.h"

#include <ev.h>
#include <sys/queue.h>

enum {
    READ_CHUNK = 64 << 10,
    OUT_MAX = 1 << 20, /* beyond it denials are counted, and nothing more is read */
};

enum launch_state {
    LAUNCH_WAITING, /* for its attach message */
    LAUNCH_ATTACHED,
    LAUNCH_UPDATING,  /* nothing is read until the workers have answered */
    LAUNCH_REFUSED,   /* the answer goes out, what comes is thrown away */
    LAUNCH_MOVED,     /* another process has the connection; what is open of the sandbox is here */
    LAUNCH_DETACHING, /* the connection is closed, the sandbox is ending */
};

/* One launcher. */
struct launch {
    TAILQ_ENTRY(launch) link;
    struct attach_server *server;
    enum launch_state state;
    bool private;
    int fd;
    int last_words; /* the connection's after it, for denials until the sandbox has ended; or -1 */
    struct apart_watch watch;
    ev_timer deadline;
    uint32_t uid;
    int32_t pid;

    struct frames in;
    int fds[ATTACH_MAX_LISTENERS];
    size_t fd_count;
    bool held; /* what comes brings descriptors and is not read for now (transport/foreign.h) */
    struct json out;
    size_t out_sent;

    struct sandbox *sandbox;
    char *name, *client, *policy;
    bool asks;          /* it has somebody who answers */
    struct faults said; /* about its `network`, for the answer to its attach message */
    struct listener *listeners[ATTACH_MAX_LISTENERS]; /* a count of each */
    size_t listener_count;
    uint64_t cookies[ATTACH_MAX_LISTENERS]; /* of its listeners, as the kernel numbers sockets */
    size_t cookie_count;
    int64_t attached_ms;
    struct policy *narrowed; /* what narrows it, its sandbox's while that is attached and no update
                                is under way; NULL: nothing */
    uint8_t lists[DIGEST_LEN];    /* of `narrowed`, or of `next_narrowed` while that is under way */
    bool shares;                  /* it has lists, and others may have the policy made of them */
    struct policy *next_narrowed; /* by the update under way, */
    int64_t serial;               /* which has this number, */
    unsigned updates_left;        /* and how many processes have not taken it up */
    uint64_t missed;              /* denials that did not fit into `out` */

    /* Between two processes (control/attach_move.h). */
    struct policy *narrowing; /* of a sandbox that is not attached yet */
    struct stand_ins *names;  /* likewise; or NULL */
    size_t given;             /* bytes of `out` that the other process has */
    bool received;            /* from another process, and not at work here yet */
    bool moved;               /* it is another process that says what becomes of it */
};
TAILQ_HEAD(launches, launch);

struct attach_server {
    struct gateway *gateway;
    struct listener *listener;
    struct apart_watch acceptable;
    ev_timer pause;
    struct launches waiting, attached; /* the latter also hold those that are ending */
    size_t waiting_count, attached_count;
    size_t in_bytes; /* of all unfinished frames */
    bool frozen;     /* nothing is read */
    bool given;      /* and nothing is written */
    void (*on_frozen)(void *arg);
    void *frozen_arg;
    bool names_asked;      /* to be frozen, too, */
    unsigned names_rounds; /* so often without an answer yet */
    char chunk[READ_CHUNK];
};

/* ---- control/launch.c: its life, and its connection ---- */

struct launch *launch_add(struct attach_server *server, int fd);
/* The connection, and nothing else. */
void launch_close(struct launch *launch);
void launch_free(struct launch *launch);
void launch_move_to(struct launch *launch, enum launch_state state);
/* The end of the connection is the end of the sandbox. */
void launch_end(struct launch *launch);
void launch_release_listeners(struct launch *launch);
/* Of those that are attached; or NULL. */
struct launch *launch_find(struct attach_server *server, const char *name);

enum { LAUNCH_PEER_MAX = 48 };
/* As records name it: `uid=UID,pid=PID`, in `out`. */
const char *launch_peer(const struct launch *launch, char out[LAUNCH_PEER_MAX]);
/* The record of that kind, `attach` or `detach`; `message` is what it attached by. */
void launch_record(struct launch *launch, const char *kind, const struct attach_message *message);

/* A message of that type, to be filled and sent, which closes and frees it. */
struct json launch_compose(const char *type);
bool launch_send(struct launch *launch, struct json *message);
/* What its settings were said to be, at that level, where there is any. */
void launch_write_said(const struct launch *launch, struct json *message, const char *key,
                       enum fault_level level);
/* To a launcher whose connection has ended but for this; at once or not at all. */
void launch_say_last_words(struct launch *launch, struct json *message);
bool launch_refuse(struct launch *launch, const char *why);
/* A launcher that breaks the protocol after it attached is not to be trusted with a sandbox. */
bool launch_give_up(struct launch *launch, const char *why);

/* What to wait for follows from the state alone. */
void launch_watch(struct launch *launch);
/* What has come and was not looked at, and what waits to be sent. */
bool launch_handle_frames(struct launch *launch);
bool launch_flush(struct launch *launch);

/* ---- control/attach.c: what its messages mean ---- */

bool attach_take(struct launch *launch, const struct attach_message *message);
/* One that could not be read. */
bool attach_take_fault(struct launch *launch, const struct attach_message *message,
                       const char *why);
/* Nobody is let in, and nothing read that was held back, before a pause is over. */
void attach_pause(struct attach_server *server);
/* One process has taken up the update that is under way. */
void launch_updated(struct launch *launch);
/* `narrowing`, or in its place the policy of another sandbox that brought equal lists: a fleet pays
 * for them once. */
struct policy *launch_share(struct launch *launch, struct policy *narrowing);
/* As the kernel numbers sockets. */
bool launch_socket_cookie(int fd, uint64_t *cookie);

/* ---- control/attach_move.c: between two processes ---- */

/* To all that have parts of the sandbox; returns how many those are. */
unsigned launch_tell_update(const struct launch *launch, const struct json_t *network);
/* To be called when an update is over: whether that was what freezing waited for. */
void launch_check_frozen(struct attach_server *server);

#endif
