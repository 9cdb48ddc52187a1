#include "launcher/publish.h"

#include "dns/addr.h"
#include "launcher/remedy.h"
#include "launcher/say.h"
#include "srt/cleanup.h"
#include "srt/str.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { CONNECTIONS_MAX = 256, BUFFER = 32 << 10 };

/* ---- the words ---- */

/* The part behind the last colon is taken off `text`. */
static struct str take_last(struct str *text)
{
    size_t at = text->len;
    while (at > 0 && text->p[at - 1] != ':' && text->p[at - 1] != ']')
        at--;
    if (at == 0 || text->p[at - 1] == ']') {
        struct str whole = *text;
        *text = STR_NULL;
        return whole;
    }
    struct str last = str_from(*text, at);
    text->len = at - 1;
    return last;
}

static bool read_port(struct str text, bool zero, uint16_t *out)
{
    uint64_t port;
    if (!str_uint(text, UINT16_MAX, &port) || (port == 0 && !zero))
        return false;
    *out = (uint16_t)port;
    return true;
}

static bool read_address(struct str text, struct addr *out)
{
    bool brackets = text.len > 2 && text.p[0] == '[' && text.p[text.len - 1] == ']';
    struct str bare = brackets ? (struct str){text.p + 1, text.len - 2} : text;
    return addr_parse(out, bare) && brackets == str_has(bare, ':');
}

int publish_parse(struct publish *publish, const char *word, struct srt_err *err)
{
    struct str rest = str_of(word);
    struct publish_port port = {.inside = 0};
    struct addr address = {.family = 4, .bytes = {127, 0, 0, 1}};
    uint16_t outside = 0;
    bool good = read_port(take_last(&rest), false, &port.inside);
    outside = port.inside;
    if (good && rest.p != NULL)
        good = read_port(take_last(&rest), true, &outside);
    if (good && rest.p != NULL)
        good = read_address(rest, &address);
    if (!good)
        return srt_err_set(err,
                           "--publish is PORT, HOSTPORT:PORT or ADDRESS:HOSTPORT:PORT (HOSTPORT 0: "
                           "any free one), not \"%s\"",
                           word);
    if (!addr_is_loopback(&address))
        return srt_err_set(err, "--publish %s: only on loopback, such as 127.0.0.1 or [::1]", word);
    if (publish->count == PUBLISH_MAX)
        return srt_err_set(err, "--publish can be given %d times", PUBLISH_MAX);
    port.host_len = addr_to_sockaddr(&address, outside, &port.host);
    publish->listeners[publish->count] = -1;
    publish->ports[publish->count++] = port;
    return 0;
}

/* ---- the child ---- */

/* One direction of a connection. */
struct flow {
    int from, to;
    bool ended;  /* `from` sends no more */
    bool closed; /* and `to` has been told */
    size_t first, last;
    char bytes[BUFFER];
};

struct carried {
    struct flow up, down;
    int outer, inner; /* -1: free */
    bool connecting;
    uint16_t port;
    bool tried_v6;
};

struct carrier {
    const struct publish *publish;
    struct carried *connections; /* CONNECTIONS_MAX */
};

/* A socket in the namespace that the child has joined, on its way to the port. */
static int dial(uint16_t port, bool v6, bool *connecting)
{
    static const uint8_t one[16] = {[15] = 1};
    struct addr address = v6 ? addr_of_v6(one) : addr_of_v4((const uint8_t[]){127, 0, 0, 1});
    struct sockaddr_storage to;
    socklen_t len = addr_to_sockaddr(&address, port, &to);
    autoclose int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    *connecting = connect(fd, (struct sockaddr *)&to, len) != 0;
    return *connecting && errno != EINPROGRESS ? -1 : steal_fd(&fd);
}

static void hang_up(struct carried *connection)
{
    close(connection->outer);
    if (connection->inner >= 0)
        close(connection->inner);
    connection->outer = connection->inner = -1;
}

/* Servers inside listen on 127.0.0.1, on ::1, or on both. */
static void reach(struct carried *connection)
{
    connection->inner = dial(connection->port, false, &connection->connecting);
    connection->tried_v6 = connection->inner < 0;
    if (connection->tried_v6)
        connection->inner = dial(connection->port, true, &connection->connecting);
    if (connection->inner < 0)
        hang_up(connection);
}

static void begin_flows(struct carried *connection)
{
    struct flow *up = &connection->up, *down = &connection->down;
    up->from = down->to = connection->outer;
    up->to = down->from = connection->inner;
    up->first = up->last = down->first = down->last = 0;
    up->ended = up->closed = down->ended = down->closed = false;
}

static void accept_one(struct carrier *carrier, int listener, uint16_t port)
{
    int outer = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (outer < 0)
        return;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct carried *connection = &carrier->connections[i];
        if (connection->outer >= 0)
            continue;
        connection->outer = outer;
        connection->port = port;
        reach(connection);
        if (connection->outer >= 0)
            begin_flows(connection);
        return;
    }
    close(outer);
}

/* False: the connection has failed. */
static bool on_connected(struct carried *connection)
{
    int error = 0;
    socklen_t len = sizeof(error);
    connection->connecting = false;
    if (getsockopt(connection->inner, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0)
        return true;
    close(steal_fd(&connection->inner));
    if (connection->tried_v6)
        return false;
    connection->tried_v6 = true;
    connection->inner = dial(connection->port, true, &connection->connecting);
    begin_flows(connection);
    return connection->inner >= 0;
}

static bool again(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Moves what can be moved now. False: one side is broken. */
static bool move(struct flow *flow)
{
    if (flow->first == flow->last && !flow->ended) {
        ssize_t n = read(flow->from, flow->bytes, BUFFER);
        if (n < 0 && !again(n))
            return false;
        flow->first = 0;
        flow->last = n > 0 ? (size_t)n : 0;
        flow->ended = n == 0;
    }
    if (flow->first < flow->last) {
        ssize_t n =
            send(flow->to, flow->bytes + flow->first, flow->last - flow->first, MSG_NOSIGNAL);
        if (n < 0 && !again(n))
            return false;
        flow->first += n > 0 ? (size_t)n : 0;
    }
    if (flow->ended && flow->first == flow->last && !flow->closed) {
        shutdown(flow->to, SHUT_WR);
        flow->closed = true;
    }
    return true;
}

static void carry(struct carried *connection)
{
    if (connection->connecting && !on_connected(connection)) {
        hang_up(connection);
        return;
    }
    if (connection->connecting)
        return;
    struct flow *up = &connection->up, *down = &connection->down;
    if (!move(up) || !move(down) || (up->closed && down->closed))
        hang_up(connection);
}

static short wanted(const struct flow *reading, const struct flow *writing)
{
    bool read = reading->first == reading->last && !reading->ended;
    bool write = writing->first < writing->last;
    return (short)((read ? POLLIN : 0) | (write ? POLLOUT : 0));
}

static void watch(const struct carried *connection, struct pollfd wake[2])
{
    const struct flow *up = &connection->up, *down = &connection->down;
    wake[0].fd = wake[1].fd = -1;
    wake[0].revents = wake[1].revents = 0;
    if (connection->outer < 0)
        return;
    wake[0].events = connection->connecting ? 0 : wanted(up, down);
    wake[1].events = connection->connecting ? POLLOUT : wanted(down, up);
    /* A side of which nothing is wanted would only wake us with its hang-up. */
    if (wake[0].events != 0)
        wake[0].fd = connection->outer;
    if (wake[1].events != 0)
        wake[1].fd = connection->inner;
}

static _Noreturn void serve(struct carrier *carrier)
{
    enum { WAKES = PUBLISH_MAX + 2 * CONNECTIONS_MAX };
    static struct pollfd wake[WAKES];
    const struct publish *publish = carrier->publish;
    struct pollfd *connections = wake + publish->count;
    for (;;) {
        for (size_t i = 0; i < publish->count; i++)
            wake[i] = (struct pollfd){.fd = publish->listeners[i], .events = POLLIN};
        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
            watch(&carrier->connections[i], &connections[2 * i]);
        if (poll(wake, publish->count + 2 * CONNECTIONS_MAX, -1) < 0 && errno != EINTR)
            _exit(1);
        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
            if ((connections[2 * i].revents | connections[2 * i + 1].revents) != 0)
                carry(&carrier->connections[i]);
        for (size_t i = 0; i < publish->count; i++)
            if (wake[i].revents != 0)
                accept_one(carrier, publish->listeners[i], publish->ports[i].inside);
    }
}

/* It needs none of the rights that joining has given it. */
static void drop_rights(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    if (syscall(SYS_capset, &header, none) != 0)
        _exit(1);
}

/* Nothing else of the launcher's: neither the stage's socket nor the gateway's, whose ends must
 * mean what they say, nor the caller's streams. */
static void keep_only(struct publish *publish, int net_ns)
{
    for (int fd = 0; fd < 1024; fd++) {
        bool kept = fd == net_ns;
        for (size_t i = 0; i < publish->count; i++)
            kept = kept || fd == publish->listeners[i];
        if (!kept)
            close(fd);
    }
    syscall(SYS_close_range, 1024, ~0u, 0);
}

static _Noreturn void become_carrier(struct publish *publish, const struct inside *inside,
                                     pid_t parent)
{
    struct srt_err err;
    prctl(PR_SET_NAME, "srt-publish");
    setpgid(0, 0); /* a Ctrl-C is for the command */
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    keep_only(publish, inside->net_ns);
    if (inside_join(inside, INSIDE_NET, &err) != 0)
        _exit(1);
    drop_rights();
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* joining has cleared what was set before */
    if (getppid() != parent)
        _exit(1);
    struct carrier carrier = {.publish = publish,
                              .connections = calloc(CONNECTIONS_MAX, sizeof(*carrier.connections))};
    if (carrier.connections == NULL)
        _exit(1);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        carrier.connections[i].outer = carrier.connections[i].inner = -1;
    serve(&carrier);
}

/* ---- the launcher's side ---- */

static int open_listener(struct publish *publish, size_t i, struct srt_err *err)
{
    struct publish_port *port = &publish->ports[i];
    struct sockaddr *host = (struct sockaddr *)&port->host;
    char text[ADDR_TEXT_MAX];
    struct addr address;
    uint16_t number = 0;
    const int on = 1;
    autoclose int fd = socket(port->host.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool known = addr_from_sockaddr(host, &address, &number);
    assert(known);
    addr_format(text, &address);
    const char *left = address.family == 6 ? "[" : "", *right = address.family == 6 ? "]" : "";
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, host, port->host_len) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, host, &port->host_len) != 0)
        return srt_err_set(err, "--publish: %s%s%s:%u cannot be opened: %s", left, text, right,
                           number, remedy_error(errno));
    addr_from_sockaddr(host, &address, &number);
    say("published: %s%s%s:%u is port %u inside", left, text, right, number, port->inside);
    publish->listeners[i] = steal_fd(&fd);
    return 0;
}

static void close_listeners(struct publish *publish)
{
    for (size_t i = 0; i < publish->count; i++)
        if (publish->listeners[i] >= 0)
            close(steal_fd(&publish->listeners[i]));
}

int publish_start(struct publish *publish, const struct inside *inside, struct srt_err *err)
{
    if (publish->count == 0)
        return 0;
    for (size_t i = 0; i < publish->count; i++) {
        if (open_listener(publish, i, err) == 0)
            continue;
        close_listeners(publish);
        return -1;
    }
    pid_t parent = getpid();
    pid_t pid = _Fork(); /* as in inside.c: no thread may be started in the child */
    if (pid == 0)
        become_carrier(publish, inside, parent);
    if (pid < 0)
        srt_err_set(err, "fork: %s", remedy_error(errno));
    close_listeners(publish); /* the child's alone, so that they end with it */
    publish->pid = pid > 0 ? pid : 0;
    return pid > 0 ? 0 : -1;
}

void publish_close(struct publish *publish)
{
    if (publish->pid > 0) {
        kill(publish->pid, SIGKILL);
        while (waitpid(publish->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    publish->pid = 0;
}
