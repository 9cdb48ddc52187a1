#include "commands/history.h"

#include "filters/words.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum { HISTORY_MAX_LINE = 1 << 20, READ_BUFFER = 1 << 20 };

/* What is read of a line, whichever way. */
struct raw {
    const char *schema, *kind, *reason, *would, *message;
    struct history_record record;
};

enum field_kind { FIELD_TEXT, FIELD_NUMBER, FIELD_UNUSED };

/* In the order in which records have them, so that the scanner finds each at the first try. */
#define FIELD(key, kind, offset)           \
    {                                      \
        key, sizeof(key) - 1, kind, offset \
    }
#define TEXT(key, field) FIELD(key, FIELD_TEXT, offsetof(struct raw, field))
#define NUMBER(key, field) FIELD(key, FIELD_NUMBER, offsetof(struct raw, field))
#define UNUSED(key) FIELD(key, FIELD_UNUSED, 0)
static const struct field {
    const char *key;
    size_t key_len;
    enum field_kind kind;
    size_t offset;
} fields[] = {
    TEXT("schema", schema),
    TEXT("ts", record.ts),
    UNUSED("seq"),
    TEXT("kind", kind),
    NUMBER("count", record.count),
    TEXT("id", record.id),
    TEXT("sandbox", record.sandbox),
    TEXT("client", record.client),
    UNUSED("listener"),
    TEXT("policy", record.policy),
    UNUSED("generation"),
    UNUSED("peer"),
    TEXT("front", record.front),
    TEXT("method", record.method),
    TEXT("path", record.path),
    TEXT("host", record.host),
    NUMBER("port", record.port),
    TEXT("addr", record.addr),
    UNUSED("sni"),
    NUMBER("bytes_up", record.bytes_up),
    NUMBER("bytes_down", record.bytes_down),
    UNUSED("duration_ms"),
    TEXT("cause", record.cause),
    UNUSED("verdict"),
    UNUSED("mode"),
    TEXT("would", would),
    TEXT("reason", reason),
    TEXT("rule", record.rule),
    UNUSED("filter"),
    TEXT("message", message),
};
enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };

static void *place_of(struct raw *raw, const struct field *field)
{
    return (char *)raw + field->offset;
}

/* ---- lines as we write them ---- */

/* Whether every byte is printable ASCII and no backslash, eight at a time: then a string is its
 * bytes, and the next quote is its end. */
static bool is_simple(const char *line, size_t len)
{
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    uint64_t bad = 0;
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        uint64_t word;
        memcpy(&word, line + i, 8);
        const uint64_t escape = word ^ (ones * '\\');
        bad |= word;                         /* not ASCII */
        bad |= (word - ones * 0x20) & ~word; /* below a blank */
        bad |= (escape - ones) & ~escape;    /* a backslash */
    }
    for (; i < len; i++) {
        const unsigned char c = (unsigned char)line[i];
        bad |= c < 0x20 || c > 0x7f || c == '\\' ? highs : 0;
    }
    return (bad & highs) == 0;
}

struct scan {
    char *at, *end;
    size_t next; /* in `fields`, of what is expected */
    struct {
        size_t field;
        char *text, *text_end; /* NULL: null */
        int64_t number;
    } found[FIELD_COUNT];
    size_t count;
};

static const struct field *find_field(struct scan *scan, const char *key, size_t len)
{
    for (size_t tried = 0; tried < FIELD_COUNT; tried++) {
        const size_t ahead = scan->next + tried;
        const size_t index = ahead < FIELD_COUNT ? ahead : ahead - FIELD_COUNT;
        if (fields[index].key_len == len && memcmp(fields[index].key, key, len) == 0) {
            scan->next = index + 1;
            return &fields[index];
        }
    }
    return NULL;
}

static bool take_byte(struct scan *scan, char byte)
{
    if (scan->at >= scan->end || *scan->at != byte)
        return false;
    scan->at++;
    return true;
}

static bool take_string(struct scan *scan, char **text, char **text_end)
{
    if (!take_byte(scan, '"'))
        return false;
    char *quote = memchr(scan->at, '"', (size_t)(scan->end - scan->at));
    if (quote == NULL)
        return false;
    *text = scan->at;
    *text_end = quote;
    scan->at = quote + 1;
    return true;
}

static bool take_word(struct scan *scan, const char *word, size_t len)
{
    if ((size_t)(scan->end - scan->at) < len || memcmp(scan->at, word, len) != 0)
        return false;
    scan->at += len;
    return true;
}

/* Plain digits, fewer than an int64_t has. */
static bool take_number(struct scan *scan, int64_t *out)
{
    const char *start = scan->at;
    int64_t number = 0;
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9' && scan->at - start < 18)
        number = number * 10 + (*scan->at++ - '0');
    *out = number;
    return scan->at > start && (*start != '0' || scan->at - start == 1);
}

/* `"key":` where the field is the next, as it is in our own records but for those that a kind has
 * not. */
static const struct field *take_next_key(struct scan *scan)
{
    enum { AHEAD = 3 };
    const size_t left = (size_t)(scan->end - scan->at);
    for (size_t i = scan->next; i < FIELD_COUNT && i < scan->next + AHEAD; i++) {
        const struct field *field = &fields[i];
        if (field->key_len + 3 > left || scan->at[field->key_len + 1] != '"' ||
            scan->at[field->key_len + 2] != ':' || scan->at[0] != '"' ||
            memcmp(scan->at + 1, field->key, field->key_len) != 0)
            continue;
        scan->at += field->key_len + 3;
        scan->next = i + 1;
        return field;
    }
    return NULL;
}

/* False: what stands there is no key. `*field` is NULL when nobody looks at it. */
static bool take_key(struct scan *scan, const struct field **field)
{
    char *key, *key_end;
    if ((*field = take_next_key(scan)) != NULL)
        return true;
    if (!take_string(scan, &key, &key_end) || !take_byte(scan, ':'))
        return false;
    *field = find_field(scan, key, (size_t)(key_end - key));
    return true;
}

/* One `"key":value`. False: not of the kind that is read here. */
static bool take_pair(struct scan *scan)
{
    char *text = NULL, *text_end = NULL;
    const struct field *field;
    int64_t number = 0;
    if (!take_key(scan, &field) || scan->at == scan->end)
        return false;
    const char first = *scan->at;
    const bool is_text = first == '"', is_null = first == 'n';
    if (is_text   ? !take_string(scan, &text, &text_end)
        : is_null ? !take_word(scan, "null", 4)
                  : !take_number(scan, &number))
        return false;
    if (field == NULL || field->kind == FIELD_UNUSED)
        return true;
    const bool number_wanted = field->kind == FIELD_NUMBER;
    if ((number_wanted && is_text) || (!number_wanted && !is_text && !is_null) ||
        scan->count == FIELD_COUNT)
        return false;
    scan->found[scan->count].field = (size_t)(field - fields);
    scan->found[scan->count].text = text;
    scan->found[scan->count].text_end = text_end;
    scan->found[scan->count++].number = number;
    return true;
}

/* One flat object of strings without escapes, of plain numbers and nulls, with no blank between
 * them. False, and nothing is changed, for anything else. */
static bool scan_line(char *line, size_t len, struct raw *out)
{
    struct scan scan;
    scan.at = line;
    scan.end = line + len;
    scan.next = scan.count = 0;
    if (!is_simple(line, len) || !take_byte(&scan, '{'))
        return false;
    do {
        if (!take_pair(&scan))
            return false;
    } while (take_byte(&scan, ','));
    if (!take_byte(&scan, '}') || scan.at != scan.end)
        return false;
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < scan.count; i++) {
        const struct field *field = &fields[scan.found[i].field];
        if (field->kind == FIELD_NUMBER) {
            *(int64_t *)place_of(out, field) = scan.found[i].number;
            continue;
        }
        *(const char **)place_of(out, field) = scan.found[i].text;
        if (scan.found[i].text != NULL)
            *scan.found[i].text_end = '\0';
    }
    return true;
}

/* ---- any JSON ---- */

static void read_object(const json_t *object, struct raw *out)
{
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const json_t *value = json_object_get(object, fields[i].key);
        if (fields[i].kind == FIELD_NUMBER)
            *(int64_t *)place_of(out, &fields[i]) = json_integer_value(value);
        else if (fields[i].kind == FIELD_TEXT)
            *(const char **)place_of(out, &fields[i]) = json_string_value(value);
    }
}

/* ---- records ---- */

static bool outcome_of(const char *word, enum outcome *out)
{
    *out = OUTCOME_ALLOWED;
    for (int i = OUTCOME_ALLOWED + 1; word != NULL && i < OUTCOME_COUNT; i++)
        if (strcmp(outcome_row((enum outcome)i)->word, word) == 0)
            *out = (enum outcome)i;
    return word == NULL || *out != OUTCOME_ALLOWED;
}

bool history_front(const struct history_record *record, enum front *out)
{
    for (int i = 0; record->front != NULL && i < FRONT_COUNT; i++)
        if (strcmp(front_word((enum front)i), record->front) == 0) {
            *out = (enum front)i;
            return true;
        }
    return false;
}

bool history_target(const struct history_record *record, struct target *out)
{
    return record->host != NULL && record->port > 0 && record->port <= UINT16_MAX &&
           target_parse_host(out, str_of(record->host), (uint16_t)record->port, NULL);
}

static bool is_record(const struct raw *raw)
{
    return raw->schema != NULL && strcmp(raw->schema, "srt.audit/1") == 0 && raw->kind != NULL;
}

/* False: of this schema, but not of a kind or shape that is looked at. */
static bool finish_record(struct raw *raw)
{
    static const char *const kinds[] = {"decision", "close", "lost"};
    struct history_record *record = &raw->record;
    size_t kind = 0;
    while (kind < sizeof(kinds) / sizeof(kinds[0]) && strcmp(raw->kind, kinds[kind]) != 0)
        kind++;
    if (kind == sizeof(kinds) / sizeof(kinds[0]))
        return false;
    record->kind = (enum history_kind)kind;
    record->would_deny = raw->would != NULL && strcmp(raw->would, "deny") == 0;
    record->in_tunnel = raw->message != NULL &&
                        strncmp(raw->message, WORDS_IN_TUNNEL, sizeof(WORDS_IN_TUNNEL) - 1) == 0;
    return outcome_of(raw->reason, &record->outcome);
}

/* Whether the line, which has no newline any more, is a record, and shows it if it is to be seen.
 */
static bool read_line(char *line, size_t len, history_fn *each, void *arg)
{
    struct raw raw;
    json_t *object = NULL;
    if (!scan_line(line, len, &raw)) {
        object = len <= HISTORY_MAX_LINE ? json_loadb(line, len, 0, NULL) : NULL;
        if (object == NULL)
            return false;
        read_object(object, &raw);
    }
    const bool valid = is_record(&raw);
    if (valid && finish_record(&raw))
        each(arg, &raw.record);
    json_decref(object);
    return valid;
}

int history_read(const char *path, history_fn *each, void *arg, size_t *skipped,
                 struct srt_err *err)
{
    bool standard = strcmp(path, "-") == 0;
    autofclose FILE *opened = standard ? NULL : fopen(path, "re");
    FILE *file = standard ? stdin : opened;
    if (file == NULL)
        return srt_err_set(err, "%s: %s", path, strerror(errno));

    autofree char *line = NULL;
    size_t cap = 0, number = 0, passed = 0;
    ssize_t len;
    errno = 0;
    (void)setvbuf(file, NULL, _IOFBF, READ_BUFFER);
    while ((len = getline(&line, &cap, file)) > 0) {
        number++;
        size_t bytes = (size_t)len;
        if (line[bytes - 1] == '\n')
            line[--bytes] = '\0';
        if (!read_line(line, bytes, each, arg)) {
            fprintf(stderr, "%s:%zu: not an audit record, passed over\n", path, number);
            passed++;
        }
    }
    if (ferror(file) != 0)
        return srt_err_set(err, "%s: %s", path, strerror(errno));
    if (skipped != NULL)
        *skipped = passed;
    return 0;
}
