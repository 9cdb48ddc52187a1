#include "filters/breaker.h"

const char *breaker_word(enum breaker_state state)
{
    static const char *const words[] = {
        [BREAKER_CLOSED] = "closed", [BREAKER_OPEN] = "open", [BREAKER_HALF_OPEN] = "half-open"};
    return words[state];
}

enum breaker_state breaker_look(struct breaker *breaker, int64_t now_ms)
{
    if (breaker->state == BREAKER_OPEN && now_ms >= breaker->until_ms) {
        breaker->state = BREAKER_HALF_OPEN;
        breaker->probing = false;
    }
    return breaker->state;
}

bool breaker_admit(struct breaker *breaker, int64_t now_ms, bool *probe)
{
    const enum breaker_state state = breaker_look(breaker, now_ms);
    *probe = state == BREAKER_HALF_OPEN && !breaker->probing;
    breaker->probing |= *probe;
    return state == BREAKER_CLOSED || *probe;
}

void breaker_forget_probe(struct breaker *breaker)
{
    breaker->probing = false;
}

void breaker_succeed(struct breaker *breaker, bool probe)
{
    if (breaker->state != BREAKER_CLOSED && !probe)
        return;
    breaker->state = BREAKER_CLOSED;
    breaker->in_a_row = 0;
    breaker->probing = false;
}

bool breaker_fail(struct breaker *breaker, int64_t now_ms)
{
    const bool was_open = breaker_look(breaker, now_ms) == BREAKER_OPEN;
    breaker->in_a_row++;
    if (breaker->limit == 0 || was_open ||
        (breaker->state == BREAKER_CLOSED && breaker->in_a_row < breaker->limit))
        return false;
    breaker->state = BREAKER_OPEN;
    breaker->until_ms = now_ms + breaker->pause_ms;
    breaker->probing = false;
    return true;
}
