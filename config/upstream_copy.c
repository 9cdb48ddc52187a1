#include "config/trust.h"
#include "config/upstream.h"

#include <string.h>

void upstream_copy(struct config_upstream *out, const struct config_upstream *upstream)
{
    *out = *upstream;
    trust_take(out->trust);
}

void upstream_clear(struct config_upstream *upstream)
{
    trust_leave(upstream->trust);
    explicit_bzero(upstream, sizeof(*upstream));
}
