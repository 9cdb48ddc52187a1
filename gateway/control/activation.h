/*
 * Listening sockets that somebody opened before us: the service manager (sd_listen_fds(3)'s
 * protocol: LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES), or the gateway whose place this one takes
 * (control/handover.h). Each belongs to the [listen] section of its name, or else of its address,
 * or is the control socket or an admin socket by its name or address.
 *
 * Ownership: the descriptors are taken over; activation_free() closes what was not taken. Thread:
 * control, at the start. Failure: -1 and `err`.
 */
#ifndef CONTROL_ACTIVATION_H
#define CONTROL_ACTIVATION_H

#include "session/listener.h"

struct activation;

/* What a socket is for. */
enum offered_kind {
    OFFERED_ANY, /* nobody said */
    OFFERED_LISTEN,
    OFFERED_CONTROL,
    OFFERED_ADMIN,
};

/* What the environment offers to this process, which is often nothing; NULL and `err` when it makes
 * no sense. */
struct activation *activation_read(struct srt_err *err);
/* Another one, whose path (of a Unix socket) is to be removed at its end if it is `own`. */
void activation_offer(struct activation *activation, enum offered_kind kind, const char *name,
                      int fd, bool own);
/* Nobody else serves what was not taken: the paths of own ones are removed. */
void activation_clean_up(const struct activation *activation);
void activation_free(struct activation *activation); /* NULL is allowed */

/* The listener for `config`, or one of our own where none was meant for it. NULL: `err` says why.
 */
struct listener *activation_open(struct activation *activation, enum offered_kind kind,
                                 const struct config_listen *config, struct srt_err *err);

/* 0 when every descriptor has been taken. */
int activation_check(const struct activation *activation, struct srt_err *err);

#endif
