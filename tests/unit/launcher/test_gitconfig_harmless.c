#include "launcher/gitconfig_harmless.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

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

static void test_modules_name_places_and_addresses_only(void **state)
{
    (void)state;
    char why[128];
    static const char *const good[] = {
        "",
        ("[submodule \"a/b\"]\n\tpath = a/b\n\turl = ../x\n\tbranch = main\n\tshallow = true\n"),
        ("[submodule \"a\"]\n\turl = https://h/x\n\tupdate = rebase\n\tignore = all\n"
         "\tdatalad-id = 1-2\n[submodule]\n\trecurse = true\n"),
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!gitconfig_modules_harmless(good[i], strlen(good[i]), why, sizeof(why)))
            fail_msg("%s: %s", good[i], why);
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"[submodule \"a\"]\n\tupdate = !x\n", "submodule.a.update"},
        {"[submodule \"a\"]\n\turl = ext::x\n", "submodule.a.url"},
        {"[submodule \"a\"]\n\turl = -x\n", "submodule.a.url"},
        {"[submodule \"a\"]\n\tpath = ../a\n", "submodule.a.path"},
        {"[submodule \"a\"]\n\tpath = a/../../b\n", "submodule.a.path"},
        {"[submodule \"a\"]\n\tpath = /a\n", "submodule.a.path"},
        {"[submodule \"a\"]\n\tpath = -a\n", "submodule.a.path"},
        {"[submodule \"../a\"]\n\tpath = a\n", "submodule.../a.path"},
        {"[submodule \"a/..\"]\n\tpath = a\n", "submodule.a/...path"},
        {"[submodule \"-a\"]\n\tpath = a\n", "submodule.-a.path"},
        {"[core]\n\tfsmonitor = x\n", "core.fsmonitor"},
        {"[include]\n\tpath = x\n", "include.path"},
        {"<<<<<<< HEAD\n", "not a configuration"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (gitconfig_modules_harmless(bad[i].text, strlen(bad[i].text), why, sizeof(why)))
            fail_msg("taken: %s", bad[i].text);
        assert_string_equal(why, bad[i].why);
    }
}

#define OLD                                                                                  \
    "[core]\n\thooksPath = mine\n[remote \"origin\"]\n\turl = https://h/x\n[branch \"m\"]\n" \
    "\tremote = origin\n\tmerge = refs/heads/m\n[include]\n\tpath = x\n"

static void test_of_a_repository_only_branches_and_submodules_change(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why; /* NULL = good */
    } rows[] = {
        {OLD, NULL},
        {OLD "# a comment\n", NULL},
        {OLD "[branch \"n\"]\n\tremote = origin\n\tmerge = refs/heads/n\n\trebase = true\n", NULL},
        {OLD "[branch \"n\"]\n\tremote = .\n\tpushRemote = origin\n", NULL},
        {OLD "[submodule \"s\"]\n\tactive = true\n\turl = https://h/s\n", NULL},
        {"[core]\n\thooksPath = mine\n[remote \"origin\"]\n\turl = https://h/x\n[include]\n"
         "\tpath = x\n",
         NULL},
        {OLD "[branch \"n\"]\n\tremote = other\n", "branch.n.remote"},
        {OLD "[branch \"n\"]\n\tremote = ../evil\n", "branch.n.remote"},
        {OLD "[branch \"n\"]\n\tremote\n", "branch.n.remote"},
        {OLD "[branch \"n\"]\n\tmerge = x\n", "branch.n.merge"},
        {OLD "[branch \"n\"]\n\tmergeOptions = -s x\n", "branch.n.mergeoptions"},
        {OLD "[submodule \"s\"]\n\tupdate = !x\n", "submodule.s.update"},
        {OLD "[submodule \"s\"]\n\turl = ext::x\n", "submodule.s.url"},
        {OLD "[remote \"more\"]\n\turl = https://h/y\n", "remote.more.url"},
        {OLD "[user]\n\tname = x\n", "user.name"},
        {OLD "[core]\n\thooksPath = mine\n", "core.hookspath"},
        {OLD "[include]\n\tpath = x\n", "include.path"},
        {"[core]\n\thooksPath = mine\n[remote \"origin\"]\n\turl = https://evil/x\n",
         "remote.origin.url"},
        {"[remote \"origin\"]\n\turl = https://h/x\n[core]\n\thooksPath = mine\n",
         "remote.origin.url"},
        {"[core]\n\thooksPath = mine\n", "something is left out"},
        {"", "something is left out"},
        {OLD "[branch \"n\"]\n\tremote = ori\\\ngin\n", "an unusual spelling"},
        {OLD "[x", "not a configuration"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char why[128] = "";
        bool good = gitconfig_changes_harmless(OLD, strlen(OLD), rows[i].text, strlen(rows[i].text),
                                               why, sizeof(why));
        if (good != (rows[i].why == NULL) || (!good && strcmp(why, rows[i].why) != 0))
            fail_msg("%s: %s", rows[i].text, why);
    }
    /* Cut anywhere it is either as before in what lasts, or refused. */
    char why[128];
    const size_t lasts = strlen(OLD) - 1;
    for (size_t len = 0; len < lasts; len++)
        assert_false(gitconfig_changes_harmless(OLD, strlen(OLD), OLD, len, why, sizeof(why)));
    assert_true(gitconfig_changes_harmless("", 0, "", 0, why, sizeof(why)));
    assert_false(gitconfig_changes_harmless("", 0, "[user]\n\tname = x\n", 16, why, sizeof(why)));
}

static void test_entries_cannot_be_spelled_into_each_other(void **state)
{
    (void)state;
    static const char old[] = "[a]\n\tb = c\n[a \"b\"]\n\td\n";
    static const char *const others[] = {
        "[a]\n\tb = c\n[a]\n\td\n", "[a]\n\tb = \"c=a\"\n", "[a \"b\"]\n\tc\n[a \"b\"]\n\td\n",
        "[a]\n\tb = c\n[a \"b\"]\n\td =\n", "[a]\n\tb = c\n[a \"b\"]\n\td\n\td\n"};
    char why[128];
    assert_true(gitconfig_changes_harmless(old, strlen(old), old, strlen(old), why, sizeof(why)));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (gitconfig_changes_harmless(old, strlen(old), others[i], strlen(others[i]), why,
                                       sizeof(why)))
            fail_msg("taken: %s", others[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_repositories_of_git_are_harmless),
        cmocka_unit_test(test_what_runs_or_reads_something_is_refused_by_name),
        cmocka_unit_test(test_values_are_judged),
        cmocka_unit_test(test_modules_name_places_and_addresses_only),
        cmocka_unit_test(test_of_a_repository_only_branches_and_submodules_change),
        cmocka_unit_test(test_entries_cannot_be_spelled_into_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
