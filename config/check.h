/*
 * What a configuration must be beyond what each of its lines says: sections that are complete,
 * names that exist, addresses that can be bound.
 *
 * Private to config/: gateway_config.c reads and calls this. Failure: faults at their places.
 */
#ifndef CONFIG_CHECK_H
#define CONFIG_CHECK_H

#include "config/option.h"
#include "config/section.h"

/* A configuration that is being read. */
struct reader {
    struct gateway_config *config;
    struct references references;
    struct faults *faults;
    /* Where each key of the section being read was set first; line 0: not yet. */
    struct place *seen;
    bool admin_is_none;
};

#define fault_at(reader, place, ...) faults_add((reader)->faults, FAULT_ERROR, place, __VA_ARGS__)

/* Where a key of the section being read was set; NULL: nowhere. In gateway_config.c, whose table
 * knows the keys. */
const struct place *reader_place_of(const struct reader *reader, const char *section,
                                    const char *key);

/* When the last key of a named section was read. */
void check_section(struct reader *reader, const struct section *section, void *item);

/* When all sections were. */
void check_whole(struct reader *reader);

#endif
