/*
 * The lines that the gateway and a module in another process exchange: one JSON object each, ASCII
 * from us, UTF-8 from it (docs/filters.md has them with examples).
 *
 * What a module sends is taken at its word or not at all: a line that is no object, a member that
 * is not known, stands twice or has another type make it worth nothing. Never a yes by default.
 *
 * Ownership: texts that are returned are the caller's. Thread: any; pure. Failure: as each says;
 * `why` is a phrase for the operator.
 */
#ifndef FILTERS_REMOTE_LINE_H
#define FILTERS_REMOTE_LINE_H

#include "srt/err.h"
#include "srt/filter.h"
#include "srt/str.h"

#include <stdint.h>

enum { REMOTE_PROTOCOL = 1, REMOTE_LINE_MAX = 64 * 1024 };

/* What a module wants to be told of. */
enum remote_phase {
    REMOTE_REQUEST = 1, /* asked for a verdict */
    REMOTE_ABANDON = 2, /* that nobody waits for one any more */
    REMOTE_END = 4,     /* that an allowed request is over */
};

/* What it wants to see of a request. A verdict can depend on nothing else of it. */
enum remote_field {
    REMOTE_SANDBOX = 1 << 0,
    REMOTE_CLIENT = 1 << 1,
    REMOTE_POLICY = 1 << 2,
    REMOTE_FRONT = 1 << 3,
    REMOTE_HOST = 1 << 4,
    REMOTE_PORT = 1 << 5,
    REMOTE_METHOD = 1 << 6,
    REMOTE_PATH = 1 << 7,
    REMOTE_BODY = 1 << 8,
    REMOTE_HEADERS = 1 << 9,
    REMOTE_ASKS = 1 << 10, /* the rules ask for an approval */
    REMOTE_ALL = (1 << 11) - 1,
    REMOTE_USUAL = REMOTE_ALL & ~(REMOTE_HEADERS | REMOTE_ASKS),
};

struct remote_hello {
    unsigned phases, fields;
};

struct remote_answer {
    uint64_t id;
    enum srt_filter_verdict verdict; /* SRT_FILTER_ERROR with `reason` when it means nothing */
    char reason[256];
    int64_t ttl_ms; /* -1: it says nothing */
};

/* ---- what we say; each is a whole line with its newline, but for the first ---- */

/* `{...}`: these fields of a request, and nothing else. */
char *remote_write_request(const struct srt_filter_request *request, unsigned fields);
/* The same object with only these fields. */
char *remote_narrow_request(const char *object, unsigned fields);

char *remote_line_hello(const char *filter, unsigned worker);
char *remote_line_request(uint64_t id, const char *record, uint64_t timeout_ms, const char *object);
char *remote_line_abandon(uint64_t id);
char *remote_line_end(uint64_t id, struct srt_filter_text record, const char *object,
                      uint64_t bytes_up, uint64_t bytes_down);

/* ---- what it says; a line without its newline ---- */

bool remote_read_hello(struct str line, struct remote_hello *out, struct srt_err *why);
/* False: not even whom it answers can be told. */
bool remote_read_answer(struct str line, struct remote_answer *out, struct srt_err *why);

#endif
