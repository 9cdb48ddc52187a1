/*
 * One configured filter and what it says, for tests: its section as it would be written, then
 * requests. A header of static functions: each test is a program of its own.
 */
#ifndef UNIT_FILTERS_ASKED_H
#define UNIT_FILTERS_ASKED_H

#include "filters/filter_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_FIELDS = 8 };

struct asked {
    struct gateway_config *config;
    struct filter_set *set;
    void **locals;
    char reason[256];
    const char *edits; /* "set NAME=VALUE;remove NAME;", until the next call */
};

/* What a request looks like; what is not said is a GET of http://good.test/ at the epoch. */
struct asking {
    const char *host, *method, *path;
    const char *fields[MAX_FIELDS]; /* NAME, VALUE, ... */
    const char *sandbox, *client;
    int64_t body_len, now_ms;
    bool opaque;
};

static char asked_edits[512]; /* of the last call */

static int note_edit(const char *what, struct srt_filter_text name, struct srt_filter_text value)
{
    char line[128];
    snprintf(line, sizeof(line), "%s %.*s%s%.*s;", what, (int)name.len, name.p,
             value.p != NULL ? "=" : "", (int)value.len, value.p != NULL ? value.p : "");
    strcat(asked_edits, line);
    return 0;
}

static int note_set(struct srt_filter_edits *edits, struct srt_filter_text name,
                    struct srt_filter_text value)
{
    (void)edits;
    return note_edit("set", name, value);
}

static int note_remove(struct srt_filter_edits *edits, struct srt_filter_text name)
{
    (void)edits;
    return note_edit("remove", name, (struct srt_filter_text){NULL, 0});
}

static const struct srt_filter_host asked_host = {
    .size = sizeof(struct srt_filter_host), .field_set = note_set, .field_remove = note_remove};

/* `text` is a whole configuration, or a file when it begins with a slash. */
static inline struct gateway_config *asked_config(const char *text, struct faults *faults)
{
    return text[0] == '/' ? gateway_config_read(text, faults)
                          : gateway_config_read_text("gateway.ini", str_of(text), faults);
}

static inline void asked_open(struct asked *asked, const char *text)
{
    struct faults faults = {0};
    struct srt_err err;
    *asked = (struct asked){.config = asked_config(text, &faults)};
    if (asked->config != NULL)
        asked->set = filter_set_create(asked->config, &asked_host, &faults);
    faults_print(&faults, stderr);
    assert_int_equal(faults.count, 0);
    faults_free(&faults);
    asked->locals = filter_set_enter(asked->set, 0, &err);
    assert_non_null(asked->locals);
}

static inline void asked_close(struct asked *asked)
{
    filter_set_leave(asked->set, asked->locals);
    filter_set_free(asked->set);
    gateway_config_free(asked->config);
}

/* The faults of a configuration that is refused, one a line. */
static inline void assert_faulty(const char *text, const char *expected)
{
    struct faults faults = {0};
    char *said = NULL;
    size_t len;
    struct gateway_config *config = asked_config(text, &faults);
    assert_non_null(config);
    struct filter_set *set = filter_set_create(config, &asked_host, &faults);
    FILE *out = open_memstream(&said, &len);
    faults_print(&faults, out);
    fclose(out);
    assert_string_equal(said, expected);
    free(said);
    faults_free(&faults);
    filter_set_free(set);
    gateway_config_free(config);
}

static inline struct srt_filter_text asked_text(const char *text)
{
    return (struct srt_filter_text){text, text != NULL ? strlen(text) : 0};
}

static inline struct srt_filter_request asked_request(const struct asking *asking,
                                                      struct srt_filter_field *fields)
{
    struct srt_filter_request request = {
        .size = sizeof(request),
        .sandbox = asked_text(asking->sandbox),
        .client = asked_text(asking->client),
        .policy = asked_text("p"),
        .front = asked_text(asking->opaque ? "connect" : "http"),
        .host = asked_text(asking->host != NULL ? asking->host : "good.test"),
        .port = 80,
        .body_len = asking->opaque ? -1 : asking->body_len,
        .now_ms = asking->now_ms,
    };
    if (asking->opaque)
        return request;
    request.method = asked_text(asking->method != NULL ? asking->method : "GET");
    request.path = asked_text(asking->path != NULL ? asking->path : "/");
    for (size_t i = 0; i + 1 < MAX_FIELDS && asking->fields[i] != NULL; i += 2)
        fields[request.field_count++] = (struct srt_filter_field){
            asked_text(asking->fields[i]), asked_text(asking->fields[i + 1])};
    request.fields = fields;
    return request;
}

static inline bool passes(struct asked *asked, struct asking asking)
{
    struct srt_filter_field fields[MAX_FIELDS];
    const struct srt_filter_request request = asked_request(&asking, fields);
    const struct srt_filter_ticket ticket = {1, 0, 1};
    struct srt_filter_ruling ruling = {.size = sizeof(ruling)};
    asked->edits = asked_edits;
    asked_edits[0] = '\0';
    enum srt_filter_verdict verdict =
        asked->set->items[0].module->on_request(asked->locals[0], &request, &ticket, NULL, &ruling);
    snprintf(asked->reason, sizeof(asked->reason), "%s", ruling.reason);
    assert_true(verdict == SRT_FILTER_PASS || verdict == SRT_FILTER_DENY);
    assert_true((verdict == SRT_FILTER_PASS) == (ruling.reason[0] == '\0'));
    return verdict == SRT_FILTER_PASS;
}

static inline void ends(struct asked *asked, struct asking asking, uint64_t up, uint64_t down)
{
    struct srt_filter_field fields[MAX_FIELDS];
    const struct srt_filter_request request = asked_request(&asking, fields);
    asked->set->items[0].module->on_end(asked->locals[0], &request, up, down);
}

#define PASSES(asked, ...) assert_true(passes(asked, (struct asking){__VA_ARGS__}))
#define DENIES(asked, why, ...)                                    \
    do {                                                           \
        assert_false(passes(asked, (struct asking){__VA_ARGS__})); \
        assert_string_equal((asked)->reason, why);                 \
    } while (0)

#endif
