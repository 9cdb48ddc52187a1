/*
 * Who speaks, and under which policy (INTERFACE 1.4 step 1 and 1.9): the sandbox that the listener
 * was attached for, the listener's own policy, peer credentials, token, source address, in this
 * order.
 *
 * Pure: reads the snapshot. Pointers in the result live as long as the snapshot (or the sandbox).
 */
#ifndef SESSION_IDENTITY_H
#define SESSION_IDENTITY_H

#include "filters/policy.h"
#include "session/snapshot.h"

/* What is known of the peer; `addr.family` 0 on Unix sockets. */
struct peer {
    struct addr addr;
    bool has_uid;
    uint16_t port;
    uint32_t uid;
    int32_t pid;
};

/* Of the secret that came with a request or a SOCKS handshake. Few clients send one, so that NULL
 * stands for none. */
struct credentials {
    uint8_t sha256[32]; /* all zeros, which is nobody's, when what came was no secret at all */
};

struct identity {
    const struct config_client *client; /* NULL: none needed */
    const char *client_name;
    const struct policy
        *policy;        /* NULL: named, but gone; or a sandbox that has only its settings */
    bool narrowed_only; /* the latter */
};

void credentials_set(struct credentials **credentials, struct str secret);
/* What came cannot be read: it was an attempt, and a wrong one. */
void credentials_spoil(struct credentials **credentials);
void credentials_clear(struct credentials **credentials);

/* What was settled when a launcher attached its sandbox. */
struct attached {
    const char *client, *policy;
    uint32_t uid;
};

/* ALLOWED, AUTH_REQUIRED or AUTH_FAILED. `attached` NULL: one of the gateway's own listeners, which
 * `listen` then describes. `credentials` NULL: none came. */
enum outcome identity_find(const struct snapshot *snapshot, const struct config_listen *listen,
                           const struct attached *attached, const struct peer *peer,
                           const struct credentials *credentials, struct identity *out);

/* Whether a token could matter here, so that a SOCKS5 client is asked for one when it offers it. */
bool identity_uses_tokens(const struct snapshot *snapshot, const struct config_listen *listen);

#endif
