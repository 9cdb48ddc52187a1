#include "asked.h"

static void methods(void **state)
{
    (void)state;
    struct asked guard;
    asked_open(&guard, "[filter f]\nmodule = http-guard\nmethod = GET, HEAD\nmethod = QUERY\n");
    PASSES(&guard, .method = "GET");
    PASSES(&guard, .method = "QUERY");
    DENIES(&guard, "the method is not allowed", .method = "POST");
    DENIES(&guard, "the method is not allowed", .method = "get");
    asked_close(&guard);
}

static void paths(void **state)
{
    (void)state;
    struct asked guard;
    asked_open(&guard, "[filter f]\nmodule = http-guard\npath = /simple/*\npath = /packages/*\n"
                       "deny-path = */private/*\n");
    PASSES(&guard, .path = "/simple/flask/");
    PASSES(&guard, .path = "/packages/x?y=/private/");
    DENIES(&guard, "the path is not allowed", .path = "/");
    DENIES(&guard, "the path is not allowed", .path = "/simple/private/x");
    DENIES(&guard, "the path is not allowed", .path = "/simple/%70rivate/x");
    DENIES(&guard, "servers may read the path in two ways", .path = "/simple/../private/x");
    DENIES(&guard, "servers may read the path in two ways", .path = "/simple/%2e%2e/x?a");
    asked_close(&guard);
    asked_open(&guard, "[filter f]\nmodule = http-guard\ndeny-path = /admin*\n");
    PASSES(&guard, .path = "/");
    DENIES(&guard, "servers may read the path in two ways", .path = "/x/../admin");
    asked_close(&guard);
}

static void fields(void **state)
{
    (void)state;
    struct asked guard;
    asked_open(&guard, "[filter f]\nmodule = http-guard\nheader = X-Team: build-*\n"
                       "deny-header = Cookie\ndeny-header = User-Agent: *bot*\n");
    PASSES(&guard, .fields = {"x-team", "BUILD-7", "User-Agent", "curl"});
    DENIES(&guard, "the header needs X-Team: build-*", .fields = {"X-Team", "ops"});
    DENIES(&guard, "the header needs X-Team: build-*", .path = "/");
    /* Whichever of two a server takes, it is not another one. */
    DENIES(&guard, "the header needs X-Team: build-*",
           .fields = {"X-Team", "build-1", "X-Team", "ops"});
    DENIES(&guard, "the header may not have Cookie", .fields = {"X-Team", "build-1", "cookie", ""});
    DENIES(&guard, "the header may not have User-Agent: *bot*",
           .fields = {"X-Team", "build-1", "User-Agent", "a", "User-Agent", "A Bot 1"});
    asked_close(&guard);
}

static void bodies(void **state)
{
    (void)state;
    struct asked guard;
    asked_open(&guard, "[filter f]\nmodule = http-guard\nmax-body = 1k\n"
                       "content-type = application/json, text/*\n");
    PASSES(&guard, .body_len = 0);
    PASSES(&guard, .body_len = 1024, .fields = {"Content-Type", "Application/JSON; charset=x"});
    PASSES(&guard, .body_len = 5, .fields = {"Content-Type", "text/plain"});
    DENIES(&guard, "the body has 1025 bytes, 1024 are allowed", .body_len = 1025,
           .fields = {"Content-Type", "text/plain"});
    DENIES(&guard, "the length of the body has to be said before", .body_len = -1,
           .fields = {"Content-Type", "text/plain"});
    DENIES(&guard, "a body of this content type is not allowed", .body_len = 5);
    DENIES(&guard, "a body of this content type is not allowed", .body_len = 5,
           .fields = {"Content-Type", "text/plain", "Content-Type", "image/png"});
    DENIES(&guard, "a body of this content type is not allowed", .body_len = 5,
           .fields = {"Content-Type", "application/jsonx"});
    DENIES(&guard, "a body of this content type is not allowed", .body_len = 5,
           .fields = {"Content-Type", "text"});
    asked_close(&guard);
}

static void what_cannot_be_seen_is_denied_unless_said_otherwise(void **state)
{
    (void)state;
    struct asked guard;
    asked_open(&guard, "[filter f]\nmodule = http-guard\nmethod = GET\n");
    DENIES(&guard, "only requests that can be seen in clear are allowed", .opaque = true);
    asked_close(&guard);
    asked_open(&guard, "[filter f]\nmodule = http-guard\nmethod = GET\nopaque = pass\n");
    PASSES(&guard, .opaque = true);
    DENIES(&guard, "the method is not allowed", .method = "PUT");
    asked_close(&guard);
}

static void faults_have_their_line(void **state)
{
    (void)state;
    assert_faulty("[filter f]\nmodule = http-guard\n",
                  "gateway.ini:1: [filter f]: it asks for nothing\n");
    assert_faulty("[filter f]\nmodule = http-guard\nmethods = GET\n",
                  "gateway.ini:3: [filter f] methods: unknown key; did you mean method?\n");
    assert_faulty("[filter f]\nmodule = http-guard\nmethod = GET,,HEAD\n",
                  "gateway.ini:3: [filter f] method: '' is not a method\n");
    assert_faulty("[filter f]\nmodule = http-guard\npath = simple\n",
                  "gateway.ini:3: [filter f] path: 'simple' is not a path of at most 512 bytes\n");
    assert_faulty("[filter f]\nmodule = http-guard\npath = /a/../b\n",
                  "gateway.ini:3: [filter f] path: servers may read '/a/../b' in two ways\n");
    assert_faulty("[filter f]\nmodule = http-guard\nmax-body = much\n",
                  "gateway.ini:3: [filter f] max-body: it is a SIZE, such as 64k\n");
    assert_faulty("[filter f]\nmodule = http-guard\nmax-body = 1\nmax-body = 2\n",
                  "gateway.ini:4: [filter f] max-body: it stands on line 3 already\n");
    assert_faulty("[filter f]\nmodule = http-guard\ncontent-type = json\n",
                  "gateway.ini:3: [filter f] content-type: 'json' is not a media type\n");
    assert_faulty("[filter f]\nmodule = http-guard\nopaque = yes\n",
                  "gateway.ini:3: [filter f] opaque: 'yes' is neither deny nor pass\n");
    assert_faulty("[filter f]\nmodule = http-guard\nheader = a b: c\n",
                  "gateway.ini:3: [filter f] header: 'a b: c' is neither NAME nor NAME: GLOB\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(methods),
        cmocka_unit_test(paths),
        cmocka_unit_test(fields),
        cmocka_unit_test(bodies),
        cmocka_unit_test(what_cannot_be_seen_is_denied_unless_said_otherwise),
        cmocka_unit_test(faults_have_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
