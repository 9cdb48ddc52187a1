#include "filters/remote_line.h"

#include "filters/builtin.h"
#include "srt/must.h"

#include <inttypes.h>
#include <jansson.h>

/* ASCII, since some readers of lines (node's) end one at U+2028, too. */
enum { WRITE_FLAGS = JSON_COMPACT | JSON_ENSURE_ASCII };

static const struct {
    const char *word;
    unsigned bit;
} field_words[] = {
    {"sandbox", REMOTE_SANDBOX}, {"client", REMOTE_CLIENT}, {"policy", REMOTE_POLICY},
    {"front", REMOTE_FRONT},     {"host", REMOTE_HOST},     {"port", REMOTE_PORT},
    {"method", REMOTE_METHOD},   {"path", REMOTE_PATH},     {"body", REMOTE_BODY},
    {"headers", REMOTE_HEADERS}, {"asks", REMOTE_ASKS},
};
enum { FIELD_COUNT = sizeof(field_words) / sizeof(field_words[0]) };

static const struct {
    const char *word;
    unsigned bit;
} phase_words[] = {{"request", REMOTE_REQUEST}, {"abandon", REMOTE_ABANDON}, {"end", REMOTE_END}};
enum { PHASE_COUNT = sizeof(phase_words) / sizeof(phase_words[0]) };

/* ---- writing ---- */

/* What is not UTF-8 is read as Latin-1, in which every byte is a character. */
static json_t *latin1(struct srt_filter_text text)
{
    char *utf8 = must_calloc(text.len, 2);
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char byte = (unsigned char)text.p[i];
        if (byte >= 0x80)
            utf8[len++] = (char)(0xc0 | byte >> 6);
        utf8[len++] = (char)(byte >= 0x80 ? 0x80 | (byte & 0x3f) : byte);
    }
    json_t *value = must(json_stringn(utf8, len));
    free(utf8);
    return value;
}

static json_t *text_value(struct srt_filter_text text)
{
    if (text.p == NULL)
        return json_null();
    json_t *value = json_stringn(text.p, text.len);
    return value != NULL ? value : latin1(text);
}

static json_t *headers_value(const struct srt_filter_request *request)
{
    if (request->method.p == NULL)
        return json_null();
    json_t *list = must(json_array());
    for (size_t i = 0; i < request->field_count; i++) {
        json_t *pair = must(json_array());
        json_array_append_new(pair, text_value(request->fields[i].name));
        json_array_append_new(pair, text_value(request->fields[i].value));
        json_array_append_new(list, pair);
    }
    return list;
}

static json_t *field_value(const struct srt_filter_request *request, unsigned field)
{
    switch (field) {
    case REMOTE_SANDBOX:
        return text_value(request->sandbox);
    case REMOTE_CLIENT:
        return text_value(request->client);
    case REMOTE_POLICY:
        return text_value(request->policy);
    case REMOTE_FRONT:
        return text_value(request->front);
    case REMOTE_HOST:
        return text_value(request->host);
    case REMOTE_PORT:
        return must(json_integer(request->port));
    case REMOTE_METHOD:
        return text_value(request->method);
    case REMOTE_PATH:
        return text_value(request->path);
    case REMOTE_BODY:
        return request->body_len < 0 ? json_null() : must(json_integer(request->body_len));
    case REMOTE_ASKS:
        return json_boolean(request->asks != 0);
    default:
        return headers_value(request);
    }
}

static char *dump(json_t *object)
{
    char *text = must(json_dumps(object, WRITE_FLAGS));
    json_decref(object);
    return text;
}

char *remote_write_request(const struct srt_filter_request *request, unsigned fields)
{
    json_t *object = must(json_object());
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if ((fields & field_words[i].bit) != 0)
            json_object_set_new(object, field_words[i].word,
                                field_value(request, field_words[i].bit));
    return dump(object);
}

char *remote_narrow_request(const char *object, unsigned fields)
{
    json_t *all = must(json_loads(object, JSON_ALLOW_NUL, NULL));
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if ((fields & field_words[i].bit) == 0)
            json_object_del(all, field_words[i].word);
    return dump(all);
}

char *remote_line_hello(const char *filter, unsigned worker)
{
    char *name = dump(must(json_pack("{s:s}", "filter", filter)));
    char *line = must_format("{\"id\":0,\"hello\":{\"protocol\":%d,\"worker\":%u,%s}\n",
                             REMOTE_PROTOCOL, worker, name + 1);
    free(name);
    return line;
}

/* Between the members that come first and those of `object`, which follow without its brace. */
static const char *comma_before(const char *object)
{
    return object[1] == '}' ? "" : ",";
}

char *remote_line_request(uint64_t id, const char *record, uint64_t timeout_ms, const char *object)
{
    return must_format("{\"id\":%" PRIu64 ",\"request\":{\"record\":\"%s\",\"timeout_ms\":%" PRIu64
                       "%s%s}\n",
                       id, record, timeout_ms, comma_before(object), object + 1);
}

char *remote_line_abandon(uint64_t id)
{
    return must_format("{\"id\":%" PRIu64 ",\"abandon\":{}}\n", id);
}

char *remote_line_end(uint64_t id, struct srt_filter_text record, const char *object,
                      uint64_t bytes_up, uint64_t bytes_down)
{
    return must_format("{\"id\":%" PRIu64 ",\"end\":{\"record\":\"%.*s\",\"bytes_up\":%" PRIu64
                       ",\"bytes_down\":%" PRIu64 "%s%s}\n",
                       id, (int)record.len, record.p, bytes_up, bytes_down, comma_before(object),
                       object + 1);
}

/* ---- reading ---- */

static json_t *load(struct str line, struct srt_err *why)
{
    json_error_t error;
    json_t *object = json_loadb(line.p, line.len, JSON_REJECT_DUPLICATES, &error);
    if (object == NULL)
        srt_err_set(why, "it sent a line that is not JSON: %s", error.text);
    else if (json_is_object(object))
        return object;
    else
        srt_err_set(why, "it sent a line that is not a JSON object");
    json_decref(object);
    return NULL;
}

/* Nothing but these; NULL at the end. */
static bool has_only(json_t *object, const char *const *known, struct srt_err *why)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], key) != 0)
            i++;
        if (known[i] == NULL) {
            srt_err_set(why, "'%.40s' is not known here", key);
            return false;
        }
    }
    return true;
}

static bool read_bit(const char *word, const char *what, bool is_phase, unsigned *out,
                     struct srt_err *why)
{
    for (size_t i = 0; i < (is_phase ? (size_t)PHASE_COUNT : (size_t)FIELD_COUNT); i++)
        if (strcmp(word, is_phase ? phase_words[i].word : field_words[i].word) == 0) {
            *out |= is_phase ? phase_words[i].bit : field_words[i].bit;
            return true;
        }
    srt_err_set(why, "its hello has '%.40s' in '%s', which is not known here", word, what);
    return false;
}

static bool read_words(const json_t *hello, const char *what, bool is_phase, unsigned *out,
                       struct srt_err *why)
{
    const json_t *list = json_object_get(hello, what);
    *out = 0;
    if (!json_is_array(list)) {
        srt_err_set(why, "its hello has no list '%s'", what);
        return false;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *word = json_array_get(list, i);
        if (!json_is_string(word)) {
            srt_err_set(why, "its hello has something else than words in '%s'", what);
            return false;
        }
        if (!read_bit(json_string_value(word), what, is_phase, out, why))
            return false;
    }
    return true;
}

static bool read_hello_object(json_t *hello, struct remote_hello *out, struct srt_err *why)
{
    static const char *const known[] = {"protocol", "phases", "fields", NULL};
    const json_t *protocol = json_object_get(hello, "protocol");
    if (!has_only(hello, known, why))
        return false;
    if (!json_is_integer(protocol) || json_integer_value(protocol) != REMOTE_PROTOCOL) {
        srt_err_set(why, "its hello does not say \"protocol\":%d", REMOTE_PROTOCOL);
        return false;
    }
    if (!read_words(hello, "phases", true, &out->phases, why))
        return false;
    if (out->phases == 0) {
        srt_err_set(why, "its hello has no phase");
        return false;
    }
    out->fields = REMOTE_USUAL;
    return json_object_get(hello, "fields") == NULL ||
           read_words(hello, "fields", false, &out->fields, why);
}

bool remote_read_hello(struct str line, struct remote_hello *out, struct srt_err *why)
{
    static const char *const known[] = {"id", "hello", NULL};
    json_t *object = load(line, why);
    if (object == NULL)
        return false;
    const json_t *id = json_object_get(object, "id");
    json_t *hello = json_object_get(object, "hello");
    bool good = has_only(object, known, why);
    if (good && (!json_is_integer(id) || json_integer_value(id) != 0 || !json_is_object(hello))) {
        srt_err_set(why, "its first line is no hello");
        good = false;
    }
    good = good && read_hello_object(hello, out, why);
    json_decref(object);
    return good;
}

static bool read_verdict(const json_t *object, struct remote_answer *out, struct srt_err *why)
{
    static const struct {
        const char *word;
        enum srt_filter_verdict verdict;
    } words[] = {{"pass", SRT_FILTER_PASS},
                 {"allow", SRT_FILTER_ALLOW},
                 {"deny", SRT_FILTER_DENY},
                 {"error", SRT_FILTER_ERROR}};
    const char *verdict = json_string_value(json_object_get(object, "verdict"));
    for (size_t i = 0; verdict != NULL && i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i].word, verdict) == 0) {
            out->verdict = words[i].verdict;
            return true;
        }
    srt_err_set(why, "its verdict is none of pass, allow, deny and error");
    return false;
}

static bool read_reason(const json_t *object, struct remote_answer *out, struct srt_err *why)
{
    const json_t *reason = json_object_get(object, "reason");
    if (reason == NULL || json_is_null(reason))
        return true;
    if (!json_is_string(reason)) {
        srt_err_set(why, "its reason is no text");
        return false;
    }
    snprintf(out->reason, sizeof(out->reason), "%s", json_string_value(reason));
    return true;
}

/* In seconds; beyond a year nobody counts. */
static bool read_ttl(const json_t *object, struct remote_answer *out, struct srt_err *why)
{
    const double most = 366. * 86400.;
    const json_t *ttl = json_object_get(object, "ttl");
    if (ttl == NULL)
        return true;
    const double seconds = json_number_value(ttl);
    if (!json_is_number(ttl) || !(seconds >= 0)) {
        srt_err_set(why, "its ttl is no number of seconds");
        return false;
    }
    out->ttl_ms = (int64_t)((seconds < most ? seconds : most) * 1000.);
    return true;
}

static bool read_answer_object(json_t *object, struct remote_answer *out, struct srt_err *why)
{
    static const char *const known[] = {"id", "verdict", "reason", "ttl", NULL};
    return has_only(object, known, why) && read_verdict(object, out, why) &&
           read_reason(object, out, why) && read_ttl(object, out, why);
}

bool remote_read_answer(struct str line, struct remote_answer *out, struct srt_err *why)
{
    *out = (struct remote_answer){.verdict = SRT_FILTER_ERROR, .ttl_ms = -1};
    json_t *object = load(line, why);
    if (object == NULL)
        return false;
    const json_t *id = json_object_get(object, "id");
    const bool has_id = json_is_integer(id) && json_integer_value(id) > 0;
    if (has_id)
        out->id = (uint64_t)json_integer_value(id);
    else
        srt_err_set(why, "it sent an answer without the id of a question");
    if (has_id && !read_answer_object(object, out, why)) {
        out->verdict = SRT_FILTER_ERROR;
        out->ttl_ms = -1;
        snprintf(out->reason, sizeof(out->reason), "%.255s", why->text);
    }
    json_decref(object);
    return has_id;
}
