#include "dns/resolver.h"

#include "name_server.h"

#include "srt/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct ev_loop *loop;
static struct name_server server, other_server;
static struct resolver *resolver;
static struct resolve_answer answer;
static unsigned done_calls, names_made;

static bool script_usual(struct name_server *s, const struct dns_query *query,
                         struct message *reply);

static const struct resolver_config usual_config = {
    .timeout_ms = 2000,
    .tries = 2,
    .cache_entries = 100,
    .max_ttl_s = 3600,
    .negative_ttl_s = 5,
};

static int start_server(void **state)
{
    (void)state;
    loop = ev_loop_new(EVFLAG_AUTO);
    name_server_start(&server, loop, script_usual);
    name_server_start(&other_server, loop, script_usual);
    resolver = NULL;
    done_calls = names_made = 0;
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    resolver_destroy(resolver);
    name_server_stop(&server);
    name_server_stop(&other_server);
    ev_loop_destroy(loop);
    return 0;
}

/* A resolver that asks the first server alone. */
static void create_resolver(struct resolver_config config)
{
    char servers[64];
    struct srt_err err = {""};
    snprintf(servers, sizeof(servers), "127.0.0.1:%u", server.port);
    if (config.servers == NULL)
        config.servers = servers;
    resolver = resolver_create(loop, &config, &err);
    assert_string_equal(err.text, "");
    assert_non_null(resolver);
}

static void on_done(void *arg, const struct resolve_answer *got)
{
    (void)arg;
    answer = *got;
    done_calls++;
}

/* Callers are inside the loop, whose clock is then that of the turn: here it may be old. */
static struct resolver_query *start_for(const void *asker, const char *text)
{
    struct name name;
    ev_now_update(loop);
    assert_int_equal(name_parse(&name, str_of(text)), NAME_OK);
    return resolver_start(resolver, &name, asker, &answer, on_done, NULL);
}

static struct resolver_query *start(const char *text)
{
    return start_for(NULL, text);
}

static void on_guard(struct ev_loop *l, ev_timer *timer, int events)
{
    (void)l, (void)timer, (void)events;
    fail_msg("nothing happened for too long");
}

static void run_until_calls(unsigned calls)
{
    ev_timer guard;
    ev_timer_init(&guard, on_guard, 15.0, 0.0);
    ev_timer_start(loop, &guard);
    while (done_calls < calls)
        ev_run(loop, EVRUN_ONCE);
    ev_timer_stop(loop, &guard);
}

/* At hand or after asking, the answer is in `answer`. */
static enum resolve_status resolve(const char *text)
{
    unsigned calls = done_calls;
    if (start(text) != NULL)
        run_until_calls(calls + 1);
    return answer.status;
}

/* The addresses of the last answer, as "::1 1.2.3.4". */
static const char *addrs(void)
{
    static char out[RESOLVER_MAX_ADDRS * (ADDR_TEXT_MAX + 1)];
    out[0] = '\0';
    for (uint32_t i = 0; i < answer.count; i++) {
        char addr[ADDR_TEXT_MAX];
        strcat(out, i > 0 ? " " : "");
        strcat(out, addr_format(addr, &answer.addrs[i]));
    }
    return out;
}

static void on_pause_over(struct ev_loop *l, ev_timer *timer, int events)
{
    (void)l, (void)timer, (void)events;
}

/* The loop goes on for a while, for what may come late and for files that are looked at in turns.
 */
static void run_for(double seconds)
{
    ev_timer timer;
    ev_now_update(loop);
    ev_timer_init(&timer, on_pause_over, seconds, 0.0);
    ev_timer_start(loop, &timer);
    while (ev_is_active(&timer))
        ev_run(loop, EVRUN_ONCE);
}

static bool script_usual(struct name_server *s, const struct dns_query *query,
                         struct message *reply)
{
    (void)s;
    if (query->type == TYPE_A) {
        put_addr(reply, query->name, 300, "192.0.2.1");
        put_addr(reply, query->name, 300, "192.0.2.2");
    } else {
        put_addr(reply, query->name, 300, "2001:db8::1");
    }
    return true;
}

static void test_one_a_and_one_aaaa(void **state)
{
    (void)state;
    create_resolver(usual_config);
    assert_int_equal(resolve("good.test"), RESOLVE_OK);
    assert_string_equal(addrs(), "2001:db8::1 192.0.2.1 192.0.2.2");
    assert_int_equal(server.a, 1);
    assert_int_equal(server.aaaa, 1);
    assert_int_equal(server.without_edns, 0);
    assert_int_equal(server.by_tcp, 0);
    assert_int_equal(other_server.a, 0);
}

/* D08: no search list, for a single label neither. */
static void test_the_name_asked_is_the_name_given(void **state)
{
    (void)state;
    setenv("LOCALDOMAIN", "sink.test", 1);
    setenv("RES_OPTIONS", "ndots:5 rotate", 1);
    create_resolver(usual_config);
    assert_int_equal(resolve("single"), RESOLVE_OK);
    assert_string_equal(server.last_name, "single");
    assert_int_equal(server.a + server.aaaa, 2);
    unsetenv("LOCALDOMAIN");
    unsetenv("RES_OPTIONS");
}

static void test_an_answer_is_asked_for_once_within_its_ttl(void **state)
{
    (void)state;
    create_resolver(usual_config);
    resolve("good.test");
    assert_null(start("good.test"));
    assert_string_equal(addrs(), "2001:db8::1 192.0.2.1 192.0.2.2");
    assert_int_equal(server.a + server.aaaa, 2);
}

static bool script_rebinding(struct name_server *s, const struct dns_query *query,
                             struct message *reply)
{
    if (query->type == TYPE_A)
        put_addr(reply, query->name, 0, s->a == 1 ? "127.0.0.2" : "127.0.0.9");
    return true;
}

/* D02: an answer without a life is given to those who wait and to nobody else. */
static void test_ttl_0_is_not_kept(void **state)
{
    (void)state;
    server.script = script_rebinding;
    create_resolver(usual_config);
    assert_int_equal(resolve("good.test"), RESOLVE_OK);
    assert_string_equal(addrs(), "127.0.0.2");
    assert_int_equal(resolve("good.test"), RESOLVE_OK);
    assert_string_equal(addrs(), "127.0.0.9");
    assert_int_equal(server.a, 2);
}

static void test_bounds_of_ttl(void **state)
{
    (void)state;
    server.script = script_rebinding;
    struct resolver_config config = usual_config;
    config.min_ttl_s = 60;
    create_resolver(config);
    resolve("good.test");
    resolve("good.test");
    assert_int_equal(server.a, 1);
    resolver_destroy(resolver);

    server.script = script_usual;
    config.min_ttl_s = config.max_ttl_s = 0;
    create_resolver(config);
    resolve("good.test");
    resolve("good.test");
    assert_int_equal(server.a, 3);
}

static bool script_short_chain(struct name_server *s, const struct dns_query *query,
                               struct message *reply)
{
    (void)s;
    put_cname(reply, query->name, 0, "b.test");
    if (query->type == TYPE_A)
        put_addr(reply, "b.test", 86400, "192.0.2.1");
    return true;
}

/* D05 */
static void test_the_least_ttl_of_a_chain_counts(void **state)
{
    (void)state;
    server.script = script_short_chain;
    create_resolver(usual_config);
    assert_int_equal(resolve("good.test"), RESOLVE_OK);
    assert_string_equal(addrs(), "192.0.2.1");
    resolve("good.test");
    assert_int_equal(server.a, 2);
}

static bool script_cname_loop(struct name_server *s, const struct dns_query *query,
                              struct message *reply)
{
    (void)s;
    put_cname(reply, query->name, 300, "b.test");
    put_cname(reply, "b.test", 300, query->name);
    return true;
}

static void test_a_loop_of_cnames_is_a_failure(void **state)
{
    (void)state;
    server.script = script_cname_loop;
    create_resolver(usual_config);
    assert_int_equal(resolve("good.test"), RESOLVE_FAILURE);
    assert_int_equal(answer.count, 0);
    assert_int_equal(server.a, 1);
}

static bool script_truncated(struct name_server *s, const struct dns_query *query,
                             struct message *reply)
{
    (void)s;
    if (!query->tcp) {
        set_u16(reply, 2, 0x8380);
        return true;
    }
    for (unsigned i = 0; i < 60 && query->type == TYPE_A; i++) {
        char addr[32];
        snprintf(addr, sizeof(addr), "192.0.2.%u", i);
        put_addr(reply, query->name, 300, addr);
    }
    return true;
}

/* D07 */
static void test_truncation_is_followed_by_tcp_at_the_same_port(void **state)
{
    (void)state;
    server.script = script_truncated;
    create_resolver(usual_config);
    assert_int_equal(resolve("good.test"), RESOLVE_OK);
    assert_int_equal(answer.count, 60);
    assert_int_equal(server.by_tcp, 2);
}

static unsigned rcode_of_a, rcode_of_aaaa;

static bool script_codes(struct name_server *s, const struct dns_query *query,
                         struct message *reply)
{
    (void)s;
    unsigned rcode = query->type == TYPE_A ? rcode_of_a : rcode_of_aaaa;
    set_u16(reply, 2, 0x8180 | rcode);
    return true;
}

static enum resolve_status resolve_codes(unsigned a, unsigned aaaa)
{
    static unsigned serial;
    char name[32];
    rcode_of_a = a;
    rcode_of_aaaa = aaaa;
    snprintf(name, sizeof(name), "n%u.test", serial++);
    return resolve(name);
}

static void test_codes(void **state)
{
    (void)state;
    server.script = script_codes;
    create_resolver(usual_config);
    assert_int_equal(resolve_codes(RCODE_NXDOMAIN, RCODE_NXDOMAIN), RESOLVE_NXDOMAIN);
    assert_int_equal(resolve_codes(RCODE_OK, RCODE_OK), RESOLVE_NODATA);
    assert_int_equal(resolve_codes(RCODE_OK, RCODE_NXDOMAIN), RESOLVE_NODATA);
    assert_int_equal(resolve_codes(RCODE_NXDOMAIN, RCODE_OK), RESOLVE_NODATA);
    assert_int_equal(resolve_codes(RCODE_SERVFAIL, RCODE_SERVFAIL), RESOLVE_FAILURE);
    assert_int_equal(resolve_codes(RCODE_REFUSED, RCODE_REFUSED), RESOLVE_FAILURE);
    assert_int_equal(resolve_codes(9, 9), RESOLVE_FAILURE);
    /* D03: half an answer without an address is no proof that there is none. */
    assert_int_equal(resolve_codes(RCODE_SERVFAIL, RCODE_NXDOMAIN), RESOLVE_FAILURE);
    assert_int_equal(resolve_codes(RCODE_OK, RCODE_SERVFAIL), RESOLVE_FAILURE);
}

static void test_no_such_name_is_remembered_and_failures_are_not(void **state)
{
    (void)state;
    server.script = script_codes;
    create_resolver(usual_config);
    rcode_of_a = rcode_of_aaaa = RCODE_NXDOMAIN;
    resolve("none.test");
    assert_null(start("none.test"));
    assert_int_equal(answer.status, RESOLVE_NXDOMAIN);
    assert_int_equal(server.a, 1);

    rcode_of_a = rcode_of_aaaa = RCODE_SERVFAIL;
    assert_int_equal(resolve("bad.test"), RESOLVE_FAILURE);
    server.script = script_usual;
    assert_int_equal(resolve("bad.test"), RESOLVE_OK);
}

static bool script_aaaa_fails(struct name_server *s, const struct dns_query *query,
                              struct message *reply)
{
    if (query->type == TYPE_A)
        return script_usual(s, query, reply);
    set_u16(reply, 2, 0x8182);
    return true;
}

static void test_one_family_suffices(void **state)
{
    (void)state;
    server.script = script_aaaa_fails;
    create_resolver(usual_config);
    assert_int_equal(resolve("good.test"), RESOLVE_OK);
    assert_string_equal(addrs(), "192.0.2.1 192.0.2.2");
}

static bool script_silent(struct name_server *s, const struct dns_query *query,
                          struct message *reply)
{
    (void)s, (void)query, (void)reply;
    return false;
}

static void test_silence_ends_at_the_deadline(void **state)
{
    (void)state;
    server.script = script_silent;
    struct resolver_config config = usual_config;
    config.timeout_ms = 100;
    create_resolver(config);
    ev_tstamp before = ev_time();
    assert_int_equal(resolve("good.test"), RESOLVE_TIMEOUT);
    assert_true(ev_time() - before >= 0.19);
    assert_true(ev_time() - before < 2.0);
    assert_in_range(server.a, 1, 2);
}

static unsigned lost_type;

static bool script_lossy(struct name_server *s, const struct dns_query *query,
                         struct message *reply)
{
    return query->type != lost_type && script_usual(s, query, reply);
}

/* D13 */
static void test_a_lost_half_delays_for_a_moment(void **state)
{
    (void)state;
    struct resolver_config config = usual_config;
    config.timeout_ms = 4000;
    server.script = script_lossy;
    create_resolver(config);
    ev_tstamp before = ev_time();
    lost_type = TYPE_AAAA;
    assert_int_equal(resolve("a.test"), RESOLVE_OK);
    assert_string_equal(addrs(), "192.0.2.1 192.0.2.2");
    lost_type = TYPE_A;
    assert_int_equal(resolve("b.test"), RESOLVE_OK);
    assert_string_equal(addrs(), "2001:db8::1");
    assert_true(ev_time() - before < 3.0);
}

static void test_half_an_answer_is_kept_no_longer_than_a_negative_one(void **state)
{
    (void)state;
    struct resolver_config config = usual_config;
    config.negative_ttl_s = 0;
    server.script = script_aaaa_fails;
    create_resolver(config);
    resolve("good.test");
    resolve("good.test");
    assert_int_equal(server.a, 2);
}

static bool script_one_half_lost_other_none(struct name_server *s, const struct dns_query *query,
                                            struct message *reply)
{
    (void)s, (void)reply;
    return query->type == TYPE_AAAA;
}

static void test_silence_is_not_a_no(void **state)
{
    (void)state;
    struct resolver_config config = usual_config;
    config.timeout_ms = 50;
    server.script = script_one_half_lost_other_none;
    create_resolver(config);
    assert_int_equal(resolve("good.test"), RESOLVE_TIMEOUT);
}

enum mischief { WRONG_ID, WRONG_QUESTION, EMPTY, CUT, NOT_A_REPLY, LOOPING_NAME, MISCHIEFS };
static enum mischief mischief;

static bool script_mischief(struct name_server *s, const struct dns_query *query,
                            struct message *reply)
{
    (void)s;
    put_addr(reply, query->name, 300, query->type == TYPE_A ? "127.0.0.9" : "::1");
    switch (mischief) {
    case WRONG_ID:
        set_u16(reply, 0, query->id ^ 1);
        break;
    case WRONG_QUESTION:
        message_start(reply, query->id, RCODE_OK, "evil.test", query->type);
        put_addr(reply, query->name, 300, "127.0.0.9");
        break;
    case EMPTY:
        reply->len = 0;
        break;
    case CUT:
        reply->len -= 3;
        break;
    case NOT_A_REPLY:
        set_u16(reply, 2, 0x0100);
        break;
    case LOOPING_NAME:
        message_start(reply, query->id, RCODE_OK, query->name, query->type);
        put_u16(reply, 0xc000 | (unsigned)reply->len);
        count_answer(reply);
        break;
    case MISCHIEFS:
        break;
    }
    return true;
}

/* D16 */
static void test_mischief_is_no_answer(void **state)
{
    (void)state;
    struct resolver_config config = usual_config;
    config.timeout_ms = 50;
    server.script = script_mischief;
    create_resolver(config);
    for (mischief = WRONG_ID; mischief < MISCHIEFS; mischief++) {
        enum resolve_status status = resolve("good.test");
        assert_int_equal(answer.count, 0);
        assert_int_equal(status, mischief <= EMPTY ? RESOLVE_TIMEOUT : RESOLVE_FAILURE);
    }
}

/* Nobody listens there, as it was just given back. */
static uint16_t closed_port(void)
{
    uint16_t port = 0;
    close(bind_loopback(SOCK_DGRAM, 0, &port));
    return port;
}

static void create_with_three_servers(void)
{
    char servers[128];
    snprintf(servers, sizeof(servers), "127.0.0.1:%u, 127.0.0.1:%u,127.0.0.1:%u", closed_port(),
             other_server.port, server.port);
    struct resolver_config config = usual_config;
    config.servers = servers;
    create_resolver(config);
}

/* D17 */
static void test_dead_servers_are_passed_and_then_avoided(void **state)
{
    (void)state;
    other_server.script = script_silent;
    create_with_three_servers();
    assert_int_equal(resolve("a.test"), RESOLVE_OK);
    assert_string_equal(addrs(), "2001:db8::1 192.0.2.1 192.0.2.2");
    assert_int_equal(other_server.a, 1);
    assert_int_equal(resolve("b.test"), RESOLVE_OK);
    assert_int_equal(resolve("c.test"), RESOLVE_OK);
    assert_int_equal(other_server.a, 1);
    assert_int_equal(server.a, 3);
}

static void test_a_server_that_fails_is_passed(void **state)
{
    (void)state;
    other_server.script = script_codes;
    rcode_of_a = rcode_of_aaaa = RCODE_SERVFAIL;
    create_with_three_servers();
    assert_int_equal(resolve("a.test"), RESOLVE_OK);
    assert_int_equal(server.a, 1);
}

static void test_no_server_at_all_is_a_failure_but_not_at_once(void **state)
{
    (void)state;
    char servers[64];
    snprintf(servers, sizeof(servers), "127.0.0.1:%u", closed_port());
    struct resolver_config config = usual_config;
    config.servers = servers;
    create_resolver(config);
    assert_non_null(start("good.test"));
    assert_int_equal(done_calls, 0);
    run_until_calls(1);
    assert_int_equal(answer.status, RESOLVE_FAILURE);

    resolver_destroy(resolver);
    config.servers =
        "255.255.255.255"; /* the kernel refuses to send: c-ares fails within the call */
    create_resolver(config);
    assert_non_null(start("good.test"));
    assert_int_equal(done_calls, 1);
    run_until_calls(2);
    assert_int_equal(answer.status, RESOLVE_FAILURE);
}

static bool script_without_edns(struct name_server *s, const struct dns_query *query,
                                struct message *reply)
{
    if (!query->edns)
        return script_usual(s, query, reply);
    message_start(reply, query->id, RCODE_FORMERR, query->name, query->type);
    return true;
}

static void test_a_server_without_edns(void **state)
{
    (void)state;
    server.script = script_without_edns;
    create_resolver(usual_config);
    assert_int_equal(resolve("a.test"), RESOLVE_OK);
    assert_string_equal(addrs(), "2001:db8::1 192.0.2.1 192.0.2.2");
    assert_int_equal(resolve("b.test"), RESOLVE_OK);
    assert_int_equal(server.a, 3);
    assert_int_equal(server.without_edns, 4);
}

/* D20 */
static void test_a_burst_asks_once(void **state)
{
    (void)state;
    create_resolver(usual_config);
    for (int i = 0; i < 500; i++)
        assert_non_null(start("good.test"));
    run_until_calls(500);
    assert_int_equal(server.a, 1);
    assert_int_equal(server.aaaa, 1);
    assert_string_equal(addrs(), "2001:db8::1 192.0.2.1 192.0.2.2");
}

static void test_cancelled_queries_are_not_called(void **state)
{
    (void)state;
    create_resolver(usual_config);
    struct resolver_query *first = start("good.test");
    assert_non_null(start("good.test"));
    assert_non_null(start("good.test"));
    resolver_cancel(first);
    run_until_calls(2);
    run_for(0.05);
    assert_int_equal(done_calls, 2);
}

static void test_a_cancelled_question_still_fills_the_cache(void **state)
{
    (void)state;
    create_resolver(usual_config);
    resolver_cancel(start("good.test"));
    run_for(0.2);
    assert_int_equal(done_calls, 0);
    assert_null(start("good.test"));
    assert_int_equal(answer.status, RESOLVE_OK);
}

static struct resolver_query *victim;

static void on_done_cancels_and_starts(void *arg, const struct resolve_answer *got)
{
    on_done(arg, got);
    resolver_cancel(victim);
    start("next.test");
}

static void test_a_call_may_cancel_and_start(void **state)
{
    (void)state;
    struct name name;
    name_parse(&name, STR("good.test"));
    create_resolver(usual_config);
    resolver_start(resolver, &name, NULL, &answer, on_done_cancels_and_starts, NULL);
    victim = start("good.test");
    run_until_calls(2);
    run_for(0.05);
    assert_int_equal(done_calls, 2);
    assert_string_equal(server.last_name, "next.test");
}

static struct dns_query held_query;

/* Keeps the AAAA query back, for a reply that comes too late. */
static bool script_late_aaaa(struct name_server *s, const struct dns_query *query,
                             struct message *reply)
{
    if (query->type == TYPE_AAAA && s->aaaa == 1) {
        held_query = *query;
        return false;
    }
    return script_usual(s, query, reply);
}

static void test_a_late_half_disturbs_nobody(void **state)
{
    (void)state;
    struct resolver_config config = usual_config;
    config.timeout_ms = 100; /* the AAAA query is repeated then, and answered */
    server.script = script_late_aaaa;
    create_resolver(config);
    assert_int_equal(resolve("good.test"), RESOLVE_OK);
    assert_string_equal(addrs(), "192.0.2.1 192.0.2.2");
    run_for(0.3);
    assert_int_equal(server.aaaa, 2);
    assert_int_equal(done_calls, 1);
    assert_string_equal(held_query.name, "good.test");
}

static void test_destroyed_with_questions_on_their_way(void **state)
{
    (void)state;
    struct resolver_config config = usual_config;
    config.timeout_ms = 60000; /* nothing ends by itself, however slow this machine is */
    server.script = script_silent;
    create_resolver(config);
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof(name), "n%d.test", i % 10);
        assert_non_null(start(name));
    }
    resolver_cancel(start("n1.test"));
    run_for(0.05);
    resolver_destroy(resolver);
    resolver = NULL;
    run_for(0.05);
    assert_int_equal(done_calls, 0);
}

static void test_destroyed_between_answer_and_call(void **state)
{
    (void)state;
    struct resolver_config config = usual_config;
    config.servers = "255.255.255.255";
    create_resolver(config);
    assert_non_null(start("good.test"));
    resolver_destroy(resolver);
    resolver = NULL;
    run_for(0.01);
    assert_int_equal(done_calls, 0);
}

static void test_localhost_is_never_asked_for(void **state)
{
    (void)state;
    char path[] = "/tmp/srt-test-hosts-XXXXXX";
    autoclose int fd = mkstemp(path);
    assert_true(write(fd, "192.0.2.66 localhost a.localhost\n", 33) == 33);
    struct resolver_config config = usual_config;
    config.hosts_file = path;
    create_resolver(config);
    const char *names[] = {"localhost", "a.localhost", "LOCALHOST."};
    for (size_t i = 0; i < COUNT(names); i++) {
        assert_null(start(names[i]));
        assert_string_equal(addrs(), "127.0.0.1 ::1");
    }
    assert_int_equal(server.a, 0);
    unlink(path);
}

static void test_onion_names_are_never_asked_for(void **state)
{
    (void)state;
    create_resolver(usual_config);
    assert_int_equal(resolve("good.onion"), RESOLVE_NXDOMAIN);
    assert_int_equal(server.a + server.aaaa, 0);
}

/* D14 */
static void test_the_hosts_file_comes_first_and_may_change(void **state)
{
    (void)state;
    char path[] = "/tmp/srt-test-hosts-XXXXXX";
    autoclose int fd = mkstemp(path);
    assert_true(write(fd, "127.0.0.9 good.test\n", 20) == 20);
    struct resolver_config config = usual_config;
    config.hosts_file = path;
    create_resolver(config);
    assert_null(start("good.test"));
    assert_string_equal(addrs(), "127.0.0.9");
    assert_int_equal(resolve("new.test"), RESOLVE_OK);
    assert_string_equal(addrs(), "2001:db8::1 192.0.2.1 192.0.2.2");

    assert_true(pwrite(fd, "127.0.0.8 new.test \n", 20, 0) == 20);
    run_for(0.15);
    assert_null(start("new.test")); /* although another answer is in the cache */
    assert_string_equal(addrs(), "127.0.0.8");
    assert_int_equal(resolve("good.test"), RESOLVE_OK);
    assert_string_equal(addrs(), "2001:db8::1 192.0.2.1 192.0.2.2");
    unlink(path);
}

/* As many as this one may have on their way; every name is a new one. */
static unsigned start_many(unsigned asker)
{
    static const char askers[13];
    unsigned started = 0;
    char name[32];
    do
        snprintf(name, sizeof(name), "n%u.test", ++names_made);
    while (start_for(&askers[asker], name) != NULL && ++started < 10000);
    return started;
}

static void test_questions_are_bounded(void **state)
{
    (void)state;
    server.script = script_silent;
    struct resolver_config config = usual_config;
    config.timeout_ms = 20000;
    create_resolver(config);
    assert_int_equal(start_many(0), 4096); /* and as many are left to others */
    assert_int_equal(answer.status, RESOLVE_FAILURE);
    assert_int_equal(start_many(1), 2048);
    assert_int_equal(start_many(2), 1024);
    assert_int_equal(start_many(0), 0);
    for (unsigned asker = 3; asker < 13; asker++)
        assert_int_equal(start_many(asker), 8192 >> (asker + 1));
    assert_non_null(start("n1.test")); /* those on their way can still be joined */
}

static void test_questions_that_are_over_make_room(void **state)
{
    (void)state;
    server.script = script_silent;
    struct resolver_config config = usual_config;
    config.timeout_ms = 100;
    config.tries = 1;
    create_resolver(config);
    assert_int_equal(start_many(0), 4096);
    run_until_calls(4096);
    run_for(0.5); /* the upstream lets go of them */
    assert_int_equal(start_many(0), 4096);
}

static void assert_fault(struct resolver_config config, const char *word)
{
    struct srt_err err = {""};
    assert_int_equal(resolver_config_check(&config, &err), -1);
    assert_non_null(strstr(err.text, word));
    err.text[0] = '\0';
    assert_null(resolver_create(loop, &config, &err));
    assert_non_null(strstr(err.text, word));
}

static void test_faults_of_the_configuration(void **state)
{
    (void)state;
    struct resolver_config good = usual_config;
    good.servers = " 127.0.0.1 ,[::1]:5353, 192.0.2.1:53";
    assert_int_equal(resolver_config_check(&good, NULL), 0);
    good.servers = "system";
    good.hosts_file = "/etc/hosts";
    assert_int_equal(resolver_config_check(&good, NULL), 0);

    const char *nine = "1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5,1.1.1.6,1.1.1.7,1.1.1.8,1.1.1.9";
    const char *bad[] = {
        "",    "dns.test",         "127.0.0.1,",      ",127.0.0.1",          "127.0.0.1:0", "127.1",
        "::1", "system,127.0.0.1", "127.0.0.1:99999", "127.0.0.1 127.0.0.2", nine};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct resolver_config config = usual_config;
        config.servers = bad[i];
        assert_fault(config, "name server");
    }

    struct resolver_config config = usual_config;
    config.servers = "127.0.0.1";
    config.hosts_file = "/nonexistent/hosts";
    assert_fault(config, "/nonexistent/hosts");
    config.hosts_file = NULL;
    config.timeout_ms = 0;
    assert_fault(config, "timeout");
    config.timeout_ms = 100;
    config.tries = 0;
    assert_fault(config, "tries");
    config.tries = 1;
    config.min_ttl_s = 10;
    config.max_ttl_s = 5;
    assert_fault(config, "min-ttl");
    resolver_destroy(NULL);
}

#define with_server(test) cmocka_unit_test_setup_teardown(test, start_server, stop_server)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_server(test_one_a_and_one_aaaa),
        with_server(test_the_name_asked_is_the_name_given),
        with_server(test_an_answer_is_asked_for_once_within_its_ttl),
        with_server(test_ttl_0_is_not_kept),
        with_server(test_bounds_of_ttl),
        with_server(test_the_least_ttl_of_a_chain_counts),
        with_server(test_a_loop_of_cnames_is_a_failure),
        with_server(test_truncation_is_followed_by_tcp_at_the_same_port),
        with_server(test_codes),
        with_server(test_no_such_name_is_remembered_and_failures_are_not),
        with_server(test_one_family_suffices),
        with_server(test_silence_ends_at_the_deadline),
        with_server(test_a_lost_half_delays_for_a_moment),
        with_server(test_half_an_answer_is_kept_no_longer_than_a_negative_one),
        with_server(test_silence_is_not_a_no),
        with_server(test_mischief_is_no_answer),
        with_server(test_dead_servers_are_passed_and_then_avoided),
        with_server(test_a_server_that_fails_is_passed),
        with_server(test_no_server_at_all_is_a_failure_but_not_at_once),
        with_server(test_a_server_without_edns),
        with_server(test_a_burst_asks_once),
        with_server(test_cancelled_queries_are_not_called),
        with_server(test_a_cancelled_question_still_fills_the_cache),
        with_server(test_a_call_may_cancel_and_start),
        with_server(test_a_late_half_disturbs_nobody),
        with_server(test_destroyed_with_questions_on_their_way),
        with_server(test_destroyed_between_answer_and_call),
        with_server(test_localhost_is_never_asked_for),
        with_server(test_onion_names_are_never_asked_for),
        with_server(test_the_hosts_file_comes_first_and_may_change),
        with_server(test_questions_are_bounded),
        with_server(test_questions_that_are_over_make_room),
        with_server(test_faults_of_the_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
