#include "config/option.h"

#include "config/file.h"
#include "config/grow.h"
#include "config/trust.h"
#include "config/value.h"

#include <assert.h>
#include <grp.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <sys/un.h>

enum { SECRET_FILE_MAX = 64 << 10 };

#define fault(input, ...) faults_add((input)->faults, FAULT_ERROR, (input)->place, __VA_ARGS__)

/* The usual fault: what it says and what it should be. */
static void reject(const struct option_input *input, struct str value, const char *wanted)
{
    fault(input, "%s: `%.*s` is not %s", input->key, STR_ARG(value), wanted);
}

/* The next word of a list separated by commas, spaces and tabs. */
static bool next_word(struct str *rest, struct str *word)
{
    size_t start = 0;
    while (start < rest->len && strchr(", \t", rest->p[start]) != NULL)
        start++;
    size_t end = start;
    while (end < rest->len && strchr(", \t", rest->p[end]) == NULL)
        end++;
    *word = (struct str){rest->p + start, end - start};
    *rest = str_from(*rest, end);
    return word->len > 0;
}

static void list_add(struct config_list *list, struct str text, struct place place)
{
    list->items = grow_one(list->items, list->count, sizeof(*list->items));
    list->items[list->count++] = (struct config_text){.text = text, .place = place};
}

/* Splits into words, each kept with a NUL behind it. A list of nothing but commas is a fault. */
static void read_words(struct option_input *input, struct config_list *list,
                       bool (*accept)(struct option_input *input, const char *word))
{
    struct str rest = str_of(input->text), word;
    bool any = false;
    while (next_word(&rest, &word)) {
        const char *kept = ini_keep(input->doc, word);
        any = true;
        if (accept(input, kept))
            list_add(list, (struct str){kept, word.len}, input->place);
    }
    if (!any)
        fault(input, "%s names nothing", input->key);
}

static void print_lines(const struct option *option, const void *field, FILE *out)
{
    const struct config_list *list = field;
    for (size_t i = 0; i < list->count; i++)
        fprintf(out, "%s = %.*s\n", option->key, STR_ARG(list->items[i].text));
}

static void print_words(const struct option *option, const void *field, FILE *out)
{
    const struct config_list *list = field;
    if (list->count == 0)
        return;
    fprintf(out, "%s =", option->key);
    for (size_t i = 0; i < list->count; i++)
        fprintf(out, "%s %.*s", i > 0 ? "," : "", STR_ARG(list->items[i].text));
    fputc('\n', out);
}

static void print_text(const struct option *option, const void *field, FILE *out)
{
    const char *const *text = field;
    if (*text != NULL)
        fprintf(out, "%s = %s\n", option->key, *text);
}

static void print_number(const struct option *option, const void *field, FILE *out)
{
    uint64_t number = *(const uint64_t *)field;
    if (number >= option->min) /* less: it was not set */
        fprintf(out, "%s = %" PRIu64 "\n", option->key, number);
}

static void read_count(const struct option *option, void *field, struct option_input *input)
{
    uint64_t *count = field, max = option->max != 0 ? option->max : UINT64_MAX;
    if (!value_uint(str_of(input->text), max, count) || *count < option->min)
        reject(input, str_of(input->text), option->type);
}

const struct option_kind kind_count = {read_count, print_number};

static void read_workers(const struct option *option, void *field, struct option_input *input)
{
    uint64_t count = 0;
    bool automatic = strcmp(input->text, "auto") == 0;
    if (!automatic && (!value_uint(str_of(input->text), option->max, &count) || count == 0))
        reject(input, str_of(input->text), option->type);
    *(uint32_t *)field = (uint32_t)count;
}

static void print_workers(const struct option *option, const void *field, FILE *out)
{
    uint32_t count = *(const uint32_t *)field;
    if (count == 0)
        fprintf(out, "%s = auto\n", option->key);
    else
        fprintf(out, "%s = %" PRIu32 "\n", option->key, count);
}

const struct option_kind kind_workers = {read_workers, print_workers};

static void read_uid(const struct option *option, void *field, struct option_input *input)
{
    struct config_client *client = field;
    uint64_t uid = 0;
    /* The highest value is (uid_t)-1, which means "no user" to the kernel. */
    client->has_uid = value_uint(str_of(input->text), UINT32_MAX - 1, &uid);
    client->uid = (uint32_t)uid;
    if (!client->has_uid)
        reject(input, str_of(input->text), option->type);
}

static void print_uid(const struct option *option, const void *field, FILE *out)
{
    const struct config_client *client = field;
    if (client->has_uid)
        fprintf(out, "%s = %" PRIu32 "\n", option->key, client->uid);
}

const struct option_kind kind_uid = {read_uid, print_uid};

static const char duration_wanted[] = "a duration: 0, or a number with ms, s, m, h or d";

/* A year and some: what is longer was meant as "for ever", and sums of times must not overflow. */
static const uint64_t duration_max_ms = UINT64_C(400) * 24 * 3600 * 1000;

static bool duration_in_bounds(const struct option *option, struct option_input *input, uint64_t ms)
{
    if (ms < option->min)
        fault(input, "%s must be more than 0", input->key);
    else if (option->max != 0 && ms > option->max)
        fault(input, "%s: `%s` is more than %" PRIu64 "s", input->key, input->text,
              option->max / 1000);
    else if (ms > duration_max_ms)
        fault(input, "%s: `%s` is more than 400 days", input->key, input->text);
    else
        return true;
    return false;
}

static void read_duration_ms(const struct option *option, void *field, struct option_input *input)
{
    uint64_t *ms = field;
    if (!value_duration_ms(str_of(input->text), ms))
        reject(input, str_of(input->text), duration_wanted);
    else
        duration_in_bounds(option, input, *ms);
}

static void print_duration_ms(const struct option *option, const void *field, FILE *out)
{
    uint64_t ms = *(const uint64_t *)field;
    if (ms % 1000 == 0)
        fprintf(out, "%s = %" PRIu64 "s\n", option->key, ms / 1000);
    else
        fprintf(out, "%s = %" PRIu64 "ms\n", option->key, ms);
}

const struct option_kind kind_duration_ms = {read_duration_ms, print_duration_ms};

static void read_duration_s(const struct option *option, void *field, struct option_input *input)
{
    uint64_t ms, *seconds = field;
    if (!value_duration_ms(str_of(input->text), &ms))
        reject(input, str_of(input->text), duration_wanted);
    else if (ms % 1000 != 0)
        fault(input, "%s: `%s` is not a whole number of seconds", input->key, input->text);
    else if (duration_in_bounds(option, input, ms))
        *seconds = ms / 1000;
}

static void print_duration_s(const struct option *option, const void *field, FILE *out)
{
    fprintf(out, "%s = %" PRIu64 "s\n", option->key, *(const uint64_t *)field);
}

const struct option_kind kind_duration_s = {read_duration_s, print_duration_s};

static void read_size(const struct option *option, void *field, struct option_input *input)
{
    uint64_t *size = field;
    if (!value_size(str_of(input->text), size))
        reject(input, str_of(input->text), "a size: bytes, or a number with k, m or g");
    else if (*size < option->min || *size > option->max)
        fault(input, "%s: `%s` is not between %" PRIu64 " and %" PRIu64 " bytes", input->key,
              input->text, option->min, option->max);
}

const struct option_kind kind_size = {read_size, print_number};

static void read_any_rate(void *field, struct option_input *input, bool sizes, const char *wanted)
{
    struct config_rate *rate = field;
    if (!value_rate(str_of(input->text), sizes, &rate->count, &rate->per_ms) || rate->count == 0)
        reject(input, str_of(input->text), wanted);
}

static void read_rate(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    read_any_rate(field, input, false, "a rate above 0: a number and /s, /m, /h or /d");
}

static void read_byte_rate(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    read_any_rate(field, input, true, "a rate above 0: a size and /s, /m, /h or /d");
}

static void print_rate(const struct option *option, const void *field, FILE *out)
{
    const struct config_rate *rate = field;
    if (rate->count == 0)
        return;
    const char *unit = rate->per_ms == 1000          ? "s"
                       : rate->per_ms == 60 * 1000   ? "m"
                       : rate->per_ms == 3600 * 1000 ? "h"
                                                     : "d";
    fprintf(out, "%s = %" PRIu64 "/%s\n", option->key, rate->count, unit);
}

const struct option_kind kind_rate = {read_rate, print_rate};
const struct option_kind kind_byte_rate = {read_byte_rate, print_rate};

static void read_bool(const struct option *option, void *field, struct option_input *input)
{
    if (!value_bool(str_of(input->text), field))
        reject(input, str_of(input->text), option->type);
}

static void print_bool(const struct option *option, const void *field, FILE *out)
{
    fprintf(out, "%s = %s\n", option->key, *(const bool *)field ? "yes" : "no");
}

const struct option_kind kind_bool = {read_bool, print_bool};

/* The words of a type are separated by " | ". */
static struct str word_at(const char *type, unsigned index)
{
    struct str rest = str_of(type);
    for (;;) {
        const char *bar = memchr(rest.p, '|', rest.len);
        struct str word =
            str_trim((struct str){rest.p, bar != NULL ? (size_t)(bar - rest.p) : rest.len});
        if (index-- == 0)
            return word;
        if (bar == NULL)
            return STR_NULL;
        rest = str_from(rest, (size_t)(bar - rest.p) + 1);
    }
}

static bool find_word(const struct option *option, struct option_input *input, unsigned *index)
{
    for (*index = 0; word_at(option->type, *index).p != NULL; ++*index)
        if (str_eq(word_at(option->type, *index), str_of(input->text)))
            return true;
    reject(input, str_of(input->text), option->type);
    return false;
}

static void read_word(const struct option *option, void *field, struct option_input *input)
{
    unsigned index;
    if (find_word(option, input, &index))
        *(unsigned *)field = index;
}

static void print_word(const struct option *option, const void *field, FILE *out)
{
    fprintf(out, "%s = %.*s\n", option->key,
            STR_ARG(word_at(option->type, *(const unsigned *)field)));
}

const struct option_kind kind_word = {read_word, print_word};

static void read_word_bool(const struct option *option, void *field, struct option_input *input)
{
    unsigned index;
    if (find_word(option, input, &index))
        *(bool *)field = index == 1;
}

static void print_word_bool(const struct option *option, const void *field, FILE *out)
{
    fprintf(out, "%s = %.*s\n", option->key, STR_ARG(word_at(option->type, *(const bool *)field)));
}

const struct option_kind kind_word_bool = {read_word_bool, print_word_bool};

/* Quotes mean something only in a rule's reason; elsewhere they would become part of the value. */
static bool is_unquoted(struct option_input *input)
{
    if (strchr(input->text, '"') == NULL)
        return true;
    fault(input, "%s: quotes are not removed here; leave them out", input->key);
    return false;
}

static void read_text(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    if (is_unquoted(input))
        *(const char **)field = input->text;
}

const struct option_kind kind_text = {read_text, print_text};

/* A path; the words of the type behind "PATH | " stand for themselves. */
static void read_path(const struct option *option, void *field, struct option_input *input)
{
    const char **path = field;
    if (!is_unquoted(input))
        return;
    for (unsigned i = 1; word_at(option->type, i).p != NULL; i++) {
        if (str_eq(word_at(option->type, i), str_of(input->text))) {
            *path = input->text;
            return;
        }
    }
    *path = ini_resolve(input->doc, input->place.file, input->text);
}

const struct option_kind kind_path = {read_path, print_text};

static void read_log(const struct option *option, void *field, struct option_input *input)
{
    if (strncmp(input->text, "unix:", 5) != 0)
        read_path(option, field, input);
    else if (input->text[5] != '/')
        fault(input, "%s: unix: needs an absolute path", input->key);
    else
        read_text(option, field, input);
}

const struct option_kind kind_log = {read_log, print_text};

static void read_path_or_none(const struct option *option, void *field, struct option_input *input)
{
    read_path(option, field, input);
    const char **path = field;
    if (*path != NULL && strcmp(*path, "none") == 0)
        *path = NULL;
}

static void print_path_or_none(const struct option *option, const void *field, FILE *out)
{
    const char *const *path = field;
    fprintf(out, "%s = %s\n", option->key, *path != NULL ? *path : "none");
}

const struct option_kind kind_path_or_none = {read_path_or_none, print_path_or_none};

static bool read_socket_path(struct option_input *input, struct str path,
                             struct config_address *address)
{
    if (path.len == 0 || memchr(path.p, '"', path.len) != NULL) {
        reject(input, str_of(input->text), "unix:/PATH");
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
    return memchr(host.p, ':', host.len) == NULL && addr_parse(addr, host);
}

static bool read_host_port(struct str text, uint64_t min_port, struct addr *addr, uint16_t *port)
{
    const char *colon = memrchr(text.p, ':', text.len);
    if (colon == NULL)
        return false;
    struct str host = {text.p, (size_t)(colon - text.p)};
    uint64_t number;
    if (!read_host(host, addr) || !value_uint(str_from(text, host.len + 1), 65535, &number) ||
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
    reject(input, text, "an address: IPv4:PORT, [IPv6]:PORT or unix:/PATH");
    return false;
}

static void print_address(const char *key, const struct config_address *address, FILE *out)
{
    char text[ADDR_TEXT_MAX];
    if (address->path != NULL)
        fprintf(out, "%s = unix:%s\n", key, address->path);
    else if (address->addr.family == 6)
        fprintf(out, "%s = [%s]:%u\n", key, addr_format(text, &address->addr), address->port);
    else if (address->addr.family == 4)
        fprintf(out, "%s = %s:%u\n", key, addr_format(text, &address->addr), address->port);
    else
        fprintf(out, "%s = none\n", key);
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

static bool is_loopback(const struct addr *addr)
{
    struct cidr loopback;
    return cidr_parse(&loopback, addr->family == 4 ? STR("127.0.0.0/8") : STR("::1/128")) &&
           cidr_contains(&loopback, addr);
}

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
    if (address.path == NULL && !is_loopback(&address.addr)) {
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

static void refer(struct option_input *input, const char *section, const char *name)
{
    struct references *references = input->references;
    references->items = grow_one(references->items, references->count, sizeof(*references->items));
    references->items[references->count++] = (struct reference){
        .section = section, .name = name, .key = input->key, .place = input->place};
}

static void read_policy(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    *(const char **)field = input->text;
    refer(input, "policy", input->text);
}

const struct option_kind kind_policy = {read_policy, print_text};

static bool accept_policy(struct option_input *input, const char *word)
{
    refer(input, "policy", word);
    return true;
}

static void read_policies(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    read_words(input, field, accept_policy);
}

const struct option_kind kind_policies = {read_policies, print_words};

static bool accept_filter(struct option_input *input, const char *word)
{
    refer(input, "filter", word);
    return true;
}

static void read_filters(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    read_words(input, field, accept_filter);
}

const struct option_kind kind_filters = {read_filters, print_words};

static void read_upstream(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    *(const char **)field = input->text;
    refer(input, "upstream", input->text);
}

const struct option_kind kind_upstream = {read_upstream, print_text};

static void read_rule(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    list_add(field, str_of(input->text), input->place);
}

const struct option_kind kind_rules = {read_rule, print_lines};

static unsigned line_of(struct str text, size_t offset)
{
    unsigned line = 1;
    for (size_t i = 0; i < offset; i++)
        line += text.p[i] == '\n';
    return line;
}

/* What stands in the way of reading a list file line by line. */
static bool list_is_text(struct option_input *input, const char *path, struct str bytes)
{
    struct place place = {.file = path, .line = 1};
    size_t end = file_text_end(bytes);
    if (bytes.len == 0) {
        /* Whoever writes it in place truncates it first: no rules for a moment, and for deny rules
         * that would be a hole. */
        faults_add(input->faults, FAULT_ERROR, place, "is empty");
        return false;
    }
    if (file_has_bom(bytes)) {
        faults_add(input->faults, FAULT_ERROR, place,
                   "starts with a byte order mark; save it as UTF-8 without one");
        return false;
    }
    if (end == bytes.len)
        return true;
    place.line = line_of(bytes, end);
    faults_add(input->faults, FAULT_ERROR, place, "byte 0x%02x is not text",
               (unsigned)(unsigned char)bytes.p[end]);
    return false;
}

static void add_list_line(struct config_list *list, struct str line, struct place place,
                          struct option_input *input)
{
    if (line.len > 0 && line.p[line.len - 1] == '\r')
        line.len--;
    struct str text = str_trim(line);
    if (text.len == 0 || text.p[0] == '#')
        return;
    if (line.len > INI_LINE_MAX)
        faults_add(input->faults, FAULT_ERROR, place,
                   "a line has at most %d bytes, this one has %zu", INI_LINE_MAX, line.len);
    else
        list_add(list, str_trim(ini_cut_comment(text, '#')), place);
}

/* Views into the file's bytes: a list of a million rules costs its text and one place a rule. */
static void read_rule_file(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    const char *path;
    if (!is_unquoted(input))
        return;
    struct str rest = ini_read_side_file(input->doc, input->place, input->text, INI_FILE_BYTES_MAX,
                                         &path, input->faults);
    if (rest.p == NULL || !list_is_text(input, path, rest))
        return;

    struct config_list *list = field;
    size_t lines = line_of(rest, rest.len);
    list->items = grow_by(list->items, list->count, lines, sizeof(*list->items));
    struct place place = {.file = path};
    while (rest.len > 0) {
        const char *end = memchr(rest.p, '\n', rest.len);
        struct str line = {rest.p, end != NULL ? (size_t)(end - rest.p) : rest.len};
        rest = str_from(rest, line.len + (end != NULL));
        place.line++;
        add_list_line(list, line, place, input);
    }
}

const struct option_kind kind_rule_file = {read_rule_file, NULL};

static bool accept_range(struct option_input *input, const char *word)
{
    struct cidr range;
    if (value_range(str_of(word), &range))
        return true;
    reject(input, str_of(word),
           "an address or a range ADDRESS/LEN without bits set behind its length");
    return false;
}

static void read_ranges(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    read_words(input, field, accept_range);
}

const struct option_kind kind_ranges = {read_ranges, print_lines};

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
        reject(input, word, "an IP address or the name of a network interface");
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
    for (; next_word(&rest, &word); any = true)
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
    (void)option;
    struct config_client *client = field;
    client->has_source =
        accept_range(input, input->text) && value_range(str_of(input->text), &client->source);
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

static void read_token_sha256(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    struct config_client *client = field;
    client->has_token = true;
    /* The value is not repeated: it may be the secret itself, put here by mistake. */
    if (!value_hex(str_of(input->text), client->token_sha256, sizeof(client->token_sha256)))
        fault(input, "%s must be 64 hexadecimal digits", input->key);
}

static void print_token(const struct option *option, const void *field, FILE *out)
{
    const struct config_client *client = field;
    if (client->has_token)
        fprintf(out, "%s = (hidden)\n", option->key);
}

const struct option_kind kind_token_sha256 = {read_token_sha256, print_token};

/* The secret in a file without its one trailing newline, p == NULL and a fault when there is none.
 */
static struct str read_secret(struct option_input *input, const char **path)
{
    struct str secret = ini_read_side_file(input->doc, input->place, input->text, SECRET_FILE_MAX,
                                           path, input->faults);
    if (secret.p == NULL)
        return STR_NULL;
    if (secret.len > 0 && secret.p[secret.len - 1] == '\n')
        secret.len--;
    if (secret.len > 0)
        return secret;
    fault(input, "%s: %s is empty", input->key, *path);
    return STR_NULL;
}

static void read_token_file(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    struct config_client *client = field;
    const char *path;
    client->has_token = true;
    struct str secret = read_secret(input, &path);
    if (secret.p == NULL)
        return;
    int done = EVP_Digest(secret.p, secret.len, client->token_sha256, NULL, EVP_sha256(), NULL);
    assert(done == 1);
}

const struct option_kind kind_token_file = {read_token_file, NULL};

static void read_secret_file(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    if (is_unquoted(input))
        read_secret(input, field);
}

const struct option_kind kind_secret_file = {read_secret_file, print_text};

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

static void read_credentials_file(const struct option *option, void *field,
                                  struct option_input *input)
{
    (void)option;
    const char *path, *why;
    if (!is_unquoted(input))
        return;
    struct str secret = read_secret(input, &path);
    if (secret.p != NULL && !upstream_set_credentials(field, secret, &why))
        fault(input, "%s: %s: %s", input->key, path, why);
}

static void print_credentials_file(const struct option *option, const void *field, FILE *out)
{
    const struct config_upstream *upstream = field;
    if (upstream->has_credentials)
        fprintf(out, "%s = (hidden)\n", option->key);
}

const struct option_kind kind_credentials_file = {read_credentials_file, print_credentials_file};

static void read_ca_file(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    struct srt_err err;
    struct config_upstream *upstream = field;
    if (!is_unquoted(input))
        return;
    struct str pem = ini_read_side_file(input->doc, input->place, input->text, TRUST_FILE_MAX,
                                        &upstream->ca_file, input->faults);
    if (pem.p == NULL)
        return;
    trust_leave(upstream->trust);
    upstream->trust = pem.len > 0 ? trust_load(pem, &err) : NULL;
    if (pem.len == 0)
        fault(input, "%s: %s is empty", input->key, upstream->ca_file);
    else if (upstream->trust == NULL)
        fault(input, "%s: %s: %s", input->key, upstream->ca_file, err.text);
}

static void print_ca_file(const struct option *option, const void *field, FILE *out)
{
    const struct config_upstream *upstream = field;
    if (upstream->ca_file != NULL)
        fprintf(out, "%s = %s\n", option->key, upstream->ca_file);
}

const struct option_kind kind_ca_file = {read_ca_file, print_ca_file};

static void read_mode(const struct option *option, void *field, struct option_input *input)
{
    uint32_t mode = 0;
    size_t len = strlen(input->text);
    bool octal = len >= 3 && len <= 4;
    for (size_t i = 0; octal && i < len; i++) {
        octal = input->text[i] >= '0' && input->text[i] <= '7';
        mode = mode << 3 | (uint32_t)(input->text[i] - '0');
    }
    if (!octal || mode > 0777)
        reject(input, str_of(input->text), option->type);
    else
        ((struct config_listen *)field)->mode = mode;
}

static void print_mode(const struct option *option, const void *field, FILE *out)
{
    const struct config_listen *listen = field;
    if (listen->address.path != NULL)
        fprintf(out, "%s = %04o\n", option->key, listen->mode);
}

const struct option_kind kind_mode = {read_mode, print_mode};

static void read_group(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    uint64_t gid;
    if (!value_uint(str_of(input->text), UINT32_MAX - 1, &gid) && getgrnam(input->text) == NULL)
        fault(input, "%s: there is no group `%s` on this machine", input->key, input->text);
    *(const char **)field = input->text;
}

const struct option_kind kind_group = {read_group, print_text};

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
    FILE *out = grow_check(open_memstream(&list, &size));
    struct str rest = str_of(input->text), word;
    bool any = false;
    while (next_word(&rest, &word)) {
        struct addr addr;
        uint16_t port;
        char text[ADDR_TEXT_MAX];
        if (!read_server(word, &addr, &port)) {
            reject(input, word, "`system` or a list of IPv4[:PORT] and [IPv6]:PORT");
            continue;
        }
        fprintf(out, addr.family == 6 ? "%s[%s]:%u" : "%s%s:%u", any ? "," : "",
                addr_format(text, &addr), port);
        any = true;
    }
    if (fclose(out) != 0)
        abort();
    *servers = ini_keep(input->doc, (struct str){list, size});
    free(list);
}

const struct option_kind kind_servers = {read_servers, print_text};

static void read_module(const struct option *option, void *field, struct option_input *input)
{
    (void)option;
    const char *text = input->text;
    static const char word_bytes[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    bool is_word = strspn(text, word_bytes) == strlen(text);
    bool is_socket = strncmp(text, "unix:/", 6) == 0;
    if (is_word || is_socket || text[0] == '/')
        *(const char **)field = text;
    else
        reject(input, str_of(text), "a built-in module, /PATH.so or unix:/PATH");
}

const struct option_kind kind_module = {read_module, print_text};

static void read_include(const struct option *option, void *field, struct option_input *input)
{
    (void)option, (void)field, (void)input;
}

const struct option_kind kind_include = {read_include, NULL};
