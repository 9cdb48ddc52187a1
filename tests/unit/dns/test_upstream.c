#include "dns/upstream.h"

#include "name_server.h"

#include "srt/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct upstream_servers servers;

static const char *server_text(size_t index)
{
    static char out[ADDR_TEXT_MAX + 8];
    char addr[ADDR_TEXT_MAX];
    assert_true(index < servers.count);
    snprintf(out, sizeof(out), "%s %u", addr_format(addr, &servers.at[index].addr),
             servers.at[index].port);
    return out;
}

static void test_a_list_of_servers(void **state)
{
    (void)state;
    assert_int_equal(upstream_servers_parse(&servers, "10.0.0.2, [2001:db8::1]:5353", NULL), 0);
    assert_int_equal(servers.count, 2);
    assert_string_equal(server_text(0), "10.0.0.2 53");
    assert_string_equal(server_text(1), "2001:db8::1 5353");
}

static int read_text(const char *text, struct srt_err *err)
{
    char path[] = "/tmp/srt-test-resolv-XXXXXX";
    autoclose int fd = mkstemp(path);
    assert_true(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    int rc = upstream_servers_read(&servers, path, err);
    unlink(path);
    return rc;
}

static void test_the_name_servers_of_resolv_conf(void **state)
{
    (void)state;
    assert_int_equal(read_text("# comment\n"
                               "search sink.test\n"
                               "nameserver 10.0.0.2\n"
                               "nameserver 2001:db8::1\n"
                               "nameserver nonsense\n"
                               "options ndots:5 rotate timeout:30\n",
                               NULL),
                     0);
    assert_int_equal(servers.count, 2);
    assert_string_equal(server_text(0), "10.0.0.2 53");
    assert_string_equal(server_text(1), "2001:db8::1 53");
}

static void test_no_name_server_means_the_local_one(void **state)
{
    (void)state;
    assert_int_equal(read_text("search sink.test\n", NULL), 0);
    assert_string_equal(server_text(0), "127.0.0.1 53");
    assert_int_equal(upstream_servers_read(&servers, "/nonexistent/resolv.conf", NULL), 0);
    assert_string_equal(server_text(0), "127.0.0.1 53");
}

static void test_a_resolv_conf_that_cannot_be_used(void **state)
{
    (void)state;
    struct srt_err err = {""};
    assert_int_equal(upstream_servers_read(&servers, "/dev/zero", &err), -1);
    assert_non_null(strstr(err.text, "/dev/zero"));

    char path[] = "/tmp/srt-test-resolv-XXXXXX";
    autoclose int fd = mkstemp(path);
    assert_int_equal(ftruncate(fd, UPSTREAM_RESOLV_CONF_MAX_SIZE + 1), 0);
    assert_int_equal(upstream_servers_read(&servers, path, &err), -1);
    assert_non_null(strstr(err.text, path));
    unlink(path);
}

static struct ev_loop *loop;
static struct name_server first, second;
static enum upstream_status last_status;
static unsigned replies;

static void on_upstream(void *arg, enum upstream_status status, const uint8_t *message, size_t len)
{
    (void)arg, (void)message, (void)len;
    last_status = status;
    replies++;
}

static bool script_empty(struct name_server *s, const struct dns_query *query,
                         struct message *reply)
{
    (void)s, (void)query, (void)reply;
    return true;
}

static bool script_silent_once(struct name_server *s, const struct dns_query *query,
                               struct message *reply)
{
    (void)query, (void)reply;
    return s->a > 1;
}

static struct upstream_servers servers_at(uint16_t port)
{
    struct upstream_servers out = {.count = 1};
    out.at[0].addr = addr_of_v4((uint8_t[4]){127, 0, 0, 1});
    out.at[0].port = port;
    return out;
}

/* D10: old questions finish where they were asked, new ones go to the new servers. */
static void test_servers_may_change_under_a_question(void **state)
{
    (void)state;
    struct name name;
    name_parse(&name, STR("good.test"));
    loop = ev_loop_new(EVFLAG_AUTO);
    name_server_start(&first, loop, script_silent_once);
    name_server_start(&second, loop, script_empty);
    struct upstream_servers old = servers_at(first.port), new = servers_at(second.port);
    struct upstream *upstream = upstream_create(loop, &old, 100, 3, NULL);
    assert_non_null(upstream);

    upstream_ask(upstream, &name, 4, on_upstream, NULL);
    upstream_set_servers(upstream, &new);
    upstream_ask(upstream, &name, 4, on_upstream, NULL);
    while (replies < 2)
        ev_run(loop, EVRUN_ONCE);
    assert_int_equal(last_status, UPSTREAM_REPLY);
    assert_int_equal(first.a, 2);
    assert_int_equal(second.a, 1);

    upstream_ask(upstream, &name, 4, on_upstream, NULL);
    upstream_set_servers(upstream, &old);
    upstream_destroy(upstream); /* with an old and a new channel, and a question on the old one */
    assert_int_equal(replies, 3);
    assert_int_equal(last_status, UPSTREAM_FAILURE);
    upstream_destroy(NULL);
    name_server_stop(&first);
    name_server_stop(&second);
    ev_loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_list_of_servers),
        cmocka_unit_test(test_the_name_servers_of_resolv_conf),
        cmocka_unit_test(test_no_name_server_means_the_local_one),
        cmocka_unit_test(test_a_resolv_conf_that_cannot_be_used),
        cmocka_unit_test(test_servers_may_change_under_a_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
