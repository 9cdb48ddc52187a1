#include "record/lines.h"

#include "record/squid.h"
#include "srt/must.h"

#include <stdlib.h>

/* As json_time() writes it, but the second is spelled once for all of its records. */
static struct str stamp(struct lines *lines, int64_t ts_ms)
{
    const time_t second = (time_t)(ts_ms / 1000);
    const int64_t ms = ts_ms % 1000;
    if (second != lines->stamp_second || lines->stamp[0] == '\0') {
        struct tm utc;
        gmtime_r(&second, &utc);
        strftime(lines->stamp, sizeof(lines->stamp), "%Y-%m-%dT%H:%M:%S.000Z", &utc);
        lines->stamp_second = second;
    }
    lines->stamp[20] = (char)('0' + ms / 100);
    lines->stamp[21] = (char)('0' + ms / 10 % 10);
    lines->stamp[22] = (char)('0' + ms % 10);
    return str_of(lines->stamp);
}

static void add_json(struct lines *lines, struct json *out, const struct batch *batch,
                     const struct entry *entry, uint64_t seq)
{
    json_append(out, STR("{\"schema\":\"srt.audit/1\",\"ts\":\""));
    json_append(out, stamp(lines, entry->ts_ms));
    json_append(out, STR("\",\"seq\":"));
    json_number(out, NULL, (int64_t)seq);
    json_raw(out, NULL, (struct str){batch->bytes.data + entry->start, entry->len});
    json_append(out, STR("}\n"));
}

/* Most records have no line in that format: it is about requests that are over. */
static void add_squid(struct lines *lines, const struct batch *batch, const struct entry *entry)
{
    if (entry->squid_len == 0)
        return;
    squid_time(&lines->text, entry->ts_ms);
    json_append(&lines->text,
                (struct str){batch->bytes.data + entry->start + entry->len, entry->squid_len});
}

void lines_format(struct lines *lines, const struct batch *batch, uint64_t seq)
{
    if (lines->ends_cap < batch->count) {
        lines->ends_cap = batch->cap;
        lines->ends = must(reallocarray(lines->ends, lines->ends_cap, sizeof(*lines->ends)));
    }
    json_reset(&lines->text);
    json_reserve(&lines->text, BATCH_ROOM);
    lines->sent = lines->finished = 0;
    for (size_t i = 0; i < batch->count; i++) {
        if (lines->squid)
            add_squid(lines, batch, &batch->entries[i]);
        else
            add_json(lines, &lines->text, batch, &batch->entries[i], seq + i);
        lines->ends[i] = lines->text.len;
    }
}

size_t lines_start(const struct lines *lines, size_t index)
{
    return index > 0 ? lines->ends[index - 1] : 0;
}

struct str lines_shown(struct lines *lines, const struct batch *batch, size_t index, uint64_t seq)
{
    const size_t start = lines_start(lines, index);
    if (!lines->squid)
        return (struct str){lines->text.data + start, lines->ends[index] - start};
    json_reset(&lines->shown);
    add_json(lines, &lines->shown, batch, &batch->entries[index], seq);
    return (struct str){lines->shown.data, lines->shown.len};
}

void lines_reset(struct lines *lines)
{
    if (lines->text.len > BATCH_KEEP) {
        json_free(&lines->text);
        free(lines->ends);
        lines->ends = NULL;
        lines->ends_cap = 0;
    }
    json_reset(&lines->text);
    lines->sent = lines->finished = 0;
}

void lines_free(struct lines *lines)
{
    json_free(&lines->text);
    json_free(&lines->shown);
    free(lines->ends);
}
