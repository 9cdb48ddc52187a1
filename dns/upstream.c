#include "dns/upstream.h"

#include "dns/target.h"

#include <ares.h>
#include <arpa/nameser.h>
#include <assert.h>
#include <errno.h>
#include <ev.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DNS_PORT = 53,
    EDNS_UDP_SIZE = 1232, /* fits into any path (DNS flag day 2020) */
};

/* c-ares looks at timeouts only when it is called. Ticking is cheaper than ares_timeout(), which
 * walks over all queries each time it is asked. */
static const double tick_s = 0.025;

struct sock {
    ev_io io;
    struct channel *channel;
    LIST_ENTRY(sock) all;
};

struct channel {
    struct upstream *upstream;
    ares_channel ares;
    struct upstream_servers servers; /* in the order in which they are asked */
    bool edns;                       /* until a server says it does not know it */
    bool retired;
    unsigned pending;
    int reading; /* the socket that c-ares is reading now, or -1 */
    ev_timer tick;
    LIST_HEAD(, sock) socks;
    LIST_ENTRY(channel) retirees;
};

struct upstream {
    struct ev_loop *loop;
    uint32_t timeout_ms, tries;
    struct channel *current;
    size_t prefer; /* which of the current servers should be asked first */
    LIST_HEAD(, channel) retirees;
};

struct ask {
    struct channel *channel;
    struct name name;
    uint8_t family;
    bool edns;
    upstream_done_fn *done;
    void *arg;
};

static int library_status = ARES_ENOTINITIALIZED;

static void init_library(void)
{
    library_status = ares_library_init(ARES_LIB_INIT_ALL);
}

static int require_library(struct srt_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_library);
    if (library_status != ARES_SUCCESS)
        return srt_err_set(err, "c-ares: %s", ares_strerror(library_status));
    return 0;
}

static int add_server(struct upstream_servers *servers, struct str text, struct srt_err *err)
{
    struct target target;
    const char *why;
    if (servers->count == UPSTREAM_MAX_SERVERS)
        return srt_err_set(err, "more than %d name servers", UPSTREAM_MAX_SERVERS);
    if (!target_parse_default(&target, text, DNS_PORT, &why))
        return srt_err_set(err, "\"%.*s\" is not a name server: %s", STR_ARG(text), why);
    if (!target.is_addr)
        return srt_err_set(err,
                           "\"%.*s\" is not a name server: it has to be an IP address, with a port "
                           "or without, or the word system",
                           STR_ARG(text));
    servers->at[servers->count++] = (struct upstream_server){target.addr, target.port};
    return 0;
}

int upstream_servers_parse(struct upstream_servers *out, const char *list, struct srt_err *err)
{
    struct str rest = str_of(list), word;
    out->count = 0;
    while (str_next_part(&rest, ',', &word))
        if (add_server(out, str_trim(word), err) != 0)
            return -1;
    return 0;
}

/* Nothing that a file or the environment could say (search list, ndots, rotation, lookups) matters:
 * every option is given, and the name asked is the name on the wire. With `resolv_conf`, its name
 * servers are read; without, no configuration is read and there are no servers yet. */
static int open_ares(ares_channel *out, struct ares_options options, const char *resolv_conf)
{
    char path[PATH_MAX], lookups[] = "b";
    int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
               ARES_OPT_DOMAINS | ARES_OPT_LOOKUPS | ARES_OPT_EDNSPSZ | ARES_OPT_NOROTATE |
               ARES_OPT_SORTLIST | ARES_OPT_SOCK_STATE_CB;
    options.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS;
    options.ednspsz = EDNS_UDP_SIZE;
    options.lookups = lookups;
    if (resolv_conf != NULL) {
        snprintf(path, sizeof(path), "%s", resolv_conf);
        options.resolvconf_path = path;
        mask |= ARES_OPT_RESOLVCONF;
    } else {
        mask |= ARES_OPT_SERVERS;
    }
    return ares_init_options(out, &options, mask);
}

static void copy_servers(struct upstream_servers *out, const struct ares_addr_port_node *node)
{
    out->count = 0;
    for (; node != NULL && out->count < UPSTREAM_MAX_SERVERS; node = node->next) {
        struct upstream_server *server = &out->at[out->count++];
        server->addr = node->family == AF_INET ? addr_of_v4((const uint8_t *)&node->addr.addr4)
                                               : addr_of_v6((const uint8_t *)&node->addr.addr6);
        server->port = node->udp_port != 0 ? (uint16_t)node->udp_port : DNS_PORT;
    }
}

int upstream_servers_read(struct upstream_servers *out, const char *path, struct srt_err *err)
{
    /* c-ares opens and reads the file to its end, so what could block or not end is kept from it.
     */
    struct stat st;
    bool exists = stat(path, &st) == 0;
    if (!exists && errno != ENOENT)
        return srt_err_set(err, "cannot read %s: %s", path, strerror(errno));
    if (exists && (!S_ISREG(st.st_mode) || st.st_size > UPSTREAM_RESOLV_CONF_MAX_SIZE))
        return srt_err_set(err, "%s is not a regular file of at most %d bytes", path,
                           UPSTREAM_RESOLV_CONF_MAX_SIZE);
    if (require_library(err) != 0)
        return -1;

    ares_channel ares;
    int rc = open_ares(&ares, (struct ares_options){.timeout = 1000, .tries = 1}, path);
    if (rc != ARES_SUCCESS)
        return srt_err_set(err, "cannot read %s: %s", path, ares_strerror(rc));
    struct ares_addr_port_node *nodes = NULL;
    rc = ares_get_servers_ports(ares, &nodes);
    copy_servers(out, nodes);
    ares_free_data(nodes);
    ares_destroy(ares);
    if (rc != ARES_SUCCESS || out->count == 0)
        return srt_err_set(err, "cannot read %s: %s", path, ares_strerror(rc));
    return 0;
}

static int set_ares_servers(ares_channel ares, const struct upstream_servers *servers)
{
    struct ares_addr_port_node nodes[UPSTREAM_MAX_SERVERS] = {0};
    for (size_t i = 0; i < servers->count; i++) {
        const struct upstream_server *server = &servers->at[i];
        struct ares_addr_port_node *node = &nodes[i];
        node->next = i + 1 < servers->count ? node + 1 : NULL;
        node->udp_port = node->tcp_port = server->port;
        node->family = server->addr.family == 4 ? AF_INET : AF_INET6;
        memcpy(&node->addr, server->addr.bytes, server->addr.family == 4 ? 4 : 16);
    }
    return ares_set_servers_ports(ares, nodes);
}

static void channel_destroy(struct channel *channel)
{
    ares_destroy(channel->ares); /* ends what is pending and closes the sockets */
    assert(channel->pending == 0 && LIST_EMPTY(&channel->socks));
    ev_timer_stop(channel->upstream->loop, &channel->tick);
    free(channel);
}

/* Only where c-ares is not on the stack. */
static void channel_destroy_if_done(struct channel *channel)
{
    if (!channel->retired || channel->pending > 0)
        return;
    LIST_REMOVE(channel, retirees);
    channel_destroy(channel);
}

static void channel_process(struct channel *channel, int read_fd, int write_fd)
{
    channel->reading = read_fd;
    ares_process_fd(channel->ares, read_fd, write_fd);
    channel->reading = -1;
    if (channel->pending == 0)
        ev_timer_stop(channel->upstream->loop, &channel->tick);
    channel_destroy_if_done(channel);
}

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
    (void)loop;
    struct sock *sock = io->data;
    int fd = io->fd; /* the socket may be gone after c-ares was called */
    channel_process(sock->channel, events & EV_READ ? fd : ARES_SOCKET_BAD,
                    events & EV_WRITE ? fd : ARES_SOCKET_BAD);
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop, (void)events;
    channel_process(timer->data, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

static struct sock *find_sock(struct channel *channel, int fd)
{
    struct sock *sock = LIST_FIRST(&channel->socks); /* of one or two for each server */
    while (sock != NULL && sock->io.fd != fd)
        sock = LIST_NEXT(sock, all);
    return sock;
}

static struct sock *add_sock(struct channel *channel, int fd)
{
    struct sock *sock = calloc(1, sizeof(*sock));
    if (sock == NULL)
        return NULL; /* nobody listens to this socket; the question times out */
    ev_io_init(&sock->io, on_io, fd, 0);
    sock->io.data = sock;
    sock->channel = channel;
    LIST_INSERT_HEAD(&channel->socks, sock, all);
    return sock;
}

static void on_socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
    struct channel *channel = arg;
    struct ev_loop *loop = channel->upstream->loop;
    struct sock *sock = find_sock(channel, fd);
    if (sock == NULL && (!(readable || writable) || (sock = add_sock(channel, fd)) == NULL))
        return;
    ev_io_stop(loop, &sock->io);
    if (readable || writable) {
        ev_io_set(&sock->io, fd, (readable ? EV_READ : 0) | (writable ? EV_WRITE : 0));
        ev_io_start(loop, &sock->io);
    } else {
        LIST_REMOVE(sock, all);
        free(sock);
    }
}

static ares_socket_t open_socket(int domain, int type, int protocol, void *arg)
{
    (void)arg;
    int on = 1, fd = socket(domain, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
    if (fd >= 0 && type == SOCK_STREAM)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static int close_socket(ares_socket_t fd, void *arg)
{
    (void)arg;
    return close(fd);
}

static int connect_socket(ares_socket_t fd, const struct sockaddr *sa, ares_socklen_t len,
                          void *arg)
{
    (void)arg;
    return connect(fd, sa, len);
}

static ares_ssize_t receive(ares_socket_t fd, void *data, size_t len, int flags,
                            struct sockaddr *from, ares_socklen_t *from_len, void *arg)
{
    (void)arg;
    return recvfrom(fd, data, len, flags, from, from_len);
}

/* That a server's port is closed shows as an error of the next call on the socket, whichever it is.
 * If that is a send, c-ares moves that query on to the next server but leaves those sent before
 * waiting for their timeout. So the error is passed over here and provoked once more, for the next
 * receive to find: c-ares then moves all of them on. A part of what is queued for TCP is as good as
 * the whole. */
static ares_ssize_t send_first(ares_socket_t fd, const struct iovec *parts, int count, void *arg)
{
    (void)arg, (void)count;
    ssize_t sent = send(fd, parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL);
    if (sent < 0 && errno == ECONNREFUSED)
        sent = send(fd, parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL);
    return sent;
}

static const struct ares_socket_functions socket_functions = {
    .asocket = open_socket,
    .aclose = close_socket,
    .aconnect = connect_socket,
    .arecvfrom = receive,
    .asendv = send_first,
};

static struct channel *channel_create(struct upstream *upstream,
                                      const struct upstream_servers *servers, struct srt_err *err)
{
    struct channel *channel = calloc(1, sizeof(*channel));
    if (channel == NULL) {
        srt_err_set(err, "no memory for the name servers");
        return NULL;
    }
    uint32_t turn_ms = upstream->timeout_ms / (uint32_t)servers->count;
    struct ares_options options = {
        .timeout = turn_ms > 0 ? (int)turn_ms : 1,
        .tries = (int)upstream->tries,
        .sock_state_cb = on_socket_state,
        .sock_state_cb_data = channel,
    };
    int rc = open_ares(&channel->ares, options, NULL);
    if (rc == ARES_SUCCESS) {
        ares_set_socket_functions(channel->ares, &socket_functions, NULL);
        rc = set_ares_servers(channel->ares, servers);
        if (rc != ARES_SUCCESS)
            ares_destroy(channel->ares);
    }
    if (rc != ARES_SUCCESS) {
        srt_err_set(err, "c-ares: %s", ares_strerror(rc));
        free(channel);
        return NULL;
    }
    channel->upstream = upstream;
    channel->servers = *servers;
    channel->edns = true;
    channel->reading = -1;
    ev_timer_init(&channel->tick, on_tick, 0.0, tick_s);
    channel->tick.data = channel;
    return channel;
}

void upstream_set_servers(struct upstream *upstream, const struct upstream_servers *servers)
{
    struct channel *old = upstream->current, *channel = channel_create(upstream, servers, NULL);
    if (channel == NULL)
        return;
    upstream->current = channel;
    upstream->prefer = 0;
    old->retired = true;
    LIST_INSERT_HEAD(&upstream->retirees, old, retirees);
    if (old->pending == 0)
        channel_destroy_if_done(old);
}

struct upstream *upstream_create(struct ev_loop *loop, const struct upstream_servers *servers,
                                 uint32_t timeout_ms, uint32_t tries, struct srt_err *err)
{
    assert(servers->count > 0);
    if (require_library(err) != 0)
        return NULL;
    struct upstream *upstream = calloc(1, sizeof(*upstream));
    if (upstream == NULL) {
        srt_err_set(err, "no memory for the name servers");
        return NULL;
    }
    upstream->loop = loop;
    upstream->timeout_ms = timeout_ms;
    upstream->tries = tries;
    LIST_INIT(&upstream->retirees);
    upstream->current = channel_create(upstream, servers, err);
    if (upstream->current == NULL) {
        free(upstream);
        return NULL;
    }
    return upstream;
}

void upstream_destroy(struct upstream *upstream)
{
    if (upstream == NULL)
        return;
    channel_destroy(upstream->current);
    while (!LIST_EMPTY(&upstream->retirees)) {
        struct channel *channel = LIST_FIRST(&upstream->retirees);
        LIST_REMOVE(channel, retirees);
        channel_destroy(channel);
    }
    free(upstream);
}

/* The server at the other end of the socket that is being read; 0 if that is not known. */
static size_t answering_server(const struct channel *channel)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof(peer);
    struct upstream_server got;
    if (channel->reading < 0 ||
        getpeername(channel->reading, (struct sockaddr *)&peer, &len) != 0 ||
        !addr_from_sockaddr((const struct sockaddr *)&peer, &got.addr, &got.port))
        return 0;
    for (size_t i = 0; i < channel->servers.count; i++)
        if (addr_eq(&channel->servers.at[i].addr, &got.addr) &&
            channel->servers.at[i].port == got.port)
            return i;
    return 0;
}

/* c-ares starts every question with the first server, however dead. */
static void apply_preference(struct upstream *upstream)
{
    size_t prefer = upstream->prefer;
    if (prefer == 0)
        return;
    upstream->prefer = 0;
    struct upstream_servers servers = upstream->current->servers;
    struct upstream_server first = servers.at[prefer];
    memmove(&servers.at[1], &servers.at[0], prefer * sizeof(servers.at[0]));
    servers.at[0] = first;
    upstream_set_servers(upstream, &servers);
}

static void send_ask(struct ask *ask);

/* FORMERR without an OPT record: a server that does not know EDNS. c-ares turns EDNS off after the
 * first such reply and repeats that question; those that were already on their way are left to us.
 */
static bool lacks_edns(const uint8_t *message, int len)
{
    return len >= NS_HFIXEDSZ && (message[3] & 0x0f) == ns_r_formerr && message[10] == 0 &&
           message[11] == 0;
}

static enum upstream_status status_of(int ares_status)
{
    switch (ares_status) {
    case ARES_SUCCESS:
        return UPSTREAM_REPLY;
    case ARES_ENOTFOUND:
        return UPSTREAM_NEVER;
    case ARES_ETIMEOUT:
        return UPSTREAM_TIMEOUT;
    default:
        return UPSTREAM_FAILURE;
    }
}

static void on_reply(void *arg, int status, int timeouts, unsigned char *message, int len)
{
    struct ask *ask = arg;
    struct channel *channel = ask->channel;
    channel->pending--;
    if (status == ARES_SUCCESS && ask->edns && lacks_edns(message, len)) {
        channel->edns = false;
        ask->edns = false;
        send_ask(ask);
        return;
    }
    if (status == ARES_SUCCESS && timeouts > 0 && channel == channel->upstream->current)
        channel->upstream->prefer = answering_server(channel);
    ask->done(ask->arg, status_of(status), message, len > 0 ? (size_t)len : 0);
    free(ask);
}

/* The identifier comes from the kernel's generator: the one of c-ares 1.18 (RC4, seeded with 31
 * bytes and not mixed) is too weak to be all that an off-path attacker has to guess beside the
 * port. */
static void send_ask(struct ask *ask)
{
    struct channel *channel = ask->channel;
    unsigned char *query = NULL;
    int len = 0;
    int rc = ares_create_query(ask->name.text, ns_c_in, ask->family == 4 ? ns_t_a : ns_t_aaaa,
                               (unsigned short)arc4random_uniform(1 << 16), 1, &query, &len,
                               ask->edns ? EDNS_UDP_SIZE : 0);
    channel->pending++;
    if (rc == ARES_SUCCESS)
        ares_send(channel->ares, query, len, on_reply, ask);
    else
        on_reply(ask, rc, 0, NULL, 0);
    ares_free_string(query);
}

void upstream_ask(struct upstream *upstream, const struct name *name, uint8_t family,
                  upstream_done_fn *done, void *arg)
{
    apply_preference(upstream);
    struct channel *channel = upstream->current;
    struct ask *ask = malloc(sizeof(*ask));
    if (ask == NULL) {
        done(arg, UPSTREAM_FAILURE, NULL, 0);
        return;
    }
    *ask = (struct ask){channel, *name, family, channel->edns, done, arg};
    if (!ev_is_active(&channel->tick))
        ev_timer_again(upstream->loop, &channel->tick);
    send_ask(ask);
}
