#include "config/upstream.h"

#include "said.h"

#include <string.h>

struct row {
    const char *text;
    const char *as; /* NULL: refused */
    const char *user, *password;
};

static void check(bool parse(struct config_upstream *, struct str, const char **),
                  const struct row *row)
{
    struct config_upstream upstream = {0};
    char text[UPSTREAM_TEXT_MAX];
    const char *why = NULL;
    bool parsed = parse(&upstream, str_of(row->text), &why);
    if (parsed != (row->as != NULL))
        fail_msg("%s: %s", row->text, parsed ? "was taken" : why);
    if (!parsed) {
        assert_null(strstr(why, "secret"));
        return;
    }
    assert_string_equal(upstream_format(text, &upstream), row->as);
    assert_int_equal(upstream.has_credentials, row->user != NULL);
    assert_string_equal(upstream.user, row->user != NULL ? row->user : "");
    assert_string_equal(upstream.password, row->password != NULL ? row->password : "");
}

static void the_file_says_everything(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"http://proxy.test:3128", "http://proxy.test:3128", NULL, NULL},
        {"HTTP://Proxy.TEST.:3128/", "http://proxy.test:3128", NULL, NULL},
        {"socks5://127.0.0.1:1080", "socks5://127.0.0.1:1080", NULL, NULL},
        {"socks5h://[::1]:1080", "socks5://[::1]:1080", NULL, NULL},
        {"proxy.test:3128", NULL, NULL, NULL},
        {"http://proxy.test", NULL, NULL, NULL},
        {"http://proxy.test:0", NULL, NULL, NULL},
        {"http://proxy.test:3128/path", NULL, NULL, NULL},
        {"http://me:secret@proxy.test:3128", NULL, NULL, NULL},
        {"https://proxy.test:3128", "https://proxy.test:3128", NULL, NULL},
        {"https://proxy.test", NULL, NULL, NULL},
        {"socks4://proxy.test:3128", NULL, NULL, NULL},
        {"ftp://proxy.test:21", NULL, NULL, NULL},
        {"http://", NULL, NULL, NULL},
        {"http://127.1:3128", NULL, NULL, NULL},
        {"", NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check(upstream_parse, &rows[i]);
}

static void urls_may_leave_things_out(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"proxy.test:3128", "http://proxy.test:3128", NULL, NULL},
        {"proxy.test", "http://proxy.test:80", NULL, NULL},
        {"http://proxy.test/", "http://proxy.test:80", NULL, NULL},
        {"http://proxy.test:3128/x?y#z", "http://proxy.test:3128", NULL, NULL},
        {"socks5://proxy.test", "socks5://proxy.test:1080", NULL, NULL},
        {"[::1]:3128", "http://[::1]:3128", NULL, NULL},
        {"http://me:secret@proxy.test:3128", "http://proxy.test:3128", "me", "secret"},
        {"http://me@proxy.test:3128", "http://proxy.test:3128", "me", ""},
        {"http://@proxy.test:3128", "http://proxy.test:3128", NULL, NULL},
        {"http://m%65:%40%2f%3A@proxy.test:3128", "http://proxy.test:3128", "me", "@/:"},
        {"http://me:a:b@c@proxy.test:3128", "http://proxy.test:3128", "me", "a:b@c"},
        {"http://me:%0asecret@proxy.test", NULL, NULL, NULL},
        {"http://me:%zzsecret@proxy.test", NULL, NULL, NULL},
        {"http://me:secret%4@proxy.test", NULL, NULL, NULL},
        {"http://me%3a:secret@proxy.test", NULL, NULL, NULL},
        {"http://:secret@proxy.test", NULL, NULL, NULL},
        {"socks5://me@proxy.test", NULL, NULL, NULL},
        {"https://me:secret@proxy.test", "https://proxy.test:443", "me", "secret"},
        {"file:///etc/passwd", NULL, NULL, NULL},
        {"http:///x", NULL, NULL, NULL},
        {"a b", NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check(upstream_parse_url, &rows[i]);
}

/* RFC 7617 2 has the first as its example; the others end in each of the three ways. */
static void credentials_become_a_header(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"Aladdin:open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="},
        {"a:\xff\xfe", "Basic YTr//g=="},
        {"ab:", "Basic YWI6"},
        {"ab:c~", "Basic YWI6Y34="}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct config_upstream upstream = {0};
        const char *why;
        assert_true(upstream_set_credentials(&upstream, str_of(rows[i][0]), &why));
        assert_string_equal(upstream.authorization, rows[i][1]);
    }
}

static void credentials_are_bounded(void **state)
{
    (void)state;
    struct config_upstream upstream = {0};
    char text[2 * UPSTREAM_SECRET_MAX + 4];
    const char *why;
    memset(text, 'x', sizeof(text));
    text[UPSTREAM_SECRET_MAX] = ':';
    assert_true(
        upstream_set_credentials(&upstream, (struct str){text, 2 * UPSTREAM_SECRET_MAX + 1}, &why));
    assert_int_equal(strlen(upstream.user), UPSTREAM_SECRET_MAX);
    assert_int_equal(strlen(upstream.password), UPSTREAM_SECRET_MAX);
    assert_int_equal(strlen(upstream.authorization), 6 + 511 / 3 * 4 + 4);
    assert_false(
        upstream_set_credentials(&upstream, (struct str){text, 2 * UPSTREAM_SECRET_MAX + 2}, &why));
    static const char *const bad[] = {"", "me", ":secret", "me:sec\nret", "m\te:secret"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(upstream_set_credentials(&upstream, str_of(bad[i]), &why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_says_everything),
        cmocka_unit_test(urls_may_leave_things_out),
        cmocka_unit_test(credentials_become_a_header),
        cmocka_unit_test(credentials_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
