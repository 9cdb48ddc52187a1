/*
 * Which way a request goes that is allowed: to its target, or to an upstream proxy that is asked
 * for the target (docs/addresses.md "Upstream proxies").
 *
 * Thread: any; everything read is constant. Cannot fail: an upstream that does not work is never
 * replaced by another way.
 */
#ifndef FILTERS_ROUTE_H
#define FILTERS_ROUTE_H

#include "filters/chain.h"

/* NULL: it is dialled. `localhost` names and loopback addresses always are. Lives as long as the
 * policy that decided. */
const struct config_upstream *route_choose(const struct decision *decision,
                                           const struct target *target);

/* Whether a list as NO_PROXY has it, separated by commas or spaces, covers the target: `*`, a name
 * and everything below it (a dot or `*.` in front makes no difference), an address, a range. Ports
 * behind them do not count. */
bool route_is_excepted(struct str no_proxy, const struct target *target);

#endif
