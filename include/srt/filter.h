/*
 * srt/filter.h: how code of yours joins the decision about a request. ABI version 1.
 * docs/filters.md has the built-in filters and a module from its first line to its use.
 *
 * A module is one constant struct srt_filter_module. The gateway's own filters are the same struct,
 * linked in; yours is a shared object that exports it as `srt_filter_module` and is named in the
 * configuration by its absolute path:
 *
 *     [filter hours]                 ; one configured filter ("rule") of the module
 *     module = /usr/lib/srt/office-hours.so
 *     open   = 08:00-18:00           ; every key but `module`, `timeout` and `fail` is its own
 *
 * Lifecycle.  create() once for each [filter] section of a configuration, on the control thread
 * (`srt-gateway check` and `explain` do so too), and where it refused a key, again without that
 * key, to hear of its other faults; then enter() once for each worker; on_request() there for each
 * request of a policy that names the filter, after its rules said yes; leave() and destroy() when a
 * reload or the end has taken the configuration out of use and no request is left in it. The
 * filters of the next configuration are created before those of the last are destroyed. The object
 * is loaded with RTLD_NOW | RTLD_LOCAL and never closed.
 *
 * Threads.  What has a `local` is called on the thread of the worker that enter() named, or before
 * that thread begins and after it has ended; create() on the control thread, destroy() on any. Two
 * workers run at once: what they share is the module's to guard. No call may block, for a worker
 * serves thousands: what takes time answers SRT_FILTER_PENDING. A call that blocks is not
 * interrupted, and what it says after its `timeout` is no verdict.
 *
 * Ownership.  Everything reached through a srt_filter_request is borrowed and dies with the call.
 *
 * Failure.  Fail closed: a verdict outside the enum, or none in time, is SRT_FILTER_ERROR; a late
 * or a second answer finds nothing, and a section that create() refuses is a fault of the
 * configuration. A module that crashes takes the gateway with it.
 *
 * Compatibility.  Structs only grow at their end and say their size first, as the gateway that
 * fills them knew it: read a member only when `size` covers it. A module with another `abi`, or
 * with a struct srt_filter_module of another size, is refused.
 */
#ifndef SRT_FILTER_H
#define SRT_FILTER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SRT_FILTER_ABI 1
#define SRT_FILTER_SYMBOL "srt_filter_module"

/* Bytes without a terminator; p == NULL: absent or not visible. */
struct srt_filter_text {
    const char *p;
    size_t len;
};

struct srt_filter_field {
    struct srt_filter_text name, value;
};

/* A line of the [filter] section. NUL-terminated. */
struct srt_filter_key {
    const char *key, *value;
    const char *file;
    unsigned line;
};

/* What is asked. On an opaque tunnel method, path and fields are not visible, in on_end() fields
 * never are. The fields are those of the head as it would go on: no credentials, no hop-by-hop
 * fields of the client's, and with the edits of the filters before this one. */
struct srt_filter_request {
    size_t size;
    struct srt_filter_text id;      /* of the decision's record */
    struct srt_filter_text sandbox; /* absent: not attached by a launcher */
    struct srt_filter_text client;  /* absent: its listener identifies it */
    struct srt_filter_text policy;
    struct srt_filter_text front; /* connect, http, socks5, transparent */
    struct srt_filter_text host;  /* canonical name, or a literal without brackets */
    uint16_t port;
    struct srt_filter_text method, path; /* path with its query */
    const struct srt_filter_field *fields;
    size_t field_count;
    int64_t body_len;    /* of a visible request; -1: chunked, or not visible */
    int64_t now_ms;      /* since the epoch */
    uint64_t timeout_ms; /* how long a PENDING is waited for */
    int asks; /* the rules do not allow it yet: an operator is asked when no filter denies it */
};

enum srt_filter_verdict {
    SRT_FILTER_PASS = 0,    /* nothing against it */
    SRT_FILTER_DENY = 1,    /* final; `reason` is what the agent reads */
    SRT_FILTER_PENDING = 2, /* resume() will say; within the section's `timeout`, or it is ERROR */
    /* It cannot say, and `reason` has why: what it needs is broken. A denial with the reason
     * `module-error`, or a PASS where the section has `fail = open`. */
    SRT_FILTER_ERROR = 3,
    /* PASS; and where the rules ask for an approval (`asks`), it is one: no operator is asked. */
    SRT_FILTER_ALLOW = 4,
};

/* Names one waiting request. A ticket whose request has gone finds nothing; it is never reused. */
struct srt_filter_ticket {
    uint64_t worker, slot, serial;
};

/* What a module may say beside its verdict. */
struct srt_filter_ruling {
    size_t size;
    char reason[256]; /* one sentence, NUL-terminated; cleaned of control bytes by the gateway */
};

/* Changes to the head of a visible request, for the time of on_request(). They are made when it
 * answered PASS, ALLOW or PENDING. */
struct srt_filter_edits;

/* Why create() refused: one line; `key` is the culprit among the keys, or NULL for the section. */
struct srt_filter_fault {
    size_t size;
    const struct srt_filter_key *key;
    char text[512];
};

/* A descriptor, a time, or both, that a worker's loop looks after for a filter. */
struct srt_filter_watch;

enum srt_filter_event {
    SRT_FILTER_READABLE = 1, /* or at its end, or broken */
    SRT_FILTER_WRITABLE = 2,
    SRT_FILTER_TIME = 4,
};

/* What the gateway offers. Valid until destroy() has returned. */
struct srt_filter_host {
    size_t size;
    /* In create() only: the bytes of the file that `key` names (relative to the file it is written
     * in), which from then on is a part of the configuration: watched, and in its digest. They live
     * as long as the filter. 0, or -1 with `fault` filled. */
    int (*read_file)(const struct srt_filter_host *host, const struct srt_filter_key *key,
                     struct srt_filter_text *bytes, struct srt_filter_fault *fault);
    /* Answers a pending request, once, from any thread, also within on_request() itself. `reason`
     * may be NULL. */
    void (*resume)(const struct srt_filter_ticket *ticket, enum srt_filter_verdict verdict,
                   const char *reason);
    /* 0, or -1: no request to edit, or a field that is not the module's to touch (framing, Host,
     * Via, hop-by-hop), or bytes that do not belong into one. A set field replaces all of its name.
     */
    int (*field_set)(struct srt_filter_edits *edits, struct srt_filter_text name,
                     struct srt_filter_text value);
    int (*field_remove)(struct srt_filter_edits *edits, struct srt_filter_text name);
    /* A line among the gateway's messages, with the filter's name before it. */
    void (*log)(const char *filter, const char *text);
    /* A watch in that worker, for a module that does not want a thread of its own: from enter() on,
     * to be ended before leave() returns. `on_event` is called on the worker's thread, from its
     * loop and from nowhere else; it may end the watch. The functions below are for the same
     * thread. */
    struct srt_filter_watch *(*watch_begin)(unsigned worker,
                                            void (*on_event)(void *arg, unsigned events),
                                            void *arg);
    /* From now on `fd` for these events; 0: none. To be told before the descriptor is closed. */
    void (*watch_fd)(struct srt_filter_watch *watch, int fd, unsigned events);
    /* One SRT_FILTER_TIME after so long, instead of an earlier one; negative: none. */
    void (*watch_time)(struct srt_filter_watch *watch, int64_t after_ms);
    void (*watch_end)(struct srt_filter_watch *watch);
    /* One word about how the filter stands in a worker, for status and metrics: a constant, or
     * NULL. `name` is create()'s own. Any thread. */
    void (*set_state)(const struct srt_filter_host *host, const char *name, unsigned worker,
                      const char *state);
};

struct srt_filter_module {
    uint32_t abi;  /* SRT_FILTER_ABI */
    uint32_t size; /* sizeof(struct srt_filter_module) */
    const char *name;

    /* A configured filter, or NULL with `fault`. Unknown keys are faults too. `name` and `keys`
     * live as long as the filter. */
    void *(*create)(const struct srt_filter_host *host, const char *name,
                    const struct srt_filter_key *keys, size_t key_count,
                    struct srt_filter_fault *fault);
    void (*destroy)(void *filter);

    /* The filter in one worker. Both may be NULL, then `local` is the filter itself. enter() that
     * returns NULL makes the reload fail. */
    void *(*enter)(void *filter, unsigned worker);
    void (*leave)(void *local);

    enum srt_filter_verdict (*on_request)(void *local, const struct srt_filter_request *request,
                                          const struct srt_filter_ticket *ticket,
                                          struct srt_filter_edits *edits,
                                          struct srt_filter_ruling *ruling);

    /* A pending request is not waited for any more (its client left, its time is up). May be NULL.
     */
    void (*on_abandon)(void *local, const struct srt_filter_ticket *ticket);

    /* An allowed request of this filter's policy ended; for counting only, there is no verdict. May
     * be NULL. `bytes_up` is what the sandbox sent. After a reload it is told to the filters in
     * force. */
    void (*on_end)(void *local, const struct srt_filter_request *request, uint64_t bytes_up,
                   uint64_t bytes_down);
};

#ifdef __cplusplus
}
#endif

#endif
