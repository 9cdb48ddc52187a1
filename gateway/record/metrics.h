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

/* Durations. Bounds are the same for all, from 10 us to 10 s; a bucket counts what is above the
 * bound before it, and the last what is above all. */
enum { METRICS_BUCKETS = 14 };

struct metrics_histogram {
    uint64_t buckets[METRICS_BUCKETS];
    uint64_t sum_ns;
};

size_t metrics_bucket(uint64_t ns);
/* The samples of one histogram of a family; `labels` as above, at most three. */
void metrics_histogram(struct json *out, const char *name, const struct metrics_label *labels,
                       const struct metrics_histogram *histogram);

/* The standard process_* families. */
void metrics_process(struct json *out);

#endif
