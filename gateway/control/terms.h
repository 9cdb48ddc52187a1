/*
 * Under which policy a launcher's sandbox may be attached, and how its settings narrow that.
 *
 * Pure, but for the environment of a private gateway, which names the upstream proxy. Thread:
 * control. Failure: -1 and `err`, which is for the launcher's user to read.
 */
#ifndef CONTROL_TERMS_H
#define CONTROL_TERMS_H

#include "config/fault.h"
#include "record/json.h"
#include "session/snapshot.h"
#include "srt/err.h"

/* The [client] sections with `uid=` say which policies a launcher may name. Where there are none,
 * any policy may be named; nothing is named (`wanted` NULL): the only one there is. The results
 * live as long as the snapshot; `*client` NULL: none. */
int terms_policy(const struct snapshot *snapshot, uint32_t uid, const char *wanted,
                 const char **policy, const char **client, struct srt_err *err);

/* The settings' network lists (JSON; NULL: none) as a policy of their own; `*out` NULL: they narrow
 * nothing. In a private gateway they are all there is, so no lists allow nothing. `asks`: what they
 * leave open is a question. `faults`: the first TERMS_FAULTS_MAX faults and warnings, each text
 * beginning with the setting's path ("network.allowedDomains[0]: ..."); `err` has what fits. */
enum { TERMS_FAULTS_MAX = 20, TERMS_TEXT_MAX = 1000 };
struct json_t;
int terms_narrowing(bool private, bool asks, struct json_t *json, struct policy **out,
                    struct faults *faults, struct srt_err *err);

/* The lists again that terms_narrowing() has made `policy` of, for another process: a JSON object.
 * They are written when it is needed, rather than kept for every sandbox. */
void terms_write(struct json *out, const struct policy *policy);

#endif
