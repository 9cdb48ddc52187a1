#include "config/gateway_config.h"

#include "config/check.h"
#include "config/digest.h"
#include "config/option.h"
#include "config/section.h"
#include "srt/cleanup.h"
#include "srt/grow.h"
#include "srt/must.h"

#include <assert.h>
#include <stddef.h>

#define GATEWAY(field) offsetof(struct gateway_config, field)
#define LISTEN(field) offsetof(struct config_listen, field)
#define CLIENT(field) offsetof(struct config_client, field)
#define POLICY(field) offsetof(struct config_policy, field)
#define FILTER(field) offsetof(struct config_filter, field)
#define UPSTREAM(field) offsetof(struct config_upstream, field)

/* Every key there is. What it says is what `options` prints, what defaults come from, what is
 * accepted and what GET /config shows. */
static const struct option options[] = {
    {"gateway", "workers", "auto or a number from 1 to 1024", &kind_workers, GATEWAY(workers),
     .fallback = "auto", .max = 1024,
     .help = "threads, one event loop each; auto = CPUs this process may use"},
    {"gateway", "audit-log", "PATH | unix:/PATH | stderr | none", &kind_log, GATEWAY(audit_log),
     .fallback = "stderr", .help = "where records go"},
    {"gateway", "audit-format", "json | squid", &kind_word, GATEWAY(audit_format),
     .fallback = "json", .help = "what a record looks like"},
    {"gateway", "audit-required", "yes | no", &kind_bool, GATEWAY(audit_required),
     .fallback = "yes", .help = "refuse new requests while records cannot be written"},
    {"gateway", "control", "unix:/PATH | none", &kind_control_address, GATEWAY(control),
     .fallback = "none", .help = "launchers attach here"},
    {"gateway", "admin", "unix:/PATH | LOOPBACK:PORT | none", &kind_admin_addresses, 0,
     .fallback = "none", .list = true, .help = "operators: HTTP on these addresses"},
    {"gateway", "admin-token-file", "PATH", &kind_secret_file, GATEWAY(admin_token_file),
     .help = "bearer token that changes over TCP need"},
    {"gateway", "header-timeout", "DURATION", &kind_duration_ms, GATEWAY(header_timeout_ms),
     .fallback = "10s", .min = 1, .help = "for a request head, handshake or hello"},
    {"gateway", "connect-timeout", "DURATION", &kind_duration_ms, GATEWAY(connect_timeout_ms),
     .fallback = "10s", .min = 1, .help = "for all attempts to reach the target"},
    {"gateway", "idle-timeout", "DURATION", &kind_duration_ms, GATEWAY(idle_timeout_ms),
     .fallback = "15m", .min = 1, .help = "no byte in either direction"},
    {"gateway", "tunnel-lifetime", "DURATION", &kind_duration_ms, GATEWAY(tunnel_lifetime_ms),
     .fallback = "0", .help = "longest life of a tunnel; 0 = no limit"},
    {"gateway", "drain-timeout", "DURATION", &kind_duration_ms, GATEWAY(drain_timeout_ms),
     .fallback = "30s", .help = "how long tunnels may go on after TERM"},
    {"gateway", "max-connections", "a number from 1 to 10000000", &kind_count,
     GATEWAY(max_connections), .fallback = "100000", .min = 1, .max = 10000000,
     .help = "client connections at a time; more are refused as overload"},
    {"gateway", "max-sandbox-connections", "a number from 1 to 10000000", &kind_count,
     GATEWAY(max_sandbox_connections), .fallback = "25000", .min = 1, .max = 10000000,
     .help = "of them from one attached sandbox; more are refused as limit"},
    {"gateway", "max-header-bytes", "SIZE", &kind_size, GATEWAY(max_header_bytes),
     .fallback = "64k", .min = 256, .max = 16 << 20, .help = "of a request or response head"},
    {"gateway", "ask-timeout", "DURATION", &kind_duration_ms, GATEWAY(ask_timeout_ms),
     .fallback = "60s", .min = 1, .help = "how long a request waits for an approval"},
    {"gateway", "ask-limit", "a number from 1 to 1000000", &kind_count, GATEWAY(ask_limit),
     .fallback = "10000", .min = 1, .max = 1000000,
     .help = "requests that wait for an approval at a time; more are refused as overload"},
    {"gateway", "ask-limit-each", "a number from 1 to 1000000", &kind_count,
     GATEWAY(ask_limit_each), .fallback = "250", .min = 1, .max = 1000000,
     .help = "those of one sandbox, client or listener; more are refused as limit"},
    {"gateway", "reload-tunnels", "recheck | keep", &kind_word, GATEWAY(reload_tunnels),
     .fallback = "recheck", .help = "what a reload does to open tunnels"},
    {"gateway", "include", "PATH or pattern", &kind_include, 0, .list = true,
     .help = "further files, in lexical order, relative to this one"},

    {"dns", "servers", "system | ADDRESS[:PORT], ...", &kind_servers, GATEWAY(dns_servers),
     .fallback = "system", .help = "name servers to ask"},
    {"dns", "hosts-file", "PATH | none", &kind_path_or_none, GATEWAY(dns_hosts_file),
     .fallback = "/etc/hosts", .help = "looked into before any server is asked"},
    {"dns", "timeout", "DURATION", &kind_duration_ms, GATEWAY(dns_timeout_ms), .fallback = "2s",
     .min = 1, .max = 60 * 1000, .help = "of one try"},
    {"dns", "tries", "a number from 1 to 10", &kind_count, GATEWAY(dns_tries), .fallback = "2",
     .min = 1, .max = 10, .help = "for each server"},
    {"dns", "cache-entries", "a number up to 10000000", &kind_count, GATEWAY(dns_cache_entries),
     .fallback = "10000", .max = 10000000, .help = "names kept by each worker; 0 = no cache"},
    {"dns", "min-ttl", "DURATION", &kind_duration_s, GATEWAY(dns_min_ttl_s), .fallback = "0s",
     .help = "an answer is kept at least so long"},
    {"dns", "max-ttl", "DURATION", &kind_duration_s, GATEWAY(dns_max_ttl_s), .fallback = "1h",
     .help = "an answer is kept at most so long"},
    {"dns", "negative-ttl", "DURATION", &kind_duration_s, GATEWAY(dns_negative_ttl_s),
     .fallback = "5s", .help = "how long it is kept that a name does not exist"},

    {"listen", "address", "ADDRESS:PORT | unix:/PATH", &kind_listen_address, LISTEN(address),
     .help = "IPv4:PORT, [IPv6]:PORT or a Unix socket; port 0 = any free one"},
    {"listen", "mode", "three or four octal digits, at most 0777", &kind_mode, 0,
     .fallback = "0660", .help = "of a Unix socket"},
    {"listen", "group", "GROUP", &kind_group, LISTEN(group), .help = "of a Unix socket"},
    {"listen", "protocol", "auto | http | socks5", &kind_word, LISTEN(protocol), .fallback = "auto",
     .help = "auto = the first byte decides"},
    {"listen", "policy", "POLICY", &kind_name, LISTEN(policy), .names = "policy",
     .help = "of everybody on this listener; without it [client] sections decide"},
    {"listen", "auth", "none | token", &kind_word, LISTEN(auth), .fallback = "none",
     .help = "token = credentials of a [client] are required"},
    {"listen", "proxy-protocol", "yes | no", &kind_bool, LISTEN(proxy_protocol), .fallback = "no",
     .help = "yes = a PROXY v1 or v2 header is required"},

    {"client", "policy", "POLICY", &kind_name, CLIENT(policy), .names = "policy",
     .help = "of this client"},
    {"client", "token-sha256", "64 hexadecimal digits", &kind_token_sha256, 0,
     .help = "SHA-256 of the client's secret"},
    {"client", "token-file", "PATH", &kind_token_file, 0,
     .help = "a file that holds the client's secret"},
    {"client", "uid", "a numeric user id", &kind_uid, 0, .help = "peer of a Unix socket"},
    {"client", "source", "ADDRESS[/LEN]", &kind_source, 0, .help = "peer of a TCP connection"},
    {"client", "max-tunnels", "a number from 1 to 10000000", &kind_count, CLIENT(max_tunnels),
     .min = 1, .max = 10000000, .help = "at a time"},
    {"client", "connect-rate", "N/s", &kind_rate, CLIENT(connect_rate),
     .help = "requests, a token bucket; /s, /m, /h or /d"},
    {"client", "bytes-up", "SIZE/h", &kind_byte_rate, CLIENT(bytes_up),
     .help = "bytes that the sandbox may send; /s, /m, /h or /d"},

    {"policy", "inherit", "POLICY, ...", &kind_names, POLICY(inherit), .names = "policy",
     .list = true, .help = "policies whose rules come first"},
    {"policy", "mode", "enforce | report", &kind_word_bool, POLICY(report), .fallback = "enforce",
     .help = "report = deny verdicts are recorded, not applied"},
    {"policy", "default", "deny | ask | allow", &kind_word, POLICY(fallback), .fallback = "deny",
     .help = "when no rule matches"},
    {"policy", "approvers", "all | operators", &kind_word_bool, POLICY(operators_only),
     .fallback = "all", .help = "who answers what it asks: launchers with --ask, too, or not"},
    {"policy", "allow", "RULE", &kind_rules, POLICY(allow), .list = true,
     .help = "PATTERN and attributes"},
    {"policy", "deny", "RULE", &kind_rules, POLICY(deny), .list = true,
     .help = "beats every allow"},
    {"policy", "allow-file", "PATH", &kind_rule_file, POLICY(allow), .list = true,
     .help = "one RULE a line, # comments"},
    {"policy", "deny-file", "PATH", &kind_rule_file, POLICY(deny), .list = true,
     .help = "one RULE a line, # comments"},
    {"policy", "private-addresses", "deny | allow", &kind_word_bool, POLICY(private_addresses),
     .fallback = "deny", .help = "names may resolve to RFC 1918, ULA, CGNAT and the like"},
    {"policy", "deny-addresses", "ADDRESS[/LEN], ...", &kind_ranges, POLICY(deny_addresses),
     .list = true, .help = "never dialled"},
    {"policy", "allow-addresses", "ADDRESS[/LEN], ...", &kind_ranges, POLICY(allow_addresses),
     .list = true, .help = "exceptions to every built-in denial of addresses"},
    {"policy", "sni", "match | off", &kind_word_bool, POLICY(sni_off), .fallback = "match",
     .help = "whether a TLS server name must equal the name that was asked for"},
    {"policy", "bind-address", "ADDRESS, ADDRESS, INTERFACE", &kind_bind, POLICY(bind),
     .help = "where connections come from: an address of each family, an interface"},
    {"policy", "upstream", "UPSTREAM", &kind_name, POLICY(upstream), .names = "upstream",
     .help = "the proxy that carries what this policy allows; without it targets are dialled"},
    {"policy", "filters", "FILTER, ...", &kind_names, POLICY(filters), .names = "filter",
     .list = true, .help = "[filter] sections asked in this order after the rules"},
    {"policy", "docs", "URL", &kind_text, POLICY(docs), .help = "put into denials"},

    {"filter", "module", "WORD | /PATH.so | unix:/PATH", &kind_module, FILTER(module),
     .help = "a built-in, a loaded module or another process; other keys are the module's"},
    {"filter", "timeout", "DURATION", &kind_duration_ms, FILTER(timeout_ms), .fallback = "2s",
     .min = 1, .help = "no answer in time = no verdict"},
    {"filter", "fail", "closed | open", &kind_word_bool, FILTER(fail_open), .fallback = "closed",
     .help = "what no verdict is: a denial, or a yes"},

    {"upstream", "address", "http:// | https:// | socks5://HOST:PORT", &kind_upstream_address, 0,
     .help = "a proxy that policies and rules can name"},
    {"upstream", "credentials-file", "PATH", &kind_credentials_file, 0,
     .help = "USER:PASSWORD for it"},
    {"upstream", "ca-file", "PATH", &kind_ca_file, 0,
     .help = "who else may vouch for an https:// proxy than the system's authorities"},
};

enum { OPTION_COUNT = sizeof(options) / sizeof(options[0]) };

static const struct option *find_option(const char *section, const char *key)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strcmp(options[i].section, section) == 0 && strcmp(options[i].key, key) == 0)
            return &options[i];
    return NULL;
}

const struct place *reader_place_of(const struct reader *reader, const char *section,
                                    const char *key)
{
    const struct option *option = find_option(section, key);
    assert(option != NULL);
    const struct place *seen = &reader->seen[option - options];
    return seen->line != 0 ? seen : NULL;
}

/* The key of `  deny = b.test`, which somebody has indented, in its own bytes; or none. */
static struct str indented_key(const struct ini_entry *entry)
{
    struct str rest = str_of(entry->value), word;
    char key[INI_KEY_MAX + 1];
    if (!entry->continuation || !str_has(rest, '='))
        return STR_NULL;
    word = str_trim(str_until(rest, '='));
    if (word.len == 0 || word.len > INI_KEY_MAX)
        return STR_NULL;
    snprintf(key, sizeof(key), "%.*s", STR_ARG(word));
    return find_option(entry->section, key) != NULL ? word : STR_NULL;
}

static void apply_defaults(struct gateway_config *config, const char *section, void *item)
{
    struct faults faults = {0};
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &options[i];
        if (strcmp(option->section, section) != 0 || option->fallback == NULL)
            continue;
        struct option_input input = {
            .doc = &config->doc, .faults = &faults, .key = option->key, .text = option->fallback};
        option->kind->read(option, section_field(item, option->offset), &input);
    }
    assert(faults.count == 0);
}

static bool name_is_sound(const char *name)
{
    static const char bytes[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789._-+@/";
    return strspn(name, bytes) == strlen(name);
}

static void forget_keys(struct reader *reader, const char *section)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strcmp(options[i].section, section) == 0)
            reader->seen[i] = (struct place){0};
}

static void unknown_section(struct reader *reader, const struct ini_entry *header)
{
    const char *words[SECTIONS + 1] = {NULL};
    for (size_t i = 0; i < SECTIONS; i++)
        words[i] = sections[i].word;
    const char *nearest = nearest_word(header->section, words);
    if (nearest == NULL)
        fault_at(reader, header->place,
                 "unknown section [%s]; there are gateway, dns, listen, client, policy, filter "
                 "and upstream",
                 header->section);
    else if (section_find(nearest)->size == 0)
        fault_at(reader, header->place, "unknown section [%s]; did you mean [%s]?", header->section,
                 nearest);
    else
        fault_at(reader, header->place, "unknown section [%s]; did you mean [%s NAME]?",
                 header->section, nearest);
}

static void open_section(struct reader *reader, const struct ini_entry *header)
{
    const struct section *section = section_find(header->section);
    if (section == NULL) {
        unknown_section(reader, header);
        return;
    }
    if (section->size == 0) {
        if (header->name[0] != '\0')
            fault_at(reader, header->place, "[%s] has no name, but here is `%s`", section->word,
                     header->name);
        return;
    }
    if (header->name[0] == '\0')
        fault_at(reader, header->place, "[%s] needs a name: [%s NAME]", section->word,
                 section->word);
    else if (!name_is_sound(header->name))
        fault_at(reader, header->place,
                 "`%s` is no name: letters, digits and . _ - + @ / can be in one", header->name);

    void *item = section_add(reader->config, section);
    *section_name(item) = header->name;
    *section_place(item) = header->place;
    apply_defaults(reader->config, section->word, item);
    forget_keys(reader, section->word);
}

static void unknown_key(struct reader *reader, const struct ini_entry *entry)
{
    if (strcmp(entry->key, "include") == 0) {
        fault_at(reader, entry->place, "include belongs into [gateway]");
        return;
    }
    const char *keys[OPTION_COUNT + 1];
    size_t count = 0;
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strcmp(options[i].section, entry->section) == 0)
            keys[count++] = options[i].key;
    keys[count] = NULL;
    char hint[NEAREST_HINT_MAX];
    fault_at(reader, entry->place, "unknown key `%s` in [%s]%s", entry->key, entry->section,
             nearest_hint(hint, "`", entry->key, keys));
}

static void add_filter_key(struct reader *reader, struct config_filter *filter,
                           const struct ini_entry *entry)
{
    if (entry->value[0] == '\0') {
        fault_at(reader, entry->place, "%s needs a value", entry->key);
        return;
    }
    filter->keys = grow_one(filter->keys, filter->key_count, sizeof(*filter->keys));
    filter->keys[filter->key_count++] =
        (struct config_filter_key){.key = entry->key, .value = entry->value, .place = entry->place};
}

/* `allow =` alone on its line, with the list indented below it. */
static bool only_opens_list(const struct reader *reader, const struct option *option,
                            const struct ini_entry *entry)
{
    const struct ini_doc *doc = &reader->config->doc;
    const struct ini_entry *next = entry + 1;
    return option->list && entry->value[0] == '\0' && next < doc->entries + doc->count &&
           next->continuation;
}

/* Whether this line may set the option: once, unless it is a list, and with a value. */
static bool may_set(struct reader *reader, const struct option *option,
                    const struct ini_entry *entry)
{
    struct place *seen = &reader->seen[option - options];
    const struct str key = indented_key(entry);
    if (key.len > 0)
        fault_at(reader, entry->place,
                 "an indented line continues %s; the key `%.*s` starts at the first column",
                 option->key, STR_ARG(key));
    else if (entry->continuation && !option->list)
        fault_at(reader, entry->place,
                 "an indented line continues a list, and %s has one value; a new key starts at "
                 "the first column",
                 option->key);
    else if (seen->line != 0 && !option->list)
        fault_at(reader, entry->place, "%s is set already, at %s:%u", option->key, seen->file,
                 seen->line);
    else if (entry->value[0] == '\0')
        fault_at(reader, entry->place, "%s needs a value", option->key);
    else {
        if (seen->line == 0)
            *seen = entry->place;
        return true;
    }
    return false;
}

static void read_key(struct reader *reader, const struct ini_entry *entry)
{
    const struct section *section = section_find(entry->section);
    if (section == NULL)
        return; /* open_section() has said so */
    void *item = section_last(reader->config, section);
    const struct option *option = find_option(entry->section, entry->key);
    if (option == NULL && strcmp(section->word, "filter") == 0)
        add_filter_key(reader, item, entry);
    else if (option == NULL)
        unknown_key(reader, entry);
    else if (!only_opens_list(reader, option, entry) && may_set(reader, option, entry)) {
        struct option_input input = {
            .doc = &reader->config->doc,
            .references = &reader->references,
            .faults = reader->faults,
            .place = entry->place,
            .key = option->key,
            .text = entry->value,
        };
        option->kind->read(option, section_field(item, option->offset), &input);
        if (option->kind == &kind_admin_addresses && strcmp(entry->value, "none") == 0)
            reader->admin_is_none = true;
    }
}

static void close_section(struct reader *reader, const char *word)
{
    const struct section *section = word != NULL ? section_find(word) : NULL;
    if (section != NULL)
        check_section(reader, section, section_last(reader->config, section));
}

static void read_entries(struct reader *reader)
{
    const struct ini_doc *doc = &reader->config->doc;
    const char *open = NULL;
    for (size_t i = 0; i < doc->count; i++) {
        const struct ini_entry *entry = &doc->entries[i];
        if (entry->key != NULL) {
            read_key(reader, entry);
        } else {
            close_section(reader, open);
            open = entry->section;
            open_section(reader, entry);
        }
    }
    close_section(reader, open);
}

/* Of one file its own digest, which sha256sum shows; of several the digest of their digests. */
static void set_digest(struct gateway_config *config)
{
    const struct ini_doc *doc = &config->doc;
    if (doc->file_count == 1) {
        memcpy(config->sha256, doc->files[0].sha256, sizeof(config->sha256));
        return;
    }
    const size_t size = doc->file_count * DIGEST_LEN;
    autofree char *digests = must(malloc(size + 1));
    for (size_t i = 0; i < doc->file_count; i++)
        memcpy(digests + i * DIGEST_LEN, doc->files[i].sha256, DIGEST_LEN);
    digest_make(config->sha256, (struct str){digests, size});
}

static struct gateway_config *config_new(void)
{
    struct gateway_config *config = must(calloc(1, sizeof(*config)));
    for (size_t i = 0; i < SECTIONS; i++)
        if (sections[i].size == 0)
            apply_defaults(config, sections[i].word, config);
    return config;
}

/* From the document to the configuration; what the syntax hides is simply not there. */
static struct gateway_config *finish(struct gateway_config *config, struct faults *faults)
{
    struct place seen[OPTION_COUNT] = {{0}};
    struct reader reader = {.config = config, .faults = faults, .seen = seen};
    read_entries(&reader);
    check_whole(&reader);
    free(reader.references.items);
    set_digest(config);
    return config;
}

struct str gateway_config_read_side_file(struct gateway_config *config, struct place place,
                                         const char *path, struct faults *faults)
{
    const char *resolved;
    struct str bytes =
        ini_read_side_file(&config->doc, place, path, INI_FILE_BYTES_MAX, &resolved, faults);
    set_digest(config);
    return bytes;
}

struct gateway_config *gateway_config_default(void)
{
    return config_new();
}

struct gateway_config *gateway_config_read_partly(const char *path, struct faults *faults)
{
    struct gateway_config *config = config_new();
    ini_read(&config->doc, path, faults);
    return finish(config, faults);
}

struct gateway_config *gateway_config_read_text_partly(const char *file_name, struct str text,
                                                       struct faults *faults)
{
    struct gateway_config *config = config_new();
    ini_read_text(&config->doc, file_name, text, faults);
    return finish(config, faults);
}

/* Nothing half applied. */
static struct gateway_config *whole(struct gateway_config *config, bool sound)
{
    if (sound)
        return config;
    gateway_config_free(config);
    return NULL;
}

struct gateway_config *gateway_config_read(const char *path, struct faults *faults)
{
    size_t errors = faults->errors;
    struct gateway_config *config = gateway_config_read_partly(path, faults);
    return whole(config, faults->errors == errors);
}

struct gateway_config *gateway_config_read_text(const char *file_name, struct str text,
                                                struct faults *faults)
{
    size_t errors = faults->errors;
    struct gateway_config *config = gateway_config_read_text_partly(file_name, text, faults);
    return whole(config, faults->errors == errors);
}

void gateway_config_free(struct gateway_config *config)
{
    if (config == NULL)
        return;
    for (size_t i = 0; i < config->policy_count; i++) {
        struct config_policy *policy = &config->policies[i];
        free(policy->inherit.items);
        free(policy->allow.items);
        free(policy->deny.items);
        free(policy->deny_addresses.items);
        free(policy->allow_addresses.items);
        free(policy->filters.items);
    }
    for (size_t i = 0; i < config->filter_count; i++)
        free(config->filters[i].keys);
    free(config->admin);
    free(config->listens);
    free(config->clients);
    free(config->policies);
    free(config->filters);
    for (size_t i = 0; i < config->upstream_count; i++)
        upstream_clear(&config->upstreams[i]);
    free(config->upstreams);
    ini_free(&config->doc);
    free(config);
}

void gateway_config_print_options(FILE *out)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &options[i];
        char section[32];
        snprintf(section, sizeof(section), "[%s%s]", option->section,
                 section_find(option->section)->size != 0 ? " NAME" : "");
        fprintf(out, "%-15s %-23s %-10s %s. %s%s\n", section, option->key,
                option->fallback != NULL ? option->fallback : "-", option->type, option->help,
                option->list ? " (repeatable)" : "");
    }
}

/* A module's own keys: what is named like a secret is taken for one. */
static bool is_secret(const char *key)
{
    static const char *const words[] = {"secret", "token", "password", "key", "credential"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasestr(key, words[i]) != NULL)
            return true;
    return false;
}

static void print_section(const struct section *section, const void *item, FILE *out)
{
    if (section->size == 0)
        fprintf(out, "[%s]\n", section->word);
    else
        fprintf(out, "\n[%s %s]\n", section->word, *section_name(item));
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strcmp(options[i].section, section->word) == 0 && options[i].kind->print != NULL)
            options[i].kind->print(&options[i], section_field(item, options[i].offset), out);
    if (strcmp(section->word, "filter") != 0)
        return;
    const struct config_filter *filter = item;
    for (size_t i = 0; i < filter->key_count; i++)
        fprintf(out, "%s = %s\n", filter->keys[i].key,
                is_secret(filter->keys[i].key) ? "(hidden)" : filter->keys[i].value);
}

void gateway_config_print(const struct gateway_config *config, FILE *out)
{
    for (size_t i = 0; i < SECTIONS; i++) {
        const struct section *section = &sections[i];
        if (section->size == 0) {
            print_section(section, config, out);
            continue;
        }
        for (size_t j = 0; j < section_count(config, section); j++)
            print_section(section, section_item(config, section, j), out);
    }
}
