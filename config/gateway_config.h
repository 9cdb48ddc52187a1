/*
 * The gateway's configuration as the operator wrote it: every key checked for its kind, nothing
 * compiled yet. Rules stay text with a place; filters/policy.h compiles them.
 *
 * Ownership: one struct owns everything below it. Thread: built on the control thread, then
 * constant. Failure: gateway_config_read() reports every fault and returns NULL when one was an
 * error.
 */
#ifndef CONFIG_GATEWAY_CONFIG_H
#define CONFIG_GATEWAY_CONFIG_H

#include "config/fault.h"
#include "config/ini.h"
#include "config/upstream.h"
#include "dns/addr.h"

#include <net/if.h>
#include <stdint.h>

/* A text and where it stands; what `allow =` lines and list files are kept as. */
struct config_text {
    struct str text;
    struct place place;
};

struct config_list {
    struct config_text *items;
    size_t count;
};

enum config_audit_format { AUDIT_JSON, AUDIT_SQUID };
enum config_reload_tunnels { RELOAD_RECHECK, RELOAD_KEEP };
enum config_protocol { PROTOCOL_AUTO, PROTOCOL_HTTP, PROTOCOL_SOCKS5 };
enum config_auth { AUTH_NONE, AUTH_TOKEN };
enum config_default { DEFAULT_DENY, DEFAULT_ASK, DEFAULT_ALLOW };

/* A listening address: `path` for Unix sockets, otherwise `addr` and `port` (0 = kernel's choice).
 */
struct config_address {
    const char *path;
    struct addr addr;
    uint16_t port;
};

enum { CONFIG_ADDRESS_TEXT_MAX = 128 };
/* As it would be written: `unix:/path`, `1.2.3.4:80`, `[::1]:80` or `none`; returns `out`. */
const char *config_address_format(char out[CONFIG_ADDRESS_TEXT_MAX],
                                  const struct config_address *address);

struct config_listen {
    const char *name;
    struct place place;
    struct config_address address;
    uint32_t mode;     /* of a Unix socket */
    const char *group; /* or NULL */
    enum config_protocol protocol;
    const char *policy; /* or NULL */
    enum config_auth auth;
    bool proxy_protocol;
};

struct config_rate {
    uint64_t count; /* 0 = no limit */
    uint64_t per_ms;
};

struct config_client {
    const char *name;
    struct place place;
    const char *policy;
    bool has_token, has_uid, has_source;
    uint8_t token_sha256[32]; /* of token-sha256, or computed from token-file */
    uint32_t uid;
    struct cidr source;
    uint64_t max_tunnels; /* 0 = no limit */
    struct config_rate connect_rate;
    struct config_rate bytes_up;
};

/* Where connections to targets come from. An address binds its family, and then the other family is
 * not used unless it has an address as well. All zero: as the routes say. */
struct config_bind {
    struct addr v4, v6; /* family 0: not given */
    char interface[IF_NAMESIZE];
};

struct config_policy {
    const char *name;
    struct place place;
    struct config_list inherit; /* policy names */
    bool report;
    enum config_default fallback;
    bool operators_only;            /* of what it asks: a launcher may not answer */
    struct config_list allow, deny; /* file order within each; -file lists in place of their key */
    bool private_addresses;         /* true = allow */
    struct config_list deny_addresses, allow_addresses;
    bool sni_off;
    struct config_bind bind;
    const char *upstream;       /* or NULL: targets are dialled directly */
    struct config_list filters; /* names of [filter] sections */
    const char *docs;           /* or NULL */
};

struct config_filter_key {
    const char *key, *value;
    struct place place;
};

struct config_filter {
    const char *name;
    struct place place;
    const char *module;
    uint64_t timeout_ms;
    bool fail_open; /* no verdict is a yes */
    struct config_filter_key *keys;
    size_t key_count;
};

struct gateway_config {
    uint32_t workers;      /* 0 = auto */
    const char *audit_log; /* path, "unix:/path", "stderr" or "none" */
    enum config_audit_format audit_format;
    bool audit_required;
    struct config_address control; /* path NULL and port 0 = none */
    struct config_address *admin;
    size_t admin_count;
    const char *admin_token_file;
    uint64_t header_timeout_ms, connect_timeout_ms, idle_timeout_ms, tunnel_lifetime_ms,
        drain_timeout_ms;
    uint64_t max_connections, max_sandbox_connections, max_header_bytes;
    uint64_t ask_timeout_ms, ask_limit, ask_limit_each;
    enum config_reload_tunnels reload_tunnels;

    const char *dns_servers;    /* "system" or a list */
    const char *dns_hosts_file; /* NULL = none */
    uint64_t dns_timeout_ms, dns_tries, dns_cache_entries, dns_min_ttl_s, dns_max_ttl_s,
        dns_negative_ttl_s;

    struct config_listen *listens;
    size_t listen_count;
    struct config_client *clients;
    size_t client_count;
    struct config_policy *policies;
    size_t policy_count;
    struct config_filter *filters;
    size_t filter_count;
    struct config_upstream *upstreams;
    size_t upstream_count;

    uint8_t sha256[32]; /* over every file that took part */
    struct ini_doc doc; /* owns every string and knows every file */
};

struct gateway_config *gateway_config_read(const char *path, struct faults *faults);
struct gateway_config *gateway_config_read_text(const char *file_name, struct str text,
                                                struct faults *faults);

/* The same, but what could be read comes back even when there were errors (`faults->errors` tells),
 * so that the caller can look for faults in the rules too. Such a configuration is never put in
 * force. Names in it may lead nowhere, and `inherit` may be a circle. */
struct gateway_config *gateway_config_read_partly(const char *path, struct faults *faults);
struct gateway_config *gateway_config_read_text_partly(const char *file_name, struct str text,
                                                       struct faults *faults);

/* A file that a [filter] key names, relative to the file of `place`: its bytes, owned by the
 * configuration, which it becomes a part of: watched, and in `sha256`. p == NULL and a fault when
 * it cannot be read. Before the configuration is put in force only. */
struct str gateway_config_read_side_file(struct gateway_config *config, struct place place,
                                         const char *path, struct faults *faults);

/* What a gateway without a file has: every default, no listener, no policy, no control socket. */
struct gateway_config *gateway_config_default(void);
void gateway_config_free(struct gateway_config *config);

/* `srt-gateway options`: every section and key, type, default, one line each. */
void gateway_config_print_options(FILE *out);

/* `GET /config`: the effective values as INI text, secrets blanked. */
void gateway_config_print(const struct gateway_config *config, FILE *out);

#endif
