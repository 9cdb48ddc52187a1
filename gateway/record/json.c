#include "record/json.h"

#include "config/file.h"
#include "srt/must.h"
#include "srt/plain.h"
#include "srt/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void grow(struct json *json, size_t more)
{
    size_t cap = json->cap != 0 ? json->cap : 256;
    while (cap - json->len < more)
        cap *= 2;
    json->data = must(realloc(json->data, cap));
    json->cap = cap;
}

static inline void reserve(struct json *json, size_t more)
{
    if (json->cap - json->len < more)
        grow(json, more);
}

void json_reserve(struct json *json, size_t more)
{
    reserve(json, more);
}

static inline void put(struct json *json, const char *bytes, size_t len)
{
    if (len == 0)
        return;
    reserve(json, len);
    memcpy(json->data + json->len, bytes, len);
    json->len += len;
}

static inline void put_byte(struct json *json, char byte)
{
    reserve(json, 1);
    json->data[json->len++] = byte;
}

static void put_escape(struct json *json, unsigned code)
{
    static const char hex[] = "0123456789abcdef";
    const char escape[6] = {
        '\\', 'u', hex[code >> 12 & 15], hex[code >> 8 & 15], hex[code >> 4 & 15], hex[code & 15]};
    put(json, escape, sizeof(escape));
}

/* The length of the well-formed UTF-8 sequence at `s` (RFC 3629 4: no overlong forms, no
 * surrogates, nothing above U+10FFFF), or 0. `s` is not empty. */
static size_t utf8_sequence(struct str s, unsigned *code)
{
    const unsigned char *bytes = (const unsigned char *)s.p;
    const size_t len = file_utf8_len(s);
    *code = len <= 1 ? bytes[0] : bytes[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++)
        *code = *code << 6 | (bytes[i] & 0x3f);
    return len;
}

/* C0, DEL and C1 move a terminal's cursor; U+2028 and U+2029 end a line for JavaScript. */
static bool needs_escape(unsigned code)
{
    return code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x2028 || code == 0x2029;
}

/* `value` is what is left of a text from the first byte on that does not stand for itself. */
static void put_escaped(struct json *json, struct str value)
{
    while (value.len > 0) {
        unsigned code = 0;
        size_t len = utf8_sequence(value, &code);
        if (len == 0) {
            put_escape(json, (unsigned char)value.p[0]);
            len = 1;
        } else if (needs_escape(code)) {
            put_escape(json, code);
        } else {
            if (code == '"' || code == '\\')
                put_byte(json, '\\');
            put(json, value.p, len);
        }
        value = str_from(value, len);

        reserve(json, value.len);
        len = plain_copy(json->data + json->len, value.p, value.len);
        json->len += len;
        value = str_from(value, len);
    }
}

/* Keys are short: two copies that overlap are cheaper than a call. */
static inline char *copy_key(char *out, struct str key)
{
    if (key.len >= 4 && key.len < 8) {
        memcpy(out, key.p, 4);
        memcpy(out + key.len - 4, key.p + key.len - 4, 4);
    } else if (key.len >= 8 && key.len <= 16) {
        memcpy(out, key.p, 8);
        memcpy(out + key.len - 8, key.p + key.len - 8, 8);
    } else {
        memcpy(out, key.p, key.len);
    }
    return out + key.len;
}

enum { AROUND_KEY = 4 }; /* a comma, quotes, a colon */

/* There is room for it. */
static inline char *key_at(struct json *json, char *out, struct str key)
{
    if (json->comma)
        *out++ = ',';
    json->comma = true;
    if (key.p == NULL)
        return out;
    *out++ = '"';
    out = copy_key(out, key);
    *out++ = '"';
    *out++ = ':';
    return out;
}

static void put_key(struct json *json, struct str key)
{
    reserve(json, key.len + AROUND_KEY);
    json->len = (size_t)(key_at(json, json->data + json->len, key) - json->data);
}

void json_reset(struct json *json)
{
    json->len = 0;
    json->comma = false;
}

void json_free(struct json *json)
{
    free(json->data);
    *json = (struct json){0};
}

void json_object_open(struct json *json, const char *key)
{
    put_key(json, str_of(key));
    put_byte(json, '{');
    json->comma = false;
}

void json_object_close(struct json *json)
{
    put_byte(json, '}');
    json->comma = true;
}

void json_array_open(struct json *json, const char *key)
{
    put_key(json, str_of(key));
    put_byte(json, '[');
    json->comma = false;
}

void json_array_close(struct json *json)
{
    put_byte(json, ']');
    json->comma = true;
}

void json_put_text(struct json *json, struct str key, struct str value)
{
    reserve(json, key.len + AROUND_KEY + value.len + 1); /* and its first quote */
    char *out = key_at(json, json->data + json->len, key);
    if (value.p == NULL) {
        json->len = (size_t)(out - json->data);
        put(json, "null", 4);
        return;
    }
    *out++ = '"';
    const size_t plain = plain_copy(out, value.p, value.len);
    json->len = (size_t)(out + plain - json->data);
    if (plain < value.len)
        put_escaped(json, str_from(value, plain));
    put_byte(json, '"');
}

void json_put_number(struct json *json, struct str key, int64_t value)
{
    put_key(json, key);
    if (value < 0)
        put_byte(json, '-');
    reserve(json, TEXT_NUMBER_MAX);
    json->len +=
        text_number(json->data + json->len, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void json_bool(struct json *json, const char *key, bool value)
{
    put_key(json, str_of(key));
    if (value)
        put(json, "true", 4);
    else
        put(json, "false", 5);
}

void json_none(struct json *json, const char *key)
{
    json_text(json, key, STR_NULL);
}

void json_raw(struct json *json, const char *key, struct str value)
{
    put_key(json, str_of(key));
    put(json, value.p, value.len);
}

void json_time(struct json *json, const char *key, int64_t ms)
{
    char text[64];
    const time_t seconds = (time_t)(ms / 1000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    const size_t len = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + len, sizeof(text) - len, ".%03dZ", (int)(ms % 1000));
    json_text(json, key, str_of(text));
}

void json_entry(struct json *json, struct str key, struct str value)
{
    json_put_text(json, STR_NULL, key);
    put_byte(json, ':');
    json->comma = false;
    json_put_text(json, STR_NULL, value);
}

void json_newline(struct json *json)
{
    put_byte(json, '\n');
    json->comma = false;
}

void json_append(struct json *json, struct str bytes)
{
    put(json, bytes.p, bytes.len);
    json->comma = false;
}
