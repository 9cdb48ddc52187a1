#include "launcher/gitconfig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

struct seen {
    char text[512];
    size_t len;
};

static bool remember(void *context, const struct gitconfig_entry *entry)
{
    struct seen *seen = context;
    seen->len +=
        (size_t)snprintf(seen->text + seen->len, sizeof(seen->text) - seen->len, "%s|%s|%s|%s;",
                         entry->section, entry->subsection != NULL ? entry->subsection : "-",
                         entry->name, entry->value != NULL ? entry->value : "-");
    return true;
}

static void assert_reads(const char *text, enum gitconfig_end end, const char *entries)
{
    struct seen seen = {.text = ""};
    assert_int_equal(gitconfig_read(text, strlen(text), remember, &seen), end);
    assert_string_equal(seen.text, entries);
}

static void test_what_git_writes_is_plain(void **state)
{
    (void)state;
    assert_reads("[core]\n\trepositoryformatversion = 0\n\tBare = false\n", GITCONFIG_PLAIN,
                 "core|-|repositoryformatversion|0;core|-|bare|false;");
    assert_reads("[Remote \"Or \\\"i\\\\gin\"]\n\turl = \"a;b # c\"  # note\n; more\n\tx",
                 GITCONFIG_PLAIN, "remote|Or \"i\\gin|url|a;b # c;remote|Or \"i\\gin|x|-;");
    assert_reads("[a] k = v  w \t\n[b]", GITCONFIG_PLAIN, "a|-|k|v  w;");
    assert_reads("[a]k=\"x\\ty\\n\"z", GITCONFIG_PLAIN, "a|-|k|x\ty\nz;");
    assert_reads("", GITCONFIG_PLAIN, "");
}

static void test_other_spellings_are_read_and_told(void **state)
{
    (void)state;
    assert_reads("[core]\n\thooks\\\nPath = x", GITCONFIG_MALFORMED, "");
    assert_reads("[core]\n\thooksPath = a\\\nb", GITCONFIG_ODD, "core|-|hookspath|ab;");
    assert_reads("[core]\r\n\thooksPath = a\r\n", GITCONFIG_ODD, "core|-|hookspath|a;");
    assert_reads("\xef\xbb\xbf[core]\nx=1", GITCONFIG_ODD, "core|-|x|1;");
    assert_reads("[a.B]\nx=1", GITCONFIG_ODD, "a.b|-|x|1;");
    assert_reads("[a]\nx=1\\b", GITCONFIG_ODD, "a|-|x|1\b;");
}

static void test_what_git_refuses_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[",          "[]",           "[a",        "[a \"b]",      "[a \"b\" ]",  "[a b]",
        "[a]\n1x=2",  "[a]\nx y",     "[a]\nx=\"", "[a]\nx=\\q",   "[a]\nx=\"\n", "[a]\n=x",
        "[a]\nx_y=1", "[a \"b\nc\"]", "[a\n]",     "[a]\nx=\\\x01"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct seen seen = {.text = ""};
        if (gitconfig_read(texts[i], strlen(texts[i]), remember, &seen) != GITCONFIG_MALFORMED)
            fail_msg("taken: %s", texts[i]);
    }
}

static void test_the_place_of_an_entry_is_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *before, *after;
    } rows[] = {
        {"[core]\n\tbare = false\n\tworktree = ../../../a\n\tfilemode = true\n",
         "[core]\n\tbare = false\n\tfilemode = true\n"},
        {"[core]\n\tworktree = /x", "[core]\n"},
        {"[core] worktree = a\n[x]\n", "[core][x]\n"},
        {"[core]\nworktree\n\tWorkTree = \"a\n", "[core]\n\tWorkTree = \"a\n"},
        {"[core]\n\tworktree = a\\\n  b\n\tbare = true\n", "[core]\n\tbare = true\n"},
        {"[core \"x\"]\n\tworktree = a\n[cor]\n\tworktree = b\n",
         "[core \"x\"]\n\tworktree = a\n[cor]\n\tworktree = b\n"},
        {"[core]\n\tworktree = a\n[b]\n\tc = d\n[core]\n\tworktree = e\n",
         "[core]\n[b]\n\tc = d\n[core]\n"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), "%s", rows[i].before);
        text[gitconfig_without_worktree(text, strlen(text))] = '\0';
        assert_string_equal(text, rows[i].after);
        /* And of every part of it the rest is still in its place. */
        for (size_t len = 0; len <= strlen(rows[i].before); len++) {
            memcpy(text, rows[i].before, len);
            assert_true(gitconfig_without_worktree(text, len) <= len);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_git_writes_is_plain),
        cmocka_unit_test(test_other_spellings_are_read_and_told),
        cmocka_unit_test(test_what_git_refuses_is_refused),
        cmocka_unit_test(test_the_place_of_an_entry_is_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
