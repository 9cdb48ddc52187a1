#include "record/squid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct target target_of(const char *host, uint16_t port)
{
    struct target target;
    assert_true(target_parse_host(&target, str_of(host), port, NULL));
    return target;
}

static void reads(const struct squid_request *request, const char *line)
{
    struct json out = {0};
    squid_line(&out, request);
    json_append(&out, (struct str){"", 1});
    assert_string_equal(out.data, line);
    json_free(&out);
}

static void a_tunnel_and_an_exchange_that_went_well(void **state)
{
    (void)state;
    const struct target target = target_of("Good.test", 443), plain = target_of("good.test", 80);
    struct addr addr;
    assert_true(addr_parse(&addr, STR("192.0.2.9")));
    struct event_request event = {.client = STR("team a"),
                                  .peer = STR("192.0.2.1:5000"),
                                  .method = STR("CONNECT"),
                                  .target = &target};
    struct squid_request request = {.request = &event,
                                    .status = 200,
                                    .tunnel = true,
                                    .admitted = true,
                                    .addr = &addr,
                                    .bytes_down = 4711,
                                    .duration_ms = 1234567,
                                    .cause = "client"};
    reads(&request, "1234567 192.0.2.1 TCP_TUNNEL/200 4711 CONNECT good.test:443 team%20a "
                    "HIER_DIRECT/192.0.2.9 -\n");
    event = (struct event_request){.sandbox = STR("box"),
                                   .peer = STR("[2001:db8::1]:5000"),
                                   .method = STR("GET"),
                                   .path = STR("/a%20b?sig=SECRET"),
                                   .target = &plain};
    request.tunnel = false;
    request.status = 404;
    request.duration_ms = 5;
    request.cause = "upstream";
    reads(&request, "     5 2001:db8::1 TCP_MISS/404 4711 GET http://good.test/a%20b box "
                    "HIER_DIRECT/192.0.2.9 -\n");
}

static void refusals_by_whose_fault_they_are(void **state)
{
    (void)state;
    const struct target target = target_of("[2001:db8::5]", 8443);
    struct event_request event = {.peer = STR("uid=7,pid=9"), .target = &target};
    struct squid_request request = {
        .request = &event, .outcome = OUTCOME_NOT_ALLOWED, .status = 403, .tunnel = true};
    reads(&request, "     0 - TCP_DENIED/403 0 CONNECT [2001:db8::5]:8443 - HIER_NONE/- -\n");
    request.outcome = OUTCOME_CONNECT_REFUSED;
    request.status = 502;
    reads(&request, "     0 - TCP_MISS/502 0 CONNECT [2001:db8::5]:8443 - HIER_NONE/- -\n");
    event.target = NULL;
    request.outcome = OUTCOME_BAD_REQUEST;
    request.status = 400;
    reads(&request, "     0 - NONE/400 0 NONE error:invalid-request - HIER_NONE/- -\n");
    event.host_text = STR("a b\n\"\xff");
    reads(&request, "     0 - NONE/400 0 NONE a%20b%0A%22%FF - HIER_NONE/- -\n");
}

static void what_ended_early_says_so(void **state)
{
    (void)state;
    static const struct {
        const char *cause, *tunnel, *exchange;
    } rows[] = {
        {"client", "TCP_TUNNEL", "TCP_MISS_ABORTED"},
        {"upstream", "TCP_TUNNEL", "TCP_MISS"},
        {"idle", "TCP_TUNNEL_TIMEDOUT", "TCP_MISS_TIMEDOUT"},
        {"cut", "TCP_TUNNEL_ABORTED", "TCP_MISS_ABORTED"},
    };
    const struct target target = target_of("good.test", 80);
    const struct event_request event = {.target = &target};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char line[256];
        struct squid_request request = {.request = &event,
                                        .status = 200,
                                        .tunnel = true,
                                        .admitted = true,
                                        .cause = rows[i].cause};
        snprintf(line, sizeof(line), "     0 - %s/200 0 CONNECT good.test:80 - HIER_NONE/- -\n",
                 rows[i].tunnel);
        reads(&request, line);
        request.tunnel = false;
        snprintf(line, sizeof(line), "     0 - %s/200 0 NONE http://good.test/ - HIER_NONE/- -\n",
                 rows[i].exchange);
        reads(&request, line);
        request.outcome = OUTCOME_SNI_MISMATCH;
        request.status = 403;
        reads(&request, "     0 - TCP_DENIED/403 0 NONE http://good.test/ - HIER_NONE/- -\n");
    }
}

static void time_and_notes(void **state)
{
    (void)state;
    struct json out = {0};
    squid_time(&out, 1700000000042);
    squid_note(&out, STR("records-lost/3"));
    json_append(&out, (struct str){"", 1});
    assert_string_equal(out.data, "1700000000.042      0 - NONE/000 0 NONE error:records-lost/3 - "
                                  "HIER_NONE/- -\n");
    json_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tunnel_and_an_exchange_that_went_well),
        cmocka_unit_test(refusals_by_whose_fault_they_are),
        cmocka_unit_test(what_ended_early_says_so),
        cmocka_unit_test(time_and_notes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
