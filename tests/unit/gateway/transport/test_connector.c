#include "transport/connector.h"

#include <ev.h>
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

static struct connected dial(const struct approved *approved, uint64_t timeout_ms)
{
    struct ev_loop *loop = ev_loop_new(0);
    struct connected connected = {.fd = -2};
    assert_non_null(connector_start(loop, approved, timeout_ms, on_done, &connected));
    assert_int_equal(connected.fd, -2); /* never from within the call */
    ev_run(loop, 0);
    assert_int_not_equal(connected.fd, -2);
    ev_loop_destroy(loop);
    return connected;
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

/* A full backlog of a listener that nobody accepts from swallows further SYNs. */
static void a_silent_address_is_overtaken(void **state)
{
    (void)state;
    struct approved silent = {.count = 1, .addrs = {address("127.0.0.2")}};
    struct addr quiet = silent.addrs[0];
    struct sockaddr_storage sa;
    int swallowing = listen_on("127.0.0.2", &silent.port), fillers[64];
    assert_int_equal(listen(swallowing, 0), 0);
    socklen_t len = addr_to_sockaddr(&quiet, silent.port, &sa);
    for (size_t i = 0; i < 64; i++) {
        fillers[i] = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(fillers[i], (struct sockaddr *)&sa, len);
    }
    assert_int_equal(dial(&silent, 50).outcome, OUTCOME_CONNECT_TIMEOUT);

    struct approved both = {
        .count = 2, .port = silent.port, .addrs = {address("127.0.0.2"), address("127.0.0.1")}};
    int listener = listen_on("127.0.0.1", &both.port);
    struct connected connected = dial(&both, 5000);
    assert_int_equal(connected.outcome, OUTCOME_ALLOWED);
    assert_true(addr_eq(&connected.addr, &both.addrs[1]));
    close(connected.fd);
    close(listener);
    for (size_t i = 0; i < 64; i++)
        close(fillers[i]);
    close(swallowing);
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
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    char said[8];
    int listener = listen_on("127.0.0.1", &approved.port);
    assert_non_null(connector_start(loop, &approved, 5000, on_done, &connected));
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
    int listener = listen_on("127.0.0.1", &approved.port);
    connector_cancel(connector_start(loop, &approved, 5000, on_done, &connected));
    ev_run(loop, 0); /* returns: nothing is left to wait for */
    assert_int_equal(connected.fd, -2);
    ev_loop_destroy(loop);
    close(listener);
}

/* RFC 8305 4: the family of the first address first, then in turns; the order within stays. */
static void families_take_turns(void **state)
{
    (void)state;
    uint32_t order[RESOLVER_MAX_ADDRS];
    const struct approved approved = {.count = 5,
                                      .addrs = {address("2001:db8::1"), address("2001:db8::2"),
                                                address("2001:db8::3"), address("192.0.2.1"),
                                                address("192.0.2.2")}};
    connector_order(&approved, order);
    const uint32_t expected[] = {0, 3, 1, 4, 2};
    assert_memory_equal(order, expected, sizeof(expected));
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
        cmocka_unit_test(families_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
