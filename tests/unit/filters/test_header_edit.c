#include "asked.h"
#include "filters/field.h"

static void sets_and_removes_in_order(void **state)
{
    (void)state;
    struct asked edit;
    asked_open(&edit, "[filter f]\nmodule = header-edit\nset = X-Team: build: 7\nremove = "
                      "Cookie\nset-secret = X-Key: s\n");
    PASSES(&edit, .path = "/");
    assert_string_equal(edit.edits, "set X-Team=build: 7;remove Cookie;set X-Key=s;");
    PASSES(&edit, .opaque = true);
    assert_string_equal(edit.edits, "");
    asked_close(&edit);
}

static void some_fields_are_nobodys(void **state)
{
    (void)state;
    static const char *const theirs[] = {"Host",
                                         "content-length",
                                         "Transfer-Encoding",
                                         "Connection",
                                         "TE",
                                         "Trailer",
                                         "Upgrade",
                                         "Via",
                                         "Keep-Alive",
                                         "Proxy-Connection",
                                         "proxy-x",
                                         "Expect",
                                         "Max-Forwards",
                                         "HTTP2-Settings",
                                         "",
                                         "a b",
                                         "a:",
                                         "\xc3\xa4"};
    for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++)
        assert_false(field_is_editable(str_of(theirs[i])));
    assert_true(field_is_editable(STR("Authorization")));
    assert_true(field_is_editable(STR("x")));
    assert_false(field_value_is_valid(STR("a\r\nb")));
    assert_false(field_value_is_valid(STR("a\0b")));
    assert_false(field_value_is_valid(STR("a ")));
    assert_true(field_value_is_valid(STR("a\tb \xc3\xa4")));
}

static void faults_have_their_line(void **state)
{
    (void)state;
    assert_faulty("[filter f]\nmodule = header-edit\n",
                  "gateway.ini:1: [filter f]: it has neither set nor remove\n");
    assert_faulty(
        "[filter f]\nmodule = header-edit\nset = Host: x\n",
        "gateway.ini:3: [filter f] set: Host frames the message or belongs to one hop: no "
        "filter changes it\n");
    assert_faulty("[filter f]\nmodule = header-edit\nset = X\n",
                  "gateway.ini:3: [filter f] set: 'X' is not NAME: VALUE\n");
    assert_faulty("[filter f]\nmodule = header-edit\nremove = X: y\n",
                  "gateway.ini:3: [filter f] remove: 'X: y' is not the name of a field\n");
    assert_faulty("[filter f]\nmodule = header-edit\nadd = X: y\n",
                  "gateway.ini:3: [filter f] add: unknown key\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_and_removes_in_order),
        cmocka_unit_test(some_fields_are_nobodys),
        cmocka_unit_test(faults_have_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
