/*
 * Request and response heads: what is taken, what it means, what is refused. Every head is fed
 * whole and one byte at a time, and both must agree. Cases of the catalogue are named by their id.
 */
#include "wire/http_head.h"

#include "pieces.h"

enum { MAX = 64 << 10 };

static struct http_request request;
static struct http_response response;
static struct http_fault fault;

/* The verdict when the bytes come one at a time; `*at` is how many it took. */
static enum http_result request_in_pieces(struct str bytes, size_t max, size_t *at)
{
    struct http_scan scan = {0};
    enum http_result result = HTTP_MORE;
    for (*at = 0; *at <= bytes.len; ++*at) {
        autofree char *copy = exact_copy((struct str){bytes.p, *at});
        result = http_parse_request((struct str){copy, *at}, max, &scan, &request, &fault);
        if (result != HTTP_MORE)
            break;
    }
    return result;
}

static enum http_result parse_request_max(struct str bytes, size_t max)
{
    size_t at;
    enum http_result in_pieces = request_in_pieces(bytes, max, &at);
    struct http_fault fault_in_pieces = fault;
    struct http_scan scan = {0};
    enum http_result whole = http_parse_request(bytes, max, &scan, &request, &fault);
    assert_int_equal(whole, in_pieces);
    if (whole == HTTP_REFUSED) {
        assert_int_equal(fault.status, fault_in_pieces.status);
        assert_string_equal(fault.why, fault_in_pieces.why);
    }
    if (whole == HTTP_PARSED)
        assert_int_equal(request.size, at);
    return whole;
}

static void taken(const char *head)
{
    fault = (struct http_fault){.why = ""};
    if (parse_request_max(str_of(head), MAX) != HTTP_PARSED)
        fail_msg("refused (%s): %s", fault.why, head);
    assert_int_equal(request.size, strlen(head));
}

static void refused_bytes(struct str head, int status)
{
    if (parse_request_max(head, MAX) != HTTP_REFUSED)
        fail_msg("not refused: %.*s", STR_ARG(head));
    if (fault.status != status)
        fail_msg("status %d, want %d (%s): %.*s", fault.status, status, fault.why, STR_ARG(head));
}

static void refused(const char *head, int status)
{
    refused_bytes(str_of(head), status);
}

/* The head of a GET through a proxy with one more header line. */
static const char *get_with(const char *line)
{
    static char head[4096];
    snprintf(head, sizeof(head), "GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n%s\r\n\r\n",
             line);
    return head;
}

static const char *post_with(const char *lines)
{
    static char head[4096];
    snprintf(head, sizeof(head), "POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\n%s\r\n\r\n",
             lines);
    return head;
}

static const char *get_target(const char *target)
{
    static char head[4096];
    snprintf(head, sizeof(head), "GET %s HTTP/1.1\r\nHost: good.test\r\n\r\n", target);
    return head;
}

static void target_is(const char *text)
{
    char out[TARGET_TEXT_MAX];
    assert_true(request.target_is_set);
    assert_string_equal(target_format(out, &request.to), text);
}

static const struct http_field *field(const char *name)
{
    for (size_t i = 0; i < request.field_count; i++)
        if (str_ieq(request.fields[i].name, str_of(name)))
            return &request.fields[i];
    return NULL;
}

static void test_a_plain_get(void **state)
{
    (void)state;
    taken("GET http://Good.Test:8080/a/b?c=d&e HTTP/1.1\r\nHost: good.test:8080\r\n"
          "Accept: text/html\r\nUser-Agent:  x y\t \r\n\r\n");
    assert_str(request.method, "GET");
    assert_str(request.target, "http://Good.Test:8080/a/b?c=d&e");
    assert_int_equal(request.form, HTTP_ABSOLUTE_FORM);
    assert_false(request.https);
    target_is("good.test:8080");
    assert_str(request.path, "/a/b");
    assert_str(request.query, "?c=d&e");
    assert_int_equal(request.minor, 1);
    assert_int_equal(request.body, HTTP_BODY_NONE);
    assert_true(request.keep_alive);
    assert_false(request.expect_continue);
    assert_str(request.upgrade, NULL);
    assert_str(request.proxy_authorization, NULL);
    assert_str(request.accept, "text/html");
    assert_int_equal(request.field_count, 3);
    assert_str(request.fields[2].name, "User-Agent");
    assert_str(request.fields[2].value, "x y");
}

static void test_what_follows_the_head_is_left_alone(void **state)
{
    (void)state;
    struct str bytes = STR("\r\nGET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n\x16\x03\x01 GET");
    assert_int_equal(parse_request_max(bytes, MAX), HTTP_PARSED);
    assert_int_equal(request.size, bytes.len - 7);
}

static void test_targets(void **state)
{
    (void)state;
    static const struct {
        const char *target, *to, *path, *query;
    } rows[] = {
        {"http://good.test", "good.test:80", "/", ""},
        {"http://good.test/", "good.test:80", "/", ""},
        {"HTTP://GOOD.test./x", "good.test:80", "/x", ""},
        {"http://good.test?q", "good.test:80", "/", "?q"},
        {"http://good.test?/x", "good.test:80", "/", "?/x"},
        {"http://good.test/?", "good.test:80", "/", "?"},
        {"http://good.test/a?b?c", "good.test:80", "/a", "?b?c"},
        {"http://good.test:/x", "good.test:80", "/x", ""},
        {"http://good.test:65535/x", "good.test:65535", "/x", ""},
        {"http://good.test//evil.test/@", "good.test:80", "//evil.test/@", ""},
        {"http://127.0.0.2/x", "127.0.0.2:80", "/x", ""},
        {"http://[2001:db8::1]:81/x", "[2001:db8::1]:81", "/x", ""},
        {"http://[::ffff:127.0.0.1]/", "127.0.0.1:80", "/", ""},
        {"http://good.test/%zz%00", "good.test:80", "/%zz%00", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        taken(get_target(rows[i].target));
        assert_int_equal(request.form, HTTP_ABSOLUTE_FORM);
        assert_false(request.https);
        target_is(rows[i].to);
        assert_str(request.path, rows[i].path);
        assert_str(request.query, rows[i].query);
    }
    taken(get_target("hTTps://good.test/x"));
    assert_true(request.https);
    target_is("good.test:443");
}

static void test_origin_and_asterisk_forms(void **state)
{
    (void)state;
    taken(get_target("/x/y?z"));
    assert_int_equal(request.form, HTTP_ORIGIN_FORM);
    assert_false(request.target_is_set);
    assert_str(request.path, "/x/y");
    assert_str(request.query, "?z");
    taken("OPTIONS * HTTP/1.1\r\nHost: good.test\r\n\r\n");
    assert_int_equal(request.form, HTTP_ASTERISK_FORM);
    assert_false(request.target_is_set);
    assert_str(request.path, NULL);
    refused(get_target("*"), 400);
}

/* RFC 9112 3.2.4: the last proxy asks the server itself. */
static void test_options_of_a_whole_server(void **state)
{
    (void)state;
    taken("OPTIONS http://good.test:81 HTTP/1.1\r\nHost: good.test\r\n\r\n");
    assert_str(request.path, "*");
    taken("OPTIONS http://good.test:81/ HTTP/1.1\r\nHost: good.test\r\n\r\n");
    assert_str(request.path, "/");
    taken("OPTIONS http://good.test:81?x HTTP/1.1\r\nHost: good.test\r\n\r\n");
    assert_str(request.path, "/");
}

static void test_h02_the_host_field_does_not_decide(void **state)
{
    (void)state;
    taken("GET http://good.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n");
    target_is("good.test:80");
}

static void test_h04_length_and_coding_together(void **state)
{
    (void)state;
    refused(post_with("Content-Length: 5\r\nTransfer-Encoding: chunked"), 400);
    refused(post_with("Transfer-Encoding: chunked\r\nContent-Length: 5"), 400);
    refused(post_with("Transfer-Encoding: chunked\r\nX: y\r\ncontent-length: 0"), 400);
}

static void test_h05_more_than_one_length(void **state)
{
    (void)state;
    refused(post_with("Content-Length: 3\r\nContent-Length: 10"), 400);
    refused(post_with("Content-Length: 3\r\nCONTENT-LENGTH: 3"), 400);
    refused(post_with("Content-Length: 3, 10"), 400);
    refused(post_with("Content-Length: 3, 3"), 400);
}

static void test_h06_white_space_before_the_colon(void **state)
{
    (void)state;
    refused(post_with("Content-Length : 5"), 400);
    refused(post_with("Content-Length: 5\r\nContent-Length : 5"), 400);
    refused(post_with("Transfer-Encoding\t: chunked"), 400);
    refused(post_with("X y: z"), 400);
}

static void test_h07_transfer_encodings(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "chunked,",    ",chunked",    "chunked, gzip",    "gzip, chunked", "x chunked", "chunked x",
        "chunked;q=1", "\"chunked\"", "chunked, chunked", "identity",      "",          "chunked\v",
        "chunked\t",   "\tchunked",   "chunke",           "chunkedd",      "xchunked",
    };
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        char line[128];
        snprintf(line, sizeof(line), "Transfer-Encoding: %s", odd[i]);
        refused(post_with(line), 400);
    }
    static const char *const exact[] = {"chunked", "Chunked", "CHUNKED", "  chunked "};
    for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]); i++) {
        char line[128];
        snprintf(line, sizeof(line), "tRANSFER-eNCODING:%s", exact[i]);
        taken(post_with(line));
        assert_int_equal(request.body, HTTP_BODY_CHUNKED);
    }
    refused(post_with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), 400);
    refused("POST http://good.test/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400);
}

static void test_h08_empty_names(void **state)
{
    (void)state;
    refused(post_with(": x\r\nContent-Length: 5"), 400);
    refused(post_with(":"), 400);
    refused(get_with("\x80: x"), 400);
    refused(get_with("a\x80: x"), 400);
    refused(get_with("a(b): x"), 400);
    refused(get_with("a\"b: x"), 400);
}

static void test_h09_lengths_that_are_no_number(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "",
        "+5",
        "-1",
        "0x5",
        "5 5",
        "5,",
        ",5",
        "5.0",
        "1e3",
        "five",
        "5\v",
        "\t5",
        "5 \t",
        "\"5\"",
        "999999999999999999999999999999",
        "18446744073709551621",
        "9999999999999999999",
    };
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        char line[128];
        snprintf(line, sizeof(line), "Content-Length: %s", odd[i]);
        refused(post_with(line), 400);
    }
    taken(post_with("Content-Length: 999999999999999999"));
    assert_int_equal(request.body, HTTP_BODY_LENGTH);
    assert_true(request.length == 999999999999999999);
    taken(post_with("Content-Length:  0 "));
    assert_int_equal(request.body, HTTP_BODY_LENGTH);
    assert_int_equal(request.length, 0);
    taken(get_with("Content-Length: 007"));
    assert_int_equal(request.length, 7);
}

static void test_h11_what_connection_can_name_away(void **state)
{
    (void)state;
    taken(
        post_with("Connection: connection, proxy-connection,host,, content-length ,via, x-a\r\n"
                  "Connection: X-C\r\nContent-Length: 5\r\nX-A: 1\r\nX-B: 2\r\nx-c: 3\r\n"
                  "Via: 1.1 x\r\nProxy-Connection: keep-alive\r\nKeep-Alive: 5\r\nTE: trailers\r\n"
                  "Trailer: x\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\nX-A: 4\r\n"
                  "Proxy-Authorization: Basic eA==\r\nProxy-Authenticate: Basic"));
    static const struct {
        const char *name;
        bool hop_by_hop;
    } rows[] = {
        {"Host", false},
        {"Content-Length", false},
        {"Via", false},
        {"X-B", false},
        {"X-A", true},
        {"X-C", true},
        {"Connection", true},
        {"Proxy-Connection", true},
        {"Keep-Alive", true},
        {"TE", true},
        {"Trailer", true},
        {"Upgrade", true},
        {"HTTP2-Settings", true},
        {"Proxy-Authorization", true},
        {"Proxy-Authenticate", true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_non_null(field(rows[i].name));
        if (field(rows[i].name)->hop_by_hop != rows[i].hop_by_hop)
            fail_msg("%s", rows[i].name);
    }
    assert_true(request.fields[request.field_count - 3].hop_by_hop); /* the second X-A */
    assert_int_equal(request.body, HTTP_BODY_LENGTH);
    assert_int_equal(request.length, 5);
    assert_true(http_is_own(STR("hOST")) && http_is_own(STR("Transfer-Encoding")));
    assert_true(http_is_own(STR("content-length")) && http_is_own(STR("connection")));
    assert_true(http_is_own(STR("VIA")) && !http_is_own(STR("Accept")) && !http_is_own(STR("")));
}

static void test_connection_options_are_bounded(void **state)
{
    (void)state;
    char line[1024] = "Connection: a";
    for (size_t i = 1; i < HTTP_MAX_OPTIONS; i++)
        strcat(line, ",a");
    taken(get_with(line));
    strcat(line, ",,\r\nConnection: a");
    refused(get_with(line), 431);
}

static void test_h13_a_request_line_without_a_method(void **state)
{
    (void)state;
    refused(" http://x/ HTTP/1.1\r\n", 400);
    refused("\r\n\r\n", 400);
    refused("\n", 400);
    refused("\r\r", 400);
    char spaces[8 << 10];
    memset(spaces, ' ', sizeof(spaces));
    refused_bytes((struct str){spaces, sizeof(spaces)}, 400);
    assert_int_equal(parse_request_max(STR("GET"), MAX), HTTP_MORE);
    assert_int_equal(parse_request_max(STR(""), MAX), HTTP_MORE);
    refused("GET\r\n", 400);
    refused("GET \r\n", 400);
    refused("\x16\x03\x01\x02", 400);
    refused_bytes(STR("\0GET / HTTP/1.1"), 400);
}

static void test_request_lines_that_are_none(void **state)
{
    (void)state;
    refused("GET  http://a/ HTTP/1.1\r\n", 400);
    refused("GET\thttp://a/ HTTP/1.1\r\n", 400);
    refused("GET http://a/\tHTTP/1.1\r\n", 400);
    refused("GET http://a/  HTTP/1.1\r\n", 400);
    refused("GET http://a/ HTTP/1.1 \r\n", 400);
    refused("GET http://a/ HTTP/1.1\n", 400);
    refused("GET http://a/ HTTP/1.1\r\r\n", 400);
    refused("GET http://a/ x HTTP/1.1\r\n", 400);
    refused("GET http://a/\r\n", 400);
    refused("GET http://a/ \r\n", 400);
    refused("G(T http://a/ HTTP/1.1\r\n", 400);
    refused("G\x80T http://a/ HTTP/1.1\r\n", 400);
    refused_bytes(STR("G\0T http://a/ HTTP/1.1\r\n"), 400);
    taken("a1!#$%&'*+-.^_`|~ http://a/ HTTP/1.1\r\nHost: a\r\n\r\n");
}

static void test_h28_versions(void **state)
{
    (void)state;
    refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505);
    refused("GET http://a/ HTTP/2.0\r\n", 505);
    refused("GET http://a/ HTTP/1.2\r\n", 505);
    refused("GET http://a/ HTTP/0.9\r\n", 505);
    static const char *const malformed[] = {"http/1.1", "HTTP/1.10", "HTTP/11",  "HTTP/1,1",
                                            "HTTP/x.1", "HTTP/1",    "HTTP/",    "XTTP/1.1",
                                            "HTTP/1.",  "HTTP/+1.1", "HTTP/1.1;"};
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        char head[128];
        snprintf(head, sizeof(head), "GET http://a/ %s\r\nHost: a\r\n\r\n", malformed[i]);
        refused(head, 400);
    }
}

static void test_h31_separators_that_parsers_differ_on(void **state)
{
    (void)state;
    static const char *const targets[] = {
        "http://good.test@evil.test/",
        "http://good.test:80@evil.test/",
        "http://evil.test#@good.test/",
        "http://good.test\\@evil.test/",
        "http://good.test\\.evil.test/",
        "http://a:b@evil.test:80/",
        "http://good.test\x01/",
        "http://good.test/\x7f",
        "http://good.test/\x80",
        "http://g\xc3\xb6\xc3\xb6.test/",
        "http://good.test/#x",
        "http://good.test/\\x",
        "http://good.test%00.evil.test/",
        "http://good.test%2f@evil.test/",
        "http://good test/",
        "http://[good.test]/",
        "http://[::1/",
        "http://[::1]x/",
        "http://[fe80::1%25eth0]/",
        "http://::1/",
        "http://good.test:80:80/",
        "http://good.test:0/",
        "http://good.test:65536/",
        "http://good.test:+80/",
        "http://good.test:080/",
        "http://good.test:8x/",
        "http:///x",
        "http://?x",
        "http://:80/",
        "http:/good.test/",
        "http:good.test",
        "http//good.test/",
        "ftp://good.test/",
        "ws://good.test/",
        "file:///etc/passwd",
        "good.test/",
        "good.test:80",
        "?x",
        "http://127.1/",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://good..test/",
        "http://.good.test/",
        "http://good.test;evil.test/",
        "http://good.test,evil.test/",
        "http",
        "http://",
        "https://",
    };
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
        refused(get_target(targets[i]), 400);
    taken(get_target("//good.test/"));
    assert_int_equal(request.form, HTTP_ORIGIN_FORM);
    assert_false(request.target_is_set);
    refused_bytes(STR("GET http://good.test\0.evil.test/ HTTP/1.1\r\n"), 400);
}

static void test_h41_connect_authorities(void **state)
{
    (void)state;
    static const char *const malformed[] = {
        "good.test",
        "good.test:",
        "good.test:0",
        "good.test:65536",
        "good.test:443abc",
        "good.test:443/x",
        "/good.test:443",
        "https://good.test:443",
        "http://good.test",
        "good.test:+443",
        "good.test:0443",
        "good.test:443?x",
        "good.test:44 3",
        "u@good.test:443",
        ":443",
        "*",
        "good.test:443:443",
        "::1:443",
        "[::1]",
        "[::1]443",
        "[good.test]:443",
        "good.test:-1",
        "good.test:\xd9\xa3",
        "good.test.:443#",
    };
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        char head[256];
        snprintf(head, sizeof(head), "CONNECT %s HTTP/1.1\r\nHost: good.test\r\n\r\n",
                 malformed[i]);
        refused(head, 400);
    }
    taken("CONNECT Good.Test:443 HTTP/1.1\r\nHost: good.test\r\n\r\n");
    assert_int_equal(request.form, HTTP_AUTHORITY_FORM);
    assert_int_equal(request.body, HTTP_BODY_NONE);
    target_is("good.test:443");
    assert_str(request.path, NULL);
    taken("CONNECT [::1]:65535 HTTP/1.0\r\n\r\n");
    target_is("[::1]:65535");
    refused("connect good.test:443 HTTP/1.1\r\nHost: good.test\r\n\r\n", 400);
}

static void test_h46_connect_with_a_body(void **state)
{
    (void)state;
    refused("CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", 400);
    refused("CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 400);
    refused("CONNECT a:1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400);
}

static void test_hosts(void **state)
{
    (void)state;
    refused("GET http://a/ HTTP/1.1\r\n\r\n", 400);
    refused("CONNECT a:1 HTTP/1.1\r\n\r\n", 400);
    refused("GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400);
    static const char *const odd[] = {"",    "a b", "a/b",      "u@a",   "a:b",    "a:0",
                                      "a,b", "[a]", "http://a", "a:1:2", "a\x80z", "a#"};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        char head[128];
        snprintf(head, sizeof(head), "GET http://a/ HTTP/1.1\r\nHost: %s\r\n\r\n", odd[i]);
        refused(head, 400);
        snprintf(head, sizeof(head), "GET http://a/ HTTP/1.0\r\nHost: %s\r\n\r\n", odd[i]);
        refused(head, 400);
    }
    taken("GET http://a/ HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n");
}

static void test_h49_http_1_0(void **state)
{
    (void)state;
    taken("GET http://good.test/ HTTP/1.0\r\n\r\n");
    assert_int_equal(request.minor, 0);
    assert_int_equal(request.field_count, 0);
    assert_false(request.keep_alive);
    taken("GET http://good.test/ HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
    assert_true(request.keep_alive);
    taken("GET http://good.test/ HTTP/1.0\r\nProxy-Connection: Keep-Alive\r\n\r\n");
    assert_false(request.keep_alive);
    taken("GET http://good.test/ HTTP/1.0\r\nExpect: 100-continue\r\n\r\n");
    assert_false(request.expect_continue);
}

static void test_line_ends_and_values(void **state)
{
    (void)state;
    refused(get_with("X: a\nContent-Length: 5"), 400);
    refused(get_with("X: a\rContent-Length: 5"), 400);
    refused(get_with("X: a\r\r"), 400);
    refused(get_with("X: a\r\n b"), 400);
    refused(get_with("X: a\r\n\tb"), 400);
    refused(get_with("X: a\r\n "), 400);
    refused(get_with("X"), 400);
    refused(get_with("X\r\nY: z"), 400);
    refused(get_with("X: \x01"), 400);
    refused(get_with("X: \x7f"), 400);
    refused("GET http://a/ HTTP/1.1\r\n Host: a\r\n\r\n", 400);
    refused("GET http://a/ HTTP/1.1\r\nHost: a\r\n\n", 400);
    refused("GET http://a/ HTTP/1.1\r\nHost: a\r\n\rX", 400);
    refused_bytes(STR("GET http://a/ HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n"), 400);
    taken(get_with("X: \x80\xff caf\xc3\xa9"));
    assert_str(field("x")->value, "\x80\xff caf\xc3\xa9");
    taken(get_with("X:"));
    assert_str(field("x")->value, "");
    taken(get_with("X: \t "));
    assert_str(field("x")->value, "");
    taken(get_with("X:a:b, \"c\""));
    assert_str(field("x")->value, "a:b, \"c\"");
}

static void test_h25_expectations(void **state)
{
    (void)state;
    taken(post_with("Content-Length: 5\r\nExpect: 100-Continue"));
    assert_true(request.expect_continue);
    assert_false(field("Expect")->hop_by_hop);
    taken(post_with("Content-Length: 5\r\nExpect: 100-continue, x"));
    assert_false(request.expect_continue);
    taken(post_with("Content-Length: 5\r\nExpect: tea"));
    assert_false(request.expect_continue);
}

static void test_persistence(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        bool keep_alive;
    } rows[] = {
        {"Connection: close", false},
        {"Connection: CLOSE , x", false},
        {"Connection: keep-alive", true},
        {"Connection: keep-alive, close", false},
        {"Connection: x\r\nConnection: close", false},
        {"Proxy-Connection: close", false},
        {"Proxy-Connection: keep-alive", true},
        {"Connection: closed", true},
        {"Connection: ", true},
        {"Connection: \"close\"", true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        taken(get_with(rows[i].line));
        if (request.keep_alive != rows[i].keep_alive)
            fail_msg("%s", rows[i].line);
    }
}

static void test_upgrades(void **state)
{
    (void)state;
    static const struct {
        const char *lines, *upgrade;
    } rows[] = {
        {"Connection: Upgrade\r\nUpgrade: websocket", "websocket"},
        {"Upgrade: SPDY/3.1\r\nConnection: keep-alive, upgrade", "SPDY/3.1"},
        {"Upgrade: websocket", NULL},
        {"Connection: Upgrade", NULL},
        {"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA", NULL},
        {"Connection: Upgrade\r\nUpgrade: H2C", NULL},
        {"Connection: Upgrade\r\nUpgrade: h2", NULL},
        {"Connection: Upgrade\r\nUpgrade: HTTP/2.0", NULL},
        {"Connection: Upgrade\r\nUpgrade: h2c, websocket", NULL},
        {"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c", NULL},
        {"Connection: Upgrade\r\nUpgrade: websocket/", NULL},
        {"Connection: Upgrade\r\nUpgrade: /1", NULL},
        {"Connection: Upgrade\r\nUpgrade:", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        taken(get_with(rows[i].lines));
        assert_str(request.upgrade, rows[i].upgrade);
    }
    taken(post_with("Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 1"));
    assert_str(request.upgrade, NULL);
    taken("GET http://a/ HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_str(request.upgrade, NULL);
}

static void test_credentials(void **state)
{
    (void)state;
    taken(get_with("Proxy-Authorization:  Basic eDp5 "));
    assert_str(request.proxy_authorization, "Basic eDp5");
    taken(get_with("Proxy-Authorization:"));
    assert_str(request.proxy_authorization, "");
    refused(get_with("Proxy-Authorization: a\r\nProxy-Authorization: a"), 400);
}

static void test_limits(void **state)
{
    (void)state;
    static char head[MAX + 4096];
    const char *small = "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_int_equal(parse_request_max(str_of(small), strlen(small)), HTTP_PARSED);
    assert_int_equal(parse_request_max(str_of(small), strlen(small) - 1), HTTP_REFUSED);
    assert_int_equal(fault.status, 431);
    assert_int_equal(parse_request_max(str_of(small), 15), HTTP_REFUSED);
    assert_int_equal(fault.status, 414);

    memset(head, 'a', sizeof(head));
    refused_bytes((struct str){head, HTTP_MAX_METHOD + 1}, 400);
    assert_int_equal(parse_request_max((struct str){head, HTTP_MAX_METHOD}, MAX), HTTP_MORE);

    memcpy(head, "GET /", 5);
    refused_bytes((struct str){head, 4 + HTTP_MAX_TARGET + 1}, 414);
    memcpy(head + 4 + HTTP_MAX_TARGET, " HTTP/1.0\r\n\r\n", 13);
    assert_int_equal(parse_request_max((struct str){head, 4 + HTTP_MAX_TARGET + 13}, MAX),
                     HTTP_PARSED);
}

static void test_too_many_fields(void **state)
{
    (void)state;
    char head[8192] = "GET http://a/ HTTP/1.0\r\n";
    for (size_t i = 0; i < HTTP_MAX_FIELDS; i++)
        strcat(head, "X: y\r\n");
    size_t len = strlen(head);
    strcpy(head + len, "\r\n");
    taken(head);
    assert_int_equal(request.field_count, HTTP_MAX_FIELDS);
    strcpy(head + len, "X: y\r\n\r\n");
    refused(head, 431);
}

static enum http_result response_in_pieces(struct str bytes, bool head)
{
    struct http_scan scan = {0};
    enum http_result result = HTTP_MORE;
    for (size_t at = 0; at <= bytes.len && result == HTTP_MORE; at++) {
        autofree char *copy = exact_copy((struct str){bytes.p, at});
        result = http_parse_response((struct str){copy, at}, MAX, head, &scan, &response, &fault);
    }
    return result;
}

static enum http_result parse_response(struct str bytes, bool head)
{
    enum http_result in_pieces = response_in_pieces(bytes, head);
    const char *why = fault.why;
    struct http_scan scan = {0};
    enum http_result whole = http_parse_response(bytes, MAX, head, &scan, &response, &fault);
    assert_int_equal(whole, in_pieces);
    if (whole == HTTP_REFUSED) {
        assert_string_equal(fault.why, why);
        assert_int_equal(fault.status, 502);
    }
    return whole;
}

static void test_h34_bad_responses(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 204 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nnocolon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: b\r\n\r\n",
        "HTTP/1.1 200 OK\nA: b\n\n",
        "HTTP/1.1 200 OK\r\nA: b\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
        "HTTP/1.1 200 O\x01K\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 000 OK\r\n\r\n",
        "HTTP/1.1 +20 OK\r\n\r\n",
        "HTTP/1.1 200OK\r\n\r\n",
        "HTTP/1.1\r\n\r\n",
        "HTTP/1.1 \r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2p1 Debian\r\n",
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        if (parse_response(str_of(heads[i]), false) != HTTP_REFUSED)
            fail_msg("not refused: %s", heads[i]);
}

static void test_bodies_of_responses(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        bool is_head;
        enum http_body body;
        uint64_t length;
        bool keep_alive;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", false, HTTP_BODY_LENGTH, 7, true},
        {"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", true, HTTP_BODY_NONE, 7, true},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", false, HTTP_BODY_CHUNKED, 0,
         true},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true, HTTP_BODY_NONE, 0, true},
        {"HTTP/1.1 200 OK\r\n\r\n", false, HTTP_BODY_UNTIL_CLOSE, 0, false},
        {"HTTP/1.1 200 OK\r\n\r\n", true, HTTP_BODY_NONE, 0, true},
        {"HTTP/1.1 200\r\n\r\n", false, HTTP_BODY_UNTIL_CLOSE, 0, false},
        {"HTTP/1.1 999 No\r\nContent-Length: 2\r\n\r\n", false, HTTP_BODY_LENGTH, 2, true},
        {"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", false, HTTP_BODY_LENGTH, 0, true},
        {"HTTP/1.1 204 x\r\n\r\n", false, HTTP_BODY_NONE, 0, true},
        {"HTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n", false, HTTP_BODY_NONE, 0, true},
        {"HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\n", false, HTTP_BODY_NONE, 0, false},
        {"HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\n", false, HTTP_BODY_NONE, 5, true},
        {"HTTP/1.1 100 Continue\r\n\r\n", false, HTTP_BODY_NONE, 0, true},
        {"HTTP/1.1 103 x\r\nLink: <a>\r\n\r\n", false, HTTP_BODY_NONE, 0, true},
        {"HTTP/1.1 500 x\r\nContent-Length: 1\r\nConnection: close\r\n\r\n", false,
         HTTP_BODY_LENGTH, 1, false},
        {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", false, HTTP_BODY_LENGTH, 1, false},
        {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n", false,
         HTTP_BODY_LENGTH, 1, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (parse_response(str_of(rows[i].head), rows[i].is_head) != HTTP_PARSED)
            fail_msg("refused (%s): %s", fault.why, rows[i].head);
        if (response.body != rows[i].body || response.length != rows[i].length ||
            response.keep_alive != rows[i].keep_alive)
            fail_msg("body %d length %d keep-alive %d: %s", (int)response.body,
                     (int)response.length, response.keep_alive, rows[i].head);
        assert_int_equal(response.size, strlen(rows[i].head));
    }
}

static void test_a_response_in_full(void **state)
{
    (void)state;
    struct str bytes = STR("HTTP/1.1 101 Switch it\xe9 now\r\nUpgrade: websocket\r\n"
                           "Connection: upgrade, x\r\nX: 1\r\nY: 2\r\n\r\n\x81\x01z");
    assert_int_equal(parse_response(bytes, false), HTTP_PARSED);
    assert_int_equal(response.size, bytes.len - 3);
    assert_int_equal(response.status, 101);
    assert_int_equal(response.minor, 1);
    assert_str(response.reason, "Switch it\xe9 now");
    assert_str(response.upgrade, "websocket");
    assert_false(response.has_length);
    assert_int_equal(response.field_count, 4);
    assert_true(response.fields[2].hop_by_hop);
    assert_false(response.fields[3].hop_by_hop);
}

static void test_phrases(void **state)
{
    (void)state;
    assert_string_equal(http_status_phrase(431), "Request Header Fields Too Large");
    assert_string_equal(http_status_phrase(299), "Unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plain_get),
        cmocka_unit_test(test_what_follows_the_head_is_left_alone),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_origin_and_asterisk_forms),
        cmocka_unit_test(test_options_of_a_whole_server),
        cmocka_unit_test(test_h02_the_host_field_does_not_decide),
        cmocka_unit_test(test_h04_length_and_coding_together),
        cmocka_unit_test(test_h05_more_than_one_length),
        cmocka_unit_test(test_h06_white_space_before_the_colon),
        cmocka_unit_test(test_h07_transfer_encodings),
        cmocka_unit_test(test_h08_empty_names),
        cmocka_unit_test(test_h09_lengths_that_are_no_number),
        cmocka_unit_test(test_h11_what_connection_can_name_away),
        cmocka_unit_test(test_connection_options_are_bounded),
        cmocka_unit_test(test_h13_a_request_line_without_a_method),
        cmocka_unit_test(test_request_lines_that_are_none),
        cmocka_unit_test(test_h28_versions),
        cmocka_unit_test(test_h31_separators_that_parsers_differ_on),
        cmocka_unit_test(test_h41_connect_authorities),
        cmocka_unit_test(test_h46_connect_with_a_body),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_h49_http_1_0),
        cmocka_unit_test(test_line_ends_and_values),
        cmocka_unit_test(test_h25_expectations),
        cmocka_unit_test(test_persistence),
        cmocka_unit_test(test_upgrades),
        cmocka_unit_test(test_credentials),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_too_many_fields),
        cmocka_unit_test(test_h34_bad_responses),
        cmocka_unit_test(test_bodies_of_responses),
        cmocka_unit_test(test_a_response_in_full),
        cmocka_unit_test(test_phrases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
