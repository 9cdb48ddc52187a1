/*
 * One RULE of INTERFACE 1.3 (docs/configuration.md "Rules"): text to a value. Sole user of libpsl.
 *
 * Ownership: a rule owns its strings; rule_free(). Thread: built on one thread, then constant.
 * Failure: faults at the given place; a public-suffix wildcard is an error, a private one a warning.
 */
#ifndef FILTERS_RULE_H
#define FILTERS_RULE_H

#include "config/fault.h"
#include "dns/addr.h"
#include "dns/name.h"

#include <stdint.h>

enum front { FRONT_CONNECT, FRONT_HTTP, FRONT_SOCKS5, FRONT_TRANSPARENT, FRONT_COUNT };

const char *front_word(enum front front);

enum rule_effect { RULE_ALLOW, RULE_DENY };
enum rule_host { RULE_NAME, RULE_BELOW /* *.x */, RULE_ANY /* * */, RULE_CIDR /* literals too */ };
enum rule_sni { RULE_SNI_INHERIT, RULE_SNI_MATCH, RULE_SNI_OFF };
enum rule_mode { RULE_ENFORCE, RULE_REPORT, RULE_ASK };

struct port_range {
    uint16_t first, last;
};

struct rule {
    enum rule_effect effect;
    enum rule_host host;
    struct name name; /* RULE_NAME: the name; RULE_BELOW: x */
    struct cidr cidr; /* RULE_CIDR */

    struct port_range *ports; /* count 0 = every port */
    size_t port_count;
    uint32_t fronts; /* bit set of 1u << front; 0 = every front */
    char **methods;  /* NULL-terminated, or NULL = any */
    char *path;      /* glob, or NULL = any */
    struct cidr *to; /* count 0 = not limited */
    size_t to_count;
    enum rule_sni sni;
    enum rule_mode mode;
    int64_t until; /* seconds since the epoch; 0 = for ever */

    char *id;     /* POLICY:LINE unless given */
    char *reason; /* or NULL */
    char *text;   /* as written, for explain and diffs */
    unsigned line;
};

/* Where a rule's text comes from decides two defaults. */
enum rule_dialect {
    RULE_INI,      /* no port in `allow`: 80 and 443 */
    RULE_SETTINGS, /* no port: every port, as in srt */
};

/* `id_prefix` makes the default id ("build" gives "build:12"). True when no error was added. */
bool rule_parse(struct rule *out, enum rule_effect effect, enum rule_dialect dialect,
                struct str text, const char *id_prefix, struct place place, struct faults *faults);
void rule_free(struct rule *rule);

/* `*` crosses `/`, `?` is one byte, everything else is itself. */
bool rule_path_matches(const char *glob, struct str path);

#endif
