/*
 * The other end of a running gateway's admin address, for the commands that operators call.
 *
 * One request a connection, and its answer. Blocks. Ownership: the command's, client_close().
 * Failure: an exit status; why has been said on stderr.
 */
#ifndef COMMANDS_CLIENT_H
#define COMMANDS_CLIENT_H

#include "commands/command.h"
#include "record/json.h"

#include <jansson.h>
#include <sys/types.h>

/* The options that every such command has, and the connection. */
struct client {
    const struct command *self;
    const char *admin, *config, *token_file;
    bool json, follow;
    char *token; /* or NULL */
    char address[256];
    bool again;     /* it was connected before */
    int fd;         /* -1: none */
    struct json in; /* bytes that came: the head, then the body */
    size_t body;    /* where it begins */
    int status;
};

/* Finds the gateway, connects, asks, reads the head. EXIT_DONE: whatever the answer's status is. */
int client_ask(struct client *client, const char *method, const char *path);
/* Once more where it was found. */
int client_ask_there(struct client *client, const char *method, const char *path);

/* Returns bytes, 0 at the end, -1 on errors. */
ssize_t client_read(struct client *client);
/* The whole body as JSON, or NULL. Answers are closed by the end of the connection. */
json_t *client_answer(struct client *client);

int client_broke_off(void);
void client_close(struct client *client);

#endif
