#include "transport/relay.h"

#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
/* cmocka wants the above first */
#include <cmocka.h>

/* One tunnel: client <-> (relay) <-> server, over TCP on loopback so that resets exist. */
struct tunnel {
    int client, server; /* the far ends, blocking */
    struct stream near_client, near_server;
    struct relay relay;
    struct relay_room room;
    struct relay_pipe pipe; /* the room's, whether it is used or not */
    bool reads_back;
    bool splices; /* from the first byte on, where otherwise only bulk does */
};

static const struct relay_pipe no_pipe = {-1, -1};

static size_t waiting_of(const struct stream *stream)
{
    return stream->out.len + stream->piped;
}

static size_t waiting(const struct tunnel *tunnel)
{
    return waiting_of(&tunnel->near_client);
}

static void tcp_pair(int *far, int *near)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    *far = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(*far, (struct sockaddr *)&addr, len), 0);
    *near = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    assert_true(*near >= 0);
    close(listener);
}

/* Small kernel buffers, so that sends are cut short. */
static void make_tight(int fd)
{
    const int size = 4096;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

static int set_up(void **state)
{
    struct tunnel *tunnel = calloc(1, sizeof(*tunnel));
    int near_client, near_server;
    tcp_pair(&tunnel->client, &near_client);
    tcp_pair(&tunnel->server, &near_server);
    stream_init(&tunnel->near_client, near_client);
    stream_init(&tunnel->near_server, near_server);
    relay_init(&tunnel->relay, &tunnel->near_client, &tunnel->near_server);
    relay_room_init(&tunnel->room);
    tunnel->pipe = tunnel->room.pipe;
    tunnel->room.pipe = no_pipe;
    *state = tunnel;
    return 0;
}

static int set_up_splicing(void **state)
{
    set_up(state);
    struct tunnel *tunnel = *state;
    tunnel->splices = true;
    tunnel->room.pipe = tunnel->pipe;
    return 0;
}

/* Other ways keep all the pipes that may be kept. */
static int set_up_reading_back(void **state)
{
    set_up_splicing(state);
    struct tunnel *tunnel = *state;
    for (size_t i = 0; i < RELAY_PIPES; i++)
        tunnel->room.kept[i].in = 0;
    tunnel->reads_back = true;
    return 0;
}

static int tear_down(void **state)
{
    struct tunnel *tunnel = *state;
    stream_close(&tunnel->near_client);
    stream_close(&tunnel->near_server);
    relay_end(&tunnel->relay, &tunnel->room);
    for (size_t i = 0; tunnel->reads_back && i < RELAY_PIPES; i++)
        tunnel->room.kept[i] = no_pipe;
    if (!tunnel->splices)
        tunnel->room.pipe = tunnel->pipe;
    relay_room_end(&tunnel->room);
    if (tunnel->client >= 0)
        close(tunnel->client);
    if (tunnel->server >= 0)
        close(tunnel->server);
    free(tunnel);
    return 0;
}

/* One turn; what is left of it is never in the pipe that the next tunnel uses. */
static size_t turn_relay(struct tunnel *tunnel)
{
    int piped = 0;
    tunnel->relay.up.bulk = tunnel->relay.down.bulk = tunnel->splices;
    size_t moved = relay_turn(&tunnel->relay, &tunnel->room);
    if (tunnel->splices)
        assert_int_equal(ioctl(tunnel->room.pipe.out, FIONREAD, &piped), 0);
    assert_int_equal(piped, 0);
    return moved;
}

/* What a loop would do: wait for what the relay wants to know, tell it, let it turn. */
static void turn(struct tunnel *tunnel, int timeout_ms)
{
    struct stream *streams[] = {&tunnel->near_client, &tunnel->near_server};
    struct pollfd fds[2];
    for (int i = 0; i < 2; i++) {
        int events = stream_interest(streams[i], relay_reads(&tunnel->relay, streams[i]));
        fds[i] = (struct pollfd){.fd = events != 0 ? streams[i]->fd : -1};
        fds[i].events =
            (short)((events & EV_READ ? POLLIN : 0) | (events & EV_WRITE ? POLLOUT : 0));
    }
    poll(fds, 2, timeout_ms);
    for (int i = 0; i < 2; i++)
        stream_ready(streams[i], (fds[i].revents & ~POLLOUT ? EV_READ : 0) |
                                     (fds[i].revents & ~POLLIN ? EV_WRITE : 0));
    turn_relay(tunnel);
}

static void settle(struct tunnel *tunnel)
{
    for (int i = 0; i < 20; i++)
        turn(tunnel, 5);
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
}

static void assert_hears(int fd, const char *text)
{
    char heard[256];
    size_t len = strlen(text);
    assert_int_equal(recv(fd, heard, len, MSG_WAITALL | MSG_DONTWAIT), len);
    assert_memory_equal(heard, text, len);
}

static void assert_hears_the_end(int fd)
{
    char byte;
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), 0);
}

static void assert_hears_nothing(int fd)
{
    char byte;
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
}

static void reset(int *fd)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    setsockopt(*fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(*fd);
    *fd = -1;
}

static void carries_both_ways(void **state)
{
    struct tunnel *tunnel = *state;
    say(tunnel->client, "question");
    say(tunnel->server, "banner");
    settle(tunnel);
    assert_hears(tunnel->server, "question");
    assert_hears(tunnel->client, "banner");
    assert_int_equal(tunnel->relay.up.bytes, 8);
    assert_int_equal(tunnel->relay.down.bytes, 6);
    assert_null(tunnel->near_client.in.data);
    assert_null(tunnel->near_client.out.data);
    assert_null(tunnel->near_server.out.data);
}

static void what_was_read_before_goes_first(void **state)
{
    struct tunnel *tunnel = *state;
    buf_append(&tunnel->near_client.in, STR("pipelined "));
    say(tunnel->client, "later");
    settle(tunnel);
    assert_hears(tunnel->server, "pipelined later");
    assert_int_equal(tunnel->relay.up.bytes, 15);
}

/* H19, S14: the question's end is passed on, and the answer still comes. */
static void client_half_closes(void **state)
{
    struct tunnel *tunnel = *state;
    say(tunnel->client, "ask");
    shutdown(tunnel->client, SHUT_WR);
    settle(tunnel);
    assert_hears(tunnel->server, "ask");
    assert_hears_the_end(tunnel->server);
    assert_false(relay_is_over(&tunnel->relay));
    say(tunnel->server, "answer");
    shutdown(tunnel->server, SHUT_WR);
    settle(tunnel);
    assert_hears(tunnel->client, "answer");
    assert_true(relay_is_over(&tunnel->relay));
    assert_true(tunnel->relay.up.ended_first);
    stream_close(&tunnel->near_client); /* the last FIN is left to whoever closes */
    assert_hears_the_end(tunnel->client);
}

static void server_half_closes(void **state)
{
    struct tunnel *tunnel = *state;
    say(tunnel->server, "all I have");
    shutdown(tunnel->server, SHUT_WR);
    settle(tunnel);
    assert_hears(tunnel->client, "all I have");
    assert_hears_the_end(tunnel->client);
    assert_false(relay_is_over(&tunnel->relay));
    say(tunnel->client, "thanks");
    settle(tunnel);
    assert_hears(tunnel->server, "thanks");
    shutdown(tunnel->client, SHUT_WR);
    settle(tunnel);
    assert_true(relay_is_over(&tunnel->relay));
    assert_true(tunnel->relay.down.ended_first);
}

/* H20: what the server sent before it reset the connection reaches the client. */
static void tail_before_a_reset_is_delivered(void **state)
{
    struct tunnel *tunnel = *state;
    enum { SIZE = 64 << 10 };
    char *sent = malloc(SIZE), *got = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        sent[i] = (char)(i * 7);
    make_tight(tunnel->near_client.fd);
    say(tunnel->client, "unread");
    settle(tunnel); /* the server has input that it will not read: close() resets */
    assert_int_equal(send(tunnel->server, sent, SIZE, 0), SIZE);
    reset(&tunnel->server);
    size_t len = 0;
    for (int i = 0; i < 2000 && len < SIZE; i++) {
        turn(tunnel, 1);
        ssize_t n =
            recv(tunnel->client, got + len, SIZE - len < 1000 ? SIZE - len : 1000, MSG_DONTWAIT);
        len += n > 0 ? (size_t)n : 0;
    }
    /* The kernel may drop what the reset overtook; what arrives is a prefix, and what the relay has
     * taken is all delivered. */
    assert_int_equal(len, tunnel->relay.down.bytes);
    assert_memory_equal(got, sent, len);
    settle(tunnel);
    assert_true(relay_is_over(&tunnel->relay));
    assert_true(tunnel->near_server.deaf);
    assert_false(tunnel->near_client.fin_sent); /* a reset is not shown as a whole end */
    free(sent);
    free(got);
}

static void client_resets(void **state)
{
    struct tunnel *tunnel = *state;
    say(tunnel->client, "last words");
    settle(tunnel);
    reset(&tunnel->client);
    settle(tunnel);
    assert_true(relay_is_over(&tunnel->relay));
    assert_true(tunnel->near_client.deaf);
    assert_false(tunnel->near_server.fin_sent);
    assert_hears(tunnel->server, "last words");
    assert_true(tunnel->relay.up.ended_first);
}

/* H38: a client that does not read stops the server instead of filling us. */
static void slow_reader_holds_the_server_back(void **state)
{
    struct tunnel *tunnel = *state;
    char block[4096] = {0};
    size_t sent = 0;
    make_tight(tunnel->near_client.fd);
    make_tight(tunnel->near_server.fd);
    make_tight(tunnel->server);
    fcntl(tunnel->server, F_SETFL, O_NONBLOCK);
    /* A pause of the sender alone may be TCP's own, for an acknowledgement. */
    for (int quiet = 0, i = 0; (quiet < 20 || waiting(tunnel) == 0) && i < 60000; i++) {
        ssize_t n = send(tunnel->server, block, sizeof(block), 0);
        sent += n > 0 ? (size_t)n : 0;
        quiet = n > 0 || waiting(tunnel) == 0 ? 0 : quiet + 1;
        turn(tunnel, 1);
        assert_true(waiting(tunnel) <= (tunnel->splices ? RELAY_TURN_BYTES : RELAY_CHUNK));
        assert_true(sent < (size_t)64 << 20);
    }
    assert_true(waiting(tunnel) > 0);
    assert_int_equal(tunnel->near_client.piped > 0, tunnel->splices && !tunnel->reads_back);
    assert_false(relay_reads(&tunnel->relay, &tunnel->near_server));
    size_t got = 0;
    for (int i = 0; i < 20000 && got < sent; i++) {
        ssize_t n = recv(tunnel->client, block, sizeof(block), MSG_DONTWAIT);
        got += n > 0 ? (size_t)n : 0;
        turn(tunnel, n > 0 ? 0 : 1);
    }
    assert_int_equal(got, sent);
    assert_null(tunnel->near_client.out.data);
    assert_int_equal(tunnel->relay.down.kept, 0);
}

/* M13: one turn moves a bounded amount, however much there is. */
static void a_turn_is_bounded(void **state)
{
    struct tunnel *tunnel = *state;
    char *block = calloc(1, RELAY_CHUNK);
    fcntl(tunnel->server, F_SETFL, O_NONBLOCK);
    while (send(tunnel->server, block, RELAY_CHUNK, 0) > 0)
        ;
    stream_ready(&tunnel->near_server, EV_READ);
    assert_true(turn_relay(tunnel) <= RELAY_TURN_BYTES + RELAY_CHUNK);
    free(block);
}

/* T05: while the client's first bytes are held, the server's banner passes. */
static void a_held_way_keeps_what_comes(void **state)
{
    struct tunnel *tunnel = *state;
    tunnel->relay.up.held = true;
    say(tunnel->client, "hello");
    say(tunnel->server, "banner");
    settle(tunnel);
    assert_hears(tunnel->client, "banner");
    assert_hears_nothing(tunnel->server);
    assert_int_equal(tunnel->near_client.in.len, 5);
    relay_release(&tunnel->relay.up);
    settle(tunnel);
    assert_hears(tunnel->server, "hello");
}

static size_t send_pattern(int fd, size_t from, size_t end)
{
    uint8_t block[3000];
    const size_t len = end - from < sizeof(block) ? end - from : sizeof(block);
    for (size_t i = 0; i < len; i++)
        block[i] = (uint8_t)((from + i) * 31 >> 3);
    ssize_t n = send(fd, block, len, MSG_DONTWAIT);
    return n > 0 ? (size_t)n : 0;
}

static size_t hear_pattern(int fd, size_t from)
{
    uint8_t block[5000];
    ssize_t n = recv(fd, block, sizeof(block), MSG_DONTWAIT);
    for (ssize_t i = 0; i < n; i++)
        assert_int_equal(block[i], (uint8_t)((from + (size_t)i) * 31 >> 3));
    return n > 0 ? (size_t)n : 0;
}

/* Both ways at once, each send cut short: every byte arrives once and in order. */
static void cut_sends_lose_nothing(void **state)
{
    struct tunnel *tunnel = *state;
    enum { SIZE = 600000 };
    size_t said[2] = {0}, heard[2] = {0};
    const int ends[2] = {tunnel->client, tunnel->server};
    make_tight(tunnel->near_client.fd);
    make_tight(tunnel->near_server.fd);
    for (int i = 0; i < 200000 && (heard[0] < SIZE || heard[1] < SIZE); i++) {
        for (int end = 0; end < 2; end++) {
            said[end] += send_pattern(ends[end], said[end], SIZE);
            heard[1 - end] += hear_pattern(ends[1 - end], heard[1 - end]);
        }
        turn(tunnel, 1);
    }
    assert_int_equal(heard[0], SIZE);
    assert_int_equal(heard[1], SIZE);
    assert_int_equal(tunnel->relay.up.bytes, SIZE);
    assert_int_equal(tunnel->relay.down.bytes, SIZE);
}

/* A way becomes bulk by filling a chunk, and ends being it when little comes. */
static void bulk_is_what_fills_a_chunk(void **state)
{
    struct tunnel *tunnel = *state;
    tunnel->room.pipe = tunnel->pipe;
    size_t said = 0, heard = 0;
    for (int i = 0; i < 2000 && !tunnel->relay.up.bulk; i++) {
        for (size_t n = 1; n > 0; said += n)
            n = send_pattern(tunnel->client, said, SIZE_MAX);
        poll(NULL, 0, 1);
        stream_ready(&tunnel->near_client, EV_READ);
        stream_ready(&tunnel->near_server, EV_WRITE);
        relay_turn(&tunnel->relay, &tunnel->room);
        for (size_t n = 1; n > 0; heard += n)
            n = hear_pattern(tunnel->server, heard);
    }
    assert_true(tunnel->relay.up.bulk);
    for (int i = 0; i < 2000 && (heard < said || tunnel->relay.up.bulk); i++) {
        stream_ready(&tunnel->near_client, EV_READ);
        stream_ready(&tunnel->near_server, EV_WRITE);
        relay_turn(&tunnel->relay, &tunnel->room);
        heard += hear_pattern(tunnel->server, heard);
    }
    assert_int_equal(heard, said);
    assert_false(tunnel->relay.up.bulk);
    tunnel->room.pipe = no_pipe;
}

/* A tunnel that is ended from outside: what its ways keep is sent like anything else. */
static void what_an_ended_relay_keeps_can_still_be_sent(void **state)
{
    struct tunnel *tunnel = *state;
    size_t said = 0, heard = 0;
    make_tight(tunnel->near_server.fd);
    for (int i = 0; i < 60000 && waiting_of(&tunnel->near_server) == 0; i++) {
        said += send_pattern(tunnel->client, said, SIZE_MAX);
        turn(tunnel, 1);
    }
    assert_true(stream_is_sending(&tunnel->near_server));
    const uint64_t taken = tunnel->relay.up.bytes;
    relay_end(&tunnel->relay, &tunnel->room);
    assert_int_equal(tunnel->near_server.piped, 0);
    for (int i = 0; i < 60000 && heard < taken; i++) {
        heard += hear_pattern(tunnel->server, heard);
        stream_ready(&tunnel->near_server, EV_WRITE);
        stream_flush(&tunnel->near_server);
    }
    assert_int_equal(heard, taken);
}

/* The stream was closed first: nobody is left whom it could be sent to. */
static void what_an_ended_relay_keeps_for_nobody_is_dropped(void **state)
{
    struct tunnel *tunnel = *state;
    size_t said = 0;
    make_tight(tunnel->near_server.fd);
    for (int i = 0; i < 60000 && waiting_of(&tunnel->near_server) == 0; i++) {
        said += send_pattern(tunnel->client, said, SIZE_MAX);
        turn(tunnel, 1);
    }
    stream_close(&tunnel->near_server);
    relay_end(&tunnel->relay, &tunnel->room);
    assert_false(stream_is_sending(&tunnel->near_server));
}

int main(void)
{
#define TEST(name)                                                                \
    cmocka_unit_test_setup_teardown(name, set_up, tear_down),                     \
        {#name " (spliced)", name, set_up_splicing, tear_down, NULL},             \
    {                                                                             \
#name " (spliced, read back)", name, set_up_reading_back, tear_down, NULL \
    }
    const struct CMUnitTest tests[] = {
        TEST(carries_both_ways),
        TEST(what_was_read_before_goes_first),
        TEST(client_half_closes),
        TEST(server_half_closes),
        TEST(tail_before_a_reset_is_delivered),
        TEST(client_resets),
        TEST(slow_reader_holds_the_server_back),
        TEST(a_turn_is_bounded),
        TEST(a_held_way_keeps_what_comes),
        TEST(cut_sends_lose_nothing),
        TEST(what_an_ended_relay_keeps_can_still_be_sent),
        TEST(what_an_ended_relay_keeps_for_nobody_is_dropped),
        cmocka_unit_test_setup_teardown(bulk_is_what_fills_a_chunk, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
