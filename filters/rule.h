/*
 * One RULE of INTERFACE 1.3 (docs/configuration.md "Rules"): a value (rule.c), and how
 * it is read from text (rule_parse.c).
 *
 * A policy may hold a million of these, and every sandbox brings some, so what is rare lives in
 * `extra`, the default id is made when it is asked for, a name that was written canonically is a
 * view into the text, and an address is read from there when it is asked for.
 *
 * Ownership: text and origin are borrowed from the policy and outlive the rule; the rule owns
 * `extra`: rule_free(). Thread: built on one thread, then
 * constant. Failure: faults at the given place; a public-suffix wildcard is an error, a private one
 * a warning.
 */
#ifndef FILTERS_RULE_H
#define FILTERS_RULE_H

#include "config/fault.h"
#include "config/upstream.h"
#include "dns/addr.h"
#include "dns/name.h"

#include <stdint.h>

enum front { FRONT_CONNECT, FRONT_HTTP, FRONT_SOCKS5, FRONT_TRANSPARENT, FRONT_COUNT };

const char *front_word(enum front front);

enum rule_effect { RULE_ALLOW, RULE_DENY };
enum rule_host { RULE_NAME, RULE_BELOW /* *.x */, RULE_ANY /* * */, RULE_CIDR /* literals too */ };
enum rule_sni { RULE_SNI_INHERIT, RULE_SNI_MATCH, RULE_SNI_OFF };
enum rule_mode { RULE_ENFORCE, RULE_REPORT, RULE_ASK };
enum rule_ports { RULE_PORTS_ALL, RULE_PORTS_WEB /* 80, 443 */, RULE_PORTS_RANGE, RULE_PORTS_LIST };

/* What a rule is compared with. Entries of deny-addresses, allow-addresses and
 * deniedResolvedAddresses are rules too, so that one index serves them all and denials can name
 * them. */
enum rule_scope {
    RULE_REQUESTS,  /* allow =, deny = */
    RULE_ADDRESSES, /* allow-addresses, deny-addresses: every address that would be dialled */
    RULE_RESOLVED,  /* deniedResolvedAddresses: addresses that a name resolves to */
};

struct port_range {
    uint16_t first, last;
};

/* Where rules stand. A default id is PREFIX NUMBER SUFFIX: "build:" 12 "",
 * "settings:allowedDomains[" 3 "]". */
struct rule_origin {
    char *prefix;
    const char *suffix;
    char *file;
    bool inherited; /* the policy that wrote them is another one (filters/lint speaks there) */
};

/* What most rules do not have. */
struct rule_extra {
    const struct rule_origin *origin;
    char *name;               /* in canonical form, where the text does not spell it so */
    struct port_range *ports; /* RULE_PORTS_LIST */
    size_t port_count;
    uint32_t fronts; /* bit set of 1u << front; 0 = every front */
    char **methods;  /* NULL = any */
    size_t method_count;
    char *path;      /* glob, or NULL = any */
    struct cidr *to; /* NULL = not limited */
    size_t to_count;
    int64_t until; /* seconds since the epoch; 0 = for ever */
    char *via;     /* an upstream's name, or "direct"; NULL = the policy's */
    const struct config_upstream *upstream; /* that `via` names; NULL = direct. Set by the policy */
    char *id;                               /* or NULL */
    char *reason;                           /* or NULL */
};

enum { RULE_NAME_AT_BITS = 12 };

struct rule {
    const char *text; /* as written, for explain and diffs */
    union {
        const struct rule_origin *origin; /* see rule_origin() */
        struct rule_extra *extra;         /* see rule_extra() */
    } rest;
    struct port_range range; /* RULE_PORTS_RANGE */
    uint32_t number;         /* of its line in the file, or of its entry in a list of settings */
    uint32_t next;           /* filters/index: the next rule for this host */
    unsigned name_at : RULE_NAME_AT_BITS; /* in the text: see rule_name() */
    unsigned name_len : 8;
    enum rule_effect effect : 1;
    enum rule_host host : 2;
    enum rule_ports ports : 2;
    enum rule_scope scope : 2;
    enum rule_sni sni : 2;
    enum rule_mode mode : 2;
    bool has_extra : 1;
};

_Static_assert(sizeof(struct rule) == 32, "half a cache line");

/* What the rule has of it; NULL = nothing. */
static inline struct rule_extra *rule_extra(const struct rule *rule)
{
    return rule->has_extra ? rule->rest.extra : NULL;
}

static inline const struct rule_origin *rule_origin(const struct rule *rule)
{
    const struct rule_extra *extra = rule_extra(rule);
    return extra != NULL ? extra->origin : rule->rest.origin;
}

/* The canonical name of a RULE_NAME, or the x of a RULE_BELOW; of a RULE_CIDR what is written
 * there. Not NUL-terminated. */
static inline struct str rule_name(const struct rule *rule)
{
    const struct rule_extra *extra = rule_extra(rule);
    const char *converted = extra != NULL ? extra->name : NULL;
    const char *text = converted != NULL ? converted : rule->text + rule->name_at;
    return (struct str){text, rule->name_len};
}

/* Of a RULE_CIDR. */
struct cidr rule_cidr(const struct rule *rule);

/* Where a rule's text comes from decides what may be written and what a missing port means. */
enum rule_dialect {
    RULE_INI,      /* no port in `allow`: 80 and 443 */
    RULE_SETTINGS, /* `srt`: host[:port] only; no port: every port; `*` only to deny */
};

/* `text` is NUL-terminated. True when no error was added; otherwise there is nothing to free. */
bool rule_parse(struct rule *out, enum rule_effect effect, enum rule_dialect dialect,
                const char *text, const struct rule_origin *origin, uint32_t number,
                struct place place, struct faults *faults);

/* An entry of an address list: ADDR or ADDR/LEN, see value_range(). */
bool rule_parse_address(struct rule *out, enum rule_effect effect, enum rule_scope scope,
                        const char *text, const struct rule_origin *origin, uint32_t number,
                        struct place place, struct faults *faults);

/* Sets the reason of a rule that has none (deniedDomainReasons). */
void rule_set_reason(struct rule *rule, const char *reason);
void rule_free(struct rule *rule);

enum { RULE_ID_MAX = 320 };

/* The id= word, or POLICY:LINE; returns `out`. */
const char *rule_id(const struct rule *rule, char out[RULE_ID_MAX]);
/* What the agent reads when the rule denies; or NULL. */
const char *rule_reason(const struct rule *rule);
/* The key it was written under: "allow", "deny", "deny-addresses", "allow-addresses". */
const char *rule_key(const struct rule *rule);

/* A rule names exactly one address, rather than a range. */
bool rule_is_literal(const struct rule *rule);
/* Conditions of its own. A rule past its `until` matches nothing. */
bool rule_has_port(const struct rule *rule, uint16_t port);
/* Every port of `rule` is one of `of`. */
bool rule_ports_within(const struct rule *rule, const struct rule *of);
bool rule_has_front(const struct rule *rule, enum front front);
bool rule_has_method(const struct rule *rule, struct str method);
bool rule_expired(const struct rule *rule, int64_t now);
/* It can only be judged where method or path are visible. */
bool rule_needs_clear(const struct rule *rule);
/* Within its to=; true when it has none. */
bool rule_has_to(const struct rule *rule);
bool rule_to_contains(const struct rule *rule, const struct addr *addr);

#endif
