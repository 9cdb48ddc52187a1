/*
 * Metrics as Prometheus reads them (text exposition format 0.0.4).
 *
 * A family is announced once, its samples follow. Names and labels are ours; label values are
 * escaped. Ownership: the caller's buffer. Thread: any. Failure: none (a figure of the process that
 * cannot be read is left out).
 */
#ifndef RECORD_METRICS_H
#define RECORD_METRICS_H

#include "record/json.h"

struct metrics_label {
    const char *name, *value;
};

void metrics_family(struct json *out, const char *name, const char *type, const char *help);
/* `labels` ends with a NULL name; NULL: none. */
void metrics_sample(struct json *out, const char *name, const struct metrics_label *labels,
                    double value);
/* Both, for a family of one sample. */
void metrics_single(struct json *out, const char *name, const char *type, const char *help,
                    double value);

/* The standard process_* families. */
void metrics_process(struct json *out);

#endif
