/*
 * JSON out: a writer into one growing buffer. For input the owners use jansson.
 *
 * Bytes that are not valid UTF-8 are written as \u00XX of the byte, control bytes and U+2028/9 are
 * escaped, so one object is always one line. Ownership: the caller's buffer; json_free() releases
 * it, json_reset() keeps the storage for the next object. Thread: one at a time. Failure: running
 * out of memory ends the process.
 */
#ifndef RECORD_JSON_H
#define RECORD_JSON_H

#include "srt/str.h"

#include <stdint.h>

struct json {
    char *data;
    size_t len, cap;
    bool comma; /* the next element needs one before it */
};

void json_reset(struct json *json);
void json_free(struct json *json);
/* For so many bytes more. */
void json_reserve(struct json *json, size_t more);

/* `key` NULL: an element of an array. Keys are literals of ours and written as they are; with those
 * of a record their lengths are known when this is compiled. */
void json_object_open(struct json *json, const char *key);
void json_object_close(struct json *json);
void json_array_open(struct json *json, const char *key);
void json_array_close(struct json *json);
void json_put_text(struct json *json, struct str key, struct str value);
void json_put_number(struct json *json, struct str key, int64_t value);
static inline void json_text(struct json *json, const char *key, struct str value)
{
    json_put_text(json, str_of(key), value); /* p == NULL: null */
}
static inline void json_number(struct json *json, const char *key, int64_t value)
{
    json_put_number(json, str_of(key), value);
}
void json_bool(struct json *json, const char *key, bool value);
void json_none(struct json *json, const char *key); /* null; jansson owns the name json_null */
void json_raw(struct json *json, const char *key, struct str value); /* already JSON */
/* As records show times: RFC 3339, UTC. Milliseconds since the epoch. */
void json_time(struct json *json, const char *key, int64_t ms);
/* A member whose key is no literal of ours: it is written as a text is. */
void json_entry(struct json *json, struct str key, struct str value);
void json_newline(struct json *json);
/* Bytes as they are, with no comma before or after: what stands around objects. */
void json_append(struct json *json, struct str bytes);

#endif
