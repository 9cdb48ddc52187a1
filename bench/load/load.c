/*
 * The load: C clients at once, N units in all, each unit checked. Prints one JSON line.
 *
 *   load tunnel|trips|refuse|get|down|up|idle PROXY TARGET -c C -n N [-b BYTES]
 *
 *   tunnel  CONNECT, one 64-byte round trip through the echo, close
 *   trips   C tunnels that stay, and N round trips of 64 bytes over them
 *   refuse  CONNECT that must be answered with a whole 403
 *   get     absolute-form GET over C kept-alive connections
 *   down    C tunnels that fetch BYTES each; up: that send BYTES each (N is ignored)
 *   idle    C tunnels opened and kept until standard input ends; "ready" once all are open
 *
 * PROXY and TARGET are endpoints; TARGET may be a name where the proxy resolves it. With "socks-"
 * before the word of the mode the proxy is asked by SOCKS5, without a login; TARGET is then
 * IPv4:port.
 */
#include "net.h"

enum mode { TUNNEL, TRIPS, REFUSE, GET, DOWN, UP, IDLE };
enum step { CONNECTING, GREETING, SOCKS, HEAD, ECHO, BODY, SENDING, COUNTING };
enum { BUFFER = 256 << 10 };

struct client {
    int fd;
    enum step step;
    size_t got;     /* bytes of the answer at hand */
    uint64_t moved; /* bulk */
    double started;
    size_t matched;
    size_t rest; /* of a refusal's body */
};

static const char *const words[] = {"tunnel", "trips", "refuse", "get", "down", "up", "idle"};
static enum mode mode;
static bool socks;
static struct endpoint proxy;
static char head[512];
static size_t head_len;
static int ep;
static uint64_t wanted, begun, done, failed, bytes = 64 << 20;
static unsigned clients = 64, open_now;
static double *took;
static char scratch[BUFFER];

static void client_begin(struct client *c)
{
    c->step = CONNECTING;
    c->got = c->matched = 0;
    c->moved = 0;
    c->started = seconds_now();
    c->fd = endpoint_connect(&proxy);
    begun++;
    if (c->fd < 0)
        err(71, "connect");
    epoll_set(ep, EPOLL_CTL_ADD, c->fd, EPOLLOUT, c);
}

static void unit_end(struct client *c, bool good)
{
    if (done < wanted)
        took[done] = seconds_now() - c->started;
    done++;
    failed += !good;
}

static void client_end(struct client *c, bool good)
{
    close(c->fd);
    unit_end(c, good);
    if (begun < wanted)
        client_begin(c);
}

static void client_write(struct client *c, const char *data, size_t len)
{
    if (write(c->fd, data, len) != (ssize_t)len)
        errx(70, "a short write of %zu bytes", len);
    epoll_set(ep, EPOLL_CTL_MOD, c->fd, EPOLLIN, c);
}

/* A unit is over, and the connection begins another one, unless there have been enough. */
static bool client_goes_on(struct client *c)
{
    unit_end(c, true);
    if (begun >= wanted) {
        close(c->fd);
        return false;
    }
    begun++;
    c->started = seconds_now();
    c->got = c->matched = 0;
    return true;
}

/* One round trip is over. */
static void client_trip(struct client *c)
{
    if (!client_goes_on(c))
        return;
    memset(scratch, 'y', 64);
    if (write(c->fd, scratch, 64) != 64)
        errx(70, "a short write");
}

/* After the head: what the mode does with its tunnel. */
static void client_use(struct client *c)
{
    char order[32];
    c->got = 0;
    switch (mode) {
    case TUNNEL:
    case TRIPS:
        memset(scratch, 'y', 65);
        scratch[0] = 'E';
        c->step = ECHO;
        client_write(c, scratch, 65);
        return;
    case DOWN:
        c->step = COUNTING;
        client_write(c, order, (size_t)sprintf(order, "S%llu\n", (unsigned long long)bytes));
        return;
    case UP:
        c->step = SENDING;
        client_write(c, "K", 1);
        epoll_set(ep, EPOLL_CTL_MOD, c->fd, EPOLLOUT, c);
        return;
    case IDLE:
        c->step = BODY;
        if (++open_now == clients) {
            puts("ready");
            fflush(stdout);
        }
        return;
    case REFUSE:
    case GET:
        errx(70, "not a tunnel");
    }
}

/* A whole response on a kept-alive connection: count it and ask again. */
static void client_again(struct client *c)
{
    if (!client_goes_on(c))
        return;
    c->step = HEAD;
    client_write(c, head, head_len);
}

/* Its head ends at `at` of the `n` bytes read; one without a length ends with the connection. */
static void client_refused(struct client *c, size_t n, size_t at)
{
    scratch[n] = '\0';
    const char *length = strcasestr(scratch, "Content-Length:");
    c->step = BODY;
    c->got = n - at;
    c->rest = length != NULL ? strtoul(length + 15, NULL, 10) : SIZE_MAX;
    if (c->got >= c->rest)
        client_end(c, true);
}

static void client_head(struct client *c, ssize_t n)
{
    size_t i = 0;
    if (c->got == 0 && n >= 12 && memcmp(scratch + 8, mode == REFUSE ? " 403" : " 200", 4) != 0) {
        if (failed == 0)
            fprintf(stderr, "load: %.*s\n", (int)(n < 200 ? n : 200), scratch);
        client_end(c, false);
        return;
    }
    for (; i < (size_t)n && c->matched < 4; i++)
        c->matched = scratch[i] == "\r\n\r\n"[c->matched] ? c->matched + 1 : scratch[i] == '\r';
    c->got += (size_t)n;
    if (c->matched < 4)
        return;
    if (mode == REFUSE) {
        client_refused(c, (size_t)n, i);
        return;
    }
    if (mode == GET) {
        c->step = BODY;
        c->got = (size_t)n - i;
        if (c->got == 1024)
            client_again(c);
        return;
    }
    client_use(c);
}

static void client_read(struct client *c)
{
    ssize_t n = read(c->fd, scratch, sizeof(scratch) - 1);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        bool good =
            (mode == REFUSE && c->step == BODY) || (c->step == COUNTING && c->moved == bytes);
        client_end(c, good);
        return;
    }
    switch (c->step) {
    case GREETING:
        c->step = SOCKS;
        client_write(c, head, head_len);
        return;
    case SOCKS:
        if (n < 10 || (scratch[1] == 0) == (mode == REFUSE))
            client_end(c, false);
        else if (mode == REFUSE)
            client_end(c, true);
        else
            client_use(c);
        return;
    case HEAD:
        client_head(c, n);
        return;
    case ECHO:
        c->got += (size_t)n;
        if (c->got == 64 && mode == TRIPS)
            client_trip(c);
        else if (c->got == 64)
            client_end(c, true);
        return;
    case BODY:
        c->got += (size_t)n;
        if (mode == GET && c->got == 1024)
            client_again(c);
        else if (mode == REFUSE && c->got >= c->rest)
            client_end(c, true);
        return;
    case COUNTING:
        c->moved += (uint64_t)n;
        if (mode == UP) {
            scratch[n] = '\0';
            client_end(c, strtoull(scratch, NULL, 10) == bytes);
        }
        return;
    case CONNECTING:
    case SENDING:
        return;
    }
}

static void client_send(struct client *c)
{
    while (c->moved < bytes) {
        uint64_t left = bytes - c->moved;
        ssize_t n = write(c->fd, scratch, left < sizeof(scratch) ? (size_t)left : sizeof(scratch));
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            client_end(c, false);
            return;
        }
        c->moved += (uint64_t)n;
    }
    shutdown(c->fd, SHUT_WR);
    c->step = COUNTING;
    epoll_set(ep, EPOLL_CTL_MOD, c->fd, EPOLLIN, c);
}

static void client_event(struct client *c, uint32_t events)
{
    if (c->step == CONNECTING) {
        if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
            client_end(c, false);
            return;
        }
        c->step = socks ? GREETING : HEAD;
        if (socks)
            client_write(c, "\5\1\0", 3);
        else
            client_write(c, head, head_len);
    } else if (c->step == SENDING && (events & EPOLLOUT) != 0) {
        client_send(c);
    } else {
        client_read(c);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void socks_head(const char *target)
{
    const struct endpoint to = endpoint_parse(target);
    const struct sockaddr_in *in = (const struct sockaddr_in *)&to.sa;
    memcpy(head, "\5\1\0\1", 4);
    memcpy(head + 4, &in->sin_addr, 4);
    memcpy(head + 8, &in->sin_port, 2);
    head_len = 10;
}

static void arguments(int argc, char **argv)
{
    const char *usage =
        "usage: load tunnel|trips|refuse|get|down|up|idle PROXY TARGET -c C -n N [-b BYTES]";
    if (argc < 4)
        errx(64, "%s", usage);
    socks = strncmp(argv[1], "socks-", 6) == 0;
    argv[1] += socks ? 6 : 0;
    for (mode = TUNNEL; mode <= IDLE && strcmp(argv[1], words[mode]) != 0;)
        mode++;
    proxy = endpoint_parse(argv[2]);
    if (mode > IDLE)
        errx(64, "%s", usage);
    head_len = (size_t)snprintf(head, sizeof(head),
                                mode == GET ? "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n"
                                            : "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n",
                                argv[3], argv[3]);
    if (socks)
        socks_head(argv[3]);
    for (int option; (option = getopt(argc - 3, argv + 3, "c:n:b:")) != -1;) {
        switch (option) {
        case 'c':
            clients = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'n':
            wanted = strtoull(optarg, NULL, 10);
            break;
        case 'b':
            bytes = strtoull(optarg, NULL, 10);
            break;
        default:
            errx(64, "%s", usage);
        }
    }
    if (mode == DOWN || mode == UP || mode == IDLE)
        wanted = clients;
    if (clients == 0 || wanted == 0)
        errx(64, "%s", usage);
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    program_begin();
    ep = epoll_create1(EPOLL_CLOEXEC);
    took = calloc(wanted, sizeof(*took));
    struct client *all = calloc(clients, sizeof(*all));
    if (took == NULL || all == NULL)
        err(71, "calloc");
    if (mode == IDLE)
        epoll_set(ep, EPOLL_CTL_ADD, STDIN_FILENO, EPOLLIN, NULL);
    double start = seconds_now();
    for (unsigned i = 0; i < clients && begun < wanted; i++)
        client_begin(&all[i]);
    while (done < wanted) {
        struct epoll_event ev[1];
        if (epoll_wait(ep, ev, 1, -1) != 1)
            continue;
        if (ev[0].data.ptr == NULL) {
            if (read(STDIN_FILENO, scratch, sizeof(scratch)) > 0)
                continue;
            free(all);
            free(took);
            return 0;
        }
        client_event(ev[0].data.ptr, ev[0].events);
    }
    double seconds = seconds_now() - start;
    qsort(took, wanted, sizeof(*took), compare);
    printf("{\"mode\":\"%s\",\"units\":%llu,\"failed\":%llu,\"clients\":%u,\"seconds\":%.3f,"
           "\"p50_us\":%.0f,\"p99_us\":%.0f,\"bytes\":%llu}\n",
           words[mode], (unsigned long long)wanted, (unsigned long long)failed, clients, seconds,
           took[wanted / 2] * 1e6, took[wanted * 99 / 100] * 1e6,
           (unsigned long long)(mode == DOWN || mode == UP ? bytes * clients : 0));
    free(all);
    free(took);
    return failed == 0 ? 0 : 1;
}
