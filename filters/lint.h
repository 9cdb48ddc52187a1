/*
 * What is valid in a configuration but probably not meant: rules that can never match, rules that
 * open more than they seem to, policies that nobody uses. `srt-gateway check` says it.
 *
 * Thread: any; reads constant values only. Everything found is a FAULT_WARNING.
 */
#ifndef FILTERS_LINT_H
#define FILTERS_LINT_H

#include "filters/policy.h"

/* `policies` in the order of config->policies, all compiled; `now` in seconds since the epoch. */
void lint_configuration(const struct gateway_config *config, struct policy *const *policies,
                        int64_t now, struct faults *faults);

#endif
