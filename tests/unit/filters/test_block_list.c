#include "asked.h"

#include <unistd.h>

static char directory[] = "/tmp/block-list-XXXXXX";
static char config_path[96];

static const char *in_directory(const char *name)
{
    static char path[96];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return path;
}

static void write_text(const char *name, const char *text)
{
    FILE *file = fopen(in_directory(name), "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static const char *with_keys(const char *keys)
{
    char text[256];
    snprintf(text, sizeof(text), "[filter f]\nmodule = block-list\n%s", keys);
    write_text("gateway.ini", text);
    return config_path;
}

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(config_path, sizeof(config_path), "%s", in_directory("gateway.ini"));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const names[] = {"gateway.ini", "a.txt", "b.txt"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unlink(in_directory(names[i]));
    return rmdir(directory);
}

static void names_and_what_is_below_them(void **state)
{
    (void)state;
    struct asked list;
    write_text("a.txt", "# bad ones\nBad.Test  # yes\r\n\nb\xc3\xbc"
                        "cher.test.\nx.deep.test\n");
    write_text("b.txt", "other.test");
    asked_open(&list, with_keys("file = a.txt\nfile = b.txt\n"));
    static const char *const blocked[] = {"bad.test",           "a.bad.test",  "a.b.bad.test",
                                          "xn--bcher-kva.test", "x.deep.test", "other.test"};
    static const char *const others[] = {"test",        "xbad.test", "bad.test.good", "deep.test",
                                         "y.deep.test", "192.0.2.1", "2001:db8::1"};
    for (size_t i = 0; i < sizeof(blocked) / sizeof(blocked[0]); i++)
        DENIES(&list, "its name is on a block list", .host = blocked[i]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        PASSES(&list, .host = others[i]);
    /* Both are watched and are in the digest. */
    assert_int_equal(list.config->doc.file_count, 3);
    asked_close(&list);

    asked_open(&list, with_keys("file = a.txt\nsubdomains = no\n"));
    DENIES(&list, "its name is on a block list", .host = "bad.test");
    PASSES(&list, .host = "a.bad.test");
    asked_close(&list);
}

static void a_changed_list_is_another_configuration(void **state)
{
    (void)state;
    struct asked before, after;
    write_text("a.txt", "bad.test\n");
    asked_open(&before, with_keys("file = a.txt\n"));
    write_text("a.txt", "worse.test\n");
    asked_open(&after, with_keys("file = a.txt\n"));
    assert_memory_not_equal(before.config->sha256, after.config->sha256, 32);
    PASSES(&after, .host = "bad.test");
    asked_close(&before);
    asked_close(&after);
}

static void a_long_list(void **state)
{
    (void)state;
    enum { NAMES = 100000 };
    struct asked list;
    char name[64];
    FILE *file = fopen(in_directory("a.txt"), "w");
    for (int i = 0; i < NAMES; i++)
        fprintf(file, "n%d.bad.test\nn%d.bad.test\n", i, i);
    assert_int_equal(fclose(file), 0);
    asked_open(&list, with_keys("file = a.txt\n"));
    for (int i = 0; i < NAMES; i += 7) {
        snprintf(name, sizeof(name), "www.n%d.bad.test", i);
        DENIES(&list, "its name is on a block list", .host = name);
        snprintf(name, sizeof(name), "m%d.bad.test", i);
        PASSES(&list, .host = name);
    }
    asked_close(&list);
}

static void assert_said(const char *keys, const char *line_and_text)
{
    char expected[256];
    snprintf(expected, sizeof(expected), "%s:%s\n", config_path, line_and_text);
    assert_faulty(with_keys(keys), expected);
}

static void faults_have_their_line(void **state)
{
    (void)state;
    write_text("a.txt", "good.test\n192.0.2.1\n");
    assert_said("file = a.txt\n",
                "3: [filter f] file: a.txt:2: '192.0.2.1' is not a name: a name that "
                "ends in a number is neither a host name nor an IPv4 address in its one form");
    write_text("a.txt", "a b\ngood.test\n*.bad.test\n\nworse..test\n");
    assert_said("file = a.txt\n", "3: [filter f] file: a.txt:1: 'a b' is not a name: only letters, "
                                  "digits, '-', '_' and '.' can be in a host name; nor is what "
                                  "stands on line 3, 5");
    write_text("a.txt", "# nothing yet\n");
    assert_said("file = a.txt\n", "3: [filter f] file: a.txt has no name in it");
    assert_said("subdomains = no\n", "1: [filter f]: it has no file");
    write_text("a.txt", "good.test\n");
    assert_said("file = a.txt\nsubdomains = maybe\n",
                "4: [filter f] subdomains: 'maybe' is neither yes nor no");
}

static void a_file_that_is_not_there(void **state)
{
    (void)state;
    char expected[256];
    snprintf(expected, sizeof(expected),
             "%s:3: [filter f] file: %s/none.txt: No such file or directory\n", config_path,
             directory);
    assert_faulty(with_keys("file = none.txt\n"), expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_what_is_below_them),
        cmocka_unit_test(a_changed_list_is_another_configuration),
        cmocka_unit_test(a_long_list),
        cmocka_unit_test(faults_have_their_line),
        cmocka_unit_test(a_file_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
