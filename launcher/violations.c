#include "launcher/violations.h"

#include "config/fault.h"
#include "srt/cleanup.h"
#include "srt/clock.h"
#include "srt/must.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SHOWN = 10,           /* lines of the summary, its marks included */
    CHUNK = 4096,         /* what a pipe takes without waiting once it is writable */
    LAST_LINES_MS = 2000, /* for a reader to take what is left at the end */
};

static char *join(char *const *words)
{
    size_t len = 1;
    for (size_t i = 0; words[i] != NULL; i++)
        len += strlen(words[i]) + 1;
    char *line = must(malloc(len));
    line[0] = '\0';
    char *end = line;
    for (size_t i = 0; words[i] != NULL; i++) {
        if (i > 0)
            *end++ = ' ';
        end = stpcpy(end, words[i]);
    }
    return line;
}

void violations_open(struct violations *violations, const char *sandbox, char *const *argv,
                     const struct settings *settings, int fd)
{
    *violations = (struct violations){
        .sandbox = sandbox, .command = join(argv), .settings = settings, .fd = fd};
}

/* One printable line whatever the sandbox put into a name: what would do something to a terminal
 * becomes spaces, and the marks of the summary cannot be forged. */
static void clean_line(char *line)
{
    const struct str text = str_of(line);
    for (size_t i = 0; i < text.len;) {
        bool mark = line[i] == '<' || line[i] == '>';
        size_t unshown = mark ? 1 : fault_unshown_len(str_from(text, i));
        memset(line + i, ' ', unshown);
        i += unshown > 0 ? unshown : 1;
    }
}

/* srt's meaning: `*` covers every command, other keys are part of it; values are part of what was
 * refused, so not of its explanation. */
static bool ignored(const struct violations *violations, const char *line, size_t subject_len)
{
    for (size_t i = 0; i < violations->settings->ignore_violation_count; i++) {
        const struct settings_ignore *ignore = &violations->settings->ignore_violations[i];
        if (strcmp(ignore->command, "*") != 0 &&
            strstr(violations->command, ignore->command) == NULL)
            continue;
        for (size_t j = 0; j < ignore->texts.count; j++) {
            const char *text = ignore->texts.items[j].text;
            if (memmem(line, subject_len, text, strlen(text)) != NULL)
                return true;
        }
    }
    return false;
}

bool violations_ignored(const struct violations *violations, const char *beginning)
{
    return ignored(violations, beginning, strlen(beginning));
}

/* Bytes that are not UTF-8 have no place in JSON; they show as question marks. */
static json_t *text_or_null(const char *text)
{
    if (text == NULL)
        return json_null();
    json_t *string = json_string(text);
    if (string != NULL)
        return string;
    autofree char *copy = must_copy(text);
    for (unsigned char *p = (unsigned char *)copy; *p != '\0'; p++)
        if (*p >= 0x80)
            *p = '?';
    return json_string(copy);
}

/* Without its end, which is the count. */
static char *make_json(const struct violations *violations, const struct violation *violation)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm utc;
    gmtime_r(&now.tv_sec, &utc);
    char seconds[32], ts[48];
    strftime(seconds, sizeof(seconds), "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(ts, sizeof(ts), "%s.%03ldZ", seconds, now.tv_nsec / 1000000);

    json_t *record = json_object();
    json_object_set_new(record, "schema", json_string("srt.violation/1"));
    json_object_set_new(record, "ts", json_string(ts));
    json_object_set_new(record, "sandbox", text_or_null(violations->sandbox));
    json_object_set_new(record, "pid",
                        violation->pid > 0 ? json_integer(violation->pid) : json_null());
    json_object_set_new(record, "comm", text_or_null(violation->comm));
    json_object_set_new(record, "command", text_or_null(violation->command));
    json_object_set_new(record, "kind", text_or_null(violation->kind));
    json_object_set_new(record, "operation", text_or_null(violation->operation));
    if (violation->host != NULL) {
        json_object_set_new(record, "host", text_or_null(violation->host));
        json_object_set_new(record, "port", json_integer(violation->port));
        json_object_set_new(record, "reason", text_or_null(violation->reason));
    } else {
        json_object_set_new(record, "path", text_or_null(violation->path));
        json_object_set_new(record, "errno", text_or_null(violation->errno_word));
    }
    json_object_set_new(record, "rule", text_or_null(violation->rule));
    json_object_set_new(record, "setting", text_or_null(violation->setting));
    json_object_set_new(record, "message", text_or_null(violation->message));
    json_object_set_new(record, "hint", text_or_null(violation->hint));
    char *text = must(json_dumps(record, JSON_COMPACT));
    json_decref(record);
    text[strlen(text) - 1] = '\0';
    return text;
}

static void queue_json(struct violations *violations, const struct violations_seen *seen)
{
    autofree char *line =
        must_format("%s,\"count\":%llu}\n", seen->json, (unsigned long long)seen->count);
    size_t len = strlen(line);
    violations->out = must(realloc(violations->out, violations->out_len + len));
    memcpy(violations->out + violations->out_len, line, len);
    violations->out_len += len;
}

bool violations_pending(const struct violations *violations)
{
    return violations->fd >= 0 && violations->out_len > 0;
}

static bool write_some(struct violations *violations, int timeout_ms)
{
    struct pollfd wake = {.fd = violations->fd, .events = POLLOUT};
    if (poll(&wake, 1, timeout_ms) <= 0)
        return false;
    /* One write a line, so that readers of a shared file never see halves mixed. */
    const char *end = memchr(violations->out, '\n', violations->out_len);
    size_t len = end != NULL ? (size_t)(end + 1 - violations->out) : violations->out_len;
    ssize_t written = write(violations->fd, violations->out, len < CHUNK ? len : CHUNK);
    if (written < 0 && errno != EINTR && errno != EAGAIN) {
        /* It would be tried for ever, as it stays ready. */
        violations->failed = errno;
        violations->fd = -1;
        violations->out_len = 0;
    }
    if (written < 0)
        return errno == EINTR;
    memmove(violations->out, violations->out + written, violations->out_len - (size_t)written);
    violations->out_len -= (size_t)written;
    return true;
}

void violations_flush(struct violations *violations)
{
    while (violations_pending(violations) && write_some(violations, 0))
        ;
}

/* `*subject_len`: the part that says what was refused, without why. */
static char *make_line(const struct violation *violation, size_t *subject_len)
{
    char *line;
    int subject;
    const char *message = violation->message != NULL ? violation->message : "";
    const char *hint = violation->hint != NULL ? violation->hint : "";
    const char *dot = violation->hint == NULL ? "" : violation->host != NULL ? ". " : "; ";
    if (violation->host != NULL)
        line = must_format(
            "deny network-outbound %s:%u (%s)%n: %s%s%s", violation->host, violation->port,
            violation->reason != NULL ? violation->reason : "denied", &subject, message, dot, hint);
    else
        line = must_format("deny %s%s%s%n (%s): %s%s%s", violation->operation,
                           violation->path != NULL ? " " : "",
                           violation->path != NULL ? violation->path : "", &subject,
                           violation->rule != NULL      ? violation->rule
                           : violation->setting != NULL ? violation->setting
                                                        : "default",
                           message, dot, hint);
    *subject_len = (size_t)subject;
    clean_line(line);
    return line;
}

/* The slot of the line: its own, or the free one where it belongs. There are more slots than lines.
 */
static uint16_t *find_slot(struct violations *violations, const char *line)
{
    uint32_t hash = 2166136261u; /* FNV-1a; a collision costs a comparison */
    for (const unsigned char *p = (const unsigned char *)line; *p != '\0'; p++)
        hash = (hash ^ *p) * 16777619u;
    for (size_t i = hash % VIOLATIONS_SLOTS;; i = (i + 1) % VIOLATIONS_SLOTS) {
        uint16_t *slot = &violations->slots[i];
        if (*slot == 0 || strcmp(violations->seen[*slot - 1].line, line) == 0)
            return slot;
    }
}

void violations_add(struct violations *violations, const struct violation *violation)
{
    size_t subject_len;
    autofree char *line = make_line(violation, &subject_len);
    if (ignored(violations, line, subject_len))
        return;
    violations->total++;
    uint16_t *slot = find_slot(violations, line);
    if (*slot != 0) {
        violations->seen[*slot - 1].count++;
        return;
    }
    if (violations->seen_count == VIOLATIONS_KEPT) {
        violations->unlisted++;
        return;
    }
    struct violations_seen *seen = &violations->seen[violations->seen_count++];
    *slot = (uint16_t)violations->seen_count;
    *seen = (struct violations_seen){.line = steal_ptr(line), .kind = violation->kind, .count = 1};
    if (violations->fd < 0)
        return;
    seen->json = make_json(violations, violation);
    queue_json(violations, seen);
    violations_flush(violations);
}

void violations_add_unlisted(struct violations *violations, uint64_t count)
{
    violations->total += count;
    violations->unlisted += count;
}

/* A refused kind of system call is rarely why a command failed, so it comes after the rest. */
static bool is_of_rank(const struct violations_seen *seen, int rank)
{
    bool about_calls = strcmp(seen->kind, "file") != 0 && strcmp(seen->kind, "network") != 0;
    return about_calls == (rank == 1);
}

void violations_summary(const struct violations *violations, FILE *out)
{
    if (violations->total == 0)
        return;
    fputs("<sandbox_violations>\n", out);
    bool all = violations->seen_count <= SHOWN - 2 && violations->unlisted == 0;
    size_t room = all ? violations->seen_count : SHOWN - 3, shown = 0;
    for (int rank = 0; rank < 2; rank++) {
        for (size_t i = 0; i < violations->seen_count && shown < room; i++) {
            const struct violations_seen *seen = &violations->seen[i];
            if (!is_of_rank(seen, rank))
                continue;
            fputs(seen->line, out);
            if (seen->count > 1)
                fprintf(out, " (%llu times)", (unsigned long long)seen->count);
            fputc('\n', out);
            shown++;
        }
    }
    if (violations->unlisted > 0)
        fprintf(out,
                "and %zu more, and %llu refusals that are only counted; --violations FILE "
                "lists more\n",
                violations->seen_count - shown, (unsigned long long)violations->unlisted);
    else if (shown < violations->seen_count)
        fprintf(out, "and %zu more; --violations FILE lists every one\n",
                violations->seen_count - shown);
    fputs("</sandbox_violations>\n", out);
}

void violations_finish(struct violations *violations)
{
    for (size_t i = 0; i < violations->seen_count; i++)
        if (violations->fd >= 0 && violations->seen[i].count > 1)
            queue_json(violations, &violations->seen[i]);
    int64_t end = clock_ms() + LAST_LINES_MS;
    while (violations_pending(violations) && clock_ms() < end &&
           write_some(violations, (int)(end - clock_ms())))
        ;
}

void violations_close(struct violations *violations)
{
    for (size_t i = 0; i < violations->seen_count; i++) {
        free(violations->seen[i].line);
        free(violations->seen[i].json);
    }
    free(violations->out);
    free(violations->command);
    violations->out = violations->command = NULL;
    violations->out_len = violations->seen_count = 0;
}
