#include "commands/client.h"

#include "config/file.h"
#include "config/gateway_config.h"
#include "srt/cleanup.h"
#include "srt/must.h"
#include "wire/http_head.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

static const char default_admin[] = "/run/srt-gateway/admin.sock";

enum { TOKEN_FILE_MAX = 4096, RESPONSE_HEAD_MAX = 64 << 10 };

static int connect_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path));
    autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        return -1;
    return steal_fd(&fd);
}

static int connect_tcp(const struct target *target)
{
    struct sockaddr_storage address;
    socklen_t len = addr_to_sockaddr(&target->addr, target->port, &address);
    autoclose int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, len) != 0)
        return -1;
    return steal_fd(&fd);
}

static void use_address(struct client *client, const struct gateway_config *config)
{
    char addr[ADDR_TEXT_MAX];
    if (config->admin[0].path != NULL)
        snprintf(client->address, sizeof(client->address), "unix:%s", config->admin[0].path);
    else
        snprintf(client->address, sizeof(client->address),
                 config->admin[0].addr.family == 6 ? "[%s]:%u" : "%s:%u",
                 addr_format(addr, &config->admin[0].addr), config->admin[0].port);
}

static void use_token(struct client *client, const struct gateway_config *config)
{
    if (config->admin_token_file != NULL && client->token_file == NULL)
        (void)file_read(config->admin_token_file, TOKEN_FILE_MAX, &client->token, &(size_t){0},
                        NULL, &(struct srt_err){0});
}

/* What the configuration named by -c says, or the one that is read without it: its first admin
 * address, where no other is named, and its token. That there is no such file, or that it has
 * faults, says something only when it was named: a gateway may run all the same. */
static int use_config(struct client *client)
{
    struct faults faults = {0};
    const bool named = client->config != NULL;
    const char *path = named ? client->config : command_default_config();
    if (!named && access(path, R_OK) != 0)
        return EXIT_DONE;
    struct gateway_config *config = gateway_config_read(path, &faults);
    if (named)
        faults_print(&faults, stderr);
    faults_free(&faults);
    int status = EXIT_DONE;
    if (config == NULL)
        status = named ? EXIT_CONFIG : EXIT_DONE;
    else if (client->admin == NULL && config->admin_count > 0)
        use_address(client, config);
    else if (client->admin == NULL && named)
        status = command_misused(client->self, "%s has no admin address", client->config);
    if (config != NULL)
        use_token(client, config);
    gateway_config_free(config);
    return status;
}

/* An address that is named alone is all that is looked at: no token of another gateway's goes
 * there. */
static int find_admin(struct client *client)
{
    snprintf(client->address, sizeof(client->address), "%s",
             client->admin != NULL ? client->admin : default_admin);
    return client->admin != NULL && client->config == NULL ? EXIT_DONE : use_config(client);
}

/* `localhost` is loopback, without a query. */
static int connect_target(const struct target *target)
{
    struct target loopback = {.is_addr = true, .port = target->port};
    if (target->is_addr)
        return connect_tcp(target);
    (void)addr_parse(&loopback.addr, STR("127.0.0.1"));
    const int fd = connect_tcp(&loopback);
    (void)addr_parse(&loopback.addr, STR("::1"));
    return fd >= 0 ? fd : connect_tcp(&loopback);
}

/* unix:/path, a bare path, or a loopback address with its port. */
static int connect_admin(struct client *client)
{
    const char *address = client->address;
    struct target target;
    const char *why = "malformed";
    if (strncmp(address, "unix:", 5) == 0)
        client->fd = connect_unix(address + 5);
    else if (strchr(address, '/') != NULL)
        client->fd = connect_unix(address);
    else if (!target_parse(&target, str_of(address), &why))
        return command_misused(client->self, "--admin %s: %s; a path has a slash in it: ./NAME",
                               address, why);
    else if (!target.is_addr && !name_is_localhost(&target.name))
        return command_misused(client->self, "--admin %s: an address is needed, not a name",
                               address);
    else
        client->fd = connect_target(&target);
    if (client->fd >= 0)
        return EXIT_DONE;
    if (!client->again)
        fprintf(stderr, "srt-gateway: no gateway answers at %s: %s\n", address, strerror(errno));
    return EXIT_NOT_RUNNING;
}

static int read_token(struct client *client)
{
    struct srt_err err;
    size_t len;
    if (client->token_file != NULL &&
        file_read(client->token_file, TOKEN_FILE_MAX, &client->token, &len, NULL, &err) != 0)
        return command_misused(client->self, "--token-file %s: %s", client->token_file, err.text);
    if (client->token != NULL)
        client->token[strcspn(client->token, "\r\n")] = '\0';
    return EXIT_DONE;
}

ssize_t client_read(struct client *client)
{
    char chunk[16 << 10];
    ssize_t n;
    do
        n = read(client->fd, chunk, sizeof(chunk));
    while (n < 0 && errno == EINTR);
    if (n > 0)
        json_append(&client->in, (struct str){chunk, (size_t)n});
    return n;
}

int client_broke_off(void)
{
    fprintf(stderr, "srt-gateway: the gateway gave no complete answer\n");
    return EXIT_NOT_RUNNING;
}

static int send_request(struct client *client, const char *method, const char *path)
{
    autofree char *text = must_format(
        "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s%sConnection: close\r\n\r\n", method, path,
        client->token != NULL ? "Authorization: Bearer " : "",
        client->token != NULL ? client->token : "", client->token != NULL ? "\r\n" : "");
    const ssize_t len = (ssize_t)strlen(text);
    for (ssize_t sent = 0; sent < len;) {
        ssize_t n = send(client->fd, text + sent, (size_t)(len - sent), MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return client_broke_off();
        if (n > 0)
            sent += n;
    }
    return EXIT_DONE;
}

static int read_head(struct client *client)
{
    struct http_response *response = must(calloc(1, sizeof(*response)));
    struct http_scan scan = {0};
    struct http_fault fault;
    enum http_result result;
    do {
        if (client_read(client) <= 0) {
            free(response);
            return client_broke_off();
        }
        result = http_parse_response((struct str){client->in.data, client->in.len},
                                     RESPONSE_HEAD_MAX, false, &scan, response, &fault);
    } while (result == HTTP_MORE);
    client->status = result == HTTP_PARSED ? response->status : 0;
    client->body = response->size;
    free(response);
    return result == HTTP_PARSED ? EXIT_DONE : client_broke_off();
}

int client_ask_there(struct client *client, const char *method, const char *path)
{
    int status = connect_admin(client);
    if (status == EXIT_DONE)
        status = send_request(client, method, path);
    if (status == EXIT_DONE)
        status = read_head(client);
    return status;
}

int client_ask(struct client *client, const char *method, const char *path)
{
    int status = find_admin(client);
    if (status == EXIT_DONE)
        status = read_token(client);
    return status == EXIT_DONE ? client_ask_there(client, method, path) : status;
}

void client_close(struct client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    json_free(&client->in);
    free(client->token);
}

json_t *client_answer(struct client *client)
{
    ssize_t n;
    while ((n = client_read(client)) > 0)
        ;
    if (n < 0)
        return NULL;
    return json_loadb(client->in.data + client->body, client->in.len - client->body, 0, NULL);
}
