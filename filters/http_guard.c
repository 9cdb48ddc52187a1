/* http-guard: what a request that the gateway sees in clear may look like. */
#include "config/value.h"
#include "filters/builtin.h"
#include "filters/field.h"
#include "filters/path.h"
#include "srt/grow.h"
#include "srt/must.h"

#include <stdint.h>
#include <stdlib.h>

struct words {
    struct str *items;
    size_t count;
};

/* A field and the glob of its value; `glob` absent: the field at all. */
struct field_rule {
    struct str name, glob;
    const struct srt_filter_key *key;
};

struct field_rules {
    struct field_rule *items;
    size_t count;
};

struct http_guard {
    struct words methods, paths, denied_paths, types;
    struct field_rules needed, denied;
    bool has_max_body, passes_opaque;
    uint64_t max_body;
};

static void destroy(void *filter)
{
    struct http_guard *self = filter;
    free(self->methods.items);
    free(self->paths.items);
    free(self->denied_paths.items);
    free(self->types.items);
    free(self->needed.items);
    free(self->denied.items);
    free(self);
}

/* ---- the section ---- */

static void add_word(struct words *words, struct str word)
{
    words->items = grow_one(words->items, words->count, sizeof(word));
    words->items[words->count++] = word;
}

static bool take_methods(void *methods, const struct srt_filter_key *key,
                         struct srt_filter_fault *fault)
{
    struct str list = str_of(key->value), word;
    while (builtin_next_word(&list, &word)) {
        if (!field_name_is_valid(word))
            return builtin_refuse(fault, key, "'%.*s' is not a method", STR_ARG(word));
        add_word(methods, word);
    }
    return true;
}

static bool take_path(void *paths, const struct srt_filter_key *key, struct srt_filter_fault *fault)
{
    const struct str glob = str_of(key->value);
    if (glob.len == 0 || (glob.p[0] != '/' && glob.p[0] != '*') || glob.len > PATH_GLOB_MAX)
        return builtin_refuse(fault, key, "'%s' is not a path of at most %d bytes", key->value,
                              PATH_GLOB_MAX);
    if (path_is_ambiguous(glob))
        return builtin_refuse(fault, key, "servers may read '%s' in two ways", key->value);
    add_word(paths, glob);
    return true;
}

/* TYPE/SUBTYPE, or TYPE and a star. */
static bool take_types(void *types, const struct srt_filter_key *key,
                       struct srt_filter_fault *fault)
{
    struct str list = str_of(key->value), word;
    while (builtin_next_word(&list, &word)) {
        struct str subtype = word;
        if (!field_name_is_valid(str_take_until(&subtype, '/')) || !field_name_is_valid(subtype))
            return builtin_refuse(fault, key, "'%.*s' is not a media type", STR_ARG(word));
        add_word(types, word);
    }
    return true;
}

static bool take_field(void *field, const struct srt_filter_key *key,
                       struct srt_filter_fault *fault)
{
    struct field_rules *rules = field;
    struct field_rule rule = {.key = key};
    if (!field_split(str_of(key->value), &rule.name, &rule.glob))
        return builtin_refuse(fault, key, "'%s' is neither NAME nor NAME: GLOB", key->value);
    if (rule.glob.len > PATH_GLOB_MAX)
        return builtin_refuse(fault, key, "a glob has at most %d bytes", PATH_GLOB_MAX);
    rules->items = grow_one(rules->items, rules->count, sizeof(rule));
    rules->items[rules->count++] = rule;
    return true;
}

static bool take_max_body(void *field, const struct srt_filter_key *key,
                          struct srt_filter_fault *fault)
{
    struct http_guard *self = field;
    if (!value_size(str_of(key->value), &self->max_body))
        return builtin_refuse(fault, key, "it is a SIZE, such as 64k");
    self->has_max_body = true;
    return true;
}

static bool take_opaque(void *passes, const struct srt_filter_key *key,
                        struct srt_filter_fault *fault)
{
    return builtin_take_either(passes, "deny", "pass", key, fault);
}

#define AT(field) offsetof(struct http_guard, field)

static const struct builtin_key known_keys[] = {
    {"method", true, take_methods, AT(methods)},
    {"path", true, take_path, AT(paths)},
    {"deny-path", true, take_path, AT(denied_paths)},
    {"header", true, take_field, AT(needed)},
    {"deny-header", true, take_field, AT(denied)},
    {"content-type", true, take_types, AT(types)},
    {"max-body", false, take_max_body, 0},
    {"opaque", false, take_opaque, AT(passes_opaque)},
    {NULL, false, NULL, 0},
};

static void *create(const struct srt_filter_host *host, const char *name,
                    const struct srt_filter_key *keys, size_t key_count,
                    struct srt_filter_fault *fault)
{
    (void)host, (void)name;
    struct http_guard *self = must_calloc(1, sizeof(*self));
    const bool good = key_count > 0 ? builtin_take_keys(self, known_keys, keys, key_count, fault)
                                    : builtin_refuse(fault, NULL, "it asks for nothing");
    if (good)
        return self;
    destroy(self);
    return NULL;
}

/* ---- the request ---- */

/* `*` is any bytes, `?` is one; ASCII case does not count. One star is open at a time, so the work
 * is bounded by the product of the two lengths. */
static bool glob_matches(struct str glob, struct str text)
{
    size_t g = 0, t = 0, star = SIZE_MAX, resume = 0;
    while (t < text.len) {
        if (g < glob.len && glob.p[g] == '*') {
            star = g++;
            resume = t;
        } else if (g < glob.len &&
                   (glob.p[g] == '?' || str_lower_byte((unsigned char)glob.p[g]) ==
                                            str_lower_byte((unsigned char)text.p[t]))) {
            g++, t++;
        } else if (star != SIZE_MAX) {
            g = star + 1;
            t = ++resume;
        } else {
            return false;
        }
    }
    while (g < glob.len && glob.p[g] == '*')
        g++;
    return g == glob.len;
}

static bool fits_any_path(const struct words *globs, struct str path,
                          bool (*fits)(struct str glob, struct str path))
{
    for (size_t i = 0; i < globs->count; i++)
        if (fits(globs->items[i], path))
            return true;
    return false;
}

/* Whether some field of the name has a value that fits, or (`all`) whether none of them does not.
 */
static bool has_field(const struct srt_filter_request *request, const struct field_rule *rule,
                      bool all)
{
    size_t fit = 0, others = 0;
    for (size_t i = 0; i < request->field_count; i++) {
        const struct srt_filter_field *field = &request->fields[i];
        if (!str_ieq(builtin_str(field->name), rule->name))
            continue;
        if (rule->glob.p == NULL || glob_matches(rule->glob, builtin_str(field->value)))
            fit++;
        else
            others++;
    }
    return fit > 0 && (!all || others == 0);
}

static bool type_fits(struct str type, struct str wanted)
{
    if (wanted.p[wanted.len - 1] == '*')
        return type.len >= wanted.len && str_istarts(type, (struct str){wanted.p, wanted.len - 1});
    return str_ieq(type, wanted);
}

/* Every Content-Type there is, without its parameters; none is not on the list. */
static bool has_type(const struct http_guard *self, const struct srt_filter_request *request)
{
    size_t seen = 0;
    for (size_t i = 0; i < request->field_count; i++) {
        if (!str_ieq(builtin_str(request->fields[i].name), STR("Content-Type")))
            continue;
        const struct str type = str_trim(str_until(builtin_str(request->fields[i].value), ';'));
        bool fits = false;
        for (size_t k = 0; k < self->types.count; k++)
            fits |= type_fits(type, self->types.items[k]);
        if (!fits)
            return false;
        seen++;
    }
    return seen > 0;
}

static enum srt_filter_verdict judge_path(const struct http_guard *self, struct str path,
                                          struct srt_filter_ruling *ruling)
{
    if (self->paths.count == 0 && self->denied_paths.count == 0)
        return SRT_FILTER_PASS;
    path = str_until(path, '?');
    if (path_is_ambiguous(path))
        return builtin_deny(ruling, "servers may read the path in two ways");
    if (fits_any_path(&self->denied_paths, path, path_may_match) ||
        (self->paths.count > 0 && !fits_any_path(&self->paths, path, path_matches)))
        return builtin_deny(ruling, "the path is not allowed");
    return SRT_FILTER_PASS;
}

static enum srt_filter_verdict judge_fields(const struct http_guard *self,
                                            const struct srt_filter_request *request,
                                            struct srt_filter_ruling *ruling)
{
    for (size_t i = 0; i < self->needed.count; i++)
        if (!has_field(request, &self->needed.items[i], true))
            return builtin_deny(ruling, "the header needs %s", self->needed.items[i].key->value);
    for (size_t i = 0; i < self->denied.count; i++)
        if (has_field(request, &self->denied.items[i], false))
            return builtin_deny(ruling, "the header may not have %s",
                                self->denied.items[i].key->value);
    return SRT_FILTER_PASS;
}

static enum srt_filter_verdict judge_body(const struct http_guard *self,
                                          const struct srt_filter_request *request,
                                          struct srt_filter_ruling *ruling)
{
    if (self->types.count > 0 && request->body_len != 0 && !has_type(self, request))
        return builtin_deny(ruling, "a body of this content type is not allowed");
    if (!self->has_max_body)
        return SRT_FILTER_PASS;
    if (request->body_len < 0)
        return builtin_deny(ruling, "the length of the body has to be said before");
    if ((uint64_t)request->body_len > self->max_body)
        return builtin_deny(ruling, "the body has %lld bytes, %llu are allowed",
                            (long long)request->body_len, (unsigned long long)self->max_body);
    return SRT_FILTER_PASS;
}

static enum srt_filter_verdict judge_method(const struct http_guard *self, struct str method,
                                            struct srt_filter_ruling *ruling)
{
    for (size_t i = 0; i < self->methods.count; i++)
        if (str_eq(method, self->methods.items[i]))
            return SRT_FILTER_PASS;
    if (self->methods.count == 0)
        return SRT_FILTER_PASS;
    return builtin_deny(ruling, "the method is not allowed");
}

static enum srt_filter_verdict on_request(void *local, const struct srt_filter_request *request,
                                          const struct srt_filter_ticket *ticket,
                                          struct srt_filter_edits *edits,
                                          struct srt_filter_ruling *ruling)
{
    const struct http_guard *self = local;
    (void)ticket, (void)edits;
    if (request->method.p == NULL)
        return self->passes_opaque
                   ? SRT_FILTER_PASS
                   : builtin_deny(ruling, "only requests that can be seen in clear are allowed");
    enum srt_filter_verdict verdict = judge_method(self, builtin_str(request->method), ruling);
    if (verdict == SRT_FILTER_PASS)
        verdict = judge_path(self, builtin_str(request->path), ruling);
    if (verdict == SRT_FILTER_PASS)
        verdict = judge_fields(self, request, ruling);
    return verdict == SRT_FILTER_PASS ? judge_body(self, request, ruling) : verdict;
}

const struct srt_filter_module module_http_guard = {
    .abi = SRT_FILTER_ABI,
    .size = sizeof(struct srt_filter_module),
    .name = "http-guard",
    .create = create,
    .destroy = destroy,
    .on_request = on_request,
};
