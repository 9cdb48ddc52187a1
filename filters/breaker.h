/*
 * A circuit breaker: after so many failures in a row nothing is tried for a while, then one probe
 * decides whether things are well again.
 *
 *     CLOSED --failures in a row--> OPEN --pause is over--> HALF_OPEN --probe fails--> OPEN
 *        ^------------------------------------- probe succeeds ---'
 *
 * Ownership: its user's. Thread: one; pure, the clock is the caller's (milliseconds that only
 * grow).
 */
#ifndef FILTERS_BREAKER_H
#define FILTERS_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };

struct breaker {
    enum breaker_state state;
    uint64_t limit; /* failures in a row that open it; 0: it never opens */
    uint64_t in_a_row;
    int64_t pause_ms, until_ms; /* until then it is OPEN */
    bool probing;               /* HALF_OPEN: the probe is out */
};

const char *breaker_word(enum breaker_state state);

/* The state at that time. */
enum breaker_state breaker_look(struct breaker *breaker, int64_t now_ms);

/* Whether something may be tried. `*probe`: it is the probe, and how it ends must be told. */
bool breaker_admit(struct breaker *breaker, int64_t now_ms, bool *probe);
/* The probe ended and proved nothing: the next one that is admitted is the probe. */
void breaker_forget_probe(struct breaker *breaker);

/* What was tried has ended. What was admitted before it opened proves nothing when it succeeds. */
void breaker_succeed(struct breaker *breaker, bool probe);
/* True: this has opened it. */
bool breaker_fail(struct breaker *breaker, int64_t now_ms);

#endif
