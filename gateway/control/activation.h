/*
 * Listening sockets that the service manager opened for us (sd_listen_fds(3)'s protocol:
 * LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES). Each belongs to the [listen] section of its name, or
 * else of its address; one that belongs to none is refused by name.
 *
 * Ownership: the descriptors are taken over; activation_free() closes what was not taken. Thread:
 * control, at the start. Failure: -1 and `err`.
 */
#ifndef CONTROL_ACTIVATION_H
#define CONTROL_ACTIVATION_H

#include "session/listener.h"

struct activation;

/* What the environment offers to this process, which is often nothing; NULL and `err` when it makes
 * no sense. */
struct activation *activation_read(struct srt_err *err);
void activation_free(struct activation *activation); /* NULL is allowed */

/* The listener for `config`, or NULL: with `err` empty when none was meant for it. */
struct listener *activation_take(struct activation *activation, const struct config_listen *config,
                                 struct srt_err *err);

/* 0 when every descriptor has been taken. */
int activation_check(const struct activation *activation, struct srt_err *err);

#endif
