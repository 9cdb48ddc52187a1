#include "config/settings.h"

#include "config/file.h"
#include "config/grow.h"
#include "config/json_place.h"
#include "config/upstream.h"
#include "config/value.h"
#include "srt/cleanup.h"

#include <assert.h>
#include <jansson.h>

/* The document is walked in the order of its text, so that the spots of json_place.h go along. */
struct reader {
    const char *file;
    struct json_spots spots;
    struct faults *faults;
};

/* A value, where it stands and what it is called. */
struct node {
    json_t *json;
    size_t spot;
    const char *path; /* "network.allowedDomains[2]"; "" for the whole */
};

struct member {
    const char *key;
    /* Reads the value into the struct of the object that it is a member of. */
    void (*read)(struct reader *reader, const struct member *member, const struct node *node,
                 void *object);
    size_t offset;
    const char *why; /* of keys that are noted or refused */
};

static struct place place_of(const struct reader *reader, const struct node *node)
{
    const struct json_spot *spot = &reader->spots.items[node->spot];
    return (struct place){reader->file, spot->line, spot->column};
}

#define fault(reader, node, ...) \
    faults_add((reader)->faults, FAULT_ERROR, place_of(reader, node), __VA_ARGS__)

static const char *type_word(const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    }
    return "something else";
}

static bool is_type(struct reader *reader, const struct node *node, bool matches,
                    const char *wanted)
{
    if (!matches)
        fault(reader, node, "%s must be %s, not %s",
              node->path[0] != '\0' ? node->path : "the whole", wanted, type_word(node->json));
    return matches;
}

static bool is_object(struct reader *reader, const struct node *node)
{
    return is_type(reader, node, json_is_object(node->json), "an object");
}

static bool is_string(struct reader *reader, const struct node *node)
{
    return is_type(reader, node, json_is_string(node->json), "a string");
}

static bool is_flag(struct reader *reader, const struct node *node)
{
    return is_type(reader, node, json_is_boolean(node->json), "true or false");
}

static bool is_full_string(struct reader *reader, const struct node *node)
{
    if (!is_string(reader, node))
        return false;
    if (json_string_length(node->json) == 0)
        fault(reader, node, "%s must not be empty", node->path);
    return json_string_length(node->json) > 0;
}

static char *member_path(const char *path, const char *key)
{
    char *out;
    if (asprintf(&out, "%s%s%s", path, path[0] != '\0' ? "." : "", key) < 0)
        abort();
    return out;
}

static char *element_path(const char *path, size_t index)
{
    char *out;
    if (asprintf(&out, "%s[%zu]", path, index) < 0)
        abort();
    return out;
}

static char *copy(const json_t *string)
{
    return grow_check(strdup(json_string_value(string)));
}

static void *at(void *object, size_t offset)
{
    return (char *)object + offset;
}

typedef void each_fn(struct reader *reader, const struct node *node, const char *key, void *arg);

/* Calls `each` for every member of an object or element of an array (`key` is NULL then). */
static void for_each(struct reader *reader, const struct node *node, each_fn *each, void *arg)
{
    size_t spot = node->spot + 1;
    if (json_is_array(node->json)) {
        for (size_t i = 0; i < json_array_size(node->json); i++) {
            autofree char *path = element_path(node->path, i);
            each(reader, &(struct node){json_array_get(node->json, i), spot, path}, NULL, arg);
            spot = reader->spots.items[spot].end;
        }
        return;
    }
    /* jansson iterates in the order of insertion, which is that of the text. */
    const char *key;
    json_t *value;
    json_object_foreach(node->json, key, value)
    {
        autofree char *path = member_path(node->path, key);
        each(reader, &(struct node){value, spot, path}, key, arg);
        spot = reader->spots.items[spot].end;
    }
}

static void unknown_key(struct reader *reader, const struct node *node, const char *key,
                        const struct member *members)
{
    const char *keys[64];
    size_t count = 0;
    for (; members[count].key != NULL; count++)
        keys[count] = members[count].key;
    assert(count < sizeof(keys) / sizeof(keys[0]));
    keys[count] = NULL;
    const char *nearest = nearest_word(key, keys);
    const struct json_spot *spot = &reader->spots.items[node->spot];
    struct place place = {reader->file, spot->key_line, spot->key_column};
    if (nearest != NULL)
        faults_add(reader->faults, FAULT_ERROR, place, "unknown key %s; did you mean %s?",
                   node->path, nearest);
    else
        faults_add(reader->faults, FAULT_ERROR, place, "unknown key %s", node->path);
}

struct object {
    const struct member *members;
    void *out;
};

static void read_member(struct reader *reader, const struct node *node, const char *key, void *arg)
{
    const struct object *object = arg;
    for (const struct member *member = object->members; member->key != NULL; member++) {
        if (strcmp(member->key, key) == 0) {
            member->read(reader, member, node, object->out);
            return;
        }
    }
    unknown_key(reader, node, key, object->members);
}

/* An object with these members, all optional; what is absent stays as it is in `out`. */
static bool read_members(struct reader *reader, const struct node *node,
                         const struct member *members, void *out)
{
    if (!is_object(reader, node))
        return false;
    for_each(reader, node, read_member, &(struct object){members, out});
    return true;
}

static void read_flag(struct reader *reader, const struct member *member, const struct node *node,
                      void *object)
{
    if (is_flag(reader, node))
        *(bool *)at(object, member->offset) = json_is_true(node->json);
}

static void read_string(struct reader *reader, const struct member *member, const struct node *node,
                        void *object)
{
    if (is_full_string(reader, node))
        *(char **)at(object, member->offset) = copy(node->json);
}

static struct settings_text text_at(struct reader *reader, const json_t *string,
                                    const struct node *node)
{
    struct place place = place_of(reader, node);
    return (struct settings_text){
        .text = copy(string),
        .setting = grow_check(strdup(node->path)),
        .line = place.line,
        .column = place.column,
    };
}

static struct settings_text *list_add(struct reader *reader, struct settings_list *list,
                                      const json_t *string, const struct node *node)
{
    list->items = grow_one(list->items, list->count, sizeof(*list->items));
    list->items[list->count] = text_at(reader, string, node);
    return &list->items[list->count++];
}

static void read_list_string(struct reader *reader, const struct node *node, const char *key,
                             void *list)
{
    (void)key;
    if (is_full_string(reader, node))
        list_add(reader, list, node->json, node);
}

static void read_list(struct reader *reader, const struct node *node, each_fn *each,
                      struct settings_list *list)
{
    if (!is_type(reader, node, json_is_array(node->json), "an array"))
        return;
    list->present = true;
    for_each(reader, node, each, list);
}

static void read_strings(struct reader *reader, const struct member *member,
                         const struct node *node, void *object)
{
    read_list(reader, node, read_list_string, at(object, member->offset));
}

static void read_range(struct reader *reader, const struct node *node, const char *key, void *list)
{
    struct cidr range;
    (void)key;
    if (!is_full_string(reader, node))
        return;
    if (value_range(str_of(json_string_value(node->json)), &range))
        list_add(reader, list, node->json, node);
    else
        fault(
            reader, node,
            "%s: `%s` is not an address or a range ADDRESS/LEN without bits set behind its length",
            node->path, json_string_value(node->json));
}

static void read_ranges(struct reader *reader, const struct member *member, const struct node *node,
                        void *object)
{
    read_list(reader, node, read_range, at(object, member->offset));
}

/* {"path": P, "literal": true} and nothing else. */
struct literal_entry {
    const json_t *path;
    bool literal;
};

static void read_literal_path(struct reader *reader, const struct member *member,
                              const struct node *node, void *object)
{
    (void)member;
    if (is_full_string(reader, node))
        ((struct literal_entry *)object)->path = node->json;
}

static void read_literal_flag(struct reader *reader, const struct member *member,
                              const struct node *node, void *object)
{
    (void)member;
    if (is_type(reader, node, json_is_true(node->json), "true"))
        ((struct literal_entry *)object)->literal = true;
}

static const struct member literal_members[] = {
    {"path", read_literal_path, 0, NULL},
    {"literal", read_literal_flag, 0, NULL},
    {NULL, NULL, 0, NULL},
};

static void read_entry(struct reader *reader, const struct node *node, const char *key, void *list)
{
    if (!json_is_object(node->json)) {
        if (is_type(reader, node, json_is_string(node->json),
                    "a path or {\"path\": PATH, \"literal\": true}"))
            read_list_string(reader, node, key, list);
        return;
    }
    struct literal_entry entry = {0};
    size_t errors = reader->faults->errors;
    read_members(reader, node, literal_members, &entry);
    if (reader->faults->errors != errors)
        return;
    if (entry.path == NULL || !entry.literal)
        fault(reader, node, "%s must have both path and literal", node->path);
    else
        list_add(reader, list, entry.path, node)->literal = true;
}

static void read_entries(struct reader *reader, const struct member *member,
                         const struct node *node, void *object)
{
    read_list(reader, node, read_entry, at(object, member->offset));
}

/* Accepted: what it asks for is there anyway, or does not exist on this platform. */
static void note(struct reader *reader, const struct member *member, const struct node *node)
{
    faults_add(reader->faults, FAULT_WARNING, place_of(reader, node), "%s has no effect: %s",
               node->path, member->why);
}

static void note_flag(struct reader *reader, const struct member *member, const struct node *node,
                      void *object)
{
    (void)object;
    if (is_flag(reader, node) && json_is_true(node->json))
        note(reader, member, node);
}

static void note_string(struct reader *reader, const struct member *member, const struct node *node,
                        void *object)
{
    (void)object;
    if (is_full_string(reader, node))
        note(reader, member, node);
}

static void check_string(struct reader *reader, const struct node *node, const char *key, void *arg)
{
    (void)key, (void)arg;
    is_string(reader, node);
}

static void note_strings(struct reader *reader, const struct member *member,
                         const struct node *node, void *object)
{
    (void)object;
    if (!is_type(reader, node, json_is_array(node->json), "an array"))
        return;
    for_each(reader, node, check_string, NULL);
    note(reader, member, node);
}

static void note_object(struct reader *reader, const struct member *member, const struct node *node,
                        void *object)
{
    (void)object;
    if (is_object(reader, node))
        note(reader, member, node);
}

static void note_depth(struct reader *reader, const struct member *member, const struct node *node,
                       void *object)
{
    (void)object;
    json_int_t depth = json_is_integer(node->json) ? json_integer_value(node->json) : 0;
    if (depth >= 1 && depth <= 10)
        note(reader, member, node);
    else
        fault(reader, node, "%s must be a whole number from 1 to 10", node->path);
}

/* Nothing that is asked for is left out in silence. */
static void refuse(struct reader *reader, const struct member *member, const struct node *node,
                   void *object)
{
    (void)object;
    fault(reader, node, "%s asks for what this version does not do: %s", node->path, member->why);
}

/* A switch that is off asks for nothing. */
static void refuse_flag(struct reader *reader, const struct member *member, const struct node *node,
                        void *object)
{
    if (is_flag(reader, node) && json_is_true(node->json))
        refuse(reader, member, node, object);
}

static void read_reason(struct reader *reader, const struct node *node, const char *key, void *arg)
{
    struct settings_network *network = arg;
    if (!is_full_string(reader, node))
        return;
    network->reasons = grow_one(network->reasons, network->reason_count, sizeof(*network->reasons));
    network->reasons[network->reason_count++] =
        (struct settings_reason){.pattern = grow_check(strdup(key)), .reason = copy(node->json)};
}

static void read_reasons(struct reader *reader, const struct member *member,
                         const struct node *node, void *object)
{
    (void)member;
    if (is_object(reader, node))
        for_each(reader, node, read_reason, object);
}

/* A URL may hold a password, so it is not repeated. An empty one is none, as in the environment. */
static void read_parent_text(struct reader *reader, const struct member *member,
                             const struct node *node, void *object)
{
    if (is_string(reader, node))
        *(struct settings_text *)at(object, member->offset) = text_at(reader, node->json, node);
}

static void read_parent_url(struct reader *reader, const struct member *member,
                            const struct node *node, void *object)
{
    struct config_upstream upstream = {0};
    const char *why;
    read_parent_text(reader, member, node, object);
    const struct settings_text *url = at(object, member->offset);
    if (url->text == NULL || url->text[0] == '\0' ||
        upstream_parse_url(&upstream, str_of(url->text), &why))
        return;
    fault(reader, node, "%s is not the address of a proxy: %s", node->path, why);
}

#define PARENT(field) offsetof(struct settings_parent, field)

static const struct member parent_members[] = {
    {"http", read_parent_url, PARENT(http), NULL},
    {"https", read_parent_url, PARENT(https), NULL},
    {"noProxy", read_parent_text, PARENT(no_proxy), NULL},
    {NULL, NULL, 0, NULL},
};

static void read_parent(struct reader *reader, const struct member *member, const struct node *node,
                        void *object)
{
    read_members(reader, node, parent_members, at(object, member->offset));
}

#define NETWORK(field) offsetof(struct settings_network, field)
#define FILESYSTEM(field) offsetof(struct settings_filesystem, field)
#define LAUNCH(field) offsetof(struct settings_launch, field)
#define SETTINGS(field) offsetof(struct settings, field)

static const char only_macos[] = "it is for macOS";
static const char no_other_proxy[] = "another proxy in place of the gateway";
static const char no_inspection[] = "requests inside TLS are not looked at";
static const char no_masks[] = "credentials are not masked, only denied";

static const struct member network_members[] = {
    {"allowedDomains", read_strings, NETWORK(allowed_domains), NULL},
    {"deniedDomains", read_strings, NETWORK(denied_domains), NULL},
    {"deniedDomainReasons", read_reasons, 0, NULL},
    {"strictAllowlist", read_flag, NETWORK(strict_allowlist), NULL},
    {"deniedResolvedAddresses", read_ranges, NETWORK(denied_resolved_addresses), NULL},
    {"allowUnixSockets", read_strings, NETWORK(allow_unix_sockets), NULL},
    {"allowAllUnixSockets", read_flag, NETWORK(allow_all_unix_sockets), NULL},
    {"allowLocalBinding", note_flag, 0, "the sandbox has a loopback of its own to bind to"},
    {"allowMachLookup", note_strings, 0, only_macos},
    {"httpProxyPort", refuse, 0, no_other_proxy},
    {"socksProxyPort", refuse, 0, no_other_proxy},
    {"mitmProxy", refuse, 0, no_other_proxy},
    {"filterRequest", refuse, 0, "a function cannot come from a file"},
    {"allowPlaintextHeaderSet", refuse_flag, 0, no_inspection},
    {"stripResponseHeaders", refuse, 0, "response headers are not changed"},
    {"refuseOpaqueTunnels", refuse_flag, 0, no_inspection},
    {"requireHostMatch", refuse_flag, 0, no_inspection},
    {"ambiguousRequestTarget", refuse, 0, no_inspection},
    {"tlsTerminate", refuse, 0, no_inspection},
    {"parentProxy", read_parent, NETWORK(parent), NULL},
    {NULL, NULL, 0, NULL},
};

static const struct member filesystem_members[] = {
    {"disabled", read_flag, FILESYSTEM(disabled), NULL},
    {"denyRead", read_entries, FILESYSTEM(deny_read), NULL},
    {"allowRead", read_entries, FILESYSTEM(allow_read), NULL},
    {"allowWrite", read_entries, FILESYSTEM(allow_write), NULL},
    {"denyWrite", read_entries, FILESYSTEM(deny_write), NULL},
    {"allowGitConfig", read_flag, FILESYSTEM(allow_git_config), NULL},
    {NULL, NULL, 0, NULL},
};

/* One of credentials.files or credentials.envVars. */
struct credential {
    const json_t *subject; /* path or name */
    bool has_mode;
};

static void read_credential_subject(struct reader *reader, const struct member *member,
                                    const struct node *node, void *object)
{
    (void)member;
    if (is_full_string(reader, node))
        ((struct credential *)object)->subject = node->json;
}

static void read_credential_mode(struct reader *reader, const struct member *member,
                                 const struct node *node, void *object)
{
    (void)member;
    if (!is_string(reader, node))
        return;
    const char *mode = json_string_value(node->json);
    ((struct credential *)object)->has_mode = true;
    if (strcmp(mode, "mask") == 0)
        fault(reader, node, "%s = mask asks for what this version does not do: %s", node->path,
              no_masks);
    else if (strcmp(mode, "deny") != 0)
        fault(reader, node, "%s must be deny or mask, not `%s`", node->path, mode);
}

#define CREDENTIAL_MEMBERS(subject)                                                         \
    {subject, read_credential_subject, 0, NULL}, {"mode", read_credential_mode, 0, NULL},   \
        {"extract", refuse, 0, no_masks}, {"onExtractNoMatch", refuse, 0, no_masks},        \
        {"decode", refuse, 0, no_masks}, {"maskClaims", refuse, 0, no_masks},               \
        {"maskDuplicates", refuse_flag, 0, no_masks}, {"injectHosts", refuse, 0, no_masks}, \
    {                                                                                       \
        NULL, NULL, 0, NULL                                                                 \
    }

static const struct member credential_file_members[] = {CREDENTIAL_MEMBERS("path")};
static const struct member credential_env_members[] = {CREDENTIAL_MEMBERS("name")};

static void read_credential(struct reader *reader, const struct node *node,
                            const struct member *members, struct settings_list *list)
{
    struct credential credential = {0};
    size_t errors = reader->faults->errors;
    if (!read_members(reader, node, members, &credential) || reader->faults->errors != errors)
        return;
    if (credential.subject == NULL || !credential.has_mode)
        fault(reader, node, "%s must have both %s and mode", node->path, members[0].key);
    else
        list_add(reader, list, credential.subject, node);
}

static void read_credential_file(struct reader *reader, const struct node *node, const char *key,
                                 void *list)
{
    (void)key;
    read_credential(reader, node, credential_file_members, list);
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

static void read_credential_env(struct reader *reader, const struct node *node, const char *key,
                                void *arg)
{
    struct settings_list *list = arg;
    size_t count = list->count;
    (void)key;
    read_credential(reader, node, credential_env_members, list);
    if (list->count > count && !is_variable(list->items[count].text))
        fault(reader, node, "%s.name: `%s` is not the name of a variable", node->path,
              list->items[count].text);
}

static void read_credential_files(struct reader *reader, const struct member *member,
                                  const struct node *node, void *object)
{
    read_list(reader, node, read_credential_file, at(object, member->offset));
}

static void read_credential_envs(struct reader *reader, const struct member *member,
                                 const struct node *node, void *object)
{
    read_list(reader, node, read_credential_env, at(object, member->offset));
}

static const struct member credentials_members[] = {
    {"files", read_credential_files, SETTINGS(credential_files_deny), NULL},
    {"envVars", read_credential_envs, SETTINGS(credential_env_deny), NULL},
    {"allowPlaintextInject", refuse_flag, 0, no_masks},
    {"awsPairs", refuse, 0, "AWS requests are not signed anew"},
    {"sigv4", refuse, 0, "AWS requests are not signed anew"},
    {NULL, NULL, 0, NULL},
};

static void read_credentials(struct reader *reader, const struct member *member,
                             const struct node *node, void *object)
{
    (void)member;
    read_members(reader, node, credentials_members, object);
}

static void read_ignored_command(struct reader *reader, const struct node *node, const char *key,
                                 void *arg)
{
    struct settings *settings = arg;
    struct settings_list texts = {0};
    read_list(reader, node, read_list_string, &texts);
    settings->ignore_violations =
        grow_one(settings->ignore_violations, settings->ignore_violation_count,
                 sizeof(*settings->ignore_violations));
    settings->ignore_violations[settings->ignore_violation_count++] =
        (struct settings_ignore){.command = grow_check(strdup(key)), .texts = texts};
}

static void read_ignore_violations(struct reader *reader, const struct member *member,
                                   const struct node *node, void *object)
{
    (void)member;
    if (is_object(reader, node))
        for_each(reader, node, read_ignored_command, object);
}

static const struct member git_members[] = {
    {"safeDirectories", read_strings, SETTINGS(git_safe_directories), NULL},
    {NULL, NULL, 0, NULL},
};

static void read_git(struct reader *reader, const struct member *member, const struct node *node,
                     void *object)
{
    (void)member;
    read_members(reader, node, git_members, object);
}

static void read_absolute_path(struct reader *reader, const struct member *member,
                               const struct node *node, void *object)
{
    if (!is_full_string(reader, node))
        return;
    if (json_string_value(node->json)[0] != '/')
        fault(reader, node, "%s must be an absolute path", node->path);
    else
        *(char **)at(object, member->offset) = copy(node->json);
}

static void read_gateway(struct reader *reader, const struct member *member,
                         const struct node *node, void *object)
{
    if (!is_full_string(reader, node))
        return;
    const char *gateway = json_string_value(node->json);
    if (strcmp(gateway, "private") != 0 &&
        (strncmp(gateway, "unix:", 5) != 0 || gateway[5] == '\0'))
        fault(reader, node, "%s must be private or unix:PATH, not `%s`", node->path, gateway);
    else
        *(char **)at(object, member->offset) = copy(node->json);
}

static void read_egress(struct reader *reader, const struct member *member, const struct node *node,
                        void *object)
{
    static const char *const modes[] = {"port", "transparent", "socket", "none"};
    if (!is_full_string(reader, node))
        return;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(json_string_value(node->json), modes[i]) == 0) {
            *(char **)at(object, member->offset) = copy(node->json);
            return;
        }
    }
    fault(reader, node, "%s must be port, transparent, socket or none, not `%s`", node->path,
          json_string_value(node->json));
}

/* NAME or PREFIX*. */
static void read_variable(struct reader *reader, const struct node *node, const char *key,
                          void *list)
{
    (void)key;
    if (!is_full_string(reader, node))
        return;
    const char *name = json_string_value(node->json);
    size_t plain = strcspn(name, "*=");
    if (name[plain] == '\0' || (name[plain] == '*' && name[plain + 1] == '\0'))
        list_add(reader, list, node->json, node);
    else
        fault(reader, node, "%s: `%s` is neither a variable's name nor PREFIX*", node->path, name);
}

static void read_variables(struct reader *reader, const struct member *member,
                           const struct node *node, void *object)
{
    read_list(reader, node, read_variable, at(object, member->offset));
}

static const struct member launch_members[] = {
    {"gateway", read_gateway, LAUNCH(gateway), NULL},
    {"policy", read_string, LAUNCH(policy), NULL},
    {"egress", read_egress, LAUNCH(egress), NULL},
    {"name", read_string, LAUNCH(name), NULL},
    {"violations", read_string, LAUNCH(violations), NULL},
    {"envDeny", read_variables, LAUNCH(env_deny), NULL},
    {"envAllow", read_variables, LAUNCH(env_allow), NULL},
    {"protect", read_entries, LAUNCH(protect), NULL},
    {NULL, NULL, 0, NULL},
};

static int compare_texts(const void *a, const void *b)
{
    const char *const *text_a = a, *const *text_b = b;
    return strcmp(*text_a, *text_b);
}

/* A reason whose pattern is not denied would never be read, which is a slip of the pen. */
static void check_reasons(struct reader *reader, const struct node *node,
                          const struct settings_network *network)
{
    if (network->reason_count == 0)
        return;
    const struct settings_list *denied = &network->denied_domains;
    const char **patterns = grow_check(calloc(denied->count + 1, sizeof(const char *)));
    for (size_t i = 0; i < denied->count; i++)
        patterns[i] = denied->items[i].text;
    qsort(patterns, denied->count, sizeof(const char *), compare_texts);
    for (size_t i = 0; i < network->reason_count; i++) {
        const char *pattern = network->reasons[i].pattern;
        if (bsearch(&pattern, patterns, denied->count, sizeof(const char *), compare_texts) == NULL)
            faults_add(reader->faults, FAULT_WARNING, place_of(reader, node),
                       "network.deniedDomainReasons has a reason for `%s`, which is not in "
                       "network.deniedDomains",
                       pattern);
    }
    free(patterns);
}

static void read_network_object(struct reader *reader, const struct node *node,
                                struct settings_network *network)
{
    network->present = read_members(reader, node, network_members, network);
    check_reasons(reader, node, network);
}

static void read_network(struct reader *reader, const struct member *member,
                         const struct node *node, void *object)
{
    (void)member;
    struct settings *settings = object;
    read_network_object(reader, node, &settings->network);
    if (settings->network.present)
        settings->network_json = grow_check(json_dumps(node->json, JSON_COMPACT));
}

static void read_filesystem(struct reader *reader, const struct member *member,
                            const struct node *node, void *object)
{
    read_members(reader, node, filesystem_members, at(object, member->offset));
}

static void read_launch(struct reader *reader, const struct member *member, const struct node *node,
                        void *object)
{
    read_members(reader, node, launch_members, at(object, member->offset));
}

static const char own_fence[] = "srt-launch builds the fence without it";

static const struct member settings_members[] = {
    {"network", read_network, 0, NULL},
    {"filesystem", read_filesystem, SETTINGS(filesystem), NULL},
    {"credentials", read_credentials, 0, NULL},
    {"ignoreViolations", read_ignore_violations, 0, NULL},
    {"enableWeakerNestedSandbox", read_flag, SETTINGS(enable_weaker_nested_sandbox), NULL},
    {"allowNestedUserNamespaces", read_flag, SETTINGS(allow_nested_user_namespaces), NULL},
    {"enableWeakerNetworkIsolation", note_flag, 0, only_macos},
    {"allowAppleEvents", note_flag, 0, only_macos},
    {"allowPty", note_flag, 0, only_macos},
    {"ripgrep", note_object, 0, own_fence},
    {"mandatoryDenySearchDepth", note_depth, 0, "names are protected at any depth"},
    {"seccomp", note_object, 0, "srt-launch makes the system call filter itself"},
    {"bwrapPath", read_absolute_path, SETTINGS(bwrap_path), NULL},
    {"socatPath", note_string, 0, own_fence},
    {"javaAgentJarPath", note_string, 0, own_fence},
    {"git", read_git, 0, NULL},
    {"windows", note_object, 0, "it is for Windows"},
    {"launch", read_launch, SETTINGS(launch), NULL},
    {NULL, NULL, 0, NULL},
};

#define FAULT_IN_TEXT(reader, line, column, ...)                                            \
    faults_add((reader)->faults, FAULT_ERROR, (struct place){(reader)->file, line, column}, \
               __VA_ARGS__)

static bool is_blank(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (strchr(" \t\r\n", text.p[i]) == NULL || text.p[i] == '\0')
            return false;
    return true;
}

/* Values take up to a hundred times the memory of their text, and the text may come from a hostile
 * launcher; commas count them from above. */
static bool is_bounded(struct reader *reader, struct str text)
{
    size_t commas = 0;
    for (size_t i = 0; i < text.len; i++)
        commas += text.p[i] == ',';
    if (text.len <= SETTINGS_BYTES_MAX && commas < SETTINGS_VALUES_MAX)
        return true;
    FAULT_IN_TEXT(reader, 1, 1, "is larger than %d bytes or has more than %d values",
                  SETTINGS_BYTES_MAX, SETTINGS_VALUES_MAX);
    return false;
}

/* Text to a document and its spots; NULL and a fault otherwise. */
static json_t *parse(struct reader *reader, struct str text)
{
    if (is_blank(text)) {
        FAULT_IN_TEXT(reader, 1, 1, "is empty; no settings at all are {}");
        return NULL;
    }
    if (file_has_bom(text)) {
        FAULT_IN_TEXT(reader, 1, 1, "starts with a byte order mark; save it as UTF-8 without one");
        return NULL;
    }
    if (!is_bounded(reader, text))
        return NULL;
    json_error_t error;
    json_t *json = json_loadb(text.p, text.len, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL) {
        bool nul = json_error_code(&error) == json_error_null_character;
        FAULT_IN_TEXT(
            reader, error.line > 0 ? (unsigned)error.line : 1,
            error.column > 0 ? (unsigned)error.column : 1, "%s%s",
            nul ? "" : "is not valid JSON: ", nul ? "a string holds a NUL character" : error.text);
        return NULL;
    }
    if (!json_place_scan(text, &reader->spots)) {
        const struct json_spot *spot = &reader->spots.items[reader->spots.count - 1];
        FAULT_IN_TEXT(reader, spot->line, spot->column, "is nested more than %d levels deep",
                      JSON_PLACE_DEPTH_MAX);
        json_decref(json);
        return NULL;
    }
    return json;
}

struct settings *settings_default(void)
{
    return grow_check(calloc(1, sizeof(struct settings)));
}

struct settings *settings_read_text(const char *file_name, struct str text, struct faults *faults)
{
    size_t errors = faults->errors;
    struct reader reader = {.file = file_name, .faults = faults};
    struct settings *settings = settings_default();
    settings->file = grow_check(strdup(file_name));
    json_t *json = parse(&reader, text);
    if (json != NULL)
        read_members(&reader, &(struct node){json, 0, ""}, settings_members, settings);
    json_decref(json);
    free(reader.spots.items);
    if (faults->errors == errors)
        return settings;
    settings_free(settings);
    return NULL;
}

struct settings *settings_read(const char *path, struct faults *faults)
{
    autofree char *bytes = NULL;
    size_t len;
    struct srt_err err;
    if (file_read(path, SETTINGS_BYTES_MAX, &bytes, &len, NULL, &err) != 0) {
        faults_add(faults, FAULT_ERROR, (struct place){.file = path}, "%s", err.text);
        return NULL;
    }
    return settings_read_text(path, (struct str){bytes, len}, faults);
}

bool settings_network_read(struct settings_network *out, const char *source, struct str json_text,
                           struct faults *faults)
{
    size_t errors = faults->errors;
    struct reader reader = {.file = source, .faults = faults};
    *out = (struct settings_network){0};
    json_t *json = parse(&reader, json_text);
    if (json != NULL)
        read_network_object(&reader, &(struct node){json, 0, "network"}, out);
    json_decref(json);
    free(reader.spots.items);
    if (faults->errors == errors)
        return true;
    settings_network_free(out);
    return false;
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
