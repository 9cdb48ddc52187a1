#include "filters/outcome.h"

#include <assert.h>
#include <stddef.h>

static const struct outcome_row rows[] = {
#define X(name, word, http, socks, policy, type) {word, http, socks, policy, type},
    OUTCOMES(X)
#undef X
};

const struct outcome_row *outcome_row(enum outcome outcome)
{
    assert((size_t)outcome < OUTCOME_COUNT);
    return &rows[outcome];
}
