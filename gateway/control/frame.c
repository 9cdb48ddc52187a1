#include "control/frame.h"

#include "config/settings.h"
#include "record/json.h"
#include "srt/must.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>

enum {
    HEADER = 4,
    /* A command is a path, and commas in it are counted too. */
    VALUES_MAX = SETTINGS_VALUES_MAX + 8192,
};

/* ---- frames ---- */

void frames_add(struct frames *frames, struct str bytes)
{
    if (frames->cap - frames->len < bytes.len) {
        size_t cap = frames->cap != 0 ? frames->cap : 4096;
        while (cap - frames->len < bytes.len)
            cap *= 2;
        frames->data = must(realloc(frames->data, cap));
        frames->cap = cap;
    }
    if (bytes.len > 0)
        memcpy(frames->data + frames->len, bytes.p, bytes.len);
    frames->len += bytes.len;
}

static size_t body_len(const struct frames *frames)
{
    const unsigned char *p = (const unsigned char *)frames->data;
    return (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
}

enum frame_result frames_peek(const struct frames *frames, struct str *json)
{
    if (frames->len < HEADER)
        return FRAME_MORE;
    size_t len = body_len(frames);
    if (len == 0 || len > ATTACH_MAX_FRAME)
        return FRAME_BAD;
    if (frames->len - HEADER < len)
        return FRAME_MORE;
    *json = (struct str){frames->data + HEADER, len};
    return FRAME_WHOLE;
}

void frames_drop(struct frames *frames)
{
    size_t size = HEADER + body_len(frames);
    assert(frames->len >= size);
    frames->len -= size;
    memmove(frames->data, frames->data + size, frames->len);
    if (frames->len == 0)
        frames_free(frames);
}

void frames_free(struct frames *frames)
{
    free(frames->data);
    *frames = (struct frames){0};
}

void frame_write(struct json *out, struct str json)
{
    assert(json.len > 0 && json.len <= ATTACH_MAX_FRAME);
    const char header[HEADER] = {(char)(json.len >> 24), (char)(json.len >> 16),
                                 (char)(json.len >> 8), (char)json.len};
    json_append(out, (struct str){header, sizeof(header)});
    json_append(out, json);
}

/* ---- messages ---- */

static const char *const listener_words[] = {
    [LISTENER_PROXY] = "proxy",
    [LISTENER_TRANSPARENT] = "transparent",
    [LISTENER_DNS_UDP] = "dns-udp",
    [LISTENER_DNS_TCP] = "dns-tcp",
};

const char *listener_word(enum listener_kind kind)
{
    return listener_words[kind];
}

bool listener_kind_read(enum listener_kind *out, const char *word)
{
    for (size_t i = 0; i < sizeof(listener_words) / sizeof(listener_words[0]); i++) {
        *out = (enum listener_kind)i;
        if (word != NULL && strcmp(word, listener_words[i]) == 0)
            return true;
    }
    return false;
}

static int only_members(json_t *object, const char *const *known, struct srt_err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], key) != 0)
            i++;
        if (known[i] == NULL)
            return srt_err_set(err, "the message has an unknown member");
    }
    return 0;
}

/* A member that is a string, or null where it may be (`*out` NULL). */
static int read_text(json_t *object, const char *key, bool nullable, char **out,
                     struct srt_err *err)
{
    json_t *value = json_object_get(object, key);
    if (nullable && (value == NULL || json_is_null(value)))
        return 0;
    if (!json_is_string(value))
        return srt_err_set(err, "\"%s\" must be a text", key);
    *out = must_copy(json_string_value(value)); /* jansson has refused NUL */
    return 0;
}

/* It stands in records, on terminals and in file names: printable ASCII, no space. */
static int check_name(const char *name, struct srt_err *err)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < len; i++)
        if (name[i] <= ' ' || name[i] > '~')
            return srt_err_set(err,
                               "\"name\" has a space or another character than printable ASCII");
    if (len == 0 || len > ATTACH_NAME_MAX)
        return srt_err_set(err, "\"name\" must have 1 to %d characters", ATTACH_NAME_MAX);
    return 0;
}

static int read_network(struct attach_message *out, json_t *object, bool nullable,
                        struct srt_err *err)
{
    json_t *network = json_object_get(object, "network");
    if (json_is_null(network) && nullable)
        return 0;
    if (!json_is_object(network))
        return srt_err_set(err, "\"network\" must be an object%s", nullable ? " or null" : "");
    out->network = json_incref(network);
    return 0;
}

static int read_listeners(struct attach_message *out, json_t *object, struct srt_err *err)
{
    json_t *list = json_object_get(object, "listeners");
    size_t count = json_array_size(list); /* 0 when it is no array */
    if (count == 0 || count > ATTACH_MAX_LISTENERS)
        return srt_err_set(err, "\"listeners\" must be a list of 1 to %d", ATTACH_MAX_LISTENERS);
    for (size_t i = 0; i < count; i++)
        if (!listener_kind_read(&out->listeners[out->listener_count++],
                                json_string_value(json_array_get(list, i))))
            return srt_err_set(err, "\"listeners\" has an unknown kind");
    return 0;
}

static int read_ask(struct attach_message *out, json_t *object, struct srt_err *err)
{
    json_t *ask = json_object_get(object, "ask");
    if (ask != NULL && !json_is_boolean(ask))
        return srt_err_set(err, "\"ask\" must be true or false");
    out->asks = json_is_true(ask);
    return 0;
}

/* A member that is one of two words. */
static int read_either(json_t *object, const char *key, const char *yes, const char *no, bool *out,
                       struct srt_err *err)
{
    const char *word = json_string_value(json_object_get(object, key));
    if (word == NULL || (strcmp(word, yes) != 0 && strcmp(word, no) != 0))
        return srt_err_set(err, "\"%s\" must be \"%s\" or \"%s\"", key, yes, no);
    *out = strcmp(word, yes) == 0;
    return 0;
}

static int read_answer(struct attach_message *out, json_t *object, struct srt_err *err)
{
    static const char *const known[] = {"type", "id", "verdict", "for", NULL};
    out->type = ATTACH_ANSWER;
    if (only_members(object, known, err) != 0 ||
        read_text(object, "id", false, &out->id, err) != 0 ||
        read_either(object, "verdict", "approve", "refuse", &out->approves, err) != 0)
        return -1;
    return read_either(object, "for", "sandbox", "once", &out->keeps, err);
}

static int read_attach(struct attach_message *out, json_t *object, struct srt_err *err)
{
    static const char *const known[] = {"type",      "version", "name", "policy", "command",
                                        "listeners", "network", "ask",  NULL};
    json_t *version = json_object_get(object, "version");
    out->type = ATTACH_ATTACH;
    if (!json_is_integer(version))
        return srt_err_set(err, "\"version\" must be a number");
    if (json_integer_value(version) != ATTACH_VERSION)
        return srt_err_set(err,
                           "the launcher speaks version %lld of the attach protocol, this gateway "
                           "speaks version %d",
                           (long long)json_integer_value(version), ATTACH_VERSION);
    if (only_members(object, known, err) != 0 ||
        read_text(object, "name", false, &out->name, err) != 0 || check_name(out->name, err) != 0 ||
        read_text(object, "policy", true, &out->policy, err) != 0 ||
        read_text(object, "command", true, &out->command, err) != 0 ||
        read_listeners(out, object, err) != 0 || read_ask(out, object, err) != 0)
        return -1;
    if (out->command != NULL && strlen(out->command) > ATTACH_COMMAND_MAX)
        out->command[ATTACH_COMMAND_MAX] = '\0';
    return read_network(out, object, true, err);
}

static int read_update(struct attach_message *out, json_t *object, struct srt_err *err)
{
    static const char *const known[] = {"type", "serial", "network", NULL};
    json_t *serial = json_object_get(object, "serial");
    out->type = ATTACH_UPDATE;
    if (!json_is_integer(serial))
        return srt_err_set(err, "\"serial\" must be a number");
    out->serial = json_integer_value(serial);
    out->answerable = true;
    if (only_members(object, known, err) != 0)
        return -1;
    return read_network(out, object, false, err);
}

static int read_object(struct attach_message *out, json_t *object, struct srt_err *err)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    if (type == NULL)
        return srt_err_set(err, "the message has no \"type\"");
    if (strcmp(type, "attach") == 0)
        return read_attach(out, object, err);
    if (strcmp(type, "update") == 0)
        return read_update(out, object, err);
    if (strcmp(type, "answer") == 0)
        return read_answer(out, object, err);
    return srt_err_set(err, "the message has an unknown \"type\"");
}

int attach_message_read(struct attach_message *out, struct str json, struct srt_err *err)
{
    json_error_t where;
    *out = (struct attach_message){0};
    if (settings_values_of(json) > VALUES_MAX)
        return srt_err_set(err, "the message has more than %d values", VALUES_MAX);
    json_t *object = json_loadb(json.p, json.len, JSON_REJECT_DUPLICATES, &where);
    if (object == NULL)
        return srt_err_set(err, "the message is not valid JSON (column %d)", where.column);
    int result = json_is_object(object) ? read_object(out, object, err)
                                        : srt_err_set(err, "the message is not an object");
    json_decref(object);
    if (result != 0)
        attach_message_free(out);
    return result;
}

void attach_message_free(struct attach_message *message)
{
    free(message->name);
    free(message->policy);
    free(message->command);
    json_decref(message->network);
    free(message->id);
    *message = (struct attach_message){
        .type = message->type, .serial = message->serial, .answerable = message->answerable};
}
