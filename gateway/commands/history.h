/*
 * An audit log read back, a line at a time, for `replay`, `learn` and `summary`.
 *
 * Lines as record/audit.c writes them are scanned where they lie; any other JSON goes through
 * jansson, with the same result. Ownership: a record's texts live only during the call that gets
 * it. Memory does not grow with the log. Thread: main. Failure: a file that cannot be read is an
 * error; a line that is no audit record (a torn last one, say) is named on stderr, counted and
 * passed over.
 */
#ifndef COMMANDS_HISTORY_H
#define COMMANDS_HISTORY_H

#include "dns/target.h"
#include "filters/outcome.h"
#include "filters/rule.h"
#include "srt/err.h"

enum history_kind { HISTORY_DECISION, HISTORY_CLOSE, HISTORY_LOST };

/* NULL, and 0 for a number, where the log says null or the kind has no such field. */
struct history_record {
    enum history_kind kind;
    const char *ts, *id, *sandbox, *client, *policy, *front, *method, *path, *host, *rule, *addr,
        *cause;
    int64_t port;
    enum outcome outcome; /* of a decision: OUTCOME_ALLOWED or its reason */
    bool would_deny;      /* report mode let through what it would have denied */
    bool in_tunnel;       /* about a tunnel that was let through already: no request of its own */
    int64_t bytes_up, bytes_down;
    int64_t count; /* of lost records */
};

/* False: its host and port name no target. */
bool history_target(const struct history_record *record, struct target *out);
/* False: it came to no front that is known. */
bool history_front(const struct history_record *record, enum front *out);

typedef void history_fn(void *arg, const struct history_record *record);

/* "-" is standard input. 0, or -1 with `err`. `*skipped` (may be NULL) counts the lines passed
 * over. */
int history_read(const char *path, history_fn *each, void *arg, size_t *skipped,
                 struct srt_err *err);

#endif
