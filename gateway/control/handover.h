/*
 * Handing everything over to a new process of this program (USR2), so that another version takes
 * the place without a connection being lost.
 *
 * The old process has its starter start the program, with one end of a channel. The new one reads
 * its configuration, is given the listening sockets and the counter of the audit log, and makes
 * itself ready beside the old one, which still serves. Then it is given the launchers with their
 * sandboxes, and told to go: from its `serving` on the old one accepts nothing any more, and lives
 * on for what is open. Whatever goes wrong before that ends the new process, and the old one goes
 * on as if nothing had been, and says why.
 *
 *  old -> new                                       new -> old
 *                                                    hello  version
 *   begin  generation, sha256   + counter
 *   listener  kind, name, own   + socket, ...
 *   end
 *                                                    ready          (or: failed  message)
 *   launch ...                  + sockets, parcels   (control/attach_move.h)
 *   predecessor                 + channel            (of an older one that is still there)
 *   go
 *                                                    serving  pid
 *   retired
 *   denial  sandbox, message                         reload  generation
 *                                                    reopen
 *                                                    detach  sandbox
 *   answer  serial, found       + parcel             update  serial, sandbox    + parcel
 *                                                    tunnels  serial
 *                                                    cut  serial, id
 *
 * An old process whose successor ends without having handed over itself has nobody who would tell
 * it what becomes of its sandboxes: it ends them, and drains.
 *
 * Ownership: the gateway's. Thread: control loop.
 */
#ifndef CONTROL_HANDOVER_H
#define CONTROL_HANDOVER_H

#include "control/activation.h"
#include "control/gateway.h"

struct starter;

/* `starter` NULL: nothing can be started, and a hand-over says so. Taken over. */
struct handover *handover_create(struct gateway *gateway, struct starter *starter);
void handover_free(struct handover *handover); /* NULL is allowed */

/* USR2. */
void handover_begin(struct handover *handover);

/* ---- taking a place; each returns -1 with `err` when the other gave up ---- */

/* What the new process begins with. Blocks. */
int handover_take(struct handover *handover, int fd, struct activation *activation,
                  struct srt_err *err);
/* To be taken once; 0: none. */
int handover_take_numbering(struct handover *handover);
/* Of the configuration in force there; the same one keeps its number. */
uint64_t handover_generation(const struct handover *handover, const uint8_t sha256[32]);
/* The workers stand by without listeners; from here on the loop does it. `serving` runs when the
 * place is taken, `manager` when the service manager knows this process, `failed` instead of both.
 */
struct handover_calls {
    void (*serving)(void *arg);
    void (*manager)(void *arg);
    void (*failed)(void *arg, const char *why);
    void *arg;
};
void handover_stand_by(struct handover *handover, const struct handover_calls *calls);

/* ---- of a retired process, to its successor (control/predecessors.h is the other way) ---- */

/* To what it asked. `parcel`: STR_NULL when there is none. */
void handover_answer(struct handover *handover, int64_t serial, bool found, struct str parcel);

/* A denial of a sandbox whose launcher the successor has. False: it could not be told. */
bool handover_denial(struct handover *handover, const char *sandbox, struct str message);

#endif
