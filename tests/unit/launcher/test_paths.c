#include "launcher/paths.h"

#include "srt/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static void assert_clean(const char *given, const char *expected)
{
    autofree char *clean = path_clean(given);
    assert_string_equal(clean, expected);
}

static void test_clean_takes_out_what_means_nothing(void **state)
{
    (void)state;
    assert_clean("/", "/");
    assert_clean("//a///b/", "/a/b");
    assert_clean("/a/./b/.", "/a/b");
    assert_clean("/a/../b", "/b");
    assert_clean("/../..", "/");
    assert_clean("/a b/\xff\n/c", "/a b/\xff\n/c");
}

static void test_absolute_knows_home_and_directory(void **state)
{
    (void)state;
    struct srt_err err;
    autofree char *home = path_absolute("~/x", "/w", "/home/u", &err);
    autofree char *bare = path_absolute("~", "/w", "/home/u", &err);
    autofree char *relative = path_absolute("x", "/w", "/home/u", &err);
    autofree char *other = path_absolute("~user", "/w", "/home/u", &err);
    assert_string_equal(home, "/home/u/x");
    assert_string_equal(bare, "/home/u/.");
    assert_string_equal(relative, "/w/x");
    assert_string_equal(other, "/w/~user"); /* a file of that name, as in srt */
    assert_null(path_absolute("", "/w", "/home/u", &err));
    assert_null(path_absolute("~/x", "/w", NULL, &err));
}

static void test_within_is_about_components(void **state)
{
    (void)state;
    assert_true(path_within("/a/b", "/a"));
    assert_true(path_within("/a", "/a"));
    assert_true(path_within("/a", "/"));
    assert_false(path_within("/ab", "/a"));
    assert_false(path_within("/a", "/a/b"));
    assert_string_equal(path_below("/a/b/c", "/a"), "b/c");
    assert_string_equal(path_below("/a", "/"), "a");
    assert_string_equal(path_below("/a", "/a"), "");
}

static void test_order_puts_parents_directly_before_children(void **state)
{
    (void)state;
    assert_true(path_compare("/a", "/a/b") < 0);
    assert_true(path_compare("/a/b", "/a-b") < 0);
    assert_true(path_compare("/a-b", "/a/b") > 0);
    assert_true(path_compare("/", "/a") < 0);
    assert_int_equal(path_compare("/a", "/a"), 0);
}

static void test_globs(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *path;
        bool matches;
    } rows[] = {
        {"*.pem", "key.pem", true},
        {"*.pem", "a/key.pem", false},
        {"**/*.pem", "key.pem", true},
        {"**/*.pem", "a/b/key.pem", true},
        {"**/.env", "x.env", false},
        {"a/**", "a", true},
        {"a/**", "a/b/c", true},
        {"a/**/c", "a/c", true},
        {"a/**/c", "a/b/b/c", true},
        {"a/**/c", "a/b/cc", false},
        {"a/*/c", "a/b/c", true},
        {"a/*/c", "a/c", false},
        {"?", "x", true},
        {"?", "xy", false},
        {"[a-c]x", "bx", true},
        {"[!a-c]x", "bx", false},
        {"[^a-c]x", "dx", true},
        {"[]]", "]", true},
        {"[a", "[a", true}, /* never closed: itself */
        {"*", ".hidden", true},
        {"**", "", true},
        {"*a*b*c*d*", "xaxbxcx", false},
        {"**/a/**/b", "a/x/a/b", true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (path_glob_match(rows[i].pattern, rows[i].path) != rows[i].matches)
            fail_msg("%s on %s is not %d", rows[i].pattern, rows[i].path, rows[i].matches);
}

static void test_globs_reach_only_so_deep(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *dir;
        bool reaches;
    } rows[] = {
        {"*.pem", "", true},       {"*.pem", "a", false},     {"*.pem", "x.pem", false},
        {"a/*.pem", "a", true},    {"a/*.pem", "b", false},   {"a/*.pem", "a/b", false},
        {"*/k", "a", true},        {"*/k", "a/k", false},     {"**/k", "a/b/c", true},
        {"a/**/k", "a/b/c", true}, {"a/**/k", "b", false},    {"**", "a/b", true},
        {"a/**", "a", true},       {"[ab]/?/k", "a/x", true}, {"[ab]/?/k", "c/x", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (path_glob_reaches(rows[i].pattern, rows[i].dir) != rows[i].reaches)
            fail_msg("%s below %s", rows[i].pattern, rows[i].dir);
}

static void test_hostile_globs_end(void **state)
{
    (void)state;
    char name[4000], pattern[402];
    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (size_t i = 0; i < 400; i += 2)
        memcpy(pattern + i, "*a", 2);
    memcpy(pattern + 400, "b", 2);
    assert_false(path_glob_match(pattern, name));
}

struct tree {
    char dir[64];
};

static int make_tree(void **state)
{
    static struct tree tree;
    strcpy(tree.dir, "/tmp/srt-paths-XXXXXX");
    if (mkdtemp(tree.dir) == NULL || chdir(tree.dir) != 0)
        return -1;
    mkdir("real", 0700);
    close(open("real/file", O_CREAT | O_WRONLY, 0600));
    if (symlink("real", "link") != 0 || symlink("nowhere/far", "dangling") != 0 ||
        symlink("b", "a") != 0 || symlink("a", "b") != 0 || symlink("../link", "real/up") != 0)
        return -1;
    *state = &tree;
    return 0;
}

static int remove_tree(void **state)
{
    const struct tree *tree = *state;
    static const char *const names[] = {"real/file", "real/up", "link", "dangling", "a", "b"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unlink(names[i]);
    rmdir("real");
    return chdir("/") == 0 && rmdir(tree->dir) == 0 ? 0 : -1;
}

static void assert_resolves(const struct tree *tree, const char *name, const char *expected,
                            enum path_type type, size_t links)
{
    autofree char *absolute = path_join(tree->dir, name);
    autofree char *wanted = expected[0] == '/' ? strdup(expected) : path_join(tree->dir, expected);
    struct path_place place;
    struct srt_err err;
    assert_int_equal(path_resolve(absolute, &place, &err), 0);
    assert_string_equal(place.path, wanted);
    assert_int_equal(place.type, type);
    assert_int_equal(place.link_count, links);
    path_place_free(&place);
}

static void test_resolve_follows_links(void **state)
{
    const struct tree *tree = *state;
    assert_resolves(tree, "real", "real", PATH_DIR, 0);
    assert_resolves(tree, "link/file", "real/file", PATH_FILE, 1);
    assert_resolves(tree, "link/up/file", "real/file", PATH_FILE, 3);
    assert_resolves(tree, "link/../real/./file", "real/file", PATH_FILE, 1);
}

static void test_resolve_says_where_an_absent_name_would_be(void **state)
{
    const struct tree *tree = *state;
    assert_resolves(tree, "link/new/x", "real/new/x", PATH_ABSENT, 1);
    assert_resolves(tree, "dangling", "nowhere/far", PATH_ABSENT, 1);
    assert_resolves(tree, "real/file/x", "real/file/x", PATH_ABSENT, 0);
    assert_resolves(tree, "gone/../real", "real", PATH_DIR, 0);
}

static void test_resolve_refuses_loops(void **state)
{
    const struct tree *tree = *state;
    autofree char *absolute = path_join(tree->dir, "a/x");
    struct path_place place;
    struct srt_err err;
    assert_int_equal(path_resolve(absolute, &place, &err), -1);
    assert_null(place.path);
    assert_non_null(strstr(err.text, "too many symbolic links"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean_takes_out_what_means_nothing),
        cmocka_unit_test(test_absolute_knows_home_and_directory),
        cmocka_unit_test(test_within_is_about_components),
        cmocka_unit_test(test_order_puts_parents_directly_before_children),
        cmocka_unit_test(test_globs),
        cmocka_unit_test(test_globs_reach_only_so_deep),
        cmocka_unit_test(test_hostile_globs_end),
        cmocka_unit_test_setup_teardown(test_resolve_follows_links, make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(test_resolve_says_where_an_absent_name_would_be, make_tree,
                                        remove_tree),
        cmocka_unit_test_setup_teardown(test_resolve_refuses_loops, make_tree, remove_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
