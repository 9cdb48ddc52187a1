/* header-edit: sets and removes fields of requests that the gateway sees in clear. */
#include "filters/builtin.h"
#include "filters/field.h"
#include "srt/grow.h"
#include "srt/must.h"

#include <stdlib.h>

struct edit {
    struct str name, value; /* value.p == NULL: remove */
};

struct header_edit {
    const struct srt_filter_host *host;
    struct edit *edits;
    size_t count;
};

static void destroy(void *filter)
{
    struct header_edit *self = filter;
    free(self->edits);
    free(self);
}

static bool take_edit(struct header_edit *self, bool sets, const struct srt_filter_key *key,
                      struct srt_filter_fault *fault)
{
    struct edit edit;
    if (!field_split(str_of(key->value), &edit.name, &edit.value) || sets != (edit.value.p != NULL))
        return builtin_refuse(fault, key,
                              sets ? "'%s' is not NAME: VALUE" : "'%s' is not the name of a field",
                              key->value);
    if (!field_is_editable(edit.name))
        return builtin_refuse(fault, key,
                              "%.*s frames the message or belongs to one hop: no filter changes it",
                              STR_ARG(edit.name));
    if (!field_value_is_valid(edit.value))
        return builtin_refuse(fault, key, "a value has no control bytes");
    self->edits = grow_one(self->edits, self->count, sizeof(edit));
    self->edits[self->count++] = edit;
    return true;
}

static bool take_set(void *self, const struct srt_filter_key *key, struct srt_filter_fault *fault)
{
    return take_edit(self, true, key, fault);
}

static bool take_remove(void *self, const struct srt_filter_key *key,
                        struct srt_filter_fault *fault)
{
    return take_edit(self, false, key, fault);
}

static const struct builtin_key known_keys[] = {
    {"set", true, take_set, 0},
    {"set-secret", true, take_set, 0},
    {"remove", true, take_remove, 0},
    {NULL, false, NULL, 0},
};

static void *create(const struct srt_filter_host *host, const char *name,
                    const struct srt_filter_key *keys, size_t key_count,
                    struct srt_filter_fault *fault)
{
    (void)name;
    struct header_edit *self = must_calloc(1, sizeof(*self));
    self->host = host;
    const bool good = key_count > 0 ? builtin_take_keys(self, known_keys, keys, key_count, fault)
                                    : builtin_refuse(fault, NULL, "it has neither set nor remove");
    if (good)
        return self;
    destroy(self);
    return NULL;
}

static enum srt_filter_verdict on_request(void *local, const struct srt_filter_request *request,
                                          const struct srt_filter_ticket *ticket,
                                          struct srt_filter_edits *edits,
                                          struct srt_filter_ruling *ruling)
{
    const struct header_edit *self = local;
    (void)ticket;
    if (request->method.p == NULL)
        return SRT_FILTER_PASS; /* an opaque tunnel has no head to edit */
    for (size_t i = 0; i < self->count; i++) {
        const struct edit *edit = &self->edits[i];
        int done =
            edit->value.p != NULL
                ? self->host->field_set(edits, builtin_text(edit->name), builtin_text(edit->value))
                : self->host->field_remove(edits, builtin_text(edit->name));
        if (done != 0)
            return builtin_deny(ruling, "the field %.*s could not be changed", STR_ARG(edit->name));
    }
    return SRT_FILTER_PASS;
}

const struct srt_filter_module module_header_edit = {
    .abi = SRT_FILTER_ABI,
    .size = sizeof(struct srt_filter_module),
    .name = "header-edit",
    .create = create,
    .destroy = destroy,
    .on_request = on_request,
};
