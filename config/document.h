/*
 * A JSON document that is read by tables of its objects' members, with a place for every fault.
 *
 * Private to config/: settings.c has the tables. Ownership: what is read is copied, the document is
 * its reader's until document_close(). Thread: the one that reads. Failure: a fault at the value's
 * place; reading goes on, so that all of them are found.
 */
#ifndef CONFIG_DOCUMENT_H
#define CONFIG_DOCUMENT_H

#include "config/json_place.h"
#include "config/settings.h"

#include <jansson.h>
#include <stddef.h>

/* Walked in the order of its text, so that the spots of json_place.h go along. Where there is no
 * text, values are numbered as they are met, and the number is the column of a place without line.
 */
struct document {
    const char *file;
    json_t *json;
    struct json_spots spots; /* none where there is no text */
    size_t met;
    struct faults *faults;
    size_t errors; /* that were there before */
};

/* A value, where it stands and what it is called. */
struct node {
    json_t *json;
    size_t spot;
    const char *path; /* "network.allowedDomains[2]"; "" for the whole */
};

struct member {
    const char *key;
    /* Reads the value into the struct of the object that it is a member of. */
    void (*read)(struct document *document, const struct member *member, const struct node *node,
                 void *object);
    size_t offset;
    const char *why; /* of keys that are noted or refused */
};

/* False and a fault where the text is no document. To be closed in any case. */
bool document_open(struct document *document, const char *file, struct str text,
                   struct faults *faults);

/* Values that somebody else has read. */
void document_open_value(struct document *document, const char *source, json_t *json,
                         struct faults *faults);

/* Whether there was no fault since it was opened. */
bool document_close(struct document *document);

/* ---- values ---- */

#define fault(document, node, ...) \
    faults_add((document)->faults, FAULT_ERROR, node_place(document, node), __VA_ARGS__)

struct place node_place(const struct document *document, const struct node *node);
/* As it is written. The document has a text. */
struct str node_source(const struct document *document, const struct node *node);

/* A fault where it is something else. */
bool node_is(struct document *document, const struct node *node, bool matches, const char *wanted);
bool node_is_object(struct document *document, const struct node *node);
bool node_is_string(struct document *document, const struct node *node);
bool node_is_flag(struct document *document, const struct node *node);
bool node_is_full_string(struct document *document, const struct node *node);

char *node_copy(const json_t *string);
struct settings_text node_text(struct document *document, const json_t *string,
                               const struct node *node);

/* Calls `each` for every member of an object or element of an array (`key` is NULL then). */
typedef void node_each_fn(struct document *document, const struct node *node, const char *key,
                          void *arg);
void node_each(struct document *document, const struct node *node, node_each_fn *each, void *arg);

/* An object with these members (up to one without a key), all optional; what is absent stays as it
 * is in `out`. */
bool node_read(struct document *document, const struct node *node, const struct member *members,
               void *out);

/* An array; `each` adds its elements, usually with node_add(). */
void node_list(struct document *document, const struct node *node, node_each_fn *each,
               struct settings_list *list);
struct settings_text *node_add(struct document *document, struct settings_list *list,
                               const json_t *string, const struct node *node);
void node_list_string(struct document *document, const struct node *node, const char *key,
                      void *list);

/* ---- members, for the tables ---- */

void *member_field(void *object, size_t offset);

typedef void member_read(struct document *document, const struct member *member,
                         const struct node *node, void *object);
member_read member_flag;    /* bool */
member_read member_string;  /* char *, not empty */
member_read member_strings; /* struct settings_list */

/* Accepted: what it asks for is there anyway, or does not exist on this platform. */
member_read member_note_flag, member_note_string, member_note_strings, member_note_object;
void member_note(struct document *document, const struct member *member, const struct node *node);

/* Nothing that is asked for is left out in silence; a switch that is off asks for nothing. */
member_read member_refuse, member_refuse_flag;

#endif
