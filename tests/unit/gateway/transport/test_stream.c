#include "transport/stream.h"

#include <ev.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tcp_socket_sends_at_once_and_notices_who_vanished),
        cmocka_unit_test(a_unix_socket_is_left_as_it_is),
        cmocka_unit_test(a_send_to_nobody_is_deaf_and_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
