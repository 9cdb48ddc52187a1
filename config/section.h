/*
 * The kinds of sections, and where the items of each are in a gateway_config.
 *
 * One table instead of the same code for each kind: what is the same for listeners, clients,
 * policies, filters and upstreams reaches their structs through it. Private to config/.
 */
#ifndef CONFIG_SECTION_H
#define CONFIG_SECTION_H

#include "config/gateway_config.h"

struct section {
    const char *word;
    size_t size; /* of one item; 0: there is one such section, and it is the gateway_config */
    size_t items, count;
};

enum { SECTIONS = 7 };
extern const struct section sections[SECTIONS];

/* NULL: there is none with this word. */
const struct section *section_find(const char *word);

size_t section_count(const struct gateway_config *config, const struct section *section);
void *section_item(const struct gateway_config *config, const struct section *section,
                   size_t index);

/* What an entry is read into: the item opened last, or the configuration itself. */
void *section_last(struct gateway_config *config, const struct section *section);

/* A new item, all zero; moves the others. */
void *section_add(struct gateway_config *config, const struct section *section);

void *section_field(const void *item, size_t offset);
const char **section_name(const void *item);
struct place *section_place(const void *item);

#endif
