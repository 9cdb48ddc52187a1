/*
 * A scripted name server on the test's own loop: UDP and TCP on one port of 127.0.0.1.
 *
 * The script sees each query and writes the reply, or keeps silent. Everything it was asked is
 * counted.
 */
#ifndef TESTS_DNS_NAME_SERVER_H
#define TESTS_DNS_NAME_SERVER_H

#include "message.h"

#include <arpa/inet.h>
#include <ev.h>
#include <netinet/in.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

struct dns_query {
    unsigned id, type;
    bool tcp, edns;
    char name[256];
};

struct name_server;

/* Writes the reply to `query` into `reply`; false: silence. */
typedef bool script_fn(struct name_server *server, const struct dns_query *query,
                       struct message *reply);

struct name_server {
    struct ev_loop *loop;
    ev_io udp, tcp;
    uint16_t port;
    script_fn *script;
    unsigned a, aaaa, by_tcp, without_edns;
    char last_name[256];
};

static inline void parse_query(struct dns_query *query, const uint8_t *bytes, size_t len, bool tcp)
{
    assert(len > 12);
    query->id = get_u16(bytes);
    query->tcp = tcp;
    query->edns = get_u16(bytes + 10) == 1;
    size_t at = 12, out = 0;
    while (bytes[at] != 0) {
        memcpy(query->name + out, bytes + at + 1, bytes[at]);
        out += bytes[at];
        query->name[out++] = '.';
        at += 1u + bytes[at];
        assert(at + 5 <= len);
    }
    query->name[out > 0 ? out - 1 : 0] = '\0';
    query->type = get_u16(bytes + at + 1);
}

static inline bool name_server_reply(struct name_server *server, const uint8_t *bytes, size_t len,
                                     bool tcp, struct message *reply)
{
    struct dns_query query;
    parse_query(&query, bytes, len, tcp);
    server->a += query.type == TYPE_A;
    server->aaaa += query.type == TYPE_AAAA;
    server->by_tcp += tcp;
    server->without_edns += !query.edns;
    snprintf(server->last_name, sizeof(server->last_name), "%s", query.name);
    message_start(reply, query.id, RCODE_OK, query.name, query.type);
    return server->script(server, &query, reply);
}

static inline void on_server_udp(struct ev_loop *loop, ev_io *io, int events)
{
    (void)loop, (void)events;
    struct name_server *server = io->data;
    static struct message reply;
    struct sockaddr_in peer;
    socklen_t peer_len = sizeof(peer);
    uint8_t bytes[1024];
    ssize_t len =
        recvfrom(io->fd, bytes, sizeof(bytes), MSG_DONTWAIT, (struct sockaddr *)&peer, &peer_len);
    if (len <= 0 || !name_server_reply(server, bytes, (size_t)len, false, &reply))
        return;
    sendto(io->fd, reply.bytes, reply.len, 0, (struct sockaddr *)&peer, peer_len);
}

/* One query a connection, whose bytes arrive at once on loopback. */
static inline void on_server_tcp(struct ev_loop *loop, ev_io *io, int events)
{
    (void)loop, (void)events;
    struct name_server *server = io->data;
    static struct message reply;
    uint8_t bytes[1024], prefix[2];
    int fd = accept(io->fd, NULL, NULL);
    assert(fd >= 0);
    ssize_t len = recv(fd, bytes, sizeof(bytes), 0);
    while (len > 2 && len < (ssize_t)(2 + get_u16(bytes)))
        len += recv(fd, bytes + len, sizeof(bytes) - (size_t)len, 0);
    size_t used = 0;
    while (len > 2 && used + 2 < (size_t)len) {
        size_t query_len = get_u16(bytes + used);
        if (name_server_reply(server, bytes + used + 2, query_len, true, &reply)) {
            prefix[0] = (uint8_t)(reply.len >> 8);
            prefix[1] = (uint8_t)reply.len;
            send(fd, prefix, 2, MSG_NOSIGNAL);
            send(fd, reply.bytes, reply.len, MSG_NOSIGNAL);
        }
        used += 2 + query_len;
    }
    close(fd);
}

static inline int bind_loopback(int type, uint16_t port, uint16_t *bound)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t len = sizeof(sin);
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&sin, sizeof(sin)) != 0) {
        close(fd);
        return -1;
    }
    getsockname(fd, (struct sockaddr *)&sin, &len);
    *bound = ntohs(sin.sin_port);
    return fd;
}

static inline void name_server_start(struct name_server *server, struct ev_loop *loop,
                                     script_fn *script)
{
    memset(server, 0, sizeof(*server));
    int udp, tcp;
    do {
        uint16_t same;
        udp = bind_loopback(SOCK_DGRAM, 0, &server->port);
        tcp = bind_loopback(SOCK_STREAM, server->port, &same);
        if (tcp < 0)
            close(udp);
    } while (tcp < 0);
    listen(tcp, 16);
    server->loop = loop;
    server->script = script;
    ev_io_init(&server->udp, on_server_udp, udp, EV_READ);
    ev_io_init(&server->tcp, on_server_tcp, tcp, EV_READ);
    server->udp.data = server->tcp.data = server;
    ev_io_start(loop, &server->udp);
    ev_io_start(loop, &server->tcp);
}

static inline void name_server_stop(struct name_server *server)
{
    ev_io_stop(server->loop, &server->udp);
    ev_io_stop(server->loop, &server->tcp);
    close(server->udp.fd);
    close(server->tcp.fd);
}

#endif
