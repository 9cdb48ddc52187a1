/*
 * What a client is told when its request is refused (INTERFACE 1.5). Thread: the session's worker.
 */
#ifndef SESSION_REFUSAL_H
#define SESSION_REFUSAL_H

#include <stdbool.h>
#include <stddef.h>

struct request;
struct session;

/* One sentence that says what is wrong, and one that says what to do; never with control bytes. */
void refusal_texts(const struct session *session, char *message, size_t message_size,
                   char *next_step, size_t next_step_size);

/* What was found in a tunnel; the server name that was seen, if there is one, too. */
void refusal_in_tunnel(const struct request *request, const char *why, char *message, size_t size);

/* The whole HTTP answer goes to the client; without `keeps_connection` its end has to follow. */
void refusal_send_http(struct session *session, bool keeps_connection);

#endif
