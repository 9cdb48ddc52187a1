/*
 * One row of the gateway's option table, and the kinds of values a row can have.
 *
 * A kind reads text into a field and prints the field as that text. Private to config/: the rows
 * are in gateway_config.c. Thread: the one that reads. Failure: a fault at the value's place.
 */
#ifndef CONFIG_OPTION_H
#define CONFIG_OPTION_H

#include "config/gateway_config.h"

/* A name that must be a section's, checked when every section is known. */
struct reference {
    const char *section; /* "policy", "filter" or "upstream" */
    const char *name;
    const char *key; /* that named it */
    struct place place;
};

struct references {
    struct reference *items;
    size_t count;
};

/* A value that is being read, and what its kind may need for that. */
struct option_input {
    struct ini_doc *doc;
    struct references *references;
    struct faults *faults;
    struct place place;
    const char *key;
    const char *text; /* not empty */
};

struct option {
    const char *section, *key;
    const char *type; /* for people; for words also what is accepted, separated by " | " */
    const struct option_kind *kind;
    size_t offset;        /* of the field in the section's struct */
    const char *names;    /* the section that a name is of */
    const char *fallback; /* the default as text, or NULL */
    bool list;            /* may be repeated, and continued by indented lines */
    uint64_t min, max;    /* of numbers; max 0 = no bound */
    const char *help;     /* one line */
};

struct option_kind {
    void (*read)(const struct option *option, void *field, struct option_input *input);
    /* Prints `key = value` lines; nothing when the field is unset. NULL: another row prints it. */
    void (*print)(const struct option *option, const void *field, FILE *out);
};

/* Values by themselves (option.c). Fields: uint64_t unless said otherwise. */
extern const struct option_kind kind_count, kind_workers /* uint32_t */,
    kind_uid /* config_client */;
extern const struct option_kind kind_duration_ms, kind_duration_s, kind_size;
extern const struct option_kind kind_rate, kind_byte_rate; /* config_rate */
extern const struct option_kind kind_bool, kind_word_bool; /* bool; the first word is false */
extern const struct option_kind kind_word;                 /* an enum in the order of the words */
extern const struct option_kind kind_text;                 /* const char * */
extern const struct option_kind kind_log;                  /* const char * */
extern const struct option_kind kind_path_or_none;         /* const char *, NULL = none */
extern const struct option_kind kind_name;                 /* const char *, of a section */
extern const struct option_kind kind_names;                /* config_list, of sections */
extern const struct option_kind kind_rules;                /* config_list */
extern const struct option_kind kind_mode;                 /* config_listen */
extern const struct option_kind kind_group;                /* const char * */
extern const struct option_kind kind_module;               /* const char * */
extern const struct option_kind kind_include;              /* none: ini.c has done it */

/* Addresses (option_address.c). */
extern const struct option_kind kind_listen_address;   /* config_address */
extern const struct option_kind kind_control_address;  /* config_address */
extern const struct option_kind kind_admin_addresses;  /* gateway_config */
extern const struct option_kind kind_ranges;           /* config_list */
extern const struct option_kind kind_bind;             /* config_bind */
extern const struct option_kind kind_source;           /* config_client */
extern const struct option_kind kind_upstream_address; /* config_upstream */
extern const struct option_kind kind_servers;          /* const char * */

/* What lies in a file of its own, and secrets (option_file.c). */
extern const struct option_kind kind_rule_file;                     /* config_list */
extern const struct option_kind kind_token_sha256, kind_token_file; /* config_client */
extern const struct option_kind kind_secret_file;      /* const char *; must not be empty */
extern const struct option_kind kind_credentials_file; /* config_upstream */
extern const struct option_kind kind_ca_file;          /* config_upstream */

#endif
