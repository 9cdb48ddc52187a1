/*
 * Where the lines of the audit log go: a file, a pipe or terminal, or a collector's socket.
 *
 * What it is decides how it is written and what becomes of half a line. Nothing here waits for
 * long: a reader that does not take any more is EAGAIN after a moment. Ownership: the audit log's;
 * its path is the sink's own. Thread: one at a time. Failure: -1 with `err`, or with errno.
 */
#ifndef RECORD_SINK_H
#define RECORD_SINK_H

#include "srt/err.h"

#include <stdbool.h>
#include <sys/types.h>

enum sink_kind {
    SINK_FILE,
    SINK_PIPE, /* and terminals: may be shared with others, so never changed */
    SINK_STREAM,
    SINK_DATAGRAM,
};

struct sink {
    char *path; /* or "stderr", or "unix:/path" of a stream or datagram socket */
    int fd;     /* -1: a collector that is gone */
    enum sink_kind kind;
};

int sink_open(struct sink *sink, const char *path, struct srt_err *err);
void sink_close(struct sink *sink);

/* On failure the old one stays in use. Standard error stays what it is. */
int sink_reopen(struct sink *sink, struct srt_err *err);
/* A log that was deleted (or renamed and deleted) would swallow every record. */
bool sink_is_gone(const struct sink *sink);

/* A process that was killed in the middle of a write may have left half a line; what follows must
 * not become part of it. */
void sink_end_line(const struct sink *sink);

/* Whole lines, or what is left of one and more of them. As much as goes out without waiting for
 * long: bytes, or -1 with errno. */
ssize_t sink_write(struct sink *sink, const char *bytes, size_t len);

/* The last `len` bytes, which are half a line, as if they had not been written. False: they are out
 * for good. */
bool sink_take_back(const struct sink *sink, size_t len);

#endif
