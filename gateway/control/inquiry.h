/*
 * One question to operators and launchers: what it is about, who waits for its answer, and how it
 * is shown.
 *
 * Private to control/desk.c, which opens, finds, answers and closes them. Ownership: the desk's.
 * Thread: control loop.
 */
#ifndef CONTROL_INQUIRY_H
#define CONTROL_INQUIRY_H

#include "filters/grants.h"
#include "record/json.h"
#include "session/approval.h"

#include <sys/queue.h>

struct asker;

/* One request that waits. */
struct waiter {
    TAILQ_ENTRY(waiter) link;
    struct inquiry *inquiry;
    struct srt_filter_ticket ticket;
    unsigned missing; /* CHAIN_ASKS_... */
};

struct inquiry {
    TAILQ_ENTRY(inquiry) link;
    char *key;
    char
        id[REQUEST_ID_LEN + 1]; /* of the request that asked first, or the next one that was free */
    struct asker *asker;
    struct grant about; /* what a grant that answers it says; its texts are the inquiry's */
    void *owner;
    bool hears_launcher, told;
    unsigned said; /* CHAIN_ASKS_... that have said yes */
    char *sandbox, *client, *listener, *policy, *rule, *peer, *method, *path, *host, *target;
    enum front front;
    uint16_t port;
    int64_t since_ms, until_ms;
    TAILQ_HEAD(, waiter) waiters;
    size_t waiting;
};

/* As whom a request asks: its sandbox, or its client, or its listener. */
enum grant_scope inquiry_scope(const struct ask *ask);
const char *inquiry_name(const struct ask *ask);

/* The same for all requests that one answer is for. To be freed. */
char *inquiry_key(const struct ask *ask);

/* Without waiters. */
struct inquiry *inquiry_create(const struct ask *ask);
void inquiry_free(struct inquiry *inquiry);

/* Whose word somebody still waits for: CHAIN_ASKS_... */
unsigned inquiry_missing(const struct inquiry *inquiry);

/* Members of the object at hand. */
void inquiry_put(const struct inquiry *inquiry, struct json *json);
void inquiry_put_missing(unsigned missing, struct json *json);

/* Asks the launcher, once, where its word helps with what is `missing`; and says that it need not
 * answer any more. */
void inquiry_tell(struct inquiry *inquiry, unsigned missing);
void inquiry_untell(const struct inquiry *inquiry, const char *verdict);

#endif
