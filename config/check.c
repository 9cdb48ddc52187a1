#include "config/check.h"

#include "config/trust.h"
#include "srt/must.h"

enum { INHERIT_DEPTH_MAX = 32 };

/* ---- one section ---- */

static void check_socket_key(struct reader *reader, const struct config_listen *listen,
                             const char *key)
{
    const struct place *place = reader_place_of(reader, "listen", key);
    if (place != NULL && listen->address.path == NULL)
        fault_at(reader, *place, "%s is for Unix sockets, and [listen %s] is not one", key,
                 listen->name);
}

static void check_listen(struct reader *reader, void *item)
{
    const struct config_listen *listen = item;
    if (reader_place_of(reader, "listen", "address") == NULL) {
        fault_at(reader, listen->place, "[listen %s] has no address", listen->name);
        return;
    }
    check_socket_key(reader, listen, "mode");
    check_socket_key(reader, listen, "group");
}

static void check_client(struct reader *reader, void *item)
{
    const struct config_client *client = item;
    if (client->policy == NULL)
        fault_at(reader, client->place, "[client %s] has no policy", client->name);
    const struct place *digest = reader_place_of(reader, "client", "token-sha256");
    const struct place *file = reader_place_of(reader, "client", "token-file");
    if (digest != NULL && file != NULL)
        fault_at(reader, *file, "[client %s] has token-sha256 already, on line %u", client->name,
                 digest->line);
    if (digest == NULL && file == NULL && reader_place_of(reader, "client", "uid") == NULL &&
        reader_place_of(reader, "client", "source") == NULL)
        fault_at(reader, client->place,
                 "[client %s] says nobody: it needs token-sha256, token-file, uid or source",
                 client->name);
}

static void check_filter(struct reader *reader, void *item)
{
    const struct config_filter *filter = item;
    if (reader_place_of(reader, "filter", "module") == NULL)
        fault_at(reader, filter->place, "[filter %s] has no module", filter->name);
}

static void check_trust(struct reader *reader, struct config_upstream *upstream)
{
    struct srt_err err;
    const struct place *file = reader_place_of(reader, "upstream", "ca-file");
    if (file != NULL && !upstream->tls)
        fault_at(reader, *file, "ca-file: only an https:// upstream shows a certificate");
    if (!upstream->tls || file != NULL)
        return;
    upstream->trust = trust_load(STR(""), &err);
    if (upstream->trust == NULL)
        fault_at(reader, *reader_place_of(reader, "upstream", "address"), "address: %s", err.text);
}

static void check_upstream(struct reader *reader, void *item)
{
    struct config_upstream *upstream = item;
    if (reader_place_of(reader, "upstream", "address") == NULL)
        fault_at(reader, upstream->place, "[upstream %s] has no address", upstream->name);
    if (upstream->kind == UPSTREAM_SOCKS5 && upstream->has_credentials &&
        upstream->password[0] == '\0')
        fault_at(reader, *reader_place_of(reader, "upstream", "credentials-file"),
                 "credentials-file: SOCKS5 knows no empty password");
    check_trust(reader, upstream);
    if (strcmp(upstream->name, "direct") == 0)
        fault_at(reader, upstream->place,
                 "[upstream direct] cannot be: via=direct stands for no upstream at all");
}

void check_section(struct reader *reader, const struct section *section, void *item)
{
    static const struct {
        const char *word;
        void (*check)(struct reader *reader, void *item);
    } checks[] = {{"listen", check_listen},
                  {"client", check_client},
                  {"filter", check_filter},
                  {"upstream", check_upstream}};
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
        if (strcmp(checks[i].word, section->word) == 0)
            checks[i].check(reader, item);
}

/* ---- names ---- */

/* The names of one kind of section, sorted, so that ten thousand can refer to each other. */
struct index {
    const void **items;
    size_t count;
};

/* Equal names in the order of the file, which is the order of their addresses. */
static int compare_items(const void *a, const void *b)
{
    const void *const *item_a = a, *const *item_b = b;
    int order = strcmp(*section_name(*item_a), *section_name(*item_b));
    return order != 0 ? order : (*item_a > *item_b) - (*item_a < *item_b);
}

static int compare_name(const void *name, const void *item)
{
    const void *const *named = item;
    return strcmp(name, *section_name(*named));
}

static struct index index_build(const struct gateway_config *config, const struct section *section)
{
    struct index index = {.count = section_count(config, section)};
    index.items = must(calloc(index.count + 1, sizeof(const void *)));
    for (size_t i = 0; i < index.count; i++)
        index.items[i] = section_item(config, section, i);
    qsort(index.items, index.count, sizeof(const void *), compare_items);
    return index;
}

static const void *index_find(const struct index *index, const char *name)
{
    const void *const *found =
        bsearch(name, index->items, index->count, sizeof(const void *), compare_name);
    return found != NULL ? *found : NULL;
}

static void check_duplicates(struct reader *reader, const char *section, const struct index *index)
{
    for (size_t i = 1; i < index->count; i++) {
        const void *first = index->items[i - 1], *second = index->items[i];
        const char *name = *section_name(second);
        if (name[0] != '\0' && strcmp(*section_name(first), name) == 0)
            fault_at(reader, *section_place(second), "[%s %s] stands already at %s:%u", section,
                     name, section_place(first)->file, section_place(first)->line);
    }
}

static void check_reference(struct reader *reader, const struct index *index,
                            const struct reference *reference)
{
    if (index_find(index, reference->name) != NULL)
        return;
    char hint[NEAREST_HINT_MAX];
    const char **names = must_calloc(index->count + 1, sizeof(const char *));
    for (size_t i = 0; i < index->count; i++)
        names[i] = *section_name(index->items[i]);
    fault_at(reader, reference->place, "%s: there is no [%s %s]%s", reference->key,
             reference->section, reference->name, nearest_hint(hint, "`", reference->name, names));
    free(names);
}

struct inheritance {
    struct reader *reader;
    const struct index *policies;
    unsigned *depth; /* of each policy in config->policies: 0 unknown, otherwise 1 + its longest */
    bool *open;      /* on the path that is being walked */
};

/* How deep a policy inherits; a fault where it comes back to itself. Recursion ends at
 * INHERIT_DEPTH_MAX, since deeper policies are at fault anyway. */
static unsigned inherit_depth(struct inheritance *walk, size_t at_policy, unsigned level)
{
    const struct config_policy *policies = walk->reader->config->policies;
    const struct config_policy *policy = &policies[at_policy];
    if (walk->depth[at_policy] != 0 || level > INHERIT_DEPTH_MAX)
        return walk->depth[at_policy] != 0 ? walk->depth[at_policy] : 1;
    unsigned deepest = 0;
    walk->open[at_policy] = true;
    for (size_t i = 0; i < policy->inherit.count; i++) {
        const struct config_text *parent = &policy->inherit.items[i];
        const struct config_policy *found = index_find(walk->policies, parent->text.p);
        if (found == NULL)
            continue;
        size_t index = (size_t)(found - policies);
        if (walk->open[index]) {
            fault_at(walk->reader, parent->place,
                     "inherit: [policy %s] inherits itself by way of "
                     "`%s`",
                     found->name, policy->name);
            continue;
        }
        unsigned depth = inherit_depth(walk, index, level + 1);
        deepest = depth > deepest ? depth : deepest;
    }
    walk->open[at_policy] = false;
    walk->depth[at_policy] = deepest + 1;
    if (deepest + 1 == INHERIT_DEPTH_MAX + 1)
        fault_at(walk->reader, policy->place, "[policy %s] inherits more than %d levels deep",
                 policy->name, INHERIT_DEPTH_MAX);
    return deepest + 1;
}

static void check_inheritance(struct reader *reader, const struct index *policies)
{
    if (policies->count == 0)
        return;
    struct inheritance walk = {
        .reader = reader,
        .policies = policies,
        .depth = must(calloc(policies->count, sizeof(unsigned))),
        .open = must(calloc(policies->count, sizeof(bool))),
    };
    for (size_t i = 0; i < policies->count; i++)
        inherit_depth(&walk, i, 1);
    free(walk.depth);
    free(walk.open);
}

static void check_names(struct reader *reader)
{
    for (size_t i = 0; i < SECTIONS; i++) {
        const struct section *section = &sections[i];
        if (section->size == 0)
            continue;
        struct index index = index_build(reader->config, section);
        check_duplicates(reader, section->word, &index);
        for (size_t j = 0; j < reader->references.count; j++)
            if (strcmp(reader->references.items[j].section, section->word) == 0)
                check_reference(reader, &index, &reader->references.items[j]);
        if (strcmp(section->word, "policy") == 0)
            check_inheritance(reader, &index);
        free(index.items);
    }
}

static bool some_client_has_token(const struct gateway_config *config)
{
    for (size_t i = 0; i < config->client_count; i++)
        if (config->clients[i].has_token)
            return true;
    return false;
}

/* Listeners on which nobody could ever be identified. */
static void check_identities(struct reader *reader)
{
    const struct gateway_config *config = reader->config;
    for (size_t i = 0; i < config->listen_count; i++) {
        const struct config_listen *listen = &config->listens[i];
        if (listen->policy == NULL && config->client_count == 0)
            fault_at(reader, listen->place,
                     "[listen %s] has no policy, and there is no [client] section to decide",
                     listen->name);
        else if (listen->auth == AUTH_TOKEN && !some_client_has_token(config))
            fault_at(reader, listen->place,
                     "[listen %s] has auth = token, but no [client] has a token", listen->name);
    }
}

/* Both cannot be bound: the same socket, or the same port of an address and of all addresses. */
static bool addresses_clash(const struct config_address *a, const struct config_address *b)
{
    static const struct addr all[] = {{.family = 4}, {.family = 6}};
    if (a->path != NULL || b->path != NULL)
        return a->path != NULL && b->path != NULL && strcmp(a->path, b->path) == 0;
    if (a->port == 0 || a->port != b->port || a->addr.family != b->addr.family)
        return false;
    const struct addr *any = &all[a->addr.family == 6];
    return addr_eq(&a->addr, &b->addr) || addr_eq(&a->addr, any) || addr_eq(&b->addr, any);
}

static void check_addresses(struct reader *reader)
{
    const struct gateway_config *config = reader->config;
    for (size_t i = 0; i < config->listen_count; i++) {
        const struct config_listen *listen = &config->listens[i];
        const char *taken = NULL;
        for (size_t k = 0; k < i; k++)
            if (addresses_clash(&config->listens[k].address, &listen->address))
                fault_at(reader, listen->place, "[listen %s] has the address of [listen %s]",
                         listen->name, config->listens[k].name);
        if (addresses_clash(&config->control, &listen->address))
            taken = "control";
        for (size_t k = 0; k < config->admin_count; k++)
            if (addresses_clash(&config->admin[k], &listen->address))
                taken = "admin";
        if (taken != NULL)
            fault_at(reader, listen->place, "[listen %s] has the address of %s", listen->name,
                     taken);
    }
    const struct place *admin = reader_place_of(reader, "gateway", "admin");
    for (size_t i = 0; i < config->admin_count; i++) {
        for (size_t k = 0; k < i; k++)
            if (addresses_clash(&config->admin[k], &config->admin[i]))
                fault_at(reader, *admin, "admin names the same address twice");
        if (addresses_clash(&config->admin[i], &config->control))
            fault_at(reader, *admin, "admin has the address of control");
    }
}

static void check_gateway(struct reader *reader)
{
    const struct gateway_config *config = reader->config;
    const struct place *admin = reader_place_of(reader, "gateway", "admin");
    if (reader->admin_is_none && config->admin_count > 0)
        fault_at(reader, *admin, "admin = none stands beside other addresses");
    if (config->dns_min_ttl_s > config->dns_max_ttl_s) {
        const struct place *min = reader_place_of(reader, "dns", "min-ttl");
        const struct place *max = reader_place_of(reader, "dns", "max-ttl");
        fault_at(reader, min != NULL ? *min : *max, "min-ttl is more than max-ttl");
    }
}

void check_whole(struct reader *reader)
{
    check_names(reader);
    check_identities(reader);
    check_addresses(reader);
    check_gateway(reader);
}
