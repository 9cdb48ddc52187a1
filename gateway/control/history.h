/*
 * An audit log read back, a line at a time, for `replay`, `learn` and `summary`.
 *
 * Ownership: a record's texts live only during the call that gets it. Memory does not grow with the
 * log. Thread: main. Failure: a file that cannot be read is an error; a line that is no audit
 * record (a torn last one, say) is named on stderr, counted and passed over.
 */
#ifndef CONTROL_HISTORY_H
#define CONTROL_HISTORY_H

#include "dns/target.h"
#include "filters/outcome.h"
#include "filters/rule.h"
#include "srt/err.h"

/* A `decision` or a `close`; NULL where the log says null or the kind has no such field. */
struct history_record {
    bool is_close;
    const char *ts, *id, *sandbox, *policy, *method, *path, *rule, *addr, *cause;
    bool has_target; /* host and port name a target */
    struct target target;
    enum front front;
    enum outcome outcome; /* of a decision: OUTCOME_ALLOWED or its reason */
    bool would_deny;      /* report mode let through what it would have denied */
    int64_t bytes_up, bytes_down;
};

typedef void history_fn(void *arg, const struct history_record *record);

/* "-" is standard input. 0, or -1 with `err`. `*skipped` (may be NULL) counts the lines passed
 * over. */
int history_read(const char *path, history_fn *each, void *arg, size_t *skipped,
                 struct srt_err *err);

#endif
