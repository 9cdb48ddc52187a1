/*
 * block-list: names from files of millions.
 *
 * A name costs its bytes and at most 17 more: a rule would cost 32. Every suffix of a
 * name is hashed in one pass from its end (filters/secret_hash.h).
 */
#include "config/value.h"
#include "dns/name.h"
#include "filters/builtin.h"
#include "filters/index.h"
#include "filters/secret_hash.h"
#include "srt/must.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

struct block_list {
    size_t files;
    bool below;  /* a listed name stands for everything below it too */
    char *names; /* each behind its length in a byte; the first byte is nobody's */
    size_t used, room;
    uint32_t *slots; /* where in `names`; 0 = free */
    size_t mask;
    uint64_t point;
};

static void destroy(void *filter)
{
    struct block_list *self = filter;
    free(self->names);
    free(self->slots);
    free(self);
}

/* ---- the table ---- */

static uint64_t hash_name(const struct block_list *self, struct str name)
{
    uint64_t hash = 0;
    for (size_t i = name.len; i > 0; i--)
        hash = secret_hash_add(self->point, hash, (unsigned char)name.p[i - 1]);
    return hash;
}

static struct str name_at(const struct block_list *self, uint32_t at)
{
    return (struct str){self->names + at + 1, (unsigned char)self->names[at]};
}

static size_t place_of(const struct block_list *self, uint64_t hash)
{
    return secret_hash_place(hash, self->mask);
}

/* The slot that has the name, or the free one where it belongs. */
static uint32_t *find_slot(const struct block_list *self, size_t place, struct str name)
{
    while (self->slots[place] != 0 && !str_eq(name_at(self, self->slots[place]), name))
        place = (place + 1) & self->mask;
    return &self->slots[place];
}

/* With millions of names what costs is waiting for memory: every slot that may have to be looked at
 * is asked for before the first one is, and then every name. */
static bool has_name(const struct block_list *self, struct str name)
{
    struct {
        size_t start, place;
    } suffixes[NAME_MAX_LEN / 2 + 1];
    size_t count = 0;
    uint64_t hash = 0;
    for (size_t i = name.len; i > 0; i--) {
        hash = secret_hash_add(self->point, hash, (unsigned char)name.p[i - 1]);
        const bool whole = i == 1, label = whole || name.p[i - 2] == '.';
        if (!whole && !(self->below && label))
            continue;
        assert(count < sizeof(suffixes) / sizeof(suffixes[0]));
        suffixes[count].start = i - 1;
        suffixes[count].place = place_of(self, hash);
        __builtin_prefetch(&self->slots[suffixes[count].place]);
        count++;
    }
    for (size_t i = 0; i < count; i++)
        __builtin_prefetch(&self->names[self->slots[suffixes[i].place]]);
    for (size_t i = 0; i < count; i++)
        if (*find_slot(self, suffixes[i].place, str_from(name, suffixes[i].start)) != 0)
            return true;
    return false;
}

static void resize(struct block_list *self, size_t room)
{
    self->names = must(realloc(self->names, room));
    self->room = room;
}

/* False: there is no room for more in 32 bits. */
static bool add_name(struct block_list *self, struct str name)
{
    uint32_t *slot = find_slot(self, place_of(self, hash_name(self, name)), name);
    if (*slot != 0)
        return true;
    if (self->used + name.len + 1 > UINT32_MAX)
        return false;
    /* Only A-labels are longer than what stands in the file. */
    if (self->used + name.len + 1 > self->room)
        resize(self, self->room + self->room / 4 + NAME_MAX_LEN);
    self->names[self->used] = (char)name.len;
    memcpy(self->names + self->used + 1, name.p, name.len);
    *slot = (uint32_t)self->used;
    self->used += name.len + 1;
    return true;
}

/* ---- the files ---- */

/* Without its comment. */
static struct str take_line(struct str *rest)
{
    struct str line = str_until(str_take_line(rest), '#');
    if (line.len > 0 && line.p[line.len - 1] == '\r')
        line.len--;
    return str_trim(line);
}

static size_t count_lines(struct str text)
{
    size_t lines = 0;
    while (text.len > 0)
        lines += take_line(&text).len > 0;
    return lines;
}

/* The first says why; of the others there is room for their numbers. */
static void refuse_line(const struct srt_filter_key *key, unsigned number, struct str line,
                        enum name_fault wrong, size_t before, struct srt_filter_fault *fault)
{
    const size_t len = strlen(fault->text);
    if (before == 0)
        builtin_refuse(fault, key, "%s:%u: '%.*s' is not a name: %s", key->value, number,
                       (int)(line.len < 80 ? line.len : 80), line.p, name_fault_text(wrong));
    else if (len + sizeof("; nor is what stands on line 4294967295, ...") < sizeof(fault->text))
        snprintf(fault->text + len, sizeof(fault->text) - len, "%s%u",
                 before == 1 ? "; nor is what stands on line " : ", ", number);
    else if (fault->text[len - 1] != '.')
        snprintf(fault->text + len, sizeof(fault->text) - len, ", ...");
}

static bool read_names(struct block_list *self, const struct srt_filter_key *key, struct str text,
                       struct srt_filter_fault *fault)
{
    size_t names = 0, faulty = 0;
    for (unsigned number = 1; text.len > 0; number++) {
        const struct str line = take_line(&text);
        struct name name;
        if (line.len == 0)
            continue;
        names++;
        const enum name_fault wrong = name_parse_idna(&name, line);
        if (wrong != NAME_OK)
            refuse_line(key, number, line, wrong, faulty++, fault);
        else if (faulty == 0 && !add_name(self, name_str(&name)))
            return builtin_refuse(fault, key, "%s:%u: these are too many names", key->value,
                                  number);
    }
    /* A list that is being written anew is not to be taken for none. */
    if (names == 0)
        return builtin_refuse(fault, key, "%s has no name in it", key->value);
    return faulty == 0;
}

static bool read_files(struct block_list *self, const struct srt_filter_host *host,
                       const struct srt_filter_key *keys, size_t key_count,
                       struct srt_filter_fault *fault)
{
    struct srt_filter_text *texts = must_calloc(key_count, sizeof(*texts));
    bool good = true;
    size_t lines = 0, slots = 16, bytes = self->used;
    for (size_t i = 0; good && i < key_count; i++) {
        if (strcmp(keys[i].key, "file") != 0)
            continue;
        good = host->read_file(host, &keys[i], &texts[i], fault) == 0;
        lines += good ? count_lines(builtin_str(texts[i])) : 0;
        bytes += texts[i].len + 1;
    }
    while (slots < 2 * lines)
        slots *= 2;
    self->mask = slots - 1;
    self->slots = index_memory(slots * sizeof(*self->slots));
    memset(self->slots, 0, slots * sizeof(*self->slots));
    self->names = index_memory(bytes);
    self->room = bytes;
    for (size_t i = 0; good && i < key_count; i++)
        good = texts[i].p == NULL || read_names(self, &keys[i], builtin_str(texts[i]), fault);
    resize(self, self->used);
    free(texts);
    return good;
}

/* ---- the section ---- */

/* It is read when all are known, for a table of the right size. */
static bool take_file(void *files, const struct srt_filter_key *key, struct srt_filter_fault *fault)
{
    (void)key, (void)fault;
    ++*(size_t *)files;
    return true;
}

static bool take_subdomains(void *below, const struct srt_filter_key *key,
                            struct srt_filter_fault *fault)
{
    return value_bool(str_of(key->value), below) ||
           builtin_refuse(fault, key, "'%s' is neither yes nor no", key->value);
}

#define AT(field) offsetof(struct block_list, field)

static const struct builtin_key known_keys[] = {
    {"file", true, take_file, AT(files)},
    {"subdomains", false, take_subdomains, AT(below)},
    {NULL, false, NULL, 0},
};

static void *create(const struct srt_filter_host *host, const char *name,
                    const struct srt_filter_key *keys, size_t key_count,
                    struct srt_filter_fault *fault)
{
    (void)name;
    struct block_list *self = must_calloc(1, sizeof(*self));
    self->below = true;
    self->used = 1;
    self->point = secret_hash_point();
    if (builtin_take_keys(self, known_keys, keys, key_count, fault) &&
        (self->files > 0 || builtin_refuse(fault, NULL, "it has no file")) &&
        read_files(self, host, keys, key_count, fault))
        return self;
    destroy(self);
    return NULL;
}

/* ---- the request ---- */

/* A literal is no name: addresses are the rules' (deny-addresses, deny-file). It finds nothing. */
static enum srt_filter_verdict on_request(void *local, const struct srt_filter_request *request,
                                          const struct srt_filter_ticket *ticket,
                                          struct srt_filter_edits *edits,
                                          struct srt_filter_ruling *ruling)
{
    const struct block_list *self = local;
    (void)ticket, (void)edits;
    if (!has_name(self, builtin_str(request->host)))
        return SRT_FILTER_PASS;
    return builtin_deny(ruling, "its name is on a block list");
}

const struct srt_filter_module module_block_list = {
    .abi = SRT_FILTER_ABI,
    .size = sizeof(struct srt_filter_module),
    .name = "block-list",
    .create = create,
    .destroy = destroy,
    .on_request = on_request,
};
