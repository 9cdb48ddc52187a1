#include "launcher/violations.h"

#include "srt/cleanup.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { KEPT = 1000, SHOWN = 10 };

void violations_open(struct violations *violations, const char *sandbox, const char *command,
                     const struct settings *settings, int fd)
{
    *violations =
        (struct violations){.sandbox = sandbox, .command = command, .settings = settings, .fd = fd};
}

/* One printable line whatever the sandbox put into a name: control characters become spaces, and
 * the marks of the summary cannot be forged. */
static void clean_line(char *line)
{
    for (unsigned char *p = (unsigned char *)line; *p != '\0'; p++)
        if (*p < ' ' || *p == 0x7f || *p == '<' || *p == '>')
            *p = ' ';
        else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
            p[0] = p[1] = ' '; /* U+0080 to U+009F: terminals take U+009B for ESC [ */
}

/* srt's meaning: `*` covers every command, other keys are part of it; values are part of the line.
 */
static bool ignored(const struct violations *violations, const char *line)
{
    for (size_t i = 0; i < violations->settings->ignore_violation_count; i++) {
        const struct settings_ignore *ignore = &violations->settings->ignore_violations[i];
        if (strcmp(ignore->command, "*") != 0 &&
            strstr(violations->command, ignore->command) == NULL)
            continue;
        for (size_t j = 0; j < ignore->texts.count; j++)
            if (strstr(line, ignore->texts.items[j].text) != NULL)
                return true;
    }
    return false;
}

/* Bytes that are not UTF-8 have no place in JSON; they show as question marks. */
static json_t *text_or_null(const char *text)
{
    if (text == NULL)
        return json_null();
    json_t *string = json_string(text);
    if (string != NULL)
        return string;
    autofree char *copy = strdup(text);
    assert(copy != NULL);
    for (unsigned char *p = (unsigned char *)copy; *p != '\0'; p++)
        if (*p >= 0x80)
            *p = '?';
    return json_string(copy);
}

static void write_line(struct violations *violations, const struct violation *violation)
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
    autofree char *text = json_dumps(record, JSON_COMPACT);
    json_decref(record);
    autofree char *line = NULL;
    int len = text == NULL ? -1 : asprintf(&line, "%s\n", text);
    /* One write a line, so that readers of a shared file never see halves mixed. */
    if (len < 0 || write(violations->fd, line, (size_t)len) != len)
        violations->dropped++;
}

static char *make_line(const struct violation *violation)
{
    char *line = NULL;
    int len;
    if (violation->host != NULL)
        len = asprintf(&line, "deny network-outbound %s:%u (%s): %s%s%s", violation->host,
                       violation->port, violation->reason != NULL ? violation->reason : "denied",
                       violation->message != NULL ? violation->message : "",
                       violation->hint != NULL ? ". " : "",
                       violation->hint != NULL ? violation->hint : "");
    else
        len = asprintf(&line, "deny %s %s (%s): %s%s%s", violation->operation, violation->path,
                       violation->rule != NULL      ? violation->rule
                       : violation->setting != NULL ? violation->setting
                                                    : "default",
                       violation->message != NULL ? violation->message : "",
                       violation->hint != NULL ? ". " : "",
                       violation->hint != NULL ? violation->hint : "");
    assert(len >= 0);
    clean_line(line);
    return line;
}

void violations_add(struct violations *violations, const struct violation *violation)
{
    autofree char *line = make_line(violation);
    if (ignored(violations, line))
        return;
    violations->total++;
    for (size_t i = 0; i < violations->seen_count; i++) {
        if (strcmp(violations->seen[i].line, line) == 0) {
            violations->seen[i].count++;
            return;
        }
    }
    if (violations->seen_count == KEPT) {
        violations->dropped++;
        return;
    }
    if (violations->fd >= 0)
        write_line(violations, violation);
    violations->seen =
        reallocarray(violations->seen, violations->seen_count + 1, sizeof(*violations->seen));
    assert(violations->seen != NULL);
    violations->seen[violations->seen_count++] =
        (struct violations_seen){.line = steal_ptr(line), .count = 1};
}

void violations_summary(const struct violations *violations, FILE *out)
{
    if (violations->total == 0)
        return;
    fputs("<sandbox_violations>\n", out);
    size_t shown = violations->seen_count;
    if (shown > SHOWN - 2)
        shown = SHOWN - 3;
    for (size_t i = 0; i < shown; i++) {
        fputs(violations->seen[i].line, out);
        if (violations->seen[i].count > 1)
            fprintf(out, " (%llu times)", (unsigned long long)violations->seen[i].count);
        fputc('\n', out);
    }
    if (shown < violations->seen_count)
        fprintf(out, "and %zu more; --violations FILE lists every one\n",
                violations->seen_count - shown);
    fputs("</sandbox_violations>\n", out);
}

void violations_close(struct violations *violations)
{
    for (size_t i = 0; i < violations->seen_count; i++)
        free(violations->seen[i].line);
    free(violations->seen);
    violations->seen = NULL;
    violations->seen_count = 0;
}
