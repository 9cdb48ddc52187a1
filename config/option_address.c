#include "config/option_read.h"

#include "config/value.h"
#include "srt/grow.h"
#include "srt/must.h"

#include <assert.h>
#include <sys/un.h>

static bool read_socket_path(struct option_input *input, struct str path,
                             struct config_address *address)
{
    if (path.len == 0 || str_has(path, '"')) {
        option_reject(input, str_of(input->text), "unix:/PATH");
        return false;
    }
    const char *kept = ini_keep(input->doc, path);
    address->path = ini_resolve(input->doc, input->place.file, kept);
    size_t max = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
    if (strlen(address->path) <= max)
        return true;
    fault(input, "%s: the path `%s` is longer than the %zu bytes a Unix socket can have",
          input->key, address->path, max);
    return false;
}

/* `host` is everything before the last colon; names are never resolved here. */
static bool read_host(struct str host, struct addr *addr)
{
    if (str_eq(host, STR("localhost")))
        return addr_parse(addr, STR("127.0.0.1"));
    if (host.len > 2 && host.p[0] == '[' && host.p[host.len - 1] == ']')
        return addr_parse(addr, (struct str){host.p + 1, host.len - 2});
    return !str_has(host, ':') && addr_parse(addr, host);
}

static bool read_host_port(struct str text, uint64_t min_port, struct addr *addr, uint16_t *port)
{
    const char *colon = memrchr(text.p, ':', text.len);
    if (colon == NULL)
        return false;
    struct str host = {text.p, (size_t)(colon - text.p)};
    uint64_t number;
    if (!read_host(host, addr) || !str_uint(str_from(text, host.len + 1), 65535, &number) ||
        number < min_port)
        return false;
    *port = (uint16_t)number;
    return true;
}

/* IPv4:port, [IPv6]:port, localhost:port, unix:/path or /path. */
static bool read_address(struct option_input *input, struct config_address *address)
{
    struct str text = str_of(input->text);
    *address = (struct config_address){0};
    if (str_starts(text, STR("unix:")))
        return read_socket_path(input, str_from(text, 5), address);
    if (text.p[0] == '/')
        return read_socket_path(input, text, address);
    if (read_host_port(text, 0, &address->addr, &address->port))
        return true;
    option_reject(input, text, "an address: IPv4:PORT, [IPv6]:PORT or unix:/PATH");
    return false;
}

const char *config_address_format(char out[CONFIG_ADDRESS_TEXT_MAX],
                                  const struct config_address *address)
{
    char text[ADDR_TEXT_MAX];
    if (address->path != NULL)
        snprintf(out, CONFIG_ADDRESS_TEXT_MAX, "unix:%s", address->path);
    else if (address->addr.family == 0)
        snprintf(out, CONFIG_ADDRESS_TEXT_MAX, "none");
    else
        snprintf(out, CONFIG_ADDRESS_TEXT_MAX, address->addr.family == 6 ? "[%s]:%u" : "%s:%u",
                 addr_format(text, &address->addr), address->port);
    return out;
}

static void print_address(const char *key, const struct config_address *address, FILE *out)
{
    char text[CONFIG_ADDRESS_TEXT_MAX];
    fprintf(out, "%s = %s\n", key, config_address_format(text, address));
}

static void read_listen_address(const struct option *option, void *field,
                                struct option_input *input)
{
    (void)option;
    read_address(input, field);
}

static void print_one_address(const struct option *option, const void *field, FILE *out)
{
    print_address(option->key, field, out);
}

const struct option_kind kind_listen_address = {read_listen_address, print_one_address};

static void read_control_address(const struct option *option, void *field,
                                 struct option_input *input)
{
    (void)option;
    struct config_address *address = field;
    if (strcmp(input->text, "none") == 0)
        *address = (struct config_address){0};
    else if (read_address(input, address) && address->path == NULL)
        fault(input, "%s must be a Unix socket, since launchers hand descriptors over it",
              input->key);
}

const struct option_kind kind_control_address = {read_control_address, print_one_address};

static void read_admin_addresses(const struct option *option, void *field,
                                 struct option_input *input)
{
    (void)option;
    struct gateway_config *config = field;
    struct config_address address;
    if (strcmp(input->text, "none") == 0) /* gateway_config.c refuses it beside addresses */
        return;
    if (!read_address(input, &address))
        return;
    if (address.path == NULL && !addr_is_loopback(&address.addr)) {
        fault(input, "%s: `%s` is neither a Unix socket nor a loopback address", input->key,
              input->text);
        return;
    }
    config->admin = grow_one(config->admin, config->admin_count, sizeof(*config->admin));
    config->admin[config->admin_count++] = address;
}

static void print_admin_addresses(const struct option *option, const void *field, FILE *out)
{
    const struct gateway_config *config = field;
    for (size_t i = 0; i < config->admin_count; i++)
        print_address(option->key, &config->admin[i], out);
    if (config->admin_count == 0)
        fprintf(out, "%s = none\n", option->key);
}

const struct option_kind kind_admin_addresses = {read_admin_addresses, print_admin_addresses};

static bool accept_range(const struct option *option, struct option_input *input, const char *word)
{
    (void)option;
    struct cidr range;
    if (value_range(str_of(word), &range))
        return true;
    option_reject(input, str_of(word),
                  "an address or a range ADDRESS/LEN without bits set behind its length");
    return false;
}

static void read_ranges(const struct option *option, void *field, struct option_input *input)
{
    option_read_words(option, field, input, accept_range);
}

const struct option_kind kind_ranges = {read_ranges, option_print_lines};

/* Addresses of this machine's own that are written by mistake: connections come from none of them.
 */
static bool can_be_source(const struct addr *addr)
{
    static const char *const others[] = {"0.0.0.0/8", "224.0.0.0/3", "::/128", "ff00::/8",
                                         "fe80::/10" /* needs a zone */};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct cidr range;
        bool parsed = cidr_parse(&range, str_of(others[i]));
        assert(parsed);
        if (cidr_contains(&range, addr))
            return false;
    }
    return true;
}

/* What the kernel takes as a name (dev_valid_name), and with a letter first, so that no mistyped
 * address is one. */
static bool is_interface(struct str word)
{
    if (word.len == 0 || word.len >= IF_NAMESIZE || !((word.p[0] | 0x20) >= 'a') ||
        !((word.p[0] | 0x20) <= 'z'))
        return false;
    for (size_t i = 0; i < word.len; i++)
        if (word.p[i] <= ' ' || word.p[i] > '~' || word.p[i] == '/' || word.p[i] == ':')
            return false;
    return true;
}

static void read_bind_word(struct config_bind *bind, struct str word, struct option_input *input)
{
    struct addr addr;
    if (addr_parse(&addr, word)) {
        struct addr *slot = addr.family == 4 ? &bind->v4 : &bind->v6;
        if (!can_be_source(&addr))
            fault(input, "%s: connections cannot come from %.*s", input->key, STR_ARG(word));
        else if (slot->family != 0)
            fault(input, "%s: %.*s is the second IPv%d address", input->key, STR_ARG(word),
                  addr.family);
        else
            *slot = addr;
    } else if (!is_interface(word)) {
        option_reject(input, word, "an IP address or the name of a network interface");
    } else if (bind->interface[0] != '\0') {
        fault(input, "%s: %.*s is the second interface", input->key, STR_ARG(word));
    } else {
        memcpy(bind->interface, word.p, word.len);
    }
}

static void read_bind(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    struct str rest = str_of(input->text), word;
    bool any = false;
    for (; option_next_word(&rest, &word); any = true)
        read_bind_word(field, word, input);
    if (!any)
        fault(input, "%s names nothing", input->key);
}

static void print_bind(const struct option *option, const void *field, FILE *out)
{
    const struct config_bind *bind = field;
    char v4[ADDR_TEXT_MAX] = "", v6[ADDR_TEXT_MAX] = "";
    if (bind->v4.family != 0)
        addr_format(v4, &bind->v4);
    if (bind->v6.family != 0)
        addr_format(v6, &bind->v6);
    const char *const words[] = {v4, v6, bind->interface};
    const char *before = "";
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (words[i][0] == '\0')
            continue;
        if (before[0] == '\0')
            fprintf(out, "%s = ", option->key);
        fprintf(out, "%s%s", before, words[i]);
        before = ", ";
    }
    if (before[0] != '\0')
        fputc('\n', out);
}

const struct option_kind kind_bind = {read_bind, print_bind};

static void read_source(const struct option *option, void *field, struct option_input *input)
{
    struct config_client *client = field;
    client->has_source = accept_range(option, input, input->text) &&
                         value_range(str_of(input->text), &client->source);
}

static void print_source(const struct option *option, const void *field, FILE *out)
{
    const struct config_client *client = field;
    char text[ADDR_TEXT_MAX];
    if (client->has_source)
        fprintf(out, "%s = %s/%u\n", option->key, addr_format(text, &client->source.base),
                client->source.len);
}

const struct option_kind kind_source = {read_source, print_source};

/* Where somebody has put credentials by mistake, they are not repeated. */
static void read_upstream_address(const struct option *option, void *field,
                                  struct option_input *input)
{
    (void)option;
    const char *why;
    if (upstream_parse(field, str_of(input->text), &why))
        return;
    if (strchr(input->text, '@') != NULL)
        fault(input, "%s: %s", input->key, why);
    else
        fault(input, "%s: `%s`: %s", input->key, input->text, why);
}

static void print_upstream_address(const struct option *option, const void *field, FILE *out)
{
    char text[UPSTREAM_TEXT_MAX];
    fprintf(out, "%s = %s\n", option->key, upstream_format(text, field));
}

const struct option_kind kind_upstream_address = {read_upstream_address, print_upstream_address};

static bool read_server(struct str word, struct addr *addr, uint16_t *port)
{
    *port = 53;
    if (addr_parse(addr, word))
        return true;
    if (word.len > 2 && word.p[0] == '[' && word.p[word.len - 1] == ']')
        return addr_parse(addr, (struct str){word.p + 1, word.len - 2});
    return read_host_port(word, 1, addr, port);
}

/* `system`, or a list as dns/resolver.h takes it. */
static void read_servers(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    const char **servers = field;
    *servers = input->text;
    if (strcmp(input->text, "system") == 0)
        return;
    char *list = NULL;
    size_t size;
    FILE *out = must(open_memstream(&list, &size));
    struct str rest = str_of(input->text), word;
    bool any = false;
    while (option_next_word(&rest, &word)) {
        struct addr addr;
        uint16_t port;
        char text[ADDR_TEXT_MAX];
        if (!read_server(word, &addr, &port)) {
            option_reject(input, word, "`system` or a list of IPv4[:PORT] and [IPv6]:PORT");
            continue;
        }
        fprintf(out, addr.family == 6 ? "%s[%s]:%u" : "%s%s:%u", any ? "," : "",
                addr_format(text, &addr), port);
        any = true;
    }
    if (fclose(out) != 0)
        must_end();
    *servers = ini_keep(input->doc, (struct str){list, size});
    free(list);
}

const struct option_kind kind_servers = {read_servers, option_print_text};
