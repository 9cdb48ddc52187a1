#include "control/history.h"

#include "srt/cleanup.h"

#include <errno.h>
#include <jansson.h>

enum { HISTORY_MAX_LINE = 1 << 20 };

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static bool outcome_of(const char *word, enum outcome *out)
{
    *out = OUTCOME_ALLOWED;
    for (int i = OUTCOME_ALLOWED + 1; word != NULL && i < OUTCOME_COUNT; i++)
        if (strcmp(outcome_row((enum outcome)i)->word, word) == 0)
            *out = (enum outcome)i;
    return word == NULL || *out != OUTCOME_ALLOWED;
}

static bool front_of(const char *word, enum front *out)
{
    for (int i = 0; word != NULL && i < FRONT_COUNT; i++)
        if (strcmp(front_word((enum front)i), word) == 0) {
            *out = (enum front)i;
            return true;
        }
    return false;
}

/* False: of this schema, but not of a kind or shape that is judged. */
static bool record_of(const json_t *object, struct history_record *out)
{
    const char *kind = text_of(object, "kind");
    *out = (struct history_record){.is_close = strcmp(kind, "close") == 0,
                                   .ts = text_of(object, "ts"),
                                   .id = text_of(object, "id"),
                                   .sandbox = text_of(object, "sandbox"),
                                   .policy = text_of(object, "policy"),
                                   .method = text_of(object, "method"),
                                   .path = text_of(object, "path"),
                                   .rule = text_of(object, "rule"),
                                   .addr = text_of(object, "addr"),
                                   .cause = text_of(object, "cause")};
    if (!out->is_close && strcmp(kind, "decision") != 0)
        return false;
    out->bytes_up = json_integer_value(json_object_get(object, "bytes_up"));
    out->bytes_down = json_integer_value(json_object_get(object, "bytes_down"));
    const char *would = text_of(object, "would");
    out->would_deny = would != NULL && strcmp(would, "deny") == 0;
    const char *host = text_of(object, "host");
    json_int_t port = json_integer_value(json_object_get(object, "port"));
    out->has_target = host != NULL && port > 0 && port <= UINT16_MAX &&
                      target_parse_host(&out->target, str_of(host), (uint16_t)port, NULL) &&
                      front_of(text_of(object, "front"), &out->front);
    return outcome_of(text_of(object, "reason"), &out->outcome);
}

static bool is_record(const json_t *object)
{
    const char *schema = text_of(object, "schema");
    return schema != NULL && strcmp(schema, "srt.audit/1") == 0 && text_of(object, "kind") != NULL;
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
    while ((len = getline(&line, &cap, file)) > 0) {
        number++;
        json_t *object = len <= HISTORY_MAX_LINE ? json_loadb(line, (size_t)len, 0, NULL) : NULL;
        struct history_record record;
        if (object == NULL || !is_record(object)) {
            fprintf(stderr, "%s:%zu: not an audit record, passed over\n", path, number);
            passed++;
        } else if (record_of(object, &record)) {
            each(arg, &record);
        }
        json_decref(object);
    }
    if (ferror(file) != 0)
        return srt_err_set(err, "%s: %s", path, strerror(errno));
    if (skipped != NULL)
        *skipped = passed;
    return 0;
}
