#include "filters/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_globs(void **state)
{
    (void)state;
    static const struct {
        const char *glob, *path;
        bool matches;
    } rows[] = {
        {"/", "/", true},
        {"/", "", false},
        {"/", "/x", false},
        {"*", "", true},
        {"*", "/a/b", true},
        {"/a*", "/a", true},
        {"/a*b*c", "/aXbYc", true},
        {"/a*b*c", "/abbbcc", true},
        {"/a*b*c", "/abbbcd", false},
        {"/**/x", "/a/b/x", true},
        {"/?", "/", false},
        {"/?", "/%20", true},
        {"/%3F", "/x", false},
        {"/a%3fb", "/a%3Fb", true},
        {"/é", "/%c3%a9", true},
        {"/a+b", "/a%2Bb", true},
        {"/a%252fb", "/a%252fb", true},
        {"*.git/info/refs", "/o/r.git/info/refs", true},
        {"/a;b", "/a;b", true},
        {"//a", "//a", true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (path_matches(str_of(rows[i].glob), str_of(rows[i].path)) != rows[i].matches)
            fail_msg("%s against %s", rows[i].glob, rows[i].path);
}

static void test_two_readings_are_none(void **state)
{
    (void)state;
    static const char *const ambiguous[] = {"/.",     "/..",         "/../a",   "/a/../b", "/a/./b",
                                            "/a/%2e", "/a/%2e%2E/b", "/a/.%2e", "/a%2fb",  "/a%2Fb",
                                            "/a\\b",  "/a%5Cb",      "/%",      "/%4",     "/%4g",
                                            "/a%00",  "/..;/b",      "/a/.;x/", "/%2e;%2f"};
    static const char *const plain[] = {"/",          "",       "*",       "/...", "/.a",
                                        "/a.",        "/a..b/", "/a;/..x", "/;..", "/.well-known/x",
                                        "/%2e%2e%2e", "//"};
    for (size_t i = 0; i < sizeof(ambiguous) / sizeof(ambiguous[0]); i++) {
        if (!path_is_ambiguous(str_of(ambiguous[i])))
            fail_msg("%s is ambiguous", ambiguous[i]);
        assert_false(path_matches(STR("*"), str_of(ambiguous[i])));
    }
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        if (path_is_ambiguous(str_of(plain[i])))
            fail_msg("%s is plain", plain[i]);
}

static void test_what_some_servers_shorten(void **state)
{
    (void)state;
    static const struct {
        const char *glob, *path;
        bool always, ever;
    } rows[] = {
        {"/private/*", "/private/a", true, true},
        {"/private/*", "//private/a", false, true},
        {"/private/*", "/private//a", true, true},
        {"/private/*", "/;x/private/a", false, true},
        {"/private/*", "/private;x/a", false, true},
        {"/private/*", "/private;x=%2e/a", false, true},
        {"/private/*", "/private/a;x", true, true},
        {"/private/*", "/public/a;/private/a", false, false},
        {"/private", "/private;x", false, true},
        {"/private", "/private;", false, true},
        {"/private", "/private;x/;y", false, false},
        {"/private/", "/private;x/;y", false, true},
        {"*/private/*", "/a//private//b", true, true},
        {"/pub/*.txt", "/pub/secret;.txt", false, true},
        {"/*/info", "//info", false, true},
        {"/a;b/*", "/a;b/c", true, true},
        {"/a;b/*", "//a;b/c", false, true},
        {"/a;b/*", "/a/c", false, false},
        {"/to/https://*", "/to/https://x", true, true},
        {"/to/https://*", "/to/https:/x", false, false},
        {"/to/*", "/to/https://x;y", true, true},
        {"/", "//", false, true},
        {"*", "//;", true, true},
        {"", ";", false, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (path_matches(str_of(rows[i].glob), str_of(rows[i].path)) != rows[i].always)
            fail_msg("%s against %s, however it is read", rows[i].glob, rows[i].path);
        if (path_may_match(str_of(rows[i].glob), str_of(rows[i].path)) != rows[i].ever)
            fail_msg("%s against %s, in one reading", rows[i].glob, rows[i].path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_globs),
        cmocka_unit_test(test_two_readings_are_none),
        cmocka_unit_test(test_what_some_servers_shorten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
