#include "transport/handshake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct http_response head;

/* What a proxy says, whole or byte by byte, and what comes of it. */
struct talk {
    struct handshake handshake;
    struct config_upstream upstream;
    struct target target;
    struct buf in, out;
};

static void begin(struct talk *talk, const char *proxy, const char *credentials, const char *target)
{
    const char *why;
    *talk = (struct talk){0};
    assert_true(upstream_parse(&talk->upstream, str_of(proxy), &why));
    if (credentials != NULL)
        assert_true(upstream_set_credentials(&talk->upstream, str_of(credentials), &why));
    assert_true(target_parse(&talk->target, str_of(target), NULL));
    handshake_begin(&talk->handshake, &talk->upstream, &talk->target, "token", &talk->out);
}

static void end(struct talk *talk)
{
    buf_free(&talk->in);
    buf_free(&talk->out);
}

static void assert_said(struct talk *talk, struct str expected)
{
    assert_int_equal(talk->out.len, expected.len);
    assert_memory_equal(buf_view(&talk->out).p, expected.p, expected.len);
    buf_take(&talk->out, talk->out.len);
}

static enum handshake_result hear(struct talk *talk, struct str bytes, bool dribble)
{
    enum handshake_result result = HANDSHAKE_MORE;
    size_t at = 0;
    do {
        size_t len = dribble ? 1 : bytes.len;
        buf_append(&talk->in, (struct str){bytes.p + at, len});
        at += len;
        result = handshake_turn(&talk->handshake, &talk->in, false, &talk->out, &head);
    } while (result == HANDSHAKE_MORE && at < bytes.len);
    /* What was not looked at any more is the tunnel's. */
    if (at < bytes.len)
        buf_append(&talk->in, str_from(bytes, at));
    return result;
}

#define BOTH_WAYS(dribble) for (int dribble = 0; dribble < 2; dribble++)

static void asks_with_connect(void **state)
{
    (void)state;
    struct talk talk;
    begin(&talk, "http://proxy.test:3128", NULL, "far.test:443");
    assert_said(&talk, STR("CONNECT far.test:443 HTTP/1.1\r\nHost: far.test:443\r\n"
                           "Via: 1.1 srt-gateway (token)\r\n\r\n"));
    end(&talk);
    begin(&talk, "http://proxy.test:3128", "user:pass:word", "[2001:db8::1]:22");
    assert_said(&talk, STR("CONNECT [2001:db8::1]:22 HTTP/1.1\r\nHost: [2001:db8::1]:22\r\n"
                           "Proxy-Authorization: Basic dXNlcjpwYXNzOndvcmQ=\r\n"
                           "Via: 1.1 srt-gateway (token)\r\n\r\n"));
    end(&talk);
}

static void any_2xx_opens_the_tunnel(void **state)
{
    (void)state;
    static const struct str heads[] = {
        STR("HTTP/1.1 200 Connection established\r\n\r\n"),
        STR("HTTP/1.0 200 OK\r\nProxy-agent: tinyproxy/1.11.1\r\n\r\n"),
        STR("HTTP/1.1 299 \r\nContent-Length: 5\r\n\r\n"),
        STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        STR("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"),
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        BOTH_WAYS(dribble)
        {
            struct talk talk;
            begin(&talk, "http://proxy.test:3128", NULL, "far.test:443");
            buf_take(&talk.out, talk.out.len);
            struct buf answer = {0};
            buf_append(&answer, heads[i]);
            buf_append(&answer, STR("SSH-2.0-x\r\n"));
            assert_int_equal(hear(&talk, buf_view(&answer), dribble), HANDSHAKE_DONE);
            assert_true(str_eq(buf_view(&talk.in), STR("SSH-2.0-x\r\n")));
            assert_said(&talk, STR(""));
            buf_free(&answer);
            end(&talk);
        }
    }
}

struct refusal {
    struct str answer;
    enum outcome outcome;
    int status;
    const char *why;
};

static void refuses(const char *proxy, const char *credentials, const struct refusal *refusal)
{
    BOTH_WAYS(dribble)
    {
        struct talk talk;
        begin(&talk, proxy, credentials, "far.test:443");
        assert_int_equal(hear(&talk, refusal->answer, dribble), HANDSHAKE_FAILED);
        assert_int_equal(talk.handshake.outcome, refusal->outcome);
        assert_int_equal(talk.handshake.status, refusal->status);
        assert_non_null(strstr(talk.handshake.why, refusal->why));
        end(&talk);
    }
}

static void everything_else_is_a_refusal(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {STR("HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic\r\n\r\n"), OUTCOME_BAD_RESPONSE, 407,
         "did not"},
        {STR("HTTP/1.0 503 No\r\n\r\n"), OUTCOME_BAD_RESPONSE, 503, "did not"},
        {STR("HTTP/1.1 302 Go\r\nLocation: /\r\n\r\n"), OUTCOME_BAD_RESPONSE, 302, "did not"},
        {STR("HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"), OUTCOME_BAD_RESPONSE,
         101, "did not"},
        {STR("HTTP/2 200\r\n\r\n"), OUTCOME_BAD_RESPONSE, 0, "not proper HTTP"},
        {STR("HTTP/1.1 200 OK\r\nA : b\r\n\r\n"), OUTCOME_BAD_RESPONSE, 0, "not proper HTTP"},
        {STR("\x05\xff"), OUTCOME_BAD_RESPONSE, 0, "not proper HTTP"},
    };
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        refuses("http://proxy.test:3128", NULL, &refusals[i]);
}

static void heads_are_bounded(void **state)
{
    (void)state;
    struct talk talk;
    struct buf answer = {0};
    begin(&talk, "http://proxy.test:3128", NULL, "far.test:443");
    buf_append(&answer, STR("HTTP/1.1 200 OK\r\nX: "));
    while (answer.len <= HANDSHAKE_HEAD_MAX)
        buf_append(&answer, STR("yyyyyyyy"));
    assert_int_equal(hear(&talk, buf_view(&answer), false), HANDSHAKE_FAILED);
    buf_free(&answer);
    end(&talk);
}

static void an_end_in_the_middle_is_a_refusal(void **state)
{
    (void)state;
    static const char *const proxies[] = {"http://proxy.test:3128", "socks5://proxy.test:1080"};
    for (size_t i = 0; i < 2; i++) {
        struct talk talk;
        begin(&talk, proxies[i], NULL, "far.test:443");
        assert_int_equal(handshake_turn(&talk.handshake, &talk.in, false, &talk.out, &head),
                         HANDSHAKE_MORE);
        assert_int_equal(handshake_turn(&talk.handshake, &talk.in, true, &talk.out, &head),
                         HANDSHAKE_FAILED);
        assert_int_equal(talk.handshake.outcome, OUTCOME_BAD_RESPONSE);
        end(&talk);
    }
}

static void socks_without_credentials(void **state)
{
    (void)state;
    BOTH_WAYS(dribble)
    {
        struct talk talk;
        begin(&talk, "socks5://proxy.test:1080", NULL, "far.test:443");
        assert_said(&talk, STR("\x05\x01\x00"));
        assert_int_equal(hear(&talk, STR("\x05\x00"), dribble), HANDSHAKE_MORE);
        assert_said(&talk, STR("\x05\x01\x00\x03\x08"
                               "far.test\x01\xbb"));
        assert_int_equal(hear(&talk,
                              STR("\x05\x00\x00\x01\x7f\x00\x00\x01\x12\x34"
                                  "banner"),
                              dribble),
                         HANDSHAKE_DONE);
        assert_true(str_eq(buf_view(&talk.in), STR("banner")));
        end(&talk);
    }
}

static void socks_with_credentials(void **state)
{
    (void)state;
    BOTH_WAYS(dribble)
    {
        struct talk talk;
        begin(&talk, "socks5://proxy.test:1080", "me:secret", "10.1.2.3:22");
        assert_said(&talk, STR("\x05\x02\x00\x02"));
        assert_int_equal(hear(&talk, STR("\x05\x02"), dribble), HANDSHAKE_MORE);
        assert_said(&talk, STR("\x01\x02me\x06secret"));
        assert_int_equal(hear(&talk, STR("\x01\x00"), dribble), HANDSHAKE_MORE);
        assert_said(&talk, STR("\x05\x01\x00\x01\x0a\x01\x02\x03\x00\x16"));
        assert_int_equal(hear(&talk, STR("\x05\x00\x00\x03\x02hi\x00\x50"), dribble),
                         HANDSHAKE_DONE);
        assert_int_equal(talk.in.len, 0);
        end(&talk);
    }
}

/* A proxy that does not wait for us; every step leads on to the next. */
static void socks_answers_that_come_at_once(void **state)
{
    (void)state;
    BOTH_WAYS(dribble)
    {
        struct talk talk;
        begin(&talk, "socks5://proxy.test:1080", "me:secret", "[2001:db8::1]:22");
        const struct str all = STR("\x05\x02\x01\x00\x05\x00\x00\x04"
                                   "0123456789abcdef"
                                   "\x00\x16"
                                   "x");
        assert_int_equal(hear(&talk, all, dribble), HANDSHAKE_DONE);
        assert_true(str_eq(buf_view(&talk.in), STR("x")));
        end(&talk);
    }
}

static void what_socks_proxies_refuse(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {STR("\x05\xff"), OUTCOME_BAD_RESPONSE, 0, "wants credentials"},
        {STR("\x05\x02"), OUTCOME_BAD_RESPONSE, 0, "not SOCKS5"}, /* it was not offered */
        {STR("\x04\x00"), OUTCOME_BAD_RESPONSE, 0, "not SOCKS5"},
        {STR("HTTP/1.1 400 Bad Request\r\n"), OUTCOME_BAD_RESPONSE, 0, "not SOCKS5"},
        {STR("\x05\x00\x05\x01"), OUTCOME_BAD_RESPONSE, 0, "did not open"},
        {STR("\x05\x00\x05\x02"), OUTCOME_BAD_RESPONSE, 0, "does not allow"},
        {STR("\x05\x00\x05\x03"), OUTCOME_CONNECT_UNREACHABLE, 0, "unreachable"},
        {STR("\x05\x00\x05\x05"), OUTCOME_CONNECT_REFUSED, 0, "refused"},
        {STR("\x05\x00\x05\x06"), OUTCOME_CONNECT_TIMEOUT, 0, "did not answer"},
        {STR("\x05\x00\x05\x00\x00\x09\x01"), OUTCOME_BAD_RESPONSE, 0, "not SOCKS5"},
        {STR("\x05\x00\x05\x00\x01\x01\x01"), OUTCOME_BAD_RESPONSE, 0, "not SOCKS5"},
        {STR("\x05\x00\x04"), OUTCOME_BAD_RESPONSE, 0, "not SOCKS5"},
    };
    static const struct refusal login = {STR("\x05\x02\x01\x01"), OUTCOME_BAD_RESPONSE, 0,
                                         "our credentials"};
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        refuses("socks5://proxy.test:1080", NULL, &refusals[i]);
    refuses("socks5://proxy.test:1080", "me:secret", &login);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asks_with_connect),
        cmocka_unit_test(any_2xx_opens_the_tunnel),
        cmocka_unit_test(everything_else_is_a_refusal),
        cmocka_unit_test(heads_are_bounded),
        cmocka_unit_test(an_end_in_the_middle_is_a_refusal),
        cmocka_unit_test(socks_without_credentials),
        cmocka_unit_test(socks_with_credentials),
        cmocka_unit_test(socks_answers_that_come_at_once),
        cmocka_unit_test(what_socks_proxies_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
