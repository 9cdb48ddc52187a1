/*
 * Launchers and their sandboxes on their way from one gateway to the next (control/handover.h).
 *
 * Frozen, nothing is read from launchers, and nothing of theirs is under way; then what they are
 * can be sent: the connection, the listeners, what narrows them, and the bytes that were read or
 * not yet written. The receiver has them at work from attach_thaw() on, and the sender, once it
 * has retired, keeps what is open of each sandbox until it is told that the sandbox has ended.
 * Ownership and thread: as control/attach.h.
 */
#ifndef CONTROL_ATTACH_MOVE_H
#define CONTROL_ATTACH_MOVE_H

#include "control/attach.h"
#include "control/channel.h"

/* `frozen` (NULL: nobody waits) runs, perhaps within the call, when it is done. */
void attach_freeze(struct attach_server *server, void (*frozen)(void *arg), void *arg);
void attach_thaw(struct attach_server *server);

/* NULL: there is no control socket. */
const struct listener *attach_listener(const struct attach_server *server);
void attach_claim(struct attach_server *server);

bool attach_send(struct attach_server *server, struct channel *channel);
int attach_receive(struct attach_server *server, struct channel_message *message,
                   struct srt_err *err);
/* Another process has them now. */
void attach_retire(struct attach_server *server);

/* Of a retired one: what its successor says. */
void attach_end(struct attach_server *server, const char *sandbox);
void attach_end_all(struct attach_server *server);
/* `network` is empty when nothing narrows it. The serial is answered when it is in force. */
void attach_narrow(struct attach_server *server, const char *sandbox, struct str network,
                   int64_t serial);

/* Of a successor: what a retired one says. */
void attach_pass_denial(struct attach_server *server, const char *sandbox, struct str message);

#endif
