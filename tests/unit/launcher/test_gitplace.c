#include "launcher/gitplace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static void test_places_are_known_by_their_names(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        enum gitplace place;
    } rows[] = {
        {"/w/.git", GITPLACE_MAIN},
        {"../.git", GITPLACE_MAIN},
        {".git", GITPLACE_MAIN},
        {"/w/.git/worktrees/a", GITPLACE_WORKTREE},
        {"/w/.git/worktrees/.git/worktrees/a", GITPLACE_WORKTREE},
        {"../.git/modules/a", GITPLACE_MODULE},
        {"/w/.git/modules/a/b/modules/c", GITPLACE_MODULE},
        {"/w/.git/worktrees/a/modules/b", GITPLACE_MODULE},
        {"/w/.git/modules/a/worktrees/b", GITPLACE_WORKTREE},
        {"/w/.git/modules/worktrees/b", GITPLACE_MODULE},
        {"/w/.git/modules/a/worktrees", GITPLACE_MODULE},
        {"/w/.git/modules/a/worktrees/b/c", GITPLACE_MODULE},
        {"/w/.git/worktrees/w/modules/a/worktrees/b", GITPLACE_WORKTREE},
        {"/w", GITPLACE_NONE},
        {"", GITPLACE_NONE},
        {"/", GITPLACE_NONE},
        {"/w/.git/", GITPLACE_NONE},
        {"/w/.git/modules", GITPLACE_NONE},
        {"/w/.git/modules/", GITPLACE_NONE},
        {"/w/.git/worktrees/", GITPLACE_NONE},
        {"/w/.git/worktrees/a/", GITPLACE_NONE},
        {"/w/.git/worktrees/a/b", GITPLACE_NONE},
        {"/w/.git/modules/a/", GITPLACE_NONE},
        {"/w/.git/modules//a", GITPLACE_NONE},
        {"/w/.git//modules/a", GITPLACE_NONE},
        {"/w/.git/./modules/a", GITPLACE_NONE},
        {"/w/.git/modules/..", GITPLACE_NONE},
        {"/w/.git/modules/a/../../../evil", GITPLACE_NONE},
        {"/w/.git/modules/./a", GITPLACE_NONE},
        {"/w/.git/worktrees/..", GITPLACE_NONE},
        {"/w/.git/worktrees/../../evil", GITPLACE_NONE},
        {"/w/.GIT/modules/a", GITPLACE_NONE},
        {"/w/x.git/modules/a", GITPLACE_NONE},
        {"/w/.gitx/modules/a", GITPLACE_NONE},
        {"/w/.git/Modules/a", GITPLACE_NONE},
        {"/w/.git/modules/a/.git/evil", GITPLACE_NONE},
        {"/w/.git/modules/.git", GITPLACE_MAIN},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (gitplace_of(rows[i].path, strlen(rows[i].path)) != rows[i].place)
            fail_msg("%s", rows[i].path);
}

static void test_only_what_is_within_the_length_counts(void **state)
{
    (void)state;
    const char path[] = "/w/.git/worktrees/a/modules/b";
    static const struct {
        size_t len;
        enum gitplace place;
    } rows[] = {{7, GITPLACE_MAIN},      {8, GITPLACE_NONE},   {17, GITPLACE_NONE},
                {19, GITPLACE_WORKTREE}, {20, GITPLACE_NONE},  {27, GITPLACE_NONE},
                {28, GITPLACE_NONE},     {29, GITPLACE_MODULE}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (gitplace_of(path, rows[i].len) != rows[i].place)
            fail_msg("%zu", rows[i].len);
}

static bool reads_as(const char *bytes, size_t len, const char *expected)
{
    const char *path;
    size_t path_len;
    return gitplace_read_link(bytes, len, &path, &path_len) && path_len == strlen(expected) &&
           memcmp(path, expected, path_len) == 0;
}

static void test_a_link_is_the_one_line_that_git_writes(void **state)
{
    (void)state;
    const char whole[] = "gitdir: ../.git/modules/a b\n";
    const size_t len = sizeof(whole) - 1;
    assert_true(reads_as(whole, len, "../.git/modules/a b"));
    const char *path;
    size_t path_len;
    for (size_t part = 0; part < len; part++)
        assert_false(gitplace_read_link(whole, part, &path, &path_len));
    /* Everything that git would read as another path than we do, and what it would not take. */
    static const char *const others[] = {"gitdir: a\n\n",
                                         "gitdir: a\r\n",
                                         "gitdir: a\nb\n",
                                         "gitdir:a\n",
                                         "Gitdir: a\n",
                                         " gitdir: a\n",
                                         "gitdir: \n",
                                         "gitdir: a\tb\n",
                                         "gitdir: a\x7f\n",
                                         "\xef\xbb\xbfgitdir: a\n",
                                         "gitdir: a\ngitdir: b\n"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (gitplace_read_link(others[i], strlen(others[i]), &path, &path_len))
            fail_msg("taken: %s", others[i]);
    const char nul[] = "gitdir: /evil\0/.git/modules/a\n";
    assert_false(gitplace_read_link(nul, sizeof(nul) - 1, &path, &path_len));
}

static void test_the_common_directory_is_two_above(void **state)
{
    (void)state;
    const char whole[] = "../..\n";
    for (size_t part = 0; part <= strlen(whole); part++)
        assert_int_equal(gitplace_is_common(whole, part), part == strlen(whole));
    static const char *const others[] = {"..\n",       "../..",     "../../\n",  "../..\n\n",
                                         "../../..\n", "/w/.git\n", "../..\r\n", " ../..\n"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(gitplace_is_common(others[i], strlen(others[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places_are_known_by_their_names),
        cmocka_unit_test(test_only_what_is_within_the_length_counts),
        cmocka_unit_test(test_a_link_is_the_one_line_that_git_writes),
        cmocka_unit_test(test_the_common_directory_is_two_above),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
