#include "config/document.h"

#include "config/file.h"
#include "srt/cleanup.h"
#include "srt/grow.h"
#include "srt/must.h"
#include "srt/text.h"

#include <assert.h>

#define FAULT_IN_TEXT(document, line, column, ...)                                              \
    faults_add((document)->faults, FAULT_ERROR, (struct place){(document)->file, line, column}, \
               __VA_ARGS__)

static bool is_blank(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (strchr(" \t\r\n", text.p[i]) == NULL || text.p[i] == '\0')
            return false;
    return true;
}

size_t settings_values_of(struct str text)
{
    size_t commas = 0;
    for (size_t i = 0; i < text.len; i++)
        commas += text.p[i] == ',';
    return commas + 1;
}

static bool is_escaped(struct str text, size_t at)
{
    size_t backslashes = 0;
    while (backslashes < at && text.p[at - 1 - backslashes] == '\\')
        backslashes++;
    return backslashes % 2 == 1;
}

/* The parser says where a key that stands twice ends; what counts is where it begins. */
static unsigned column_of(const json_error_t *error, struct str text)
{
    unsigned column = error->column > 0 ? (unsigned)error->column : 1;
    size_t begin = error->position > 0 ? (size_t)error->position - 1 : 0;
    if (json_error_code(error) != json_error_duplicate_key || begin >= text.len)
        return column;
    while (begin-- > 0 && column > 1) {
        column -= ((unsigned char)text.p[begin] & 0xc0) != 0x80; /* not inside a character */
        if (text.p[begin] == '"' && !is_escaped(text, begin))
            break;
    }
    return column;
}

/* NULL and a fault where it cannot be. */
static json_t *parse(struct document *document, struct str text)
{
    if (is_blank(text)) {
        FAULT_IN_TEXT(document, 1, 1, "is empty; no settings at all are {}");
        return NULL;
    }
    if (file_has_bom(text)) {
        FAULT_IN_TEXT(document, 1, 1,
                      "starts with a byte order mark; save it as UTF-8 without one");
        return NULL;
    }
    if (text.len > SETTINGS_BYTES_MAX || settings_values_of(text) > SETTINGS_VALUES_MAX) {
        FAULT_IN_TEXT(document, 1, 1, "is larger than %d bytes or has more than %d values",
                      SETTINGS_BYTES_MAX, SETTINGS_VALUES_MAX);
        return NULL;
    }
    json_error_t error;
    json_t *json = json_loadb(text.p, text.len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (json == NULL) {
        bool nul = json_error_code(&error) == json_error_null_character;
        FAULT_IN_TEXT(
            document, error.line > 0 ? (unsigned)error.line : 1, column_of(&error, text), "%s%s",
            nul ? "" : "is not valid JSON: ", nul ? "a string holds a NUL character" : error.text);
        return NULL;
    }
    if (str_has(text, '\0')) { /* the parser swallows one behind a number */
        FAULT_IN_TEXT(document, 1, 1, "is not valid JSON: there is a NUL byte in it");
        json_decref(json);
        return NULL;
    }
    if (!json_place_scan(text, &document->spots)) {
        const struct json_spot *spot = &document->spots.items[document->spots.count - 1];
        FAULT_IN_TEXT(document, spot->line, spot->column, "is nested more than %d levels deep",
                      JSON_PLACE_DEPTH_MAX);
        json_decref(json);
        return NULL;
    }
    return json;
}

bool document_open(struct document *document, const char *file, struct str text,
                   struct faults *faults)
{
    *document = (struct document){.file = file, .faults = faults, .errors = faults->errors};
    document->json = parse(document, text);
    return document->json != NULL;
}

void document_open_value(struct document *document, const char *source, json_t *json,
                         struct faults *faults)
{
    *document = (struct document){
        .file = source, .json = json_incref(json), .faults = faults, .errors = faults->errors};
}

bool document_close(struct document *document)
{
    json_decref(document->json);
    free(document->spots.items);
    return document->faults->errors == document->errors;
}

/* ---- values ---- */

struct place node_place(const struct document *document, const struct node *node)
{
    if (document->spots.items == NULL)
        return (struct place){document->file, 0, (unsigned)node->spot};
    const struct json_spot *spot = &document->spots.items[node->spot];
    return (struct place){document->file, spot->line, spot->column};
}

static struct place key_place(const struct document *document, const struct node *node)
{
    if (document->spots.items == NULL)
        return node_place(document, node);
    const struct json_spot *spot = &document->spots.items[node->spot];
    return (struct place){document->file, spot->key_line, spot->key_column};
}

struct str node_source(const struct document *document, const struct node *node)
{
    return document->spots.items[node->spot].text;
}

static size_t first_spot(struct document *document, const struct node *node)
{
    return document->spots.items != NULL ? node->spot + 1 : ++document->met;
}

static size_t spot_after(struct document *document, size_t spot)
{
    return document->spots.items != NULL ? document->spots.items[spot].end : ++document->met;
}

static const char *type_word(const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    }
    return "something else";
}

bool node_is(struct document *document, const struct node *node, bool matches, const char *wanted)
{
    if (!matches)
        fault(document, node, "%s must be %s, not %s",
              node->path[0] != '\0' ? node->path : "the whole", wanted, type_word(node->json));
    return matches;
}

bool node_is_object(struct document *document, const struct node *node)
{
    return node_is(document, node, json_is_object(node->json), "an object");
}

bool node_is_string(struct document *document, const struct node *node)
{
    return node_is(document, node, json_is_string(node->json), "a string");
}

bool node_is_flag(struct document *document, const struct node *node)
{
    return node_is(document, node, json_is_boolean(node->json), "true or false");
}

bool node_is_full_string(struct document *document, const struct node *node)
{
    if (!node_is_string(document, node))
        return false;
    if (json_string_length(node->json) == 0)
        fault(document, node, "%s must not be empty", node->path);
    return json_string_length(node->json) > 0;
}

static char *member_path(const char *path, const char *key)
{
    return must_format("%s%s%s", path, path[0] != '\0' ? "." : "", key);
}

char *node_copy(const json_t *string)
{
    return must_copy(json_string_value(string));
}

void *member_field(void *object, size_t offset)
{
    return (char *)object + offset;
}

/* [I], without printf: there may be many. */
static void write_index(char *out, size_t index)
{
    out[0] = '[';
    const size_t digits = text_number(out + 1, index);
    out[1 + digits] = ']';
    out[2 + digits] = '\0';
}

void node_each(struct document *document, const struct node *node, node_each_fn *each, void *arg)
{
    size_t spot = first_spot(document, node);
    if (json_is_array(node->json)) {
        const size_t len = strlen(node->path);
        autofree char *path = must(malloc(len + sizeof("[18446744073709551615]")));
        memcpy(path, node->path, len);
        for (size_t i = 0; i < json_array_size(node->json); i++) {
            write_index(path + len, i);
            each(document, &(struct node){json_array_get(node->json, i), spot, path}, NULL, arg);
            spot = spot_after(document, spot);
        }
        return;
    }
    /* jansson iterates in the order of insertion, which is that of the text. */
    const char *key;
    json_t *value;
    json_object_foreach(node->json, key, value) {
        autofree char *path = member_path(node->path, key);
        each(document, &(struct node){value, spot, path}, key, arg);
        spot = spot_after(document, spot);
    }
}

static void unknown_key(struct document *document, const struct node *node, const char *key,
                        const struct member *members)
{
    const char *keys[64];
    size_t count = 0;
    for (; members[count].key != NULL; count++)
        keys[count] = members[count].key;
    assert(count < sizeof(keys) / sizeof(keys[0]));
    keys[count] = NULL;
    char hint[NEAREST_HINT_MAX];
    faults_add(document->faults, FAULT_ERROR, key_place(document, node), "unknown key %s%s",
               node->path, nearest_hint(hint, "", key, keys));
}

struct object {
    const struct member *members;
    void *out;
};

static void read_member(struct document *document, const struct node *node, const char *key,
                        void *arg)
{
    const struct object *object = arg;
    for (const struct member *member = object->members; member->key != NULL; member++) {
        if (strcmp(member->key, key) == 0) {
            member->read(document, member, node, object->out);
            return;
        }
    }
    unknown_key(document, node, key, object->members);
}

bool node_read(struct document *document, const struct node *node, const struct member *members,
               void *out)
{
    if (!node_is_object(document, node))
        return false;
    node_each(document, node, read_member, &(struct object){members, out});
    return true;
}

/* ---- members ---- */

void member_flag(struct document *document, const struct member *member, const struct node *node,
                 void *object)
{
    if (node_is_flag(document, node))
        *(bool *)member_field(object, member->offset) = json_is_true(node->json);
}

void member_string(struct document *document, const struct member *member, const struct node *node,
                   void *object)
{
    if (node_is_full_string(document, node))
        *(char **)member_field(object, member->offset) = node_copy(node->json);
}

struct settings_text node_text(struct document *document, const json_t *string,
                               const struct node *node)
{
    struct place place = node_place(document, node);
    return (struct settings_text){
        .text = node_copy(string),
        .setting = must_copy(node->path),
        .line = place.line,
        .column = place.column,
    };
}

struct settings_text *node_add(struct document *document, struct settings_list *list,
                               const json_t *string, const struct node *node)
{
    list->items = grow_one(list->items, list->count, sizeof(*list->items));
    list->items[list->count] = node_text(document, string, node);
    return &list->items[list->count++];
}

void node_list_string(struct document *document, const struct node *node, const char *key,
                      void *list)
{
    (void)key;
    if (node_is_full_string(document, node))
        node_add(document, list, node->json, node);
}

void node_list(struct document *document, const struct node *node, node_each_fn *each,
               struct settings_list *list)
{
    if (!node_is(document, node, json_is_array(node->json), "an array"))
        return;
    list->present = true;
    node_each(document, node, each, list);
}

void member_strings(struct document *document, const struct member *member, const struct node *node,
                    void *object)
{
    node_list(document, node, node_list_string, member_field(object, member->offset));
}

void member_note(struct document *document, const struct member *member, const struct node *node)
{
    faults_add(document->faults, FAULT_WARNING, node_place(document, node), "%s has no effect: %s",
               node->path, member->why);
}

void member_note_flag(struct document *document, const struct member *member,
                      const struct node *node, void *object)
{
    (void)object;
    if (node_is_flag(document, node) && json_is_true(node->json))
        member_note(document, member, node);
}

void member_note_string(struct document *document, const struct member *member,
                        const struct node *node, void *object)
{
    (void)object;
    if (node_is_full_string(document, node))
        member_note(document, member, node);
}

static void check_string(struct document *document, const struct node *node, const char *key,
                         void *arg)
{
    (void)key, (void)arg;
    node_is_string(document, node);
}

void member_note_strings(struct document *document, const struct member *member,
                         const struct node *node, void *object)
{
    (void)object;
    if (!node_is(document, node, json_is_array(node->json), "an array"))
        return;
    node_each(document, node, check_string, NULL);
    member_note(document, member, node);
}

void member_note_object(struct document *document, const struct member *member,
                        const struct node *node, void *object)
{
    (void)object;
    if (node_is_object(document, node))
        member_note(document, member, node);
}

void member_refuse(struct document *document, const struct member *member, const struct node *node,
                   void *object)
{
    (void)object;
    fault(document, node, "%s asks for what this version does not do: %s", node->path, member->why);
}

void member_refuse_flag(struct document *document, const struct member *member,
                        const struct node *node, void *object)
{
    if (node_is_flag(document, node) && json_is_true(node->json))
        member_refuse(document, member, node, object);
}
