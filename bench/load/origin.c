/*
 * The upstream of every load: the first byte of a connection says what it wants.
 *
 *   'G'  an HTTP GET: each request is answered with 1 KiB, kept alive
 *   'E'  echo: everything after the first byte comes back
 *   'S'  source: 'S' and a decimal count ended by '\n'; that many bytes come, then the end
 *   'K'  sink: everything is swallowed; at its end the count comes back in decimal
 *
 *   origin LISTEN        says "ready PORT"; port 0 is the kernel's choice
 */
#include "net.h"

enum { BUFFER = 256 << 10 };

struct peer {
    int fd;
    char kind;
    bool counted; /* the source's count is read */
    uint64_t left, swallowed;
    size_t matched; /* of the end of an HTTP head */
    size_t held, held_at;
    char *data;
};

static int ep;
static char scratch[BUFFER];
static char response[1024 + 128];
static size_t response_len;

static void peer_close(struct peer *p)
{
    close(p->fd);
    free(p->data);
    free(p);
}

static bool peer_send(struct peer *p, const char *bytes, size_t len)
{
    ssize_t n = p->held == 0 ? write(p->fd, bytes, len) : 0;
    if (n < 0 && errno != EAGAIN)
        return false;
    size_t sent = n < 0 ? 0 : (size_t)n;
    if (sent == len)
        return true;
    size_t rest = len - sent;
    char *grown = realloc(p->data, p->held_at + p->held + rest);
    if (grown == NULL)
        return false;
    memcpy(grown + p->held_at + p->held, bytes + sent, rest);
    p->data = grown;
    p->held += rest;
    return true;
}

static bool peer_flush(struct peer *p)
{
    while (p->held != 0) {
        ssize_t n = write(p->fd, p->data + p->held_at, p->held);
        if (n < 0)
            return errno == EAGAIN;
        p->held -= (size_t)n;
        p->held_at += (size_t)n;
    }
    free(p->data);
    p->data = NULL;
    p->held_at = 0;
    return true;
}

static bool peer_take(struct peer *p, const char *bytes, size_t len)
{
    if (p->kind == 0) {
        p->kind = bytes[0];
        if (p->kind != 'G')
            bytes++, len--;
    }
    switch (p->kind) {
    case 'E':
        return len == 0 || peer_send(p, bytes, len);
    case 'K':
        p->swallowed += len;
        return true;
    case 'S':
        for (; len > 0 && !p->counted; bytes++, len--) {
            if (*bytes == '\n')
                p->counted = true;
            else
                p->left = p->left * 10 + (uint64_t)(*bytes - '0');
        }
        return true;
    case 'G':
        for (size_t i = 0; i < len; i++) {
            p->matched = bytes[i] == "\r\n\r\n"[p->matched] ? p->matched + 1 : bytes[i] == '\r';
            if (p->matched == 4) {
                p->matched = 0;
                if (!peer_send(p, response, response_len))
                    return false;
            }
        }
        return true;
    default:
        return false;
    }
}

static bool peer_source(struct peer *p)
{
    for (int turns = 0; p->counted && p->left > 0 && turns < 8; turns++) {
        size_t want = p->left < sizeof(scratch) ? (size_t)p->left : sizeof(scratch);
        ssize_t n = write(p->fd, scratch, want);
        if (n < 0)
            return errno == EAGAIN;
        p->left -= (uint64_t)n;
    }
    if (p->counted && p->left == 0)
        shutdown(p->fd, SHUT_WR);
    return true;
}

static bool peer_event(struct peer *p, uint32_t events)
{
    if ((events & EPOLLIN) != 0 && p->held == 0) {
        ssize_t n = read(p->fd, scratch, sizeof(scratch));
        if (n < 0 && errno != EAGAIN)
            return false;
        if (n == 0) {
            char count[32];
            if (p->kind == 'K')
                peer_send(p, count,
                          (size_t)sprintf(count, "%llu", (unsigned long long)p->swallowed));
            return false;
        }
        if (n > 0 && !peer_take(p, scratch, (size_t)n))
            return false;
    }
    if (!peer_flush(p) || !peer_source(p))
        return false;
    bool writes = p->held != 0 || (p->counted && p->left > 0);
    epoll_set(ep, EPOLL_CTL_MOD, p->fd, (p->held == 0 ? EPOLLIN : 0u) | (writes ? EPOLLOUT : 0u),
              p);
    return true;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        errx(64, "usage: origin LISTEN");
    struct endpoint at = endpoint_parse(argv[1]);
    program_begin();
    response_len = (size_t)sprintf(response, "HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n");
    memset(response + response_len, 'x', 1024);
    response_len += 1024;
    ep = epoll_create1(EPOLL_CLOEXEC);
    int listener = endpoint_listen(&at);
    epoll_set(ep, EPOLL_CTL_ADD, listener, EPOLLIN, NULL);
    printf("ready %u\n", endpoint_port(listener));
    fflush(stdout);
    for (;;) {
        struct epoll_event ev[64];
        int n = epoll_wait(ep, ev, 64, -1);
        for (int i = 0; i < n; i++) {
            struct peer *p = ev[i].data.ptr;
            if (p != NULL) {
                if (!peer_event(p, ev[i].events))
                    peer_close(p);
                continue;
            }
            for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
                p = calloc(1, sizeof(*p));
                if (p == NULL)
                    err(71, "calloc");
                p->fd = fd;
                epoll_set(ep, EPOLL_CTL_ADD, fd, EPOLLIN, p);
            }
        }
    }
}
