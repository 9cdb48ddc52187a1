#include "record/audit.h"

#include "record/batch.h"
#include "record/lines.h"
#include "record/log.h"
#include "record/numbering.h"
#include "record/sink.h"
#include "record/squid.h"
#include "srt/clock.h"
#include "srt/must.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    RETRY_FIRST_MS = 100, /* pause after a failure; doubles up to RETRY_LAST_MS */
    RETRY_LAST_MS = 1000, /* the longest a log stays refused after its disk has room again */
    TURN_MS = 1000,       /* another process that writes this log longer keeps us from it */
    CLOSE_PATIENCE_MS = 2000,
};

struct audit {
    bool required;
    bool none;
    size_t queue_bytes;

    pthread_t thread;
    pthread_mutex_t lock; /* pending, stop, idle */
    pthread_cond_t wake;
    struct batch pending; /* what the workers handed over */
    bool stop, idle;
    atomic_size_t queued; /* bytes in `pending` and in the writer's batch */
    atomic_bool failing, reopen;
    atomic_ullong lost, count;

    pthread_mutex_t tell_lock; /* held while somebody is told */
    bool muted;

    pthread_mutex_t observer_lock;
    void (*observer)(void *arg, struct str line);
    void *observer_arg;

    /* The writer's alone, but for the format of its lines, which is constant. */
    struct sink sink;
    struct batch batch;
    struct lines lines; /* the batch as it goes to the file */
    struct numbering *numbering;
    bool in_turn; /* nobody else numbers and writes, and `seq` is the next number */
    uint64_t seq;
    uint64_t lost_reported;
};

/* ---- turns ---- */

static bool begin_turn(struct audit *audit)
{
    if (!audit->in_turn)
        audit->in_turn = numbering_begin(audit->numbering, TURN_MS, &audit->seq);
    return audit->in_turn;
}

static void end_turn(struct audit *audit)
{
    if (audit->in_turn)
        numbering_end(audit->numbering, audit->seq);
    audit->in_turn = false;
}

/* ---- the log ---- */

/* What looks torn may be what another process is writing. */
static void end_torn_line(struct audit *audit)
{
    const bool had_turn = audit->in_turn;
    if (begin_turn(audit))
        sink_end_line(&audit->sink);
    if (!had_turn)
        end_turn(audit);
}

static void reopen_if_asked(struct audit *audit)
{
    struct srt_err err;
    const bool asked = atomic_exchange(&audit->reopen, false);
    if (audit->none || (!asked && !sink_is_gone(&audit->sink)))
        return;
    if (sink_reopen(&audit->sink, &err) != 0)
        log_line("%s; the old one stays in use", err.text);
    else
        end_torn_line(audit);
}

/* ---- a batch, as far as it goes out ---- */

/* One lock for as many as there are. */
static void tell(struct audit *audit, struct entry *entries, size_t count, bool go)
{
    pthread_mutex_lock(&audit->tell_lock);
    for (struct entry *entry = entries; entry < entries + count; entry++) {
        if (entry->written != NULL && !audit->muted)
            entry->written(entry->arg, entry->ticket, go);
        entry->written = NULL;
    }
    pthread_mutex_unlock(&audit->tell_lock);
}

/* Shows the lines up to `end`, and takes their numbers. */
static void count_lines(struct audit *audit, size_t end)
{
    struct lines *lines = &audit->lines;
    atomic_fetch_add(&audit->count, end - lines->finished);
    pthread_mutex_lock(&audit->observer_lock);
    for (; lines->finished < end; lines->finished++, audit->seq++)
        if (audit->observer != NULL)
            audit->observer(audit->observer_arg,
                            lines_shown(lines, &audit->batch, lines->finished, audit->seq));
    pthread_mutex_unlock(&audit->observer_lock);
}

/* Everything that whole lines being out means: numbers taken, waiters told, readers shown. Who
 * waits is told first and one right after the other, so that a worker that wakes finds all its
 * answers. */
static void finish_lines(struct audit *audit)
{
    struct entry *entries = audit->batch.entries;
    const struct lines *lines = &audit->lines;
    size_t end = lines->finished, cost = 0;
    for (; end < audit->batch.count && lines->ends[end] <= lines->sent; end++) {
        /* Behind half a line that was finished; in squid's format it may have no bytes to miss. */
        if (entry_is_dropped(&entries[end]))
            break;
        cost += entry_cost(&entries[end]);
    }
    atomic_fetch_sub(&audit->queued, cost);
    if (end == lines->finished)
        return;
    tell(audit, &entries[lines->finished], end - lines->finished, true);
    count_lines(audit, end);
}

/* Writes on until all is out. False: errno says why not; what is out is accounted for. */
static bool send_lines(struct audit *audit)
{
    struct lines *lines = &audit->lines;
    if (audit->none)
        lines->sent = lines->text.len;
    while (lines->sent < lines->text.len) {
        ssize_t n =
            sink_write(&audit->sink, lines->text.data + lines->sent, lines->text.len - lines->sent);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int cause = n == 0 ? ENOSPC : errno;
            finish_lines(audit);
            errno = cause;
            return false;
        }
        lines->sent += (size_t)n;
    }
    finish_lines(audit);
    return true;
}

/* In a turn, which goes on only while half a line is out. Numbers are taken only when lines are
 * out, so a batch that failed is simply formatted anew. False: errno says why. */
static bool format_and_send(struct audit *audit)
{
    if (!begin_turn(audit)) {
        lines_reset(&audit->lines);
        errno = EAGAIN;
        return false;
    }
    lines_format(&audit->lines, &audit->batch, audit->seq);
    return send_lines(audit);
}

/* Half a line that cannot be taken back must be finished first, whatever comes. Returns whether one
 * remains. */
static bool untear(struct audit *audit)
{
    struct lines *lines = &audit->lines;
    const size_t start = lines_start(lines, lines->finished);
    if (lines->sent > start && !sink_take_back(&audit->sink, lines->sent - start))
        return true;
    lines->sent = start;
    return false;
}

/* This record is never going to be written. */
static void give_up(struct audit *audit, struct entry *entry)
{
    tell(audit, entry, 1, !audit->required);
    atomic_fetch_sub(&audit->queued, entry_cost(entry));
    atomic_fetch_add(&audit->lost, 1);
    entry_drop(entry);
}

/* The log cannot be written: nobody is to wait for that. With audit-required, records of requests
 * that wait are dropped, as their requests are refused; all others stay for later. */
static void release_waiters(struct audit *audit, struct batch *batch, size_t from)
{
    for (size_t i = from; i < batch->count; i++) {
        struct entry *entry = &batch->entries[i];
        if (entry->written == NULL)
            continue;
        if (audit->required)
            give_up(audit, entry);
        else
            tell(audit, entry, 1, true);
    }
}

/* A record of how many were lost since the last one that said so. */
static void add_lost_record(struct audit *audit, uint64_t lost)
{
    const uint64_t count = lost - audit->lost_reported;
    const struct entry entry = {.ts_ms = clock_wall_ms()};
    struct json fields = {0}, note = {0};
    json_text(&fields, "kind", STR("lost"));
    json_number(&fields, "count", (int64_t)count);
    if (audit->lines.squid) {
        char what[48];
        snprintf(what, sizeof(what), "records-lost/%" PRIu64, count);
        squid_note(&note, str_of(what));
    }
    batch_add(&audit->batch, (struct str){fields.data, fields.len},
              (struct str){note.data, note.len}, &entry);
    atomic_fetch_add(&audit->queued, entry_cost_of(fields.len + note.len));
    json_free(&fields);
    json_free(&note);
}

static void drop_last(struct audit *audit)
{
    const struct entry *last = &audit->batch.entries[--audit->batch.count];
    atomic_fetch_sub(&audit->queued, entry_cost(last));
}

/* ---- the writer ---- */

static void wait_ms(struct audit *audit, int ms)
{
    const struct timespec until = clock_until(CLOCK_MONOTONIC, ms);
    pthread_cond_timedwait(&audit->wake, &audit->lock, &until);
}

static int64_t remaining_ms(int64_t deadline)
{
    int64_t left = deadline - clock_ms();
    return left > 0 ? left : 0;
}

/* With a log that cannot be written, for the time of one batch. */
struct patience {
    int pause_ms;              /* the next one; 0: the first is still to come */
    int64_t close_deadline_ms; /* 0: the log is not being closed */
};

static bool is_at_end(const struct patience *patience)
{
    return patience->close_deadline_ms != 0 && remaining_ms(patience->close_deadline_ms) == 0;
}

/* Sleeps between two tries, but lets go whoever hands over a record meanwhile and waits for it.
 * Returns false when the log is being closed and patience has run out. */
static bool pause_failing(struct audit *audit, struct patience *patience)
{
    if (patience->pause_ms == 0)
        patience->pause_ms = RETRY_FIRST_MS;
    else if (audit->sink.kind == SINK_FILE && patience->pause_ms < RETRY_LAST_MS)
        patience->pause_ms *= 2;
    const int64_t until = clock_ms() + patience->pause_ms;
    pthread_mutex_lock(&audit->lock);
    while (remaining_ms(until) > 0) {
        release_waiters(audit, &audit->pending, 0);
        batch_keep(&audit->pending, 0);
        if (audit->stop && patience->close_deadline_ms == 0)
            patience->close_deadline_ms = clock_ms() + CLOSE_PATIENCE_MS;
        if (is_at_end(patience))
            break;
        wait_ms(audit, (int)remaining_ms(until));
    }
    pthread_mutex_unlock(&audit->lock);
    return !is_at_end(patience);
}

static void begin_failing(struct audit *audit, int cause)
{
    if (atomic_exchange(&audit->failing, true))
        return;
    log_line("audit-log %s cannot be written: %s; %s", audit->sink.path,
             cause == EAGAIN ? "its reader does not take any more" : strerror(cause),
             audit->required ? "new requests are refused until it can"
                             : "records wait, and are counted when there is no more room");
}

static void end_failing(struct audit *audit)
{
    if (atomic_exchange(&audit->failing, false))
        log_line("audit-log %s can be written again; %llu records were lost so far",
                 audit->sink.path, atomic_load(&audit->lost));
}

enum attempt {
    ATTEMPT_WRITTEN, /* all of it, or all that was formatted */
    ATTEMPT_AGAIN,   /* at once, without a record that cannot be written */
    ATTEMPT_FAILED,
    ATTEMPT_OVER, /* the log is being closed */
};

/* What comes is formatted anew; only the rest of the line that is torn goes out before. */
static enum attempt finish_torn_line(struct audit *audit, struct patience *patience)
{
    struct lines *lines = &audit->lines;
    do {
        /* It is going to be whole, but nobody knows when. */
        tell(audit, &audit->batch.entries[lines->finished], 1, !audit->required);
        if (!pause_failing(audit, patience))
            return ATTEMPT_OVER;
        lines->text.len = lines->ends[lines->finished];
        if (send_lines(audit))
            return ATTEMPT_WRITTEN;
    } while (untear(audit));
    return ATTEMPT_FAILED;
}

static enum attempt try_batch(struct audit *audit, struct patience *patience)
{
    struct batch *batch = &audit->batch;
    if (format_and_send(audit))
        return ATTEMPT_WRITTEN;
    const int cause = errno;
    if (cause == EMSGSIZE) {
        give_up(audit, &batch->entries[audit->lines.finished]);
        return ATTEMPT_AGAIN;
    }
    begin_failing(audit, cause);
    const bool torn = untear(audit);
    release_waiters(audit, batch, audit->lines.finished + torn);
    return torn ? finish_torn_line(audit, patience) : ATTEMPT_FAILED;
}

/* What is left is a batch of its own; the record of losses is made anew, with a higher count. */
static void keep_rest(struct audit *audit, uint64_t lost)
{
    if (lost != audit->lost_reported)
        drop_last(audit);
    batch_keep(&audit->batch, audit->lines.finished);
    lines_reset(&audit->lines);
}

/* Gets the batch out whatever it takes. False: given up, the log is being closed. */
static bool write_batch(struct audit *audit)
{
    struct patience patience = {0};
    for (;;) {
        const uint64_t lost = atomic_load(&audit->lost);
        if (lost != audit->lost_reported)
            add_lost_record(audit, lost);
        const enum attempt attempt = try_batch(audit, &patience);
        end_turn(audit);
        if (audit->lines.finished == audit->batch.count) {
            audit->lost_reported = lost;
            batch_reset(&audit->batch);
            lines_reset(&audit->lines);
            end_failing(audit);
            return true;
        }
        keep_rest(audit, lost);
        if (attempt == ATTEMPT_OVER ||
            (attempt == ATTEMPT_FAILED && !pause_failing(audit, &patience)))
            return false;
        reopen_if_asked(audit);
    }
}

/* Takes what was handed over; waits when there is nothing. False: the log is being closed and all
 * is out. */
static bool take_batch(struct audit *audit)
{
    pthread_mutex_lock(&audit->lock);
    while (audit->pending.count == 0 && !audit->stop && !atomic_load(&audit->reopen) &&
           atomic_load(&audit->lost) == audit->lost_reported) {
        audit->idle = true;
        pthread_cond_wait(&audit->wake, &audit->lock);
        audit->idle = false;
    }
    struct batch empty = audit->batch;
    audit->batch = audit->pending;
    audit->pending = empty;
    bool more =
        audit->batch.count > 0 || !audit->stop || atomic_load(&audit->lost) != audit->lost_reported;
    pthread_mutex_unlock(&audit->lock);
    return more;
}

/* What was handed over and is not out. */
static size_t count_unwritten(struct audit *audit)
{
    pthread_mutex_lock(&audit->lock);
    const size_t count = audit->batch.count + audit->pending.count;
    pthread_mutex_unlock(&audit->lock);
    return count;
}

static void *writer(void *arg)
{
    struct audit *audit = arg;
    while (take_batch(audit)) {
        reopen_if_asked(audit);
        if (!write_batch(audit)) {
            log_line("audit-log %s: %zu records could not be written before the end",
                     audit->sink.path, count_unwritten(audit));
            break;
        }
    }
    return NULL;
}

/* ---- the outside ---- */

static void free_audit(struct audit *audit)
{
    sink_close(&audit->sink);
    numbering_free(audit->numbering);
    batch_free(&audit->pending);
    batch_free(&audit->batch);
    lines_free(&audit->lines);
    free(audit);
}

static int open_log(struct audit *audit, const char *path, struct srt_err *err)
{
    if (audit->none)
        return 0;
    if (sink_open(&audit->sink, path, err) != 0)
        return -1;
    end_torn_line(audit);
    return 0;
}

struct audit *audit_open(const struct audit_config *config, struct srt_err *err)
{
    struct audit *audit = must(calloc(1, sizeof(*audit)));
    audit->sink.fd = -1;
    audit->required = config->required;
    audit->lines.squid = config->squid;
    audit->none = strcmp(config->path, "none") == 0;
    audit->queue_bytes = config->queue_bytes != 0 ? config->queue_bytes : AUDIT_QUEUE_BYTES;
    audit->numbering = config->numbering_fd > 0 ? numbering_adopt(config->numbering_fd, err)
                                                : numbering_create(err);
    if (audit->numbering == NULL || open_log(audit, config->path, err) != 0) {
        free_audit(audit);
        return NULL;
    }

    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&audit->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&audit->lock, NULL);
    pthread_mutex_init(&audit->tell_lock, NULL);
    pthread_mutex_init(&audit->observer_lock, NULL);
    int failed = pthread_create(&audit->thread, NULL, writer, audit);
    if (failed != 0) {
        srt_err_set(err, "the audit writer cannot be started: %s", strerror(failed));
        free_audit(audit);
        return NULL;
    }
    return audit;
}

void audit_close(struct audit *audit)
{
    if (audit == NULL)
        return;
    pthread_mutex_lock(&audit->lock);
    audit->stop = true;
    pthread_cond_signal(&audit->wake);
    pthread_mutex_unlock(&audit->lock);
    pthread_join(audit->thread, NULL);
    pthread_cond_destroy(&audit->wake);
    pthread_mutex_destroy(&audit->lock);
    pthread_mutex_destroy(&audit->tell_lock);
    pthread_mutex_destroy(&audit->observer_lock);
    free_audit(audit);
}

void audit_mute(struct audit *audit)
{
    pthread_mutex_lock(&audit->tell_lock);
    audit->muted = true;
    pthread_mutex_unlock(&audit->tell_lock);
}

void audit_reopen(struct audit *audit)
{
    pthread_mutex_lock(&audit->lock);
    atomic_store(&audit->reopen, true);
    pthread_cond_signal(&audit->wake);
    pthread_mutex_unlock(&audit->lock);
}

bool audit_healthy(const struct audit *audit)
{
    return !audit->required || !atomic_load_explicit(&audit->failing, memory_order_relaxed);
}

bool audit_waits(const struct audit *audit)
{
    return !audit->none &&
           (audit->required || !atomic_load_explicit(&audit->failing, memory_order_relaxed));
}

bool audit_wants_squid(const struct audit *audit)
{
    return audit->lines.squid && !audit->none;
}

bool audit_submit(struct audit *audit, struct str fields, audit_written_fn *written, void *arg,
                  uint64_t ticket)
{
    bool taken = audit_submit_request(audit, fields, STR_NULL, written, arg, ticket);
    audit_wake(audit);
    return taken;
}

bool audit_submit_request(struct audit *audit, struct str fields, struct str squid,
                          audit_written_fn *written, void *arg, uint64_t ticket)
{
    size_t cost = entry_cost_of(fields.len + squid.len);
    bool refused = written != NULL && audit->required && atomic_load(&audit->failing);
    if (refused || atomic_fetch_add(&audit->queued, cost) + cost > audit->queue_bytes) {
        if (!refused)
            atomic_fetch_sub(&audit->queued, cost);
        atomic_fetch_add(&audit->lost, 1);
        return false;
    }
    struct entry entry = {.written = audit->none ? NULL : written, .arg = arg, .ticket = ticket};
    pthread_mutex_lock(&audit->lock);
    /* Within the lock, so that the times of the log go the way of its numbers. */
    entry.ts_ms = clock_wall_ms();
    batch_add(&audit->pending, fields, squid, &entry);
    pthread_mutex_unlock(&audit->lock);
    return true;
}

void audit_wake(struct audit *audit)
{
    pthread_mutex_lock(&audit->lock);
    const bool sleeps = audit->pending.count > 0 && (audit->idle || atomic_load(&audit->failing));
    pthread_mutex_unlock(&audit->lock);
    /* After the lock: the writer's first act is to take it. */
    if (sleeps)
        pthread_cond_signal(&audit->wake);
}

void audit_observe(struct audit *audit, void (*line)(void *arg, struct str line), void *arg)
{
    pthread_mutex_lock(&audit->observer_lock);
    audit->observer = line;
    audit->observer_arg = arg;
    pthread_mutex_unlock(&audit->observer_lock);
}

int audit_numbering_fd(const struct audit *audit)
{
    return numbering_fd(audit->numbering);
}

uint64_t audit_lost(const struct audit *audit)
{
    return atomic_load(&audit->lost);
}

uint64_t audit_count(const struct audit *audit)
{
    return atomic_load(&audit->count);
}
