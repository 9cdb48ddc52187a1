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

static void assert_harmless(const char *text)
{
    char why[128] = "";
    if (!gitconfig_harmless(text, strlen(text), why, sizeof(why)))
        fail_msg("%s: %s", text, why);
}

static void assert_refused(const char *text, const char *expected)
{
    char why[128] = "";
    if (gitconfig_harmless(text, strlen(text), why, sizeof(why)))
        fail_msg("taken: %s", text);
    assert_string_equal(why, expected);
}

static void test_new_repositories_of_git_are_harmless(void **state)
{
    (void)state;
    assert_harmless(
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
        "\tlogallrefupdates = true\n\tignorecase = true\n\tprecomposeunicode = true\n"
        "[remote \"origin\"]\n\turl = https://h.example/a/b.git\n"
        "\tfetch = +refs/heads/*:refs/remotes/origin/*\n\ttagOpt = --no-tags\n"
        "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n\trebase = true\n"
        "[user]\n\tname = A \"B\" C\n\temail = a@b\n[commit]\n\tgpgsign = false\n");
    static const char *const urls[] = {"git@h.example:a/b.git",
                                       "ssh://git@h.example:22/a",
                                       "/srv/a.git",
                                       "../a",
                                       "file:///srv/a",
                                       "git://h/a",
                                       "[::1]:a",
                                       "h.example:a"};
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        char text[128];
        snprintf(text, sizeof(text), "[remote \"o\"]\n\turl = %s\n", urls[i]);
        assert_harmless(text);
    }
}

static void test_what_runs_or_reads_something_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const keys[] = {"core.hooksPath",
                                       "core.fsmonitor",
                                       "core.sshCommand",
                                       "core.pager",
                                       "core.editor",
                                       "core.askPass",
                                       "core.worktree",
                                       "core.attributesFile",
                                       "core.excludesFile",
                                       "core.gitProxy",
                                       "core.alternateRefsCommand",
                                       "include.path",
                                       "alias.st",
                                       "credential.helper",
                                       "gpg.program",
                                       "diff.external",
                                       "http.proxy",
                                       "protocol.allow",
                                       "sequence.editor",
                                       "pager.log",
                                       "uploadpack.packObjectsHook",
                                       "init.templateDir",
                                       "extensions.worktreeConfig",
                                       "interactive.diffFilter",
                                       "extensions.partialClone",
                                       "remote.vcs",
                                       "user.signingKey",
                                       "web.browser"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char text[128], lower[64];
        const char *dot = strchr(keys[i], '.');
        snprintf(text, sizeof(text), "[%.*s]\n\t%s = true\n", (int)(dot - keys[i]), keys[i],
                 dot + 1);
        snprintf(lower, sizeof(lower), "%s", keys[i]);
        for (char *p = lower; *p != '\0'; p++)
            *p = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
        assert_refused(text, lower);
    }
    static const char *const below[] = {
        "remote promisor", "remote uploadpack", "remote receivepack",  "remote vcs",
        "remote proxy",    "filter clean",      "diff textconv",       "merge driver",
        "url insteadOf",   "includeIf path",    "branch mergeoptions", "credential helper"};
    for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++) {
        char text[128], why[128];
        const char *space = strchr(below[i], ' ');
        snprintf(text, sizeof(text), "[%.*s \"x\"]\n\t%s = true\n", (int)(space - below[i]),
                 below[i], space + 1);
        if (gitconfig_harmless(text, strlen(text), why, sizeof(why)))
            fail_msg("taken: %s", text);
    }
}

static void test_values_are_judged(void **state)
{
    (void)state;
    static const char *const urls[] = {"ext::sh -c x", "fd::3",       "-oProxyCommand=x",
                                       "evil://x",     "ssh://-o/x",  "a@-oProxyCommand=x:y",
                                       "ssh://a@-o/x", "HTTPS://h/x", "\"a\\nb\"",
                                       "x://y",        "a b://c",     "http::x"};
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        char text[128];
        snprintf(text, sizeof(text), "[remote \"o\"]\n\turl = %s\n", urls[i]);
        assert_refused(text, "remote.o.url");
    }
    assert_refused("[remote \"o\"]\n\turl\n", "remote.o.url");
    assert_refused("[remote \"-o\"]\n\turl = a\n", "remote.-o.url");
    assert_refused("[branch \"m\"]\n\tremote = ext::x\n", "branch.m.remote");
    assert_refused("[submodule \"m\"]\n\tupdate = !x\n", "submodule.m.update");
    assert_refused("[commit]\n\tgpgsign = true\n", "commit.gpgsign");
    assert_refused("[core]\n\tbare = maybe\n", "core.bare");
    assert_refused("[core \"x\"]\n\tbare = true\n", "core.x.bare");
    assert_refused("[core]\n\tbare = \\\ntrue\n", "an unusual spelling");
    assert_refused("core\n[", ".core");
    assert_refused("[core", "not a configuration");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_git_writes_is_plain),
        cmocka_unit_test(test_other_spellings_are_read_and_told),
        cmocka_unit_test(test_what_git_refuses_is_refused),
        cmocka_unit_test(test_new_repositories_of_git_are_harmless),
        cmocka_unit_test(test_what_runs_or_reads_something_is_refused_by_name),
        cmocka_unit_test(test_values_are_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
