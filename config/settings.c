#include "config/settings.h"

#include "config/document.h"
#include "config/file.h"
#include "config/upstream.h"
#include "config/value.h"
#include "srt/cleanup.h"
#include "srt/grow.h"
#include "srt/must.h"

static void read_range(struct document *document, const struct node *node, const char *key,
                       void *list)
{
    struct cidr range;
    (void)key;
    if (!node_is_full_string(document, node))
        return;
    if (value_range(str_of(json_string_value(node->json)), &range))
        node_add(document, list, node->json, node);
    else
        fault(
            document, node,
            "%s: `%s` is not an address or a range ADDRESS/LEN without bits set behind its length",
            node->path, json_string_value(node->json));
}

static void read_ranges(struct document *document, const struct member *member,
                        const struct node *node, void *object)
{
    node_list(document, node, read_range, member_field(object, member->offset));
}

/* {"path": P, "literal": true} and nothing else. */
struct literal_entry {
    const json_t *path;
    bool literal;
};

static void read_literal_path(struct document *document, const struct member *member,
                              const struct node *node, void *object)
{
    (void)member;
    if (node_is_full_string(document, node))
        ((struct literal_entry *)object)->path = node->json;
}

static void read_literal_flag(struct document *document, const struct member *member,
                              const struct node *node, void *object)
{
    (void)member;
    if (node_is(document, node, json_is_true(node->json), "true"))
        ((struct literal_entry *)object)->literal = true;
}

static const struct member literal_members[] = {
    {"path", read_literal_path, 0, NULL},
    {"literal", read_literal_flag, 0, NULL},
    {NULL, NULL, 0, NULL},
};

static void read_entry(struct document *document, const struct node *node, const char *key,
                       void *list)
{
    if (!json_is_object(node->json)) {
        if (node_is(document, node, json_is_string(node->json),
                    "a path or {\"path\": PATH, \"literal\": true}"))
            node_list_string(document, node, key, list);
        return;
    }
    struct literal_entry entry = {0};
    size_t errors = document->faults->errors;
    node_read(document, node, literal_members, &entry);
    if (document->faults->errors != errors)
        return;
    if (entry.path == NULL || !entry.literal)
        fault(document, node, "%s must have both path and literal", node->path);
    else
        node_add(document, list, entry.path, node)->literal = true;
}

static void read_entries(struct document *document, const struct member *member,
                         const struct node *node, void *object)
{
    node_list(document, node, read_entry, member_field(object, member->offset));
}

static void note_depth(struct document *document, const struct member *member,
                       const struct node *node, void *object)
{
    (void)object;
    json_int_t depth = json_is_integer(node->json) ? json_integer_value(node->json) : 0;
    if (depth >= 1 && depth <= 10)
        member_note(document, member, node);
    else
        fault(document, node, "%s must be a whole number from 1 to 10", node->path);
}

static void read_reason(struct document *document, const struct node *node, const char *key,
                        void *arg)
{
    struct settings_network *network = arg;
    if (!node_is_full_string(document, node))
        return;
    network->reasons = grow_one(network->reasons, network->reason_count, sizeof(*network->reasons));
    network->reasons[network->reason_count++] =
        (struct settings_reason){.pattern = must_copy(key), .reason = node_copy(node->json)};
}

static void read_reasons(struct document *document, const struct member *member,
                         const struct node *node, void *object)
{
    (void)member;
    if (node_is_object(document, node))
        node_each(document, node, read_reason, object);
}

/* A URL may hold a password, so it is not repeated. An empty one is none, as in the environment. */
static void read_parent_text(struct document *document, const struct member *member,
                             const struct node *node, void *object)
{
    if (node_is_string(document, node))
        *(struct settings_text *)member_field(object, member->offset) =
            node_text(document, node->json, node);
}

static void read_parent_url(struct document *document, const struct member *member,
                            const struct node *node, void *object)
{
    struct config_upstream upstream = {0};
    const char *why;
    read_parent_text(document, member, node, object);
    const struct settings_text *url = member_field(object, member->offset);
    if (url->text == NULL || url->text[0] == '\0' ||
        upstream_parse_url(&upstream, str_of(url->text), &why))
        return;
    fault(document, node, "%s is not the address of a proxy: %s", node->path, why);
}

#define PARENT(field) offsetof(struct settings_parent, field)

static const struct member parent_members[] = {
    {"http", read_parent_url, PARENT(http), NULL},
    {"https", read_parent_url, PARENT(https), NULL},
    {"noProxy", read_parent_text, PARENT(no_proxy), NULL},
    {NULL, NULL, 0, NULL},
};

static void read_parent(struct document *document, const struct member *member,
                        const struct node *node, void *object)
{
    node_read(document, node, parent_members, member_field(object, member->offset));
}

#define NETWORK(field) offsetof(struct settings_network, field)
#define FILESYSTEM(field) offsetof(struct settings_filesystem, field)
#define LAUNCH(field) offsetof(struct settings_launch, field)
#define SETTINGS(field) offsetof(struct settings, field)

static const char only_macos[] = "it is for macOS";
static const char no_other_proxy[] = "another proxy in place of the gateway; parentProxy "
                                     "names one that the gateway goes through";
static const char no_inspection[] = "requests inside TLS are not looked at";
static const char no_masks[] = "credentials are not masked, only denied";

static const struct member network_members[] = {
    {"allowedDomains", member_strings, NETWORK(allowed_domains), NULL},
    {"deniedDomains", member_strings, NETWORK(denied_domains), NULL},
    {"deniedDomainReasons", read_reasons, 0, NULL},
    {"strictAllowlist", member_flag, NETWORK(strict_allowlist), NULL},
    {"deniedResolvedAddresses", read_ranges, NETWORK(denied_resolved_addresses), NULL},
    {"allowUnixSockets", member_strings, NETWORK(allow_unix_sockets), NULL},
    {"allowAllUnixSockets", member_flag, NETWORK(allow_all_unix_sockets), NULL},
    {"allowLocalBinding", member_note_flag, 0, "the sandbox has a loopback of its own to bind to"},
    {"allowMachLookup", member_note_strings, 0, only_macos},
    {"httpProxyPort", member_refuse, 0, no_other_proxy},
    {"socksProxyPort", member_refuse, 0, no_other_proxy},
    {"mitmProxy", member_refuse, 0, no_other_proxy},
    {"filterRequest", member_refuse, 0, "a function cannot come from a file"},
    {"allowPlaintextHeaderSet", member_refuse_flag, 0, no_inspection},
    {"stripResponseHeaders", member_refuse, 0, "response headers are not changed"},
    {"refuseOpaqueTunnels", member_refuse_flag, 0, no_inspection},
    {"requireHostMatch", member_refuse_flag, 0, no_inspection},
    {"ambiguousRequestTarget", member_refuse, 0, no_inspection},
    {"tlsTerminate", member_refuse, 0, no_inspection},
    {"parentProxy", read_parent, NETWORK(parent), NULL},
    {NULL, NULL, 0, NULL},
};

static const struct member filesystem_members[] = {
    {"disabled", member_flag, FILESYSTEM(disabled), NULL},
    {"denyRead", read_entries, FILESYSTEM(deny_read), NULL},
    {"allowRead", read_entries, FILESYSTEM(allow_read), NULL},
    {"allowWrite", read_entries, FILESYSTEM(allow_write), NULL},
    {"denyWrite", read_entries, FILESYSTEM(deny_write), NULL},
    {"allowGitConfig", member_flag, FILESYSTEM(allow_git_config), NULL},
    {NULL, NULL, 0, NULL},
};

/* One of credentials.files or credentials.envVars. */
struct credential {
    const json_t *subject; /* path or name */
    bool has_mode;
};

static void read_credential_subject(struct document *document, const struct member *member,
                                    const struct node *node, void *object)
{
    (void)member;
    if (node_is_full_string(document, node))
        ((struct credential *)object)->subject = node->json;
}

static void read_credential_mode(struct document *document, const struct member *member,
                                 const struct node *node, void *object)
{
    (void)member;
    if (!node_is_string(document, node))
        return;
    const char *mode = json_string_value(node->json);
    ((struct credential *)object)->has_mode = true;
    if (strcmp(mode, "mask") == 0)
        fault(document, node, "%s = mask asks for what this version does not do: %s", node->path,
              no_masks);
    else if (strcmp(mode, "deny") != 0)
        fault(document, node, "%s must be deny or mask, not `%s`", node->path, mode);
}

#define CREDENTIAL_MEMBERS(subject)                                                                \
    {subject, read_credential_subject, 0, NULL}, {"mode", read_credential_mode, 0, NULL},          \
        {"extract", member_refuse, 0, no_masks}, {"onExtractNoMatch", member_refuse, 0, no_masks}, \
        {"decode", member_refuse, 0, no_masks}, {"maskClaims", member_refuse, 0, no_masks},        \
        {"maskDuplicates", member_refuse_flag, 0, no_masks},                                       \
        {"injectHosts", member_refuse, 0, no_masks},                                               \
    {                                                                                              \
        NULL, NULL, 0, NULL                                                                        \
    }

static const struct member credential_file_members[] = {CREDENTIAL_MEMBERS("path")};
static const struct member credential_env_members[] = {CREDENTIAL_MEMBERS("name")};

static void read_credential(struct document *document, const struct node *node,
                            const struct member *members, struct settings_list *list)
{
    struct credential credential = {0};
    size_t errors = document->faults->errors;
    if (!node_read(document, node, members, &credential) || document->faults->errors != errors)
        return;
    if (credential.subject == NULL || !credential.has_mode)
        fault(document, node, "%s must have both %s and mode", node->path, members[0].key);
    else
        node_add(document, list, credential.subject, node);
}

static void read_credential_file(struct document *document, const struct node *node,
                                 const char *key, void *list)
{
    (void)key;
    read_credential(document, node, credential_file_members, list);
}

static bool is_word_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* A letter or underscore, then letters, digits and underscores. */
static bool is_variable(const char *name)
{
    if (!is_word_byte(name[0]) || (name[0] >= '0' && name[0] <= '9'))
        return false;
    while (is_word_byte(*name))
        name++;
    return *name == '\0';
}

static void read_credential_env(struct document *document, const struct node *node, const char *key,
                                void *arg)
{
    struct settings_list *list = arg;
    size_t count = list->count;
    (void)key;
    read_credential(document, node, credential_env_members, list);
    if (list->count > count && !is_variable(list->items[count].text))
        fault(document, node, "%s.name: `%s` is not the name of a variable", node->path,
              list->items[count].text);
}

static void read_credential_files(struct document *document, const struct member *member,
                                  const struct node *node, void *object)
{
    node_list(document, node, read_credential_file, member_field(object, member->offset));
}

static void read_credential_envs(struct document *document, const struct member *member,
                                 const struct node *node, void *object)
{
    node_list(document, node, read_credential_env, member_field(object, member->offset));
}

static const struct member credentials_members[] = {
    {"files", read_credential_files, SETTINGS(credential_files_deny), NULL},
    {"envVars", read_credential_envs, SETTINGS(credential_env_deny), NULL},
    {"allowPlaintextInject", member_refuse_flag, 0, no_masks},
    {"awsPairs", member_refuse, 0, "AWS requests are not signed anew"},
    {"sigv4", member_refuse, 0, "AWS requests are not signed anew"},
    {NULL, NULL, 0, NULL},
};

static void read_credentials(struct document *document, const struct member *member,
                             const struct node *node, void *object)
{
    (void)member;
    node_read(document, node, credentials_members, object);
}

static void read_ignored_command(struct document *document, const struct node *node,
                                 const char *key, void *arg)
{
    struct settings *settings = arg;
    struct settings_list texts = {0};
    node_list(document, node, node_list_string, &texts);
    settings->ignore_violations =
        grow_one(settings->ignore_violations, settings->ignore_violation_count,
                 sizeof(*settings->ignore_violations));
    settings->ignore_violations[settings->ignore_violation_count++] =
        (struct settings_ignore){.command = must_copy(key), .texts = texts};
}

static void read_ignore_violations(struct document *document, const struct member *member,
                                   const struct node *node, void *object)
{
    (void)member;
    if (node_is_object(document, node))
        node_each(document, node, read_ignored_command, object);
}

static const struct member git_members[] = {
    {"safeDirectories", member_strings, SETTINGS(git_safe_directories), NULL},
    {NULL, NULL, 0, NULL},
};

static void read_git(struct document *document, const struct member *member,
                     const struct node *node, void *object)
{
    (void)member;
    node_read(document, node, git_members, object);
}

static void read_absolute_path(struct document *document, const struct member *member,
                               const struct node *node, void *object)
{
    if (!node_is_full_string(document, node))
        return;
    if (json_string_value(node->json)[0] != '/')
        fault(document, node, "%s must be an absolute path", node->path);
    else
        *(char **)member_field(object, member->offset) = node_copy(node->json);
}

static void read_gateway(struct document *document, const struct member *member,
                         const struct node *node, void *object)
{
    if (!node_is_full_string(document, node))
        return;
    const char *gateway = json_string_value(node->json);
    if (strcmp(gateway, "private") != 0 && strncmp(gateway, "unix:/", 6) != 0)
        fault(document, node, "%s must be private or unix:/PATH, not `%s`", node->path, gateway);
    else
        *(char **)member_field(object, member->offset) = node_copy(node->json);
}

static void read_egress(struct document *document, const struct member *member,
                        const struct node *node, void *object)
{
    static const char *const modes[] = {"port", "transparent", "socket", "none"};
    if (!node_is_full_string(document, node))
        return;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(json_string_value(node->json), modes[i]) == 0) {
            *(char **)member_field(object, member->offset) = node_copy(node->json);
            return;
        }
    }
    fault(document, node, "%s must be port, transparent, socket or none, not `%s`", node->path,
          json_string_value(node->json));
}

/* NAME or PREFIX*. */
static void read_variable(struct document *document, const struct node *node, const char *key,
                          void *list)
{
    (void)key;
    if (!node_is_full_string(document, node))
        return;
    const char *name = json_string_value(node->json);
    size_t plain = strcspn(name, "*=");
    if (name[plain] == '\0' || (name[plain] == '*' && name[plain + 1] == '\0'))
        node_add(document, list, node->json, node);
    else
        fault(document, node, "%s: `%s` is neither a variable's name nor PREFIX*", node->path,
              name);
}

static void read_variables(struct document *document, const struct member *member,
                           const struct node *node, void *object)
{
    node_list(document, node, read_variable, member_field(object, member->offset));
}

static const struct member launch_members[] = {
    {"gateway", read_gateway, LAUNCH(gateway), NULL},
    {"policy", member_string, LAUNCH(policy), NULL},
    {"egress", read_egress, LAUNCH(egress), NULL},
    {"name", member_string, LAUNCH(name), NULL},
    {"violations", member_string, LAUNCH(violations), NULL},
    {"envDeny", read_variables, LAUNCH(env_deny), NULL},
    {"envAllow", read_variables, LAUNCH(env_allow), NULL},
    {"protect", member_strings, LAUNCH(protect), NULL},
    {NULL, NULL, 0, NULL},
};

static int compare_texts(const void *a, const void *b)
{
    const char *const *text_a = a, *const *text_b = b;
    return strcmp(*text_a, *text_b);
}

/* A reason whose pattern is not denied would never be read, which is a slip of the pen. */
static void check_reasons(struct document *document, const struct node *node,
                          const struct settings_network *network)
{
    if (network->reason_count == 0)
        return;
    const struct settings_list *denied = &network->denied_domains;
    const char **patterns = must(calloc(denied->count + 1, sizeof(const char *)));
    for (size_t i = 0; i < denied->count; i++)
        patterns[i] = denied->items[i].text;
    qsort(patterns, denied->count, sizeof(const char *), compare_texts);
    for (size_t i = 0; i < network->reason_count; i++) {
        const char *pattern = network->reasons[i].pattern;
        if (bsearch(&pattern, patterns, denied->count, sizeof(const char *), compare_texts) == NULL)
            faults_add(document->faults, FAULT_WARNING, node_place(document, node),
                       "network.deniedDomainReasons has a reason for `%s`, which is not in "
                       "network.deniedDomains",
                       pattern);
    }
    free(patterns);
}

static void read_network_object(struct document *document, const struct node *node,
                                struct settings_network *network)
{
    network->present = node_read(document, node, network_members, network);
    check_reasons(document, node, network);
}

static void read_network(struct document *document, const struct member *member,
                         const struct node *node, void *object)
{
    (void)member;
    struct settings *settings = object;
    const struct str source = node_source(document, node);
    read_network_object(document, node, &settings->network);
    if (settings->network.present)
        settings->network_json = must(strndup(source.p, source.len));
}

static void read_filesystem(struct document *document, const struct member *member,
                            const struct node *node, void *object)
{
    node_read(document, node, filesystem_members, member_field(object, member->offset));
}

static void read_launch(struct document *document, const struct member *member,
                        const struct node *node, void *object)
{
    node_read(document, node, launch_members, member_field(object, member->offset));
}

static const char own_fence[] = "srt-launch builds the fence without it";

static const struct member settings_members[] = {
    {"network", read_network, 0, NULL},
    {"filesystem", read_filesystem, SETTINGS(filesystem), NULL},
    {"credentials", read_credentials, 0, NULL},
    {"ignoreViolations", read_ignore_violations, 0, NULL},
    {"enableWeakerNestedSandbox", member_flag, SETTINGS(enable_weaker_nested_sandbox), NULL},
    {"allowNestedUserNamespaces", member_flag, SETTINGS(allow_nested_user_namespaces), NULL},
    {"enableWeakerNetworkIsolation", member_note_flag, 0, only_macos},
    {"allowAppleEvents", member_note_flag, 0, only_macos},
    {"allowPty", member_note_flag, 0, only_macos},
    {"ripgrep", member_note_object, 0, own_fence},
    {"mandatoryDenySearchDepth", note_depth, 0, "names are protected at any depth"},
    {"seccomp", member_note_object, 0, "srt-launch makes the system call filter itself"},
    {"bwrapPath", read_absolute_path, SETTINGS(bwrap_path), NULL},
    {"socatPath", member_note_string, 0, own_fence},
    {"javaAgentJarPath", member_note_string, 0, own_fence},
    {"git", read_git, 0, NULL},
    {"windows", member_note_object, 0, "it is for Windows"},
    {"launch", read_launch, SETTINGS(launch), NULL},
    {NULL, NULL, 0, NULL},
};

struct settings *settings_default(void)
{
    return must(calloc(1, sizeof(struct settings)));
}

struct settings *settings_read_text(const char *file_name, struct str text, struct faults *faults)
{
    struct document document;
    struct settings *settings = settings_default();
    settings->file = must_copy(file_name);
    if (document_open(&document, file_name, text, faults))
        node_read(&document, &(struct node){document.json, 0, ""}, settings_members, settings);
    if (document_close(&document))
        return settings;
    settings_free(settings);
    return NULL;
}

struct settings *settings_read(const char *path, struct faults *faults)
{
    autofree char *bytes = NULL;
    size_t len;
    struct srt_err err;
    struct stat st;
    bool piped = stat(path, &st) == 0 && S_ISFIFO(st.st_mode); /* the shell's <(COMMAND) */
    if ((piped ? file_read_pipe(path, SETTINGS_BYTES_MAX, &bytes, &len, &err)
               : file_read(path, SETTINGS_BYTES_MAX, &bytes, &len, NULL, &err)) != 0) {
        faults_add(faults, FAULT_ERROR, (struct place){path, 1, 1}, "%s", err.text);
        return NULL;
    }
    return settings_read_text(path, (struct str){bytes, len}, faults);
}

bool settings_network_read(struct settings_network *out, const char *source, json_t *json,
                           struct faults *faults)
{
    struct document document;
    *out = (struct settings_network){0};
    document_open_value(&document, source, json, faults);
    read_network_object(&document, &(struct node){json, 0, "network"}, out);
    if (document_close(&document))
        return true;
    settings_network_free(out);
    return false;
}

const struct settings_text *settings_network_entry(const struct settings_network *network,
                                                   size_t index)
{
    const struct settings_list *const lists[] = {
        &network->allowed_domains, &network->denied_domains, &network->denied_resolved_addresses};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        if (index < lists[i]->count)
            return &lists[i]->items[index];
        index -= lists[i]->count;
    }
    return NULL;
}

struct place settings_place(const struct settings *settings, struct str setting)
{
    const struct settings_text *entry;
    for (size_t i = 0; (entry = settings_network_entry(&settings->network, i)) != NULL; i++)
        if (str_eq(str_of(entry->setting), setting))
            return (struct place){settings->file, entry->line, entry->column};
    return (struct place){.file = settings->file};
}

static void text_free(struct settings_text *text)
{
    free(text->text);
    free(text->setting);
}

static void list_free(struct settings_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        text_free(&list->items[i]);
    free(list->items);
}

void settings_network_free(struct settings_network *network)
{
    list_free(&network->allowed_domains);
    list_free(&network->denied_domains);
    list_free(&network->denied_resolved_addresses);
    list_free(&network->allow_unix_sockets);
    for (size_t i = 0; i < network->reason_count; i++) {
        free(network->reasons[i].pattern);
        free(network->reasons[i].reason);
    }
    free(network->reasons);
    text_free(&network->parent.http);
    text_free(&network->parent.https);
    text_free(&network->parent.no_proxy);
    *network = (struct settings_network){0};
}

void settings_free(struct settings *settings)
{
    if (settings == NULL)
        return;
    settings_network_free(&settings->network);
    list_free(&settings->filesystem.deny_read);
    list_free(&settings->filesystem.allow_read);
    list_free(&settings->filesystem.allow_write);
    list_free(&settings->filesystem.deny_write);
    free(settings->launch.gateway);
    free(settings->launch.policy);
    free(settings->launch.egress);
    free(settings->launch.name);
    free(settings->launch.violations);
    list_free(&settings->launch.env_deny);
    list_free(&settings->launch.env_allow);
    list_free(&settings->launch.protect);
    list_free(&settings->credential_files_deny);
    list_free(&settings->credential_env_deny);
    for (size_t i = 0; i < settings->ignore_violation_count; i++) {
        free(settings->ignore_violations[i].command);
        list_free(&settings->ignore_violations[i].texts);
    }
    free(settings->ignore_violations);
    list_free(&settings->git_safe_directories);
    free(settings->bwrap_path);
    free(settings->network_json);
    free(settings->file);
    free(settings);
}
