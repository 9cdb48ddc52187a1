#include "record/audit.h"

#include "record/json.h"
#include "record/log.h"
#include "record/numbering.h"
#include "record/sink.h"
#include "record/squid.h"
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
    BATCH_KEEP_BYTES = 64 << 10,
    BATCH_KEEP_ENTRIES = 256,
};

/* One record on its way: where its fields are in the batch's bytes, and who waits for it. */
struct entry {
    int64_t ts_ms;
    size_t start, len;
    size_t squid_len;          /* of its line in that format, which is behind the fields */
    audit_written_fn *written; /* NULL: nobody waits (any more) */
    void *arg;
    uint64_t ticket;
};

struct batch {
    struct entry *entries;
    size_t count, cap;
    struct json bytes; /* used as a growing buffer of fields */
};

struct audit {
    bool required;
    bool none;
    bool squid;
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

    /* The writer's alone. */
    struct sink sink;
    struct batch batch;
    struct json lines; /* the batch as it goes to the file */
    struct json shown; /* one record for the live reader, where the file's lines are not JSON */
    size_t *ends;      /* where each line ends */
    size_t ends_cap;
    size_t sent;     /* bytes of `lines` that are out */
    size_t finished; /* lines of the batch that are out and reported */
    struct numbering *numbering;
    bool in_turn; /* nobody else numbers and writes, and `seq` is the next number */
    uint64_t seq;
    uint64_t lost_reported;
    time_t stamp_second;
    char stamp[32];
};

static int64_t now_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

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

/* ---- batches ---- */

/* Storage is kept for the next batch, but not what a burst once needed. */
static void batch_reset(struct batch *batch)
{
    batch->count = 0;
    json_reset(&batch->bytes);
    if (batch->bytes.cap > BATCH_KEEP_BYTES)
        json_free(&batch->bytes);
    if (batch->cap > BATCH_KEEP_ENTRIES) {
        free(batch->entries);
        batch->entries = NULL;
        batch->cap = 0;
    }
}

static void batch_free(struct batch *batch)
{
    free(batch->entries);
    json_free(&batch->bytes);
}

static void batch_add(struct batch *batch, struct str fields, struct str squid,
                      const struct entry *entry)
{
    if (batch->count == batch->cap) {
        batch->cap = batch->cap != 0 ? batch->cap * 2 : 64;
        batch->entries = must(reallocarray(batch->entries, batch->cap, sizeof(*batch->entries)));
    }
    struct entry *added = &batch->entries[batch->count++];
    *added = *entry;
    added->start = batch->bytes.len;
    added->len = fields.len;
    added->squid_len = squid.len;
    json_append(&batch->bytes, fields);
    json_append(&batch->bytes, squid);
}

static struct str entry_fields(const struct batch *batch, const struct entry *entry)
{
    return (struct str){batch->bytes.data + entry->start, entry->len};
}

static struct str entry_squid(const struct batch *batch, const struct entry *entry)
{
    return (struct str){batch->bytes.data + entry->start + entry->len, entry->squid_len};
}

static size_t cost_of(size_t len)
{
    return len + sizeof(struct entry);
}

static size_t entry_cost(const struct entry *entry)
{
    return cost_of(entry->len + entry->squid_len);
}

/* Given up while it was in its batch; compact() leaves it out. */
static void entry_drop(struct entry *entry)
{
    entry->len = SIZE_MAX;
}

static bool entry_is_dropped(const struct entry *entry)
{
    return entry->len == SIZE_MAX;
}

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

/* ---- lines ---- */

static struct str stamp_text(struct audit *audit, int64_t ts_ms)
{
    time_t second = (time_t)(ts_ms / 1000);
    if (second != audit->stamp_second || audit->stamp[0] == '\0') {
        struct tm utc;
        gmtime_r(&second, &utc);
        strftime(audit->stamp, sizeof(audit->stamp), "%Y-%m-%dT%H:%M:%S.000Z", &utc);
        audit->stamp_second = second;
    }
    int64_t ms = ts_ms % 1000;
    audit->stamp[20] = (char)('0' + ms / 100);
    audit->stamp[21] = (char)('0' + ms / 10 % 10);
    audit->stamp[22] = (char)('0' + ms % 10);
    return str_of(audit->stamp);
}

static void format_json(struct audit *audit, struct json *out, uint64_t seq,
                        const struct entry *entry)
{
    json_append(out, STR("{\"schema\":\"srt.audit/1\",\"ts\":\""));
    json_append(out, stamp_text(audit, entry->ts_ms));
    json_append(out, STR("\",\"seq\":"));
    json_number(out, NULL, (int64_t)seq);
    json_raw(out, NULL, entry_fields(&audit->batch, entry));
    json_append(out, STR("}\n"));
}

/* Most records have no line in that format: it is about requests that are over. */
static void format_squid(struct audit *audit, const struct entry *entry)
{
    if (entry->squid_len == 0)
        return;
    squid_time(&audit->lines, entry->ts_ms);
    json_append(&audit->lines, entry_squid(&audit->batch, entry));
}

/* The same of its lines, once they are out. */
static void lines_reset(struct audit *audit)
{
    json_reset(&audit->lines);
    if (audit->lines.cap > BATCH_KEEP_BYTES)
        json_free(&audit->lines);
    if (audit->ends_cap > BATCH_KEEP_ENTRIES) {
        free(audit->ends);
        audit->ends = NULL;
        audit->ends_cap = 0;
    }
}

/* Numbers and formats the whole batch, in a turn. Numbers are taken only when lines are out
 * (finish_lines), so a batch that failed is simply formatted anew. */
static void format_batch(struct audit *audit)
{
    if (audit->ends_cap < audit->batch.count) {
        audit->ends_cap = audit->batch.cap;
        audit->ends = must(reallocarray(audit->ends, audit->ends_cap, sizeof(*audit->ends)));
    }
    for (size_t i = 0; i < audit->batch.count; i++) {
        const struct entry *entry = &audit->batch.entries[i];
        if (audit->squid)
            format_squid(audit, entry);
        else
            format_json(audit, &audit->lines, audit->seq + i, entry);
        audit->ends[i] = audit->lines.len;
    }
}

static size_t line_start(const struct audit *audit, size_t line)
{
    return line > 0 ? audit->ends[line - 1] : 0;
}

/* The line of the batch's record `index`, as JSON. */
static struct str shown_line(struct audit *audit, size_t index)
{
    const size_t start = line_start(audit, index);
    if (!audit->squid)
        return (struct str){audit->lines.data + start, audit->ends[index] - start};
    json_reset(&audit->shown);
    format_json(audit, &audit->shown, audit->seq, &audit->batch.entries[index]);
    return (struct str){audit->shown.data, audit->shown.len};
}

/* Shows the lines up to `end`, and takes their numbers. */
static void count_lines(struct audit *audit, size_t end)
{
    atomic_fetch_add(&audit->count, end - audit->finished);
    pthread_mutex_lock(&audit->observer_lock);
    for (; audit->finished < end; audit->finished++, audit->seq++)
        if (audit->observer != NULL)
            audit->observer(audit->observer_arg, shown_line(audit, audit->finished));
    pthread_mutex_unlock(&audit->observer_lock);
}

/* Everything that whole lines being out means: numbers taken, waiters told, readers shown. Who
 * waits is told first and one right after the other, so that a worker that wakes finds all its
 * answers. */
static void finish_lines(struct audit *audit)
{
    const struct entry *entries = audit->batch.entries;
    size_t end = audit->finished, cost = 0;
    for (; end < audit->batch.count && audit->ends[end] <= audit->sent; end++) {
        /* Behind half a line that was finished; in squid's format it may have no bytes to miss. */
        if (entry_is_dropped(&entries[end]))
            break;
        cost += entry_cost(&entries[end]);
    }
    atomic_fetch_sub(&audit->queued, cost);
    if (end == audit->finished)
        return;
    tell(audit, &audit->batch.entries[audit->finished], end - audit->finished, true);
    count_lines(audit, end);
}

/* Writes on until all is out. False: errno says why not; what is out is accounted for. */
static bool send_lines(struct audit *audit)
{
    if (audit->none)
        audit->sent = audit->lines.len;
    while (audit->sent < audit->lines.len) {
        ssize_t n = sink_write(&audit->sink, audit->lines.data + audit->sent,
                               audit->lines.len - audit->sent);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int cause = n == 0 ? ENOSPC : errno;
            finish_lines(audit);
            errno = cause;
            return false;
        }
        audit->sent += (size_t)n;
    }
    finish_lines(audit);
    return true;
}

/* In a turn, which goes on only while half a line is out. False: errno says why. */
static bool format_and_send(struct audit *audit)
{
    json_reset(&audit->lines);
    audit->sent = audit->finished = 0;
    if (!begin_turn(audit)) {
        errno = EAGAIN;
        return false;
    }
    format_batch(audit);
    return send_lines(audit);
}

/* Half a line that cannot be taken back must be finished first, whatever comes. Returns whether one
 * remains. */
static bool untear(struct audit *audit)
{
    const size_t start = line_start(audit, audit->finished);
    if (audit->sent > start && !sink_take_back(&audit->sink, audit->sent - start))
        return true;
    audit->sent = start;
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

/* Keeps the entries from `from` on that were not dropped. */
static void compact(struct batch *batch, size_t from)
{
    size_t kept = 0;
    for (size_t i = from; i < batch->count; i++)
        if (!entry_is_dropped(&batch->entries[i]))
            batch->entries[kept++] = batch->entries[i];
    batch->count = kept;
    if (kept == 0)
        batch_reset(batch);
}

static uint64_t add_lost_record(struct audit *audit)
{
    uint64_t lost = atomic_load(&audit->lost);
    if (lost == audit->lost_reported)
        return lost;
    struct json fields = {0};
    json_text(&fields, "kind", STR("lost"));
    json_number(&fields, "count", (int64_t)(lost - audit->lost_reported));
    struct json note = {0};
    if (audit->squid) {
        char what[48];
        snprintf(what, sizeof(what), "records-lost/%" PRIu64, lost - audit->lost_reported);
        squid_note(&note, str_of(what));
    }
    struct entry entry = {.ts_ms = now_ms(CLOCK_REALTIME)};
    batch_add(&audit->batch, (struct str){fields.data, fields.len},
              (struct str){note.data, note.len}, &entry);
    atomic_fetch_add(&audit->queued, cost_of(fields.len + note.len));
    json_free(&fields);
    json_free(&note);
    return lost;
}

static void drop_last(struct audit *audit)
{
    const struct entry *last = &audit->batch.entries[--audit->batch.count];
    atomic_fetch_sub(&audit->queued, entry_cost(last));
}

/* ---- the writer ---- */

static void wait_ms(struct audit *audit, int ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_cond_timedwait(&audit->wake, &audit->lock, &until);
}

static int64_t remaining_ms(int64_t deadline)
{
    int64_t left = deadline - now_ms(CLOCK_MONOTONIC);
    return left > 0 ? left : 0;
}

/* Sleeps between two tries, but lets go whoever hands over a record meanwhile and waits for it.
 * Returns false when the log is being closed and patience has run out. */
static bool pause_failing(struct audit *audit, int pause_ms, int64_t *close_deadline)
{
    int64_t until = now_ms(CLOCK_MONOTONIC) + pause_ms;
    pthread_mutex_lock(&audit->lock);
    while (remaining_ms(until) > 0) {
        release_waiters(audit, &audit->pending, 0);
        compact(&audit->pending, 0);
        if (audit->stop && *close_deadline == 0)
            *close_deadline = now_ms(CLOCK_MONOTONIC) + CLOSE_PATIENCE_MS;
        if (*close_deadline != 0 && remaining_ms(*close_deadline) == 0)
            break;
        wait_ms(audit, (int)remaining_ms(until));
    }
    pthread_mutex_unlock(&audit->lock);
    return *close_deadline == 0 || remaining_ms(*close_deadline) > 0;
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

/* Gets the batch out whatever it takes. False: given up, the log is being closed. */
static bool write_batch(struct audit *audit)
{
    int pause_ms = RETRY_FIRST_MS;
    int64_t close_deadline = 0;
    for (;;) {
        uint64_t lost = add_lost_record(audit);
        bool sent = format_and_send(audit), too_long = false;
        while (!sent) {
            int cause = errno;
            too_long = cause == EMSGSIZE;
            if (too_long) {
                give_up(audit, &audit->batch.entries[audit->finished]);
                break;
            }
            begin_failing(audit, cause);
            bool torn = untear(audit);
            release_waiters(audit, &audit->batch, audit->finished + torn);
            if (!torn)
                break;
            /* Its line is going to be whole, but nobody knows when. */
            tell(audit, &audit->batch.entries[audit->finished], 1, !audit->required);
            if (!pause_failing(audit, pause_ms, &close_deadline)) {
                end_turn(audit);
                return false;
            }
            /* Only the rest of the torn line: what follows is formatted anew. */
            audit->lines.len = audit->ends[audit->finished];
            sent = send_lines(audit);
        }
        end_turn(audit);
        if (audit->finished == audit->batch.count) {
            audit->lost_reported = lost;
            batch_reset(&audit->batch);
            lines_reset(audit);
            end_failing(audit);
            return true;
        }
        if (lost != audit->lost_reported)
            drop_last(audit); /* the record of losses, which is made anew with a higher count */
        compact(&audit->batch, audit->finished);
        if (!sent && !too_long && !pause_failing(audit, pause_ms, &close_deadline))
            return false;
        if (!sent && audit->sink.kind == SINK_FILE && pause_ms < RETRY_LAST_MS)
            pause_ms *= 2;
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

static void *writer(void *arg)
{
    struct audit *audit = arg;
    while (take_batch(audit)) {
        reopen_if_asked(audit);
        if (!write_batch(audit)) {
            log_line("audit-log %s: %zu records could not be written before the end",
                     audit->sink.path, audit->batch.count - audit->finished);
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
    json_free(&audit->lines);
    json_free(&audit->shown);
    free(audit->ends);
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
    audit->squid = config->squid;
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
    return audit->squid && !audit->none;
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
    size_t cost = cost_of(fields.len + squid.len);
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
    entry.ts_ms = now_ms(CLOCK_REALTIME);
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
