/* The commands that talk to a running gateway over its admin address. */
#include "commands/client.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <ctype.h>
#include <poll.h>

/* ---- what people see ---- */

/* Text of others goes to a terminal: control characters are shown as `?`, also those of C1, which
 * are two bytes in UTF-8. */
static void print_safe(const char *text, int width)
{
    int shown = 0;
    for (; *text != '\0'; text++) {
        const unsigned char byte = (unsigned char)*text, next = (unsigned char)text[1];
        const bool c1 = byte == 0xc2 && next >= 0x80 && next < 0xa0;
        putchar(byte < 0x20 || byte == 0x7f || c1 ? '?' : *text);
        text += c1;
        shown += (byte & 0xc0) != 0x80; /* not within a character */
    }
    for (; shown < width; shown++)
        putchar(' ');
}

static void print_value(const json_t *value, int width)
{
    if (json_is_string(value)) {
        print_safe(json_string_value(value), width);
        return;
    }
    if (json_is_null(value) || value == NULL) {
        print_safe("-", width);
        return;
    }
    autofree char *text = must(json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT));
    print_safe(text, width);
}

static void print_object(json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        printf("%-18s ", key);
        print_value(value, 0);
        putchar('\n');
    }
}

struct column {
    const char *key;
    int width;
};

static void print_columns(const json_t *row, const struct column *columns)
{
    for (; columns->key != NULL; columns++) {
        print_value(json_object_get(row, columns->key), columns->width);
        putchar(columns[1].key != NULL ? ' ' : '\n');
    }
}

static void print_heads(const struct column *columns)
{
    for (const struct column *column = columns; column->key != NULL; column++)
        printf("%-*s%s", column->width, column->key, column[1].key != NULL ? " " : "\n");
}

static void print_table(json_t *rows, const struct column *columns)
{
    size_t index;
    json_t *row;
    print_heads(columns);
    json_array_foreach(rows, index, row)
        print_columns(row, columns);
}

static const struct column tunnel_columns[] = {
    {"id", 26},       {"sandbox", 20},    {"policy", 12},      {"host", 30}, {"port", 5},
    {"bytes_up", 10}, {"bytes_down", 12}, {"duration_ms", 11}, {NULL, 0},
};
static const struct column decision_columns[] = {
    {"ts", 24},   {"verdict", 7}, {"reason", 18}, {"sandbox", 20}, {"policy", 12},
    {"host", 30}, {"port", 5},    {"rule", 16},   {NULL, 0},
};

static const struct column pending_columns[] = {
    {"id", 26},  {"sandbox", 20}, {"client", 12}, {"policy", 12}, {"host", 30},
    {"port", 5}, {"method", 7},   {"waiting", 7}, {"ts", 24},     {NULL, 0},
};
static const struct column grant_columns[] = {
    {"id", 26},     {"verdict", 7}, {"target", 32}, {"for", 8}, {"name", 20},
    {"policy", 12}, {"by", 8},      {"until", 24},  {NULL, 0},
};

static bool for_people(const struct client *client)
{
    return !client->json && isatty(STDOUT_FILENO);
}

static int say_no(const json_t *answer, int status)
{
    const json_t *faults = json_object_get(answer, "faults");
    const char *error = json_string_value(json_object_get(answer, "error"));
    for (size_t i = 0; i < json_array_size(faults); i++)
        fprintf(stderr, "%s\n", json_string_value(json_array_get(faults, i)));
    if (error != NULL)
        fprintf(stderr, "srt-gateway: %s\n", error);
    else if (json_array_size(faults) == 0)
        fprintf(stderr, "srt-gateway: the gateway answered %d\n", status);
    return EXIT_NO;
}

static void print_answer(const struct client *client, json_t *answer, const struct column *columns)
{
    if (!for_people(client)) {
        autofree char *text = must(json_dumps(answer, JSON_COMPACT));
        puts(text);
    } else if (json_is_array(answer)) {
        print_table(answer, columns);
    } else {
        print_object(answer);
    }
}

static int ask_and_print(struct client *client, const char *method, const char *path,
                         const struct column *columns)
{
    int status = client_ask(client, method, path);
    if (status == EXIT_DONE) {
        json_t *answer = client_answer(client);
        if (answer == NULL)
            status = client_broke_off();
        else if (client->status >= 400)
            status = say_no(answer, client->status);
        else
            print_answer(client, answer, columns);
        json_decref(answer);
    }
    client_close(client);
    return status;
}

/* ---- following ---- */

static void print_event(const struct client *client, const char *line)
{
    if (!for_people(client)) {
        puts(line);
        return;
    }
    json_t *record = json_loads(line, 0, NULL);
    const char *kind = json_string_value(json_object_get(record, "kind"));
    if (kind != NULL && strcmp(kind, "decision") == 0)
        print_columns(record, decision_columns);
    json_decref(record);
}

/* Prints the whole `data:` lines that have come and drops them. */
static void print_events(struct client *client)
{
    struct str rest = {client->in.data + client->body, client->in.len - client->body};
    const char *end;
    while (rest.len > 0 && (end = memchr(rest.p, '\n', rest.len)) != NULL) {
        struct str line = {rest.p, (size_t)(end - rest.p)};
        rest = str_from(rest, line.len + 1);
        if (!str_starts(line, STR("data: ")))
            continue;
        client->in.data[line.p + line.len - client->in.data] = '\0'; /* in place of the newline */
        print_event(client, line.p + 6);
    }
    memmove(client->in.data, rest.p, rest.len);
    client->in.len = rest.len;
    client->body = 0;
    fflush(stdout);
}

/* A gateway that hands over to a new process ends the stream, and the new one answers at the same
 * address. */
static int follow_again(struct client *client)
{
    enum { PAUSE_MS = 100 };
    close(client->fd);
    client->fd = -1;
    json_reset(&client->in);
    client->again = true;
    poll(NULL, 0, PAUSE_MS);
    int status = client_ask_there(client, "GET", "/events");
    return status == EXIT_DONE && client->status != 200 ? EXIT_NOT_RUNNING : status;
}

static int follow(struct client *client)
{
    int status = client_ask(client, "GET", "/events");
    if (status == EXIT_DONE && client->status != 200) {
        fprintf(stderr, "srt-gateway: the gateway answered %d\n", client->status);
        status = EXIT_NO;
    }
    if (status == EXIT_DONE && for_people(client))
        print_heads(decision_columns);
    while (status == EXIT_DONE) {
        print_events(client);
        if (client_read(client) <= 0)
            status = follow_again(client);
    }
    client_close(client);
    return status;
}

/* ---- the commands ---- */

enum { OPTION_FOR = 256, OPTION_SANDBOX, OPTION_CLIENT, OPTION_LISTENER, OPTION_POLICY };

#define CLIENT_OPTIONS                                                                 \
    {"admin", required_argument, NULL, 'a'}, {"config", required_argument, NULL, 'c'}, \
        {"token-file", required_argument, NULL, 't'},                                  \
    {                                                                                  \
        "json", no_argument, NULL, 'j'                                                 \
    }

/* False: it is none of those that every client has. */
static bool take_option(struct client *client, int option)
{
    switch (option) {
    case 'a':
        client->admin = optarg;
        return true;
    case 'c':
        client->config = optarg;
        return true;
    case 't':
        client->token_file = optarg;
        return true;
    case 'j':
        client->json = true;
        return true;
    default:
        return false;
    }
}

static void read_options(struct client *client, const struct command *self, int argc, char **argv)
{
    static const struct option longs[] = {
        CLIENT_OPTIONS,
        {"follow", no_argument, NULL, 'f'},
        COMMAND_COMMON_OPTIONS,
    };
    *client = (struct client){.self = self, .fd = -1};
    const char *shorts = strcmp(self->name, "tail") == 0 ? "c:fhV" : "c:hV";
    for (int option; (option = command_option(self, argc, argv, shorts, longs)) != -1;) {
        if (take_option(client, option))
            continue;
        if (strcmp(self->name, "tail") != 0)
            exit(command_misused(self, "%s follows nothing", self->name));
        client->follow = true;
    }
}

int command_ask(const struct command *self, int argc, char **argv)
{
    static const struct {
        const char *name, *method, *path;
        const struct column *columns;
    } requests[] = {
        {"status", "GET", "/status", NULL},
        {"reload", "POST", "/reload", NULL},
        {"drain", "POST", "/drain", NULL},
        {"tunnels", "GET", "/tunnels", tunnel_columns},
        {"pending", "GET", "/pending", pending_columns},
        {"grants", "GET", "/grants", grant_columns},
    };
    struct client client;
    read_options(&client, self, argc, argv);
    if (optind < argc)
        return command_misused(self, "unexpected word '%s'", argv[optind]);
    size_t i = 0;
    while (strcmp(requests[i].name, self->name) != 0)
        i++;
    return ask_and_print(&client, requests[i].method, requests[i].path, requests[i].columns);
}

/* ---- approvals ---- */

/* What a query is made of: the words of the command line, escaped. */
static void add_to_query(struct json *path, const char *key, const char *value)
{
    char escaped[4];
    if (value == NULL)
        return;
    json_append(path, memchr(path->data, '?', path->len) == NULL ? STR("?") : STR("&"));
    json_append(path, str_of(key));
    json_append(path, STR("="));
    for (const char *c = value; *c != '\0'; c++) {
        if (isalnum((unsigned char)*c)) {
            json_append(path, (struct str){c, 1});
            continue;
        }
        snprintf(escaped, sizeof(escaped), "%%%02X", (unsigned char)*c);
        json_append(path, str_of(escaped));
    }
}

static bool is_id(const char *id)
{
    size_t len = 0;
    while (isalnum((unsigned char)id[len]))
        len++;
    return len > 0 && len <= 64 && id[len] == '\0';
}

static int post(struct client *client, struct json *path)
{
    json_append(path, (struct str){"", 1}); /* its terminator */
    int status = ask_and_print(client, "POST", path->data, NULL);
    json_free(path);
    return status;
}

/* approve and refuse. */
int command_answer(const struct command *self, int argc, char **argv)
{
    static const struct option longs[] = {
        CLIENT_OPTIONS, {"for", required_argument, NULL, OPTION_FOR}, COMMAND_COMMON_OPTIONS};
    struct client client = {.self = self, .fd = -1};
    struct json path = {0};
    const char *duration = NULL;
    for (int option; (option = command_option(self, argc, argv, "c:hV", longs)) != -1;)
        if (!take_option(&client, option))
            duration = optarg;
    if (optind + 1 != argc)
        return command_misused(self, "one ID is needed; `srt-gateway pending` shows them");
    if (!is_id(argv[optind]))
        return command_misused(self, "%s is no id of a waiting request", argv[optind]);
    json_append(&path, STR("/pending/"));
    json_append(&path, str_of(argv[optind]));
    json_append(&path, STR("/"));
    json_append(&path, str_of(self->name));
    add_to_query(&path, "for", duration);
    return post(&client, &path);
}

static int revoke_grant(struct client *client, const char *id)
{
    struct json path = {0};
    if (!is_id(id))
        return command_misused(client->self, "%s is no grant's id", id);
    json_append(&path, STR("/grants/"));
    json_append(&path, str_of(id));
    json_append(&path, STR("/revoke"));
    return post(client, &path);
}

int command_grant(const struct command *self, int argc, char **argv)
{
    static const struct option longs[] = {CLIENT_OPTIONS,
                                          {"for", required_argument, NULL, OPTION_FOR},
                                          {"sandbox", required_argument, NULL, OPTION_SANDBOX},
                                          {"client", required_argument, NULL, OPTION_CLIENT},
                                          {"listener", required_argument, NULL, OPTION_LISTENER},
                                          {"policy", required_argument, NULL, OPTION_POLICY},
                                          {"refuse", no_argument, NULL, 'n'},
                                          {"revoke", required_argument, NULL, 'r'},
                                          COMMAND_COMMON_OPTIONS};
    static const char *const keys[] = {"for", "sandbox", "client", "listener", "policy"};
    const char *values[sizeof(keys) / sizeof(keys[0])] = {NULL}, *revoked = NULL;
    struct client client = {.self = self, .fd = -1};
    struct json path = {0};
    bool refuses = false;
    for (int option; (option = command_option(self, argc, argv, "c:hV", longs)) != -1;) {
        if (take_option(&client, option))
            continue;
        if (option == 'n')
            refuses = true;
        else if (option == 'r')
            revoked = optarg;
        else
            values[option - OPTION_FOR] = optarg;
    }
    if (revoked != NULL)
        return optind == argc ? revoke_grant(&client, revoked)
                              : command_misused(self, "unexpected word '%s'", argv[optind]);
    if (optind + 1 != argc)
        return command_misused(self, "one HOST:PORT is needed");
    json_append(&path, STR("/grant"));
    add_to_query(&path, "target", argv[optind]);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        add_to_query(&path, keys[i], values[i]);
    if (refuses)
        add_to_query(&path, "verdict", "refuse");
    return post(&client, &path);
}

int command_cut(const struct command *self, int argc, char **argv)
{
    struct client client;
    char path[128];
    read_options(&client, self, argc, argv);
    if (optind + 1 != argc)
        return command_misused(self, "one ID is needed");
    const char *id = argv[optind];
    for (const char *c = id; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c))
            return command_misused(self, "%s is no tunnel's id", id);
    snprintf(path, sizeof(path), "/tunnels/%.64s/cut", id);
    return ask_and_print(&client, "POST", path, NULL);
}

int command_tail(const struct command *self, int argc, char **argv)
{
    struct client client;
    read_options(&client, self, argc, argv);
    if (optind < argc)
        return command_misused(self, "unexpected word '%s'", argv[optind]);
    return client.follow ? follow(&client)
                         : ask_and_print(&client, "GET", "/decisions", decision_columns);
}
