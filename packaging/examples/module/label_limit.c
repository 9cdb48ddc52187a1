/*
 * label-limit: names with few and short labels only, so that nobody carries data away in a host
 * name.
 *
 *     cc -shared -fPIC -o label-limit.so label_limit.c $(pkg-config --cflags srt-filter)
 *
 *     [filter short-names]
 *     module = /usr/local/lib/srt/label-limit.so
 *     labels = 5
 *     bytes  = 30
 */
#include <srt/filter.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct label_limit {
    unsigned long labels, bytes;
};

static int read_number(const char *text, unsigned long *out)
{
    char *end;
    *out = strtoul(text, &end, 10);
    return text[0] >= '1' && text[0] <= '9' && *end == '\0' && *out <= 253 ? 0 : -1;
}

static void *create(const struct srt_filter_host *host, const char *name,
                    const struct srt_filter_key *keys, size_t key_count,
                    struct srt_filter_fault *fault)
{
    (void)host, (void)name;
    struct label_limit *self = calloc(1, sizeof(*self));
    if (self == NULL)
        return NULL;
    self->labels = 127;
    self->bytes = 63;
    for (size_t i = 0; i < key_count; i++) {
        unsigned long *limit = strcmp(keys[i].key, "labels") == 0  ? &self->labels
                               : strcmp(keys[i].key, "bytes") == 0 ? &self->bytes
                                                                   : NULL;
        if (limit != NULL && read_number(keys[i].value, limit) == 0)
            continue;
        fault->key = &keys[i];
        snprintf(fault->text, sizeof(fault->text),
                 limit != NULL ? "it is a number of 1 to 253" : "there are labels and bytes");
        free(self);
        return NULL;
    }
    return self;
}

static enum srt_filter_verdict on_request(void *local, const struct srt_filter_request *request,
                                          const struct srt_filter_ticket *ticket,
                                          struct srt_filter_edits *edits,
                                          struct srt_filter_ruling *ruling)
{
    const struct label_limit *self = local;
    unsigned long labels = 1, len = 0;
    (void)ticket, (void)edits;
    for (size_t i = 0; i < request->host.len; i++) {
        len = request->host.p[i] == '.' ? 0 : len + 1;
        labels += request->host.p[i] == '.';
        if (labels <= self->labels && len <= self->bytes)
            continue;
        snprintf(ruling->reason, sizeof(ruling->reason),
                 "a name has at most %lu labels of at most %lu bytes", self->labels, self->bytes);
        return SRT_FILTER_DENY;
    }
    return SRT_FILTER_PASS;
}

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct srt_filter_module srt_filter_module = {
    .abi = SRT_FILTER_ABI,
    .size = sizeof(struct srt_filter_module),
    .name = "label-limit",
    .create = create,
    .destroy = free,
    .on_request = on_request,
};
