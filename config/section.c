#include "config/section.h"

#include "srt/grow.h"

#include <stddef.h>

#define GATEWAY(field) offsetof(struct gateway_config, field)
#define EVERY(name, items) name, sizeof(*((struct gateway_config *)NULL)->items), GATEWAY(items)

const struct section sections[SECTIONS] = {
    {"gateway", 0, 0, 0},
    {"dns", 0, 0, 0},
    {EVERY("listen", listens), GATEWAY(listen_count)},
    {EVERY("client", clients), GATEWAY(client_count)},
    {EVERY("policy", policies), GATEWAY(policy_count)},
    {EVERY("filter", filters), GATEWAY(filter_count)},
    {EVERY("upstream", upstreams), GATEWAY(upstream_count)},
};

/* Every named section's struct begins with its name and its place. */
struct head {
    const char *name;
    struct place place;
};

#define BEGINS_AS_HEAD(type)                                                         \
    _Static_assert(offsetof(struct type, name) == offsetof(struct head, name) &&     \
                       offsetof(struct type, place) == offsetof(struct head, place), \
                   "")
BEGINS_AS_HEAD(config_listen);
BEGINS_AS_HEAD(config_client);
BEGINS_AS_HEAD(config_policy);
BEGINS_AS_HEAD(config_filter);
BEGINS_AS_HEAD(config_upstream);

const struct section *section_find(const char *word)
{
    for (size_t i = 0; i < SECTIONS; i++)
        if (strcmp(sections[i].word, word) == 0)
            return &sections[i];
    return NULL;
}

void *section_field(const void *item, size_t offset)
{
    union {
        const char *in;
        char *out;
    } pointer = {.in = item};
    return pointer.out + offset;
}

static size_t *counter(const struct gateway_config *config, const struct section *section)
{
    return section_field(config, section->count);
}

size_t section_count(const struct gateway_config *config, const struct section *section)
{
    return *counter(config, section);
}

/* The array is a pointer to another type in each section, hence the copies. */
void *section_item(const struct gateway_config *config, const struct section *section, size_t index)
{
    void *items;
    memcpy(&items, section_field(config, section->items), sizeof(items));
    return section_field(items, index * section->size);
}

void *section_last(struct gateway_config *config, const struct section *section)
{
    return section->size == 0 ? config
                              : section_item(config, section, section_count(config, section) - 1);
}

void *section_add(struct gateway_config *config, const struct section *section)
{
    void *items;
    size_t *count = counter(config, section);
    memcpy(&items, section_field(config, section->items), sizeof(items));
    items = grow_one(items, *count, section->size);
    memcpy(section_field(config, section->items), &items, sizeof(items));
    return memset(section_item(config, section, (*count)++), 0, section->size);
}

const char **section_name(const void *item)
{
    return section_field(item, offsetof(struct head, name));
}

struct place *section_place(const void *item)
{
    return section_field(item, offsetof(struct head, place));
}
