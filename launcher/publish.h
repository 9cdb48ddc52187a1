/*
 * --publish: a port of the sandbox that can be reached from the host, on loopback only.
 *
 * The listener is the host's and is opened before the command starts; a child of ours that has
 * joined the sandbox's network namespace, and holds nothing else of the launcher's, accepts on it,
 * connects to the port inside and carries the bytes. What goes out of the sandbox never comes this
 * way: nobody inside can open anything through it.
 *
 * Ownership: publish_close() ends the child and with it every connection; it dies with the
 * launcher. Thread: the launcher's only one, as it forks. Failure: -1 with `err`.
 */
#ifndef LAUNCHER_PUBLISH_H
#define LAUNCHER_PUBLISH_H

#include "launcher/inside.h"

#include <stdint.h>
#include <sys/socket.h>

enum { PUBLISH_MAX = 16 };

/* One word of the command line: [ADDRESS:[HOSTPORT:]]PORT. */
struct publish_port {
    struct sockaddr_storage host; /* loopback; port 0: any free one */
    socklen_t host_len;
    uint16_t inside;
};

struct publish {
    struct publish_port ports[PUBLISH_MAX];
    int listeners[PUBLISH_MAX];
    size_t count;
    pid_t pid; /* 0 = none */
};

/* PORT, HOSTPORT:PORT or ADDRESS:HOSTPORT:PORT; IPv6 in brackets. Adds it to `publish`. */
int publish_parse(struct publish *publish, const char *word, struct srt_err *err);

/* Opens the listeners, says on standard error where they are, and starts the child. */
int publish_start(struct publish *publish, const struct inside *inside, struct srt_err *err);
void publish_close(struct publish *publish);

#endif
