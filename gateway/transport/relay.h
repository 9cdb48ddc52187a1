/*
 * Carries bytes both ways between two streams until both have ended.
 *
 * Back-pressure: a direction is read only while nothing of it waits to be sent, so at most
 * RELAY_CHUNK bytes of a direction are ever held, RELAY_TURN_BYTES of bulk. FIN and reset are
 * passed on, each way by itself; what was read is delivered before either. The FIN of the way that
 * ends last is left to the close. A turn moves a bounded amount, so that one bulk flow leaves room
 * for the others of its loop. A way that fills a chunk is bulk: it goes on through a pipe, without
 * being copied, until it runs dry. What the receiver does not take stays in the pipe, which is then
 * that way's until it is empty; when too many are, it is read back. Knows nothing of sessions,
 * policies or timers.
 *
 * Ownership: borrows the streams. Thread: the loop's. Failure: `broken` of a stream, which ends the
 * relay once the tail is delivered.
 */
#ifndef TRANSPORT_RELAY_H
#define TRANSPORT_RELAY_H

#include "transport/stream.h"

enum {
    RELAY_CHUNK = 64 << 10,
    RELAY_TURN_BYTES = 256 << 10,
    RELAY_BULK_LEAST = 16 << 10, /* a turn that moves less ends being bulk */
    RELAY_PIPES = 16,            /* that ways may keep, each for as long as its receiver wants */
};

struct relay_way {
    struct stream *from, *to;
    uint64_t bytes; /* taken from `from` for delivery */
    bool held;      /* what arrives stays in from->in (bounded by RELAY_CHUNK) until released */
    bool bulk;      /* goes through the pipe */
    uint8_t kept;   /* 1 + the number of the pipe that holds some of it; 0: none */
    bool done;
    bool ended_first; /* `from` sent a FIN or reset, and before the other did */
};

struct relay {
    struct relay_way up, down;
};

/* What the streams have in `in` is the first to be carried. */
void relay_init(struct relay *relay, struct stream *client, struct stream *upstream);

struct relay_pipe {
    int out, in; /* -1: there is none */
};

/* What relays of one thread share; between two turns there is nothing in `scratch` and `pipe`. */
struct relay_room {
    char *scratch;                       /* RELAY_CHUNK bytes */
    struct relay_pipe pipe;              /* of RELAY_TURN_BYTES; none: everything is copied */
    struct relay_pipe spare;             /* empty, too */
    struct relay_pipe kept[RELAY_PIPES]; /* by ways */
};

void relay_room_init(struct relay_room *room);
/* After all its relays have ended. */
void relay_room_end(struct relay_room *room);

/* Moves what can be moved now. Returns how many bytes moved; look at relay_is_over() afterwards. */
size_t relay_turn(struct relay *relay, struct relay_room *room);

/* It goes no further: what its ways keep in pipes becomes `out` of the streams that are open. */
void relay_end(struct relay *relay, struct relay_room *room);

/* The client's bytes may go on from here (after a hello was judged). */
void relay_release(struct relay_way *way);

/* The first `len` bytes that a held way keeps go on; it stays held. */
void relay_pass(struct relay_way *way, size_t len);

bool relay_is_over(const struct relay *relay);

/* Whether a stream of this relay is to be watched for input. */
bool relay_reads(const struct relay *relay, const struct stream *stream);

#endif
