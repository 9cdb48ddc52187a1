/*
 * What a gateway and the one that takes its place say to each other: messages of JSON with
 * descriptors, over a socket that keeps them apart (SOCK_SEQPACKET). Both are this program,
 * perhaps of two versions, and trust each other; what is too long for a message goes as a parcel,
 * a descriptor of memory.
 *
 * Ownership: the caller's; descriptors that nobody took out of a message are closed with it.
 * Thread: control. Failure: false when the other side is gone or does not listen.
 */
#ifndef CONTROL_CHANNEL_H
#define CONTROL_CHANNEL_H

#include "record/json.h"

enum { CHANNEL_FDS_MAX = 8, CHANNEL_PATIENCE_MS = 10000 };

struct channel;
struct channel_message;
struct apart;

struct channel *channel_create(struct apart *apart, int fd);
void channel_free(struct channel *channel); /* NULL is allowed */
int channel_fd(const struct channel *channel);

/* An object with its type, to be filled and sent. */
struct json channel_compose(const char *type);
/* Frees the message, keeps the descriptors. Waits at most `ms` for room. */
bool channel_send(struct channel *channel, struct json *message, const int *fds, size_t count,
                  int ms);

/* Waits at most `ms` for a message; NULL: none came, or the other side is gone. */
struct channel_message *channel_receive(struct channel *channel, int ms);
void channel_message_free(struct channel_message *message); /* NULL is allowed */

/* From the loop, until channel_free() or channel_deafen(): each message (freed afterwards), or NULL
 * once when the other side is gone. */
typedef void channel_heard_fn(void *arg, struct channel_message *message);
void channel_hear(struct channel *channel, channel_heard_fn *heard, void *arg);
void channel_deafen(struct channel *channel);

bool channel_is(const struct channel_message *message, const char *type);
const char *channel_text(const struct channel_message *message, const char *key); /* NULL: none */
int64_t channel_number(const struct channel_message *message, const char *key);
bool channel_flag(const struct channel_message *message, const char *key);
/* The next descriptor, which is the caller's then; -1: there is no other. */
int channel_take_fd(struct channel_message *message);

/* -1 when no memory can be had. */
int parcel_make(struct str bytes);
/* What is in it, to be freed by json_free(). Takes `fd` over. */
bool parcel_open(int fd, struct json *out);

#endif
