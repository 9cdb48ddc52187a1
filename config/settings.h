/*
 * ~/.srt-settings.json, the format of `srt` (../shared by both programs: the launcher reads all of
 * it, the gateway reads the `network` object that a launcher sends).
 *
 * Ownership: one struct owns everything below it; strings are NUL-terminated and contain no NUL.
 * Thread: any, one at a time. Failure: faults with FILE:LINE:COLUMN; never a fallback. A key that
 * asks for what this version does not do is a fault that names it; a key of another platform is a
 * warning. See docs/settings.md for every key.
 */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include "config/fault.h"

#include <stdint.h>

/* Of a file, and of a network object. */
enum { SETTINGS_BYTES_MAX = 8 << 20, SETTINGS_VALUES_MAX = 200000 };
/* No fewer than a JSON text has. They take up to a hundred times the memory of their text, which
 * may come from a hostile launcher, so it is asked before they are read. */
size_t settings_values_of(struct str text);

struct settings_text {
    char *text;
    char *setting; /* its path in the file, such as "filesystem.denyRead[2]" */
    bool literal;  /* {path, literal: true}: no glob characters */
    unsigned line, column;
};

struct settings_list {
    struct settings_text *items;
    size_t count;
    bool present; /* false: the key was absent, which is not the same as an empty list */
};

struct settings_reason {
    char *pattern, *reason;
};

/* parentProxy: the proxy that a private gateway goes through. Each may be absent (`text` NULL). */
struct settings_parent {
    struct settings_text http, https; /* URLs, for plain HTTP and for tunnels; https falls back */
    struct settings_text no_proxy;    /* what is dialled all the same, as in NO_PROXY */
};

struct settings_network {
    bool present;
    struct settings_list allowed_domains, denied_domains, denied_resolved_addresses;
    struct settings_list allow_unix_sockets;
    struct settings_reason *reasons; /* deniedDomainReasons */
    size_t reason_count;
    bool strict_allowlist, allow_all_unix_sockets;
    bool asks; /* no key: somebody answers for what no list names (the attach message says so) */
    struct settings_parent parent;
};

struct settings_filesystem {
    bool disabled;
    struct settings_list deny_read, allow_read, allow_write, deny_write;
    bool allow_git_config;
};

/* ignoreViolations: command pattern ("*" = all) to texts. */
struct settings_ignore {
    char *command;
    struct settings_list texts;
};

struct settings_launch {
    char *gateway, *policy, *egress, *name, *violations; /* NULL = absent */
    struct settings_list env_deny, env_allow;            /* NAME or PREFIX* */
    struct settings_list protect;
};

struct settings {
    char *file; /* as named */
    struct settings_network network;
    struct settings_filesystem filesystem;
    struct settings_launch launch;
    struct settings_list credential_files_deny; /* credentials.files with mode deny */
    struct settings_list credential_env_deny;   /* credentials.envVars with mode deny */
    struct settings_ignore *ignore_violations;
    size_t ignore_violation_count;
    struct settings_list git_safe_directories;
    bool enable_weaker_nested_sandbox, allow_nested_user_namespaces;
    char *bwrap_path;
    char *network_json; /* the `network` object as it is written, for the attach message; NULL if
                           absent */
};

/* Reads a file that must exist, be regular or a pipe, UTF-8, an object without duplicate keys. */
struct settings *settings_read(const char *path, struct faults *faults);
struct settings *settings_read_text(const char *file_name, struct str text, struct faults *faults);
/* What `srt` does without a file: no network, no writes, reads unrestricted. */
struct settings *settings_default(void);
void settings_free(struct settings *settings);
/* The entries of the network lists, one list after the other; NULL behind the last. */
const struct settings_text *settings_network_entry(const struct settings_network *network,
                                                   size_t index);
/* Where an entry of the `network` lists stands, by its path; the file as a whole where there is no
 * such entry. */
struct place settings_place(const struct settings *settings, struct str setting);

/* Only a `network` object, as it comes over the attach connection, where it was parsed and bounded.
 * It has no text to point into: a place has no line, its column is the value's number. */
struct json_t;
bool settings_network_read(struct settings_network *out, const char *source, struct json_t *json,
                           struct faults *faults);
void settings_network_free(struct settings_network *network);

#endif
