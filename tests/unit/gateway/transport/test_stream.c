#include "transport/stream.h"

#include <ev.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
/* cmocka wants the above first */
#include <cmocka.h>

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);
    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static void a_tcp_socket_sends_at_once_and_notices_who_vanished(void **state)
{
    (void)state;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 0);
    stream_tune(fd);
    assert_int_not_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 0);
    assert_int_not_equal(option(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
    const int idle = option(fd, IPPROTO_TCP, TCP_KEEPIDLE);
    const int probes = option(fd, IPPROTO_TCP, TCP_KEEPCNT);
    assert_in_range(idle + probes * option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 30, 300);
    close(fd);
}

static void a_unix_socket_is_left_as_it_is(void **state)
{
    (void)state;
    int fds[2];
    char byte;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    stream_tune(fds[0]);
    struct stream stream;
    stream_init(&stream, fds[0]);
    assert_int_equal(stream_read(&stream, &byte, 1), 0);
    assert_false(stream.readable || stream.eof || stream.broken);
    assert_int_equal(stream_interest(&stream, true), EV_READ);
    stream_send(&stream, STR("x"));
    assert_int_equal(read(fds[1], &byte, 1), 1);
    close(fds[1]);
    stream_ready(&stream, EV_READ);
    assert_int_equal(stream_read(&stream, &byte, 1), 0);
    assert_true(stream.eof);
    assert_int_equal(stream_interest(&stream, true), 0);
    stream_close(&stream);
}

static void a_send_to_nobody_is_deaf_and_keeps_nothing(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    struct stream stream;
    stream_init(&stream, fds[0]);
    close(fds[1]);
    stream_send(&stream, STR("hello")); /* and no SIGPIPE */
    assert_true(stream.deaf);
    assert_int_equal(stream.out.len, 0);
    stream_close(&stream);
}

static void what_little_came_needs_little_room(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    struct stream stream;
    stream_init(&stream, fds[0]);
    assert_int_equal(write(fds[1], "GET", 3), 3);
    assert_int_equal(stream_fill(&stream, 65536), 3);
    assert_true(stream.in.cap < 1024);
    stream_ready(&stream, EV_READ);
    assert_int_equal(write(fds[1], " /and more than is wanted", 25), 25);
    assert_int_equal(stream_fill(&stream, 5), 2);
    assert_int_equal(stream.in.len, 5);
    assert_memory_equal(buf_view(&stream.in).p, "GET /", 5);
    assert_true(stream.readable);
    close(fds[1]);
    stream_close(&stream);
}

/* Both ends of a connection over loopback. */
static void connect_tcp(int fds[2])
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    fds[1] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fds[1], (struct sockaddr *)&addr, len), 0);
    fds[0] = accept(listener, NULL, NULL);
    assert_true(fds[0] >= 0);
    stream_tune(fds[0]);
    close(listener);
}

static uint32_t segments_sent(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    return info.tcpi_segs_out;
}

static void the_last_bytes_and_the_end_are_one_segment(void **state)
{
    (void)state;
    int fds[2];
    char text[16];
    connect_tcp(fds);
    struct stream stream;
    stream_init(&stream, fds[0]);
    const uint32_t before = segments_sent(fds[0]);
    stream_send_last(&stream, STR("refused"));
    assert_int_equal(stream.out.len, 0);
    stream_finish(&stream);
    assert_int_equal(segments_sent(fds[0]), before + 1);
    assert_int_equal(read(fds[1], text, sizeof(text)), 7);
    assert_memory_equal(text, "refused", 7);
    assert_int_equal(read(fds[1], text, sizeof(text)), 0);
    close(fds[1]);
    stream_close(&stream);
}

/* Also where the kernel does not take all of them: nothing is lost, held back or out of order. */
static void the_last_bytes_may_be_more_than_the_kernel_takes(void **state)
{
    (void)state;
    enum { SIZE = 32 << 20 };
    int fds[2];
    char *text = malloc(SIZE), *read_back = malloc(SIZE);
    assert_non_null(text);
    assert_non_null(read_back);
    for (size_t i = 0; i < SIZE; i++)
        text[i] = (char)(i % 251);
    connect_tcp(fds);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    struct stream stream;
    stream_init(&stream, fds[0]);
    stream_send_last(&stream, (struct str){text, SIZE});
    assert_true(stream.out.len > 0);
    size_t got = 0;
    for (ssize_t n = 1; n > 0; got += (size_t)n) {
        stream_ready(&stream, EV_WRITE);
        stream_flush(&stream);
        if (stream.out.len == 0)
            stream_finish(&stream);
        n = read(fds[1], read_back + got, SIZE - got);
        assert_true(n > 0 || got == SIZE);
    }
    assert_int_equal(got, SIZE);
    assert_memory_equal(read_back, text, SIZE);
    close(fds[1]);
    stream_close(&stream);
    free(text);
    free(read_back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tcp_socket_sends_at_once_and_notices_who_vanished),
        cmocka_unit_test(a_unix_socket_is_left_as_it_is),
        cmocka_unit_test(a_send_to_nobody_is_deaf_and_keeps_nothing),
        cmocka_unit_test(what_little_came_needs_little_room),
        cmocka_unit_test(the_last_bytes_and_the_end_are_one_segment),
        cmocka_unit_test(the_last_bytes_may_be_more_than_the_kernel_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
