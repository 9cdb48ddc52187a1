#include "transport/connector.h"

#include <ev.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>
/* cmocka wants the above first */
#include <cmocka.h>

static struct addr address(const char *text)
{
    struct addr addr;
    assert_true(addr_parse(&addr, str_of(text)));
    return addr;
}

/* Where nobody else of this machine has a port that a test needs once more. */
static const char nearby[] = "127.7.83.5";

static int listen_on(const char *text, uint16_t *port)
{
    struct addr addr = address(text);
    struct sockaddr_storage sa;
    socklen_t len = addr_to_sockaddr(&addr, *port, &sa);
    int fd = socket(sa.ss_family, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    assert_true(addr_from_sockaddr((struct sockaddr *)&sa, &addr, port));
    return fd;
}

static void on_done(void *arg, const struct connected *connected)
{
    *(struct connected *)arg = *connected;
}

static struct connected dial_by(const struct approved *approved,
                                const struct connect_options *options)
{
    struct ev_loop *loop = ev_loop_new(0);
    struct connected connected = {.fd = -2};
    assert_non_null(connector_start(loop, approved, options, on_done, &connected));
    assert_int_equal(connected.fd, -2); /* never from within the call */
    ev_run(loop, 0);
    assert_int_not_equal(connected.fd, -2);
    ev_loop_destroy(loop);
    return connected;
}

static struct connected dial(const struct approved *approved, uint64_t timeout_ms)
{
    return dial_by(approved, &(struct connect_options){.timeout_ms = timeout_ms});
}

static void reaches_the_one_address(void **state)
{
    (void)state;
    struct approved approved = {.count = 1, .addrs = {address("127.0.0.1")}};
    int listener = listen_on("127.0.0.1", &approved.port);
    struct connected connected = dial(&approved, 5000);
    assert_int_equal(connected.outcome, OUTCOME_ALLOWED);
    assert_true(addr_eq(&connected.addr, &approved.addrs[0]));
    assert_true(connected.fd >= 0);
    close(connected.fd);
    close(listener);
}

static void goes_on_at_once_when_one_refuses(void **state)
{
    (void)state;
    struct approved approved = {
        .count = 3, .addrs = {address("127.0.0.2"), address("127.0.0.3"), address("127.0.0.1")}};
    int listener = listen_on("127.0.0.1", &approved.port);
    struct connected connected = dial(&approved, 5000);
    assert_int_equal(connected.outcome, OUTCOME_ALLOWED);
    assert_true(addr_eq(&connected.addr, &approved.addrs[2]));
    close(connected.fd);
    close(listener);
}

/* A loopback address that nobody listens on but whose SYNs are swallowed: the listener's backlog is
 * full. */
struct black_hole {
    int listener, fillers[64];
    uint16_t port;
};

static void black_hole_open(struct black_hole *hole, const char *text)
{
    struct addr addr = address(text);
    struct sockaddr_storage sa;
    hole->port = 0;
    hole->listener = listen_on(text, &hole->port);
    assert_int_equal(listen(hole->listener, 0), 0);
    socklen_t len = addr_to_sockaddr(&addr, hole->port, &sa);
    for (size_t i = 0; i < 64; i++) {
        hole->fillers[i] = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(hole->fillers[i], (struct sockaddr *)&sa, len);
    }
}

static void black_hole_close(struct black_hole *hole)
{
    for (size_t i = 0; i < 64; i++)
        close(hole->fillers[i]);
    close(hole->listener);
}

static void a_silent_address_is_overtaken(void **state)
{
    (void)state;
    struct black_hole hole;
    black_hole_open(&hole, "127.0.0.2");
    const struct approved silent = {.count = 1, .port = hole.port, .addrs = {address("127.0.0.2")}};
    assert_int_equal(dial(&silent, 50).outcome, OUTCOME_CONNECT_TIMEOUT);

    struct approved both = {
        .count = 2, .port = hole.port, .addrs = {address("127.0.0.2"), address(nearby)}};
    int listener = listen_on(nearby, &both.port);
    struct connected connected = dial(&both, 5000);
    assert_int_equal(connected.outcome, OUTCOME_ALLOWED);
    assert_true(addr_eq(&connected.addr, &both.addrs[1]));
    close(connected.fd);
    close(listener);
    black_hole_close(&hole);
}

static void says_how_it_failed(void **state)
{
    (void)state;
    struct approved approved = {.count = 1, .addrs = {address("127.0.0.1")}};
    close(listen_on("127.0.0.1", &approved.port)); /* a port that is free */
    struct connected connected = dial(&approved, 5000);
    assert_int_equal(connected.outcome, OUTCOME_CONNECT_REFUSED);
    assert_int_equal(connected.fd, -1);
    approved.addrs[0] = address("255.255.255.255"); /* no TCP goes there */
    assert_int_equal(dial(&approved, 5000).outcome, OUTCOME_CONNECT_UNREACHABLE);
}

/* The server was faster than our loop: it has spoken and is gone. What it said is not lost. */
static void a_connection_that_was_reset_at_once_still_counts(void **state)
{
    (void)state;
    struct ev_loop *loop = ev_loop_new(0);
    struct connected connected = {.fd = -2};
    struct approved approved = {.count = 1, .addrs = {address("127.0.0.1")}};
    const struct connect_options options = {.timeout_ms = 5000};
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    char said[8];
    int listener = listen_on("127.0.0.1", &approved.port);
    assert_non_null(connector_start(loop, &approved, &options, on_done, &connected));
    int accepted = accept(listener, NULL, NULL);
    assert_int_equal(send(accepted, "banner", 6, 0), 6);
    setsockopt(accepted, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(accepted);
    ev_run(loop, 0);
    assert_int_equal(connected.outcome, OUTCOME_ALLOWED);
    assert_true(connected.was_reset);
    assert_int_equal(recv(connected.fd, said, sizeof(said), 0), 6);
    close(connected.fd);
    close(listener);
    ev_loop_destroy(loop);
}

static void can_be_given_up(void **state)
{
    (void)state;
    struct ev_loop *loop = ev_loop_new(0);
    struct connected connected = {.fd = -2};
    struct approved approved = {.count = 1, .addrs = {address("127.0.0.1")}};
    const struct connect_options options = {.timeout_ms = 5000};
    int listener = listen_on("127.0.0.1", &approved.port);
    connector_cancel(connector_start(loop, &approved, &options, on_done, &connected));
    ev_run(loop, 0); /* returns: nothing is left to wait for */
    assert_int_equal(connected.fd, -2);
    ev_loop_destroy(loop);
    close(listener);
}

/* The second race begins with what won the first: no 250 ms are lost again. */
static void what_was_silent_is_tried_last_the_next_time(void **state)
{
    (void)state;
    struct black_hole hole;
    struct reach *reach = reach_create(16);
    const struct connect_options options = {.timeout_ms = 5000, .reach = reach};
    black_hole_open(&hole, "127.0.0.2");
    struct approved both = {
        .count = 2, .port = hole.port, .addrs = {address("127.0.0.2"), address(nearby)}};
    int listener = listen_on(nearby, &both.port);

    struct connected first = dial_by(&both, &options);
    assert_int_equal(first.outcome, OUTCOME_ALLOWED);
    assert_int_equal(first.tried, 2);
    struct connected second = dial_by(&both, &options);
    assert_int_equal(second.outcome, OUTCOME_ALLOWED);
    assert_int_equal(second.tried, 1);
    assert_true(addr_eq(&second.addr, &both.addrs[1]));

    close(first.fd);
    close(second.fd);
    close(listener);
    black_hole_close(&hole);
    reach_destroy(reach);
}

static void many_dead_addresses_end_by_the_timeout(void **state)
{
    (void)state;
    struct black_hole hole;
    black_hole_open(&hole, "127.0.0.2");
    struct approved dead = {.count = RESOLVER_MAX_ADDRS, .port = hole.port};
    for (uint32_t i = 0; i < dead.count; i++)
        dead.addrs[i] = address("127.0.0.2");
    struct connected connected = dial(&dead, 600);
    assert_int_equal(connected.outcome, OUTCOME_CONNECT_TIMEOUT);
    assert_in_range(connected.tried, 2, 3); /* 250 ms apart */
    black_hole_close(&hole);
}

static struct config_bind from(const char *v4, const char *v6, const char *interface)
{
    struct config_bind bind = {.interface = ""};
    if (v4 != NULL)
        bind.v4 = address(v4);
    if (v6 != NULL)
        bind.v6 = address(v6);
    if (interface != NULL)
        strcpy(bind.interface, interface);
    return bind;
}

static struct connected dial_from(const char *to, uint16_t port, const struct config_bind *bind)
{
    struct approved approved = {.count = 1, .port = port, .addrs = {address(to)}};
    return dial_by(&approved, &(struct connect_options){.timeout_ms = 5000, .bind = bind});
}

static void comes_from_the_address_that_it_is_given(void **state)
{
    (void)state;
    uint16_t port = 0, peer_port;
    struct addr peer, wanted = address("127.0.0.77");
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    int listener = listen_on("127.0.0.1", &port);
    const struct config_bind bind = from("127.0.0.77", NULL, NULL);
    struct connected connected = dial_from("127.0.0.1", port, &bind);
    assert_int_equal(connected.outcome, OUTCOME_ALLOWED);
    int accepted = accept(listener, (struct sockaddr *)&sa, &len);
    assert_true(accepted >= 0);
    assert_true(addr_from_sockaddr((struct sockaddr *)&sa, &peer, &peer_port));
    assert_true(addr_eq(&peer, &wanted));
    close(accepted);
    close(connected.fd);
    close(listener);
}

static void comes_through_the_interface_that_it_is_given(void **state)
{
    (void)state;
    uint16_t port = 0;
    char name[IF_NAMESIZE] = "";
    socklen_t len = sizeof(name);
    int listener = listen_on("127.0.0.1", &port);
    const struct config_bind bind = from(NULL, NULL, "lo");
    struct connected connected = dial_from("127.0.0.1", port, &bind);
    assert_int_equal(connected.outcome, OUTCOME_ALLOWED);
    assert_int_equal(getsockopt(connected.fd, SOL_SOCKET, SO_BINDTODEVICE, name, &len), 0);
    assert_string_equal(name, "lo");
    close(connected.fd);
    close(listener);
}

/* Somebody who has set it up so wants no bytes from elsewhere. */
static void comes_from_nowhere_else(void **state)
{
    (void)state;
    uint16_t port = 0;
    int listener = listen_on("127.0.0.1", &port);
    const struct config_bind impossible[] = {
        from("203.0.113.7", NULL, NULL), /* not here */
        from(NULL, "::1", NULL),         /* of the other family */
        from(NULL, NULL, "none-such"),   /* no such interface */
        from("127.0.0.1", NULL, "none-such"),
    };
    for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
        struct connected connected = dial_from("127.0.0.1", port, &impossible[i]);
        assert_int_equal(connected.outcome, OUTCOME_CONNECT_UNREACHABLE);
        assert_int_equal(connected.fd, -1);
    }
    struct pollfd heard = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&heard, 1, 0), 0);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reaches_the_one_address),
        cmocka_unit_test(goes_on_at_once_when_one_refuses),
        cmocka_unit_test(a_silent_address_is_overtaken),
        cmocka_unit_test(says_how_it_failed),
        cmocka_unit_test(a_connection_that_was_reset_at_once_still_counts),
        cmocka_unit_test(can_be_given_up),
        cmocka_unit_test(what_was_silent_is_tried_last_the_next_time),
        cmocka_unit_test(many_dead_addresses_end_by_the_timeout),
        cmocka_unit_test(comes_from_the_address_that_it_is_given),
        cmocka_unit_test(comes_through_the_interface_that_it_is_given),
        cmocka_unit_test(comes_from_nowhere_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
