/*
 * The reference: the smallest epoll relay that does a forward proxy's carrying and nothing else. It
 * reads a CONNECT head, dials the IPv4 literal in it, answers 200 and copies both ways; with
 * --raw ADDR it dials ADDR at once and copies. No policy, no names, no log, no timers.
 *
 * With --splice a way that fills its buffer goes on through a pipe, without a copy, until it runs
 * dry. The pipe belongs to the process: what is spliced in is spliced out or kept as bytes.
 *
 * With --refuse it answers each head with a 403 as long as the gateway's and closes once its client
 * has, so that nothing that comes behind the head resets the answer: the reference of refusals.
 *
 *   relay LISTEN [--splice | --refuse | --raw ADDR]     says "ready PORT"
 */
#include "net.h"

enum { BUFFER = 64 << 10, PIPE = 256 << 10, HEAD = 1024, REFUSAL_BODY = 512 };

struct side {
    struct pair *pair;
    int fd;
    uint32_t armed;
    bool eof; /* nothing more will be read from it */
};

struct pair {
    struct side side[2]; /* client, upstream */
    char *held[2];       /* read from side i, not yet written to the other */
    size_t held_len[2], held_at[2];
    size_t head_len;
    bool tunnel; /* the head is through */
    bool dialled;
    bool refused;
    char head[HEAD];
};

static int ep, tube[2] = {-1, -1};
static char scratch[BUFFER];
static const char ok[] = "HTTP/1.1 200 Connection established\r\n\r\n";
static char refusal[REFUSAL_BODY + 256];
static size_t refusal_len; /* 0: nothing is refused */

static void pair_close(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        if (p->side[i].fd >= 0)
            close(p->side[i].fd);
        free(p->held[i]);
        p->side[i].fd = -1;
    }
    free(p);
}

static void side_arm(struct side *s, uint32_t events)
{
    if (s->fd >= 0 && s->armed != events) {
        epoll_set(ep, s->armed == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, s->fd, events, s);
        s->armed = events;
    }
}

static bool pair_dial(struct pair *p, const struct endpoint *to)
{
    p->side[1].fd = endpoint_connect(to);
    p->dialled = true;
    if (p->side[1].fd < 0)
        return false;
    side_arm(&p->side[0], EPOLLRDHUP);
    side_arm(&p->side[1], EPOLLOUT);
    return true;
}

static bool pair_refuse(struct pair *p)
{
    const int fd = p->side[0].fd;
    p->refused = true;
    return send(fd, refusal, refusal_len, MSG_MORE) == (ssize_t)refusal_len &&
           shutdown(fd, SHUT_WR) == 0;
}

/* False at the client's end. */
static bool pair_discard(struct pair *p)
{
    ssize_t n = read(p->side[0].fd, scratch, sizeof(scratch));
    return n > 0 || (n < 0 && errno == EAGAIN);
}

static bool pair_read_head(struct pair *p)
{
    ssize_t n = read(p->side[0].fd, p->head + p->head_len, HEAD - 1 - p->head_len);
    if (n <= 0)
        return n < 0 && errno == EAGAIN;
    p->head_len += (size_t)n;
    p->head[p->head_len] = '\0';
    if (strstr(p->head, "\r\n\r\n") == NULL)
        return p->head_len < HEAD - 1;
    if (refusal_len != 0)
        return pair_refuse(p);
    char authority[64];
    if (sscanf(p->head, "CONNECT %63s", authority) != 1)
        return false;
    struct endpoint to = endpoint_parse(authority);
    return pair_dial(p, &to);
}

static bool pair_keep(struct pair *p, int i, size_t len)
{
    p->held[i] = malloc(len);
    p->held_len[i] = len;
    p->held_at[i] = 0;
    return p->held[i] != NULL;
}

/* Splices until a side has nothing or takes nothing; false when the pair is done. The other ways
 * of ending are left to the read that follows. */
static bool pair_splice(struct pair *p, int i)
{
    const unsigned flags = SPLICE_F_NONBLOCK | SPLICE_F_MOVE;
    const int from = p->side[i].fd, to = p->side[1 - i].fd;
    for (int turns = 0; turns < 4; turns++) {
        ssize_t in = splice(from, NULL, tube[1], NULL, PIPE, flags);
        if (in <= 0)
            return true;
        for (ssize_t out; in > 0; in -= out) {
            out = splice(tube[0], NULL, to, NULL, (size_t)in, flags);
            if (out > 0)
                continue;
            if (errno != EAGAIN || !pair_keep(p, i, (size_t)in))
                return false;
            return read(tube[0], p->held[i], (size_t)in) == in;
        }
    }
    return true;
}

/* Moves what can be moved from side i to the other; false when the pair is done. */
static bool pair_move(struct pair *p, int i)
{
    struct side *from = &p->side[i], *to = &p->side[1 - i];
    for (int turns = 0; turns < 4; turns++) {
        if (p->held_len[i] != 0) {
            ssize_t n = write(to->fd, p->held[i] + p->held_at[i], p->held_len[i]);
            if (n < 0)
                return errno == EAGAIN;
            p->held_at[i] += (size_t)n;
            p->held_len[i] -= (size_t)n;
            if (p->held_len[i] != 0)
                return true;
            free(p->held[i]);
            p->held[i] = NULL;
        }
        if (from->eof)
            return true;
        ssize_t n = read(from->fd, scratch, sizeof(scratch));
        if (n < 0)
            return errno == EAGAIN;
        if (n == 0) {
            from->eof = true;
            shutdown(to->fd, SHUT_WR);
            return !(p->side[0].eof && p->side[1].eof);
        }
        ssize_t w = write(to->fd, scratch, (size_t)n);
        if (w < 0 && errno != EAGAIN)
            return false;
        if (w < n) {
            size_t rest = (size_t)(n - (w < 0 ? 0 : w));
            if (!pair_keep(p, i, rest))
                return false;
            memcpy(p->held[i], scratch + (n - (ssize_t)rest), rest);
            return true;
        }
        if (n < (ssize_t)sizeof(scratch))
            return true;
        if (tube[0] >= 0)
            return pair_splice(p, i);
    }
    return true;
}

static void pair_arm(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        uint32_t events = 0;
        if (!p->side[i].eof && p->held_len[i] == 0)
            events |= EPOLLIN;
        if (p->held_len[1 - i] != 0)
            events |= EPOLLOUT;
        side_arm(&p->side[i], events != 0 ? events : EPOLLHUP);
    }
}

static bool pair_connected(struct pair *p)
{
    p->tunnel = true;
    if (p->head_len != 0 && write(p->side[0].fd, ok, sizeof(ok) - 1) != (ssize_t)sizeof(ok) - 1)
        return false;
    if (!pair_move(p, 0))
        return false;
    pair_arm(p);
    return true;
}

static void pair_event(struct side *s, uint32_t events)
{
    struct pair *p = s->pair;
    bool alive = true;
    if (p->refused) {
        alive = pair_discard(p);
    } else if (!p->dialled) {
        alive = pair_read_head(p);
    } else if (!p->tunnel) {
        const bool failed = (events & (EPOLLERR | EPOLLHUP)) != 0;
        alive = s == &p->side[0] || failed ? !failed : pair_connected(p);
    } else {
        alive = pair_move(p, 0) && pair_move(p, 1);
        if (alive)
            pair_arm(p);
    }
    if (!alive)
        pair_close(p);
}

static void refusal_make(void)
{
    refusal_len = (size_t)sprintf(refusal,
                                  "HTTP/1.1 403 Blocked by policy\r\n"
                                  "Content-Type: application/json\r\n"
                                  "Content-Length: %d\r\n"
                                  "Cache-Control: no-store\r\n"
                                  "Connection: close\r\n\r\n",
                                  REFUSAL_BODY);
    memset(refusal + refusal_len, 'x', REFUSAL_BODY);
    refusal_len += REFUSAL_BODY;
}

int main(int argc, char **argv)
{
    struct endpoint at = {0}, raw = {0};
    const char *word = argc > 2 ? argv[2] : "";
    bool splices = strcmp(word, "--splice") == 0;
    if (strcmp(word, "--refuse") == 0)
        refusal_make();
    if (argc == 4 && strcmp(word, "--raw") == 0)
        raw = endpoint_parse(argv[3]);
    else if (argc != 2 + (splices || refusal_len != 0))
        errx(64, "usage: relay LISTEN [--splice | --refuse | --raw ADDR]");
    at = endpoint_parse(argv[1]);
    if (splices &&
        (pipe2(tube, O_NONBLOCK | O_CLOEXEC) != 0 || fcntl(tube[0], F_SETPIPE_SZ, (int)PIPE) < 0))
        err(71, "pipe");
    program_begin();
    ep = epoll_create1(EPOLL_CLOEXEC);
    int listener = endpoint_listen(&at);
    epoll_set(ep, EPOLL_CTL_ADD, listener, EPOLLIN, NULL);
    printf("ready %u\n", endpoint_port(listener));
    fflush(stdout);
    for (;;) {
        /* One event a turn per descriptor; a pair closed in this turn must not be seen again, so
         * take events one by one: the price is the reference's, and it is small. */
        struct epoll_event ev[1];
        int n = epoll_wait(ep, ev, 1, -1);
        if (n <= 0)
            continue;
        if (ev[0].data.ptr != NULL) {
            pair_event(ev[0].data.ptr, ev[0].events);
            continue;
        }
        for (;;) {
            int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (fd < 0)
                break; /* it has inherited its listener's options (tcp(7)) */
            struct pair *p = calloc(1, sizeof(*p));
            if (p == NULL)
                err(71, "calloc");
            p->side[0] = (struct side){.pair = p, .fd = fd};
            p->side[1] = (struct side){.pair = p, .fd = -1};
            if (raw.len == 0)
                side_arm(&p->side[0], EPOLLIN);
            else if (!pair_dial(p, &raw))
                pair_close(p);
        }
    }
}
