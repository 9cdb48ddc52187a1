#include "control/admin.h"

#include "config/file.h"
#include "control/apart.h"
#include "control/tail.h"
#include "filters/guard.h"
#include "srt/cleanup.h"
#include "srt/must.h"
#include "srt/queue.h"
#include "wire/http_head.h"

#include <errno.h>
#include <ev.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <sys/queue.h>

enum {
    CLIENTS_MAX = 256, /* the longest idle makes room */
    HEAD_MAX = 16 << 10,
    TOKEN_FILE_MAX = 4096,
    STREAM_MAX = 4 << 20, /* unsent bytes of an event stream; what does not fit is counted */
};
static const double request_within_s = 10;
static const double linger_s = 2;

enum client_state {
    CLIENT_READING,
    CLIENT_WAITING, /* for the workers; the answer comes whatever the client does */
    CLIENT_STREAMING,
    CLIENT_CLOSING, /* the answer goes out, what comes is thrown away */
};

struct admin_client {
    TAILQ_ENTRY(admin_client) link;
    struct admin *admin;
    enum client_state state;
    bool tcp;
    bool eof; /* it has said all that it will, and may still listen */
    int fd;
    ev_io io;
    ev_timer deadline;
    struct json in, out;
    size_t out_sent;
    struct http_scan scan;
    bool head;         /* only the answer's head is wanted */
    const char *allow; /* the method that the page has, with 405 */
    uint64_t missed;   /* lines that a stream did not take */
    char peer[CONFIG_ADDRESS_TEXT_MAX];
};

struct door {
    struct listener *listener; /* NULL: another process's */
    struct config_address bound;
    struct apart_watch acceptable;
};

struct admin {
    struct gateway *gateway;
    struct door *doors;
    size_t door_count;
    ev_timer accept_pause;
    TAILQ_HEAD(, admin_client) clients;
    size_t client_count, stream_count;
    struct http_request request; /* too big for the stack */
    struct tail *tail;           /* of the audit log */
};

/* ---- connections ---- */

static void free_client(struct admin_client *client)
{
    struct admin *admin = client->admin;
    ev_io_stop(admin->gateway->loop, &client->io);
    ev_timer_stop(admin->gateway->loop, &client->deadline);
    close(client->fd);
    if (client->state == CLIENT_STREAMING && --admin->stream_count == 0)
        tail_follow(admin->tail, false);
    TAILQ_REMOVE(&admin->clients, client, link);
    admin->client_count--;
    json_free(&client->in);
    json_free(&client->out);
    free(client);
}

static void set_deadline(struct admin_client *client, double seconds)
{
    ev_timer_stop(client->admin->gateway->loop, &client->deadline);
    ev_timer_set(&client->deadline, seconds, 0.);
    ev_timer_start(client->admin->gateway->loop, &client->deadline);
}

static void watch_client(struct admin_client *client)
{
    struct ev_loop *loop = client->admin->gateway->loop;
    int events = client->out_sent < client->out.len ? EV_WRITE : 0;
    if (client->state != CLIENT_WAITING && !client->eof)
        events |= EV_READ;
    ev_io_stop(loop, &client->io);
    if (events != 0) {
        ev_io_set(&client->io, client->fd, events);
        ev_io_start(loop, &client->io);
    }
}

/* False: the client is gone. */
static bool flush(struct admin_client *client)
{
    while (client->out_sent < client->out.len) {
        ssize_t n = send(client->fd, client->out.data + client->out_sent,
                         client->out.len - client->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n <= 0) {
            free_client(client);
            return false;
        }
        client->out_sent += (size_t)n;
        if (client->state == CLIENT_CLOSING)
            set_deadline(client, request_within_s);
    }
    if (client->out_sent == client->out.len) {
        json_reset(&client->out);
        client->out_sent = 0;
        if (client->state == CLIENT_CLOSING && client->eof) {
            free_client(client);
            return false;
        }
        if (client->state == CLIENT_CLOSING) {
            /* Closing with unread bytes would reset the connection and destroy the answer. */
            shutdown(client->fd, SHUT_WR);
            set_deadline(client, linger_s);
        }
    }
    watch_client(client);
    return true;
}

static void put_head(struct admin_client *client, int status, const char *type, int64_t length)
{
    struct json *out = &client->out;
    char head[512];
    int len = snprintf(head, sizeof(head),
                       "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nCache-Control: no-store\r\n"
                       "X-Content-Type-Options: nosniff\r\nConnection: close\r\n",
                       status, http_status_phrase(status), type);
    json_append(out, (struct str){head, (size_t)len});
    if (length >= 0) {
        len = snprintf(head, sizeof(head), "Content-Length: %" PRId64 "\r\n", length);
        json_append(out, (struct str){head, (size_t)len});
    }
    if (status == 401)
        json_append(out, STR("WWW-Authenticate: Bearer realm=\"srt-gateway\"\r\n"));
    if (status == 405) {
        len = snprintf(head, sizeof(head), "Allow: %s\r\n", client->allow);
        json_append(out, (struct str){head, (size_t)len});
    }
}

void admin_answer(struct admin_client *client, int status, const char *type, struct json *body)
{
    put_head(client, status, type, (int64_t)body->len);
    json_append(&client->out, STR("\r\n"));
    if (!client->head)
        json_append(&client->out, (struct str){body->data, body->len});
    json_free(body);
    client->state = CLIENT_CLOSING;
    set_deadline(client, request_within_s);
    (void)flush(client);
}

void admin_answer_json(struct admin_client *client, int status, struct json *body)
{
    json_newline(body);
    admin_answer(client, status, "application/json", body);
}

void admin_refuse(struct admin_client *client, int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    autofree char *text = must_vformat(format, args);
    va_end(args);
    struct json body = {0};
    json_object_open(&body, NULL);
    json_text(&body, "error", (struct str){text, strlen(text)});
    json_object_close(&body);
    admin_answer_json(client, status, &body);
}

const char *admin_peer(const struct admin_client *client)
{
    return client->peer;
}

struct gateway *admin_gateway(const struct admin_client *client)
{
    return client->admin->gateway;
}

/* ---- one request ---- */

/* `/tunnels/` ID `/cut` for "/tunnels/" "*" "/cut"; the part itself goes to `id`. */
static bool route_matches(const char *pattern, struct str path, struct str *id)
{
    const char *star = strchr(pattern, '*');
    if (star == NULL)
        return str_eq(path, str_of(pattern));
    struct str before = {pattern, (size_t)(star - pattern)}, after = str_of(star + 1);
    if (path.len <= before.len + after.len || !str_starts(path, before) ||
        !str_eq(str_from(path, path.len - after.len), after))
        return false;
    *id = (struct str){path.p + before.len, path.len - before.len - after.len};
    return !str_has(*id, '/');
}

static struct str field_value(const struct http_request *http, const char *name)
{
    for (size_t i = 0; i < http->field_count; i++)
        if (str_ieq(http->fields[i].name, str_of(name)))
            return http->fields[i].value;
    return STR_NULL;
}

static bool host_is_loopback(const struct http_request *http)
{
    struct target target;
    struct str host = field_value(http, "host");
    if (host.p == NULL)
        return true; /* HTTP/1.0: no browser */
    if (!target_parse_default(&target, host, 80, NULL))
        return false;
    return target.is_addr ? addr_classify(&target.addr) == ADDR_LOOPBACK
                          : name_is_localhost(&target.name);
}

static bool token_is_right(const struct admin_client *client, const struct http_request *http)
{
    const char *path = client->admin->gateway->snapshot->config->admin_token_file;
    struct str given = field_value(http, "authorization");
    autofree char *secret = NULL;
    size_t len = 0;
    struct srt_err err;
    if (path == NULL || given.p == NULL || given.len < 7 ||
        !str_ieq((struct str){given.p, 7}, STR("Bearer ")) ||
        file_read(path, TOKEN_FILE_MAX, &secret, &len, NULL, &err) != 0)
        return false;
    given = str_trim(str_from(given, 7));
    len = file_secret((struct str){secret, len}).len;
    return len > 0 && given.len == len && CRYPTO_memcmp(given.p, secret, len) == 0;
}

static bool is_page(const struct admin_route *route)
{
    return strcmp(route->method, "GET") == 0;
}

/* HEAD is GET without the content (RFC 9110 9.3.2); the stream of events has no end, and so none.
 */
static bool has_method(const struct admin_client *client, const struct admin_route *route,
                       struct str method)
{
    return str_eq(method, str_of(route->method)) || (client->head && is_page(route));
}

static void route_request(struct admin_client *client, const struct http_request *http)
{
    struct admin_request request = {.client = client,
                                    .gateway = client->admin->gateway,
                                    .path = http->path,
                                    .query = http->query.len > 0 ? str_from(http->query, 1)
                                                                 : http->query};
    client->head = str_eq(http->method, STR("HEAD"));
    if (http->form != HTTP_ORIGIN_FORM || (client->tcp && !host_is_loopback(http))) {
        admin_refuse(client, 403,
                     "this address serves the gateway's operators and proxies nothing");
        return;
    }
    for (size_t i = 0; i < admin_route_count; i++) {
        const struct admin_route *route = &admin_routes[i];
        if (!route_matches(route->path, request.path, &request.id))
            continue;
        if (!has_method(client, route, http->method)) {
            client->allow = is_page(route) ? "GET, HEAD" : route->method;
            admin_refuse(client, 405, "this page has %s only", route->method);
            return;
        }
        if (route->changes && client->tcp && !token_is_right(client, http)) {
            admin_refuse(client, 401, "over TCP this needs the token of admin-token-file");
            return;
        }
        client->state = CLIENT_WAITING;
        ev_timer_stop(client->admin->gateway->loop, &client->deadline);
        watch_client(client);
        route->handle(&request);
        return;
    }
    admin_refuse(client, 404, "there is no such page");
}

static void read_request(struct admin_client *client)
{
    struct http_request *http = &client->admin->request;
    struct http_fault fault;
    switch (http_parse_request((struct str){client->in.data, client->in.len}, HEAD_MAX,
                               &client->scan, http, &fault)) {
    case HTTP_MORE:
        break;
    case HTTP_REFUSED:
        admin_refuse(client, fault.status, "%s", fault.why);
        break;
    case HTTP_PARSED:
        route_request(client, http);
        break;
    }
}

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
    struct admin_client *client = io->data;
    char chunk[4096];
    (void)loop;
    if ((events & EV_WRITE) != 0 && !flush(client))
        return;
    if ((events & EV_READ) == 0)
        return;
    ssize_t n = recv(client->fd, chunk, sizeof(chunk), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (n == 0 && client->state == CLIENT_CLOSING && client->out.len > 0) {
        client->eof = true;
        watch_client(client);
        return;
    }
    if (n <= 0) {
        free_client(client);
        return;
    }
    if (client->state != CLIENT_READING)
        return;
    json_append(&client->in, (struct str){chunk, (size_t)n});
    read_request(client);
}

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    free_client(timer->data);
}

/* ---- lines of the audit log ---- */

static void put_events(struct admin_client *client, struct str lines, uint64_t missed)
{
    client->missed += missed;
    while (lines.len > 0) {
        const struct str line = str_take_line(&lines);
        if (client->out.len - client->out_sent > STREAM_MAX) {
            client->missed++;
        } else {
            if (client->missed > 0) {
                char note[64];
                int printed = snprintf(note, sizeof(note),
                                       ": %" PRIu64 " records were left out\n\n", client->missed);
                json_append(&client->out, (struct str){note, (size_t)printed});
                client->missed = 0;
            }
            json_append(&client->out, STR("data: "));
            json_append(&client->out, line);
            json_append(&client->out, STR("\n\n"));
        }
    }
}

static void on_lines(void *arg, struct str lines, uint64_t missed)
{
    struct admin *admin = arg;
    struct admin_client *client, *next;
    TAILQ_FOREACH_SAFE(client, &admin->clients, link, next) {
        if (client->state != CLIENT_STREAMING)
            continue;
        put_events(client, lines, missed);
        (void)flush(client);
    }
}

bool admin_has_streams(const struct admin *admin)
{
    return admin->stream_count > 0;
}

void admin_push(struct admin *admin, const char *event, struct str line)
{
    struct admin_client *client, *next;
    TAILQ_FOREACH_SAFE(client, &admin->clients, link, next) {
        if (client->state != CLIENT_STREAMING)
            continue;
        if (client->out.len - client->out_sent > STREAM_MAX) {
            client->missed++;
            continue;
        }
        json_append(&client->out, STR("event: "));
        json_append(&client->out, str_of(event));
        json_append(&client->out, STR("\ndata: "));
        json_append(&client->out, line);
        json_append(&client->out, STR("\n\n"));
        (void)flush(client);
    }
}

void admin_stream(struct admin_client *client)
{
    struct admin *admin = client->admin;
    if (client->head) {
        admin_answer(client, 200, "text/event-stream", &(struct json){0});
        return;
    }
    put_head(client, 200, "text/event-stream", -1);
    json_append(&client->out, STR("\r\n: the audit log as it is written\n\n"));
    client->state = CLIENT_STREAMING;
    admin->stream_count++;
    tail_follow(admin->tail, true);
    watch_client(client);
}

void admin_write_decisions(const struct admin_client *client, size_t last, struct json *out)
{
    tail_write_decisions(client->admin->tail, last, out);
}

/* ---- coming in ---- */

static void name_peer(struct admin_client *client)
{
    struct sockaddr_storage from;
    socklen_t len = sizeof(from);
    struct config_address address = {0};
    struct ucred unix_peer;
    client->tcp = getpeername(client->fd, (struct sockaddr *)&from, &len) == 0 &&
                  addr_from_sockaddr((struct sockaddr *)&from, &address.addr, &address.port);
    len = sizeof(unix_peer);
    if (client->tcp)
        config_address_format(client->peer, &address);
    else if (getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &unix_peer, &len) == 0)
        snprintf(client->peer, sizeof(client->peer), "uid=%u,pid=%d", unix_peer.uid, unix_peer.pid);
}

/* The oldest client that waits for nothing makes room, so that idle connections keep nobody out. */
static bool make_room(struct admin *admin)
{
    struct admin_client *client;
    if (admin->client_count < CLIENTS_MAX)
        return true;
    TAILQ_FOREACH(client, &admin->clients, link) {
        if (client->state == CLIENT_WAITING)
            continue;
        free_client(client);
        return true;
    }
    return false;
}

static void add_client(struct admin *admin, int fd)
{
    if (!make_room(admin)) {
        close(fd);
        return;
    }
    struct admin_client *client = must(calloc(1, sizeof(*client)));
    client->admin = admin;
    client->fd = fd;
    name_peer(client);
    ev_io_init(&client->io, on_io, fd, EV_READ);
    ev_timer_init(&client->deadline, on_deadline, request_within_s, 0.);
    client->io.data = client->deadline.data = client;
    TAILQ_INSERT_TAIL(&admin->clients, client, link);
    admin->client_count++;
    set_deadline(client, request_within_s);
    watch_client(client);
}

static void on_accept_again(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct admin *admin = timer->data;
    (void)loop, (void)events;
    for (size_t i = 0; i < admin->door_count; i++)
        apart_set(admin->gateway->apart, &admin->doors[i].acceptable, EV_READ);
}

static void on_acceptable(struct apart_watch *watch, int events)
{
    struct admin *admin = watch->data;
    (void)events;
    int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        add_client(admin, fd);
        return;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        apart_set(admin->gateway->apart, watch, 0);
        ev_timer_set(&admin->accept_pause, 1., 0.);
        ev_timer_start(admin->gateway->loop, &admin->accept_pause);
    }
}

/* ---- the outside ---- */

struct admin *admin_create(struct gateway *gateway)
{
    struct admin *admin = must(calloc(1, sizeof(*admin)));
    admin->gateway = gateway;
    TAILQ_INIT(&admin->clients);
    admin->tail = tail_create(gateway->loop, on_lines, admin);
    ev_timer_init(&admin->accept_pause, on_accept_again, 1., 0.);
    admin->accept_pause.data = admin;
    return admin;
}

void admin_listen(struct admin *admin, struct listener *listener)
{
    /* Watchers stand in the array, so it must not move once they run. */
    for (size_t i = 0; i < admin->door_count; i++)
        apart_set(admin->gateway->apart, &admin->doors[i].acceptable, 0);
    admin->doors = must(reallocarray(admin->doors, admin->door_count + 1, sizeof(*admin->doors)));
    struct door *door = &admin->doors[admin->door_count++];
    door->listener = listener;
    door->bound = *listener_bound(listener);
    door->acceptable =
        (struct apart_watch){.fd = listener_fd(listener), .heard = on_acceptable, .data = admin};
    for (size_t i = 0; i < admin->door_count; i++)
        apart_set(admin->gateway->apart, &admin->doors[i].acceptable, EV_READ);
    tail_observe(admin->tail, admin->gateway->audit);
}

void admin_pause(struct admin *admin, bool paused)
{
    ev_timer_stop(admin->gateway->loop, &admin->accept_pause); /* it would end this one */
    for (size_t i = 0; i < admin->door_count; i++) {
        if (paused)
            apart_set(admin->gateway->apart, &admin->doors[i].acceptable, 0);
        else
            apart_set(admin->gateway->apart, &admin->doors[i].acceptable, EV_READ);
    }
}

/* Whoever follows the log follows it where it is written from now on. */
void admin_retire(struct admin *admin)
{
    struct admin_client *client, *next;
    admin_pause(admin, true);
    for (size_t i = 0; i < admin->door_count; i++) {
        listener_release(admin->doors[i].listener);
        admin->doors[i].listener = NULL;
    }
    TAILQ_FOREACH_SAFE(client, &admin->clients, link, next)
        if (client->state == CLIENT_STREAMING)
            free_client(client);
}

void admin_offer(const struct admin *admin, admin_offer_fn *offer, void *arg)
{
    for (size_t i = 0; i < admin->door_count; i++)
        offer(arg, admin->doors[i].listener);
}

void admin_claim(struct admin *admin)
{
    for (size_t i = 0; i < admin->door_count; i++)
        listener_claim(admin->doors[i].listener);
}

void admin_append_addresses(const struct admin *admin, struct json *line)
{
    char text[CONFIG_ADDRESS_TEXT_MAX];
    for (size_t i = 0; i < admin->door_count; i++) {
        json_append(line, STR(" admin="));
        json_append(line, str_of(config_address_format(text, &admin->doors[i].bound)));
    }
}

size_t admin_addresses(const struct admin *admin, struct config_address *out, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < admin->door_count && count < max; i++)
        if (admin->doors[i].bound.path == NULL)
            out[count++] = admin->doors[i].bound;
    return count;
}

void admin_free(struct admin *admin)
{
    if (admin == NULL)
        return;
    struct ev_loop *loop = admin->gateway->loop;
    struct admin_client *client, *next;
    TAILQ_FOREACH_SAFE(client, &admin->clients, link, next)
        free_client(client);
    for (size_t i = 0; i < admin->door_count; i++) {
        apart_set(admin->gateway->apart, &admin->doors[i].acceptable, 0);
        listener_close(admin->doors[i].listener);
    }
    ev_timer_stop(loop, &admin->accept_pause);
    tail_free(admin->tail);
    free(admin->doors);
    free(admin);
}
