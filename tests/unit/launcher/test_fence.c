#include "launcher/fence.h"

#include "srt/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

/* A fence told as lines: `-r` denies reading, `+r` allows it, `+w`, `-w`, `=` keeps; `!r` hides a
 * secret. */
static void fence_of(struct fence *fence, const char *const *lines)
{
    *fence = (struct fence){.protect = protect_default(false)};
    for (size_t i = 0; lines[i] != NULL; i++) {
        static const struct {
            const char *word;
            enum fence_verb verb;
        } verbs[] = {{"-r", FENCE_DENY_READ},   {"!r", FENCE_HIDE_SECRET}, {"+r", FENCE_ALLOW_READ},
                     {"+w", FENCE_ALLOW_WRITE}, {"-w", FENCE_DENY_WRITE},  {"=", FENCE_KEEP}};
        const char *path = strchr(lines[i], '/');
        enum path_type type = PATH_DIR;
        if (strstr(lines[i], ".file") != NULL)
            type = PATH_FILE;
        if (strstr(lines[i], ".absent") != NULL)
            type = PATH_ABSENT;
        if (strstr(lines[i], ".link") != NULL)
            type = PATH_SYMLINK;
        for (size_t v = 0; v < sizeof(verbs) / sizeof(verbs[0]); v++)
            if (strncmp(lines[i], verbs[v].word, strlen(verbs[v].word)) == 0)
                fence_add(fence, verbs[v].verb, path, type, lines[i]);
    }
    fence_seal(fence);
}

#define LINES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void assert_view(const char *const *lines, const char *path, const char *expected)
{
    struct fence fence;
    fence_of(&fence, lines);
    struct fence_view view = fence_view(&fence, path);
    char got[3] = {view.readable ? 'r' : '-', view.writable ? 'w' : '-', '\0'};
    fence_free(&fence);
    if (strcmp(got, expected) != 0)
        fail_msg("%s is %s, not %s", path, got, expected);
}

static void assert_plan(const char *const *lines, const char *expected)
{
    struct fence fence;
    struct fence_plan plan = {0};
    fence_of(&fence, lines);
    fence_plan_make(&plan, &fence);
    char got[2000] = "";
    for (size_t i = 0; i < plan.count; i++) {
        size_t len = strlen(got);
        snprintf(got + len, sizeof(got) - len, "%s%s %s", i > 0 ? ", " : "",
                 fence_act_word(plan.steps[i].act), plan.steps[i].path);
    }
    fence_plan_free(&plan);
    fence_free(&fence);
    assert_string_equal(got, expected);
}

static void test_without_rules_everything_is_read_and_nothing_written(void **state)
{
    (void)state;
    assert_view(LINES("+r /x"), "/etc/passwd", "r-");
    assert_plan(LINES("+r /x"), "");
}

static void test_the_nearest_rule_decides_reads(void **state)
{
    (void)state;
    const char *const *lines = LINES("-r /d", "+r /d/a", "-r /d/a/b", "+r /d/a/b/c");
    assert_view(lines, "/d", "--");
    assert_view(lines, "/d/x", "--");
    assert_view(lines, "/d/a/x", "r-");
    assert_view(lines, "/d/a/b/x", "--");
    assert_view(lines, "/d/a/b/c/x", "r-");
    assert_plan(lines, "hidden /d, visible /d/a, hidden /d/a/b, visible /d/a/b/c");
}

static void test_an_allow_lifts_a_deny_of_the_same_place_but_no_secret(void **state)
{
    (void)state;
    assert_view(LINES("-r /d", "+r /d"), "/d/x", "r-");
    assert_view(LINES("-r /d", "+w /d"), "/d/x", "rw");
    assert_view(LINES("!r /d", "+r /d", "+r /d/x", "+w /d/x"), "/d/x", "--");
}

static void test_a_denied_write_beats_every_allowed_one(void **state)
{
    (void)state;
    assert_view(LINES("+w /w", "-w /w/r", "+w /w/r/x"), "/w/r/x", "r-");
    assert_view(LINES("-w /w", "+w /w/x"), "/w/x", "r-");
    assert_plan(LINES("+w /w", "-w /w/r", "+w /w/r/x"), "writable /w, read-only /w/r");
    assert_plan(LINES("-w /w", "+w /w/x"), "");
}

/* F13 */
static void test_writable_below_visible_below_hidden(void **state)
{
    (void)state;
    const char *const *lines = LINES("-r /D", "+r /D/ws", "+w /D/ws/p");
    assert_view(lines, "/D/ws/p/f", "rw");
    assert_view(lines, "/D/ws/f", "r-");
    assert_view(lines, "/D/x", "--");
    assert_plan(lines, "hidden /D, visible /D/ws, writable /D/ws/p");
}

static void test_visible_inside_hidden_inside_writable_is_writable_again(void **state)
{
    (void)state;
    const char *const *lines = LINES("+w /w", "-r /w/s", "+r /w/s/a");
    assert_view(lines, "/w/s/a/f", "rw");
    assert_view(lines, "/w/s", "--");
    assert_plan(lines, "writable /w, hidden /w/s, writable /w/s/a");
}

/* F14, F15 */
static void test_a_hidden_file_stays_hidden_in_every_combination(void **state)
{
    (void)state;
    assert_view(LINES("-r /h", "+r /h/w", "-r /h/w/.file"), "/h/w/.file", "--");
    assert_view(LINES("+w /w", "-w /w/s", "-r /w/s/.file"), "/w/s/.file", "--");
    assert_plan(LINES("+w /w", "-w /w/s", "-r /w/s/.file"),
                "writable /w, read-only /w/s, hidden /w/s/.file");
}

/* F05, F06: what could be renamed to take the guard away is a mount point itself. */
static void test_every_directory_above_a_guard_is_pinned(void **state)
{
    (void)state;
    assert_plan(LINES("+w /w", "-w /w/.git/hooks"),
                "writable /w, pinned /w/.git, read-only /w/.git/hooks");
    assert_plan(LINES("+w /w", "-r /w/a/b/c/.file", "-w /w/a/b/d"),
                "writable /w, pinned /w/a, pinned /w/a/b, pinned /w/a/b/c, hidden /w/a/b/c/.file, "
                "read-only /w/a/b/d");
    assert_plan(LINES("-r /d", "+r /d/a/b"), "hidden /d, visible /d/a/b");
}

static void test_links_and_absent_names(void **state)
{
    (void)state;
    assert_plan(LINES("+w /w", "= /w/x.link", "-w /w/real"),
                "writable /w, read-only /w/real, pinned /w/x.link");
    assert_plan(LINES("+w /w", "-w /w/a/b.absent", "= /w/a"), "writable /w, pinned /w/a");
    assert_plan(LINES("= /w/a", "= /w/x.link"), "");
    assert_view(LINES("+w /w", "-w /w/a.absent"), "/w/a.absent/deep", "r-");
}

static void test_protected_names_hold_without_a_rule_of_their_own(void **state)
{
    (void)state;
    const char *const *lines = LINES("+w /w");
    assert_view(lines, "/w/.bashrc", "r-");
    assert_view(lines, "/w/deep/er/.bashrc", "r-");
    assert_view(lines, "/w/x/.git/hooks/pre-commit", "r-");
    assert_view(lines, "/w/.git/modules/a/b/hooks/x", "r-");
    assert_view(lines, "/w/.git/worktrees/one/config.worktree", "r-");
    assert_view(lines, "/w/.git/objects/ab", "rw");
    assert_view(lines, "/w/.git/index", "rw");
    assert_view(lines, "/w/.claude/settings.local.json", "r-");
    assert_view(lines, "/w/.claude/notes", "rw");
    assert_view(lines, "/w/bashrc", "rw");
    assert_view(lines, "/w/.github/workflows/ci.yml", "rw"); /* offered, not on by default */
}

static void test_a_protected_name_that_is_the_root_itself_was_meant(void **state)
{
    (void)state;
    assert_view(LINES("+w /w/.vscode"), "/w/.vscode/settings.json", "rw");
    assert_view(LINES("+w /w/.git"), "/w/.git/hooks/x", "r-");
    assert_view(LINES("+w /w", "+w /w/.vscode"), "/w/.vscode/settings.json", "r-");
}

/* What a tree that folds case takes for a protected name. */
static void test_names_that_a_tree_takes_for_protected_ones(void **state)
{
    (void)state;
    static const char *const names[] = {".GIT/Hooks/x",
                                        ".git/hoo\u212as/x",
                                        ".git/hook\u017f",
                                        ".g\u200cit/hooks",
                                        "\u200b.git/hooks",
                                        ".git\ufeff/config",
                                        ".con\ufb01g/git",
                                        ".config/\ufb01sh",
                                        ".ba\u017fhrc",
                                        ".bash_pro\ufb01le",
                                        ".huS\u212aY",
                                        ".v\u017fcode",
                                        ".CLAUDE/SETTINGS.JSON",
                                        ".claude/Settings.local.JSON",
                                        ".claude/\u017fkill\u017f",
                                        ".bash\U000e0001rc",
                                        ".mcp.j\u017fon",
                                        ".GIT/BRANCHES/x",
                                        ".SRT-NEW-1",
                                        ".git./hooks",
                                        ".git. ./hooks /x",
                                        ".bashrc.",
                                        ".g\u200cit.\u200c/config..",
                                        ".claude /settings.json."};
    static const char *const others[] = {
        ".gitx/hooks",          ".g\u00eft/hooks", ".git/hooks\u00e9", "git/hooks", ".bashrc\xff",
        ".ba\xc5hrc",           "\u00e9.bashrc",   ".git/hoo\u0138s",  "x.bashrc",  ".ba\u00dfrc",
        ".claude/.../commands", ".git.x/hooks",    ".git /.. /hooks.x"};
    struct protect protect = protect_default(false);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        autofree char *path = path_join("/w\u212a\u200b/d", names[i]);
        if (protect_match(&protect, path, strlen("/w\u212a\u200b")) == NULL)
            fail_msg("%s is not protected", names[i]);
        assert_null(protect_match(&protect, path, strlen(path)));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        autofree char *path = path_join("/w", others[i]);
        if (protect_match(&protect, path, 2) != NULL)
            fail_msg("%s is protected", others[i]);
    }
    assert_non_null(protect_lead(&protect, "/w/.g\u200cIT", false));
    assert_non_null(protect_lead(&protect, "/w/.CON\ufb01G", true));
    assert_true(protect_begins(&protect, ".\u200cgit"));
    assert_true(protect_begins(&protect, ".git."));
    assert_non_null(protect_lead(&protect, "/w/.git.", false));
    assert_false(protect_begins(&protect, ".g\u00efit"));
}

static void test_words_of_launch_protect(void **state)
{
    (void)state;
    struct srt_err err;
    struct protect protect = protect_default(false);
    assert_non_null(protect_match(&protect, "/w/.idea/x", 2));
    assert_int_equal(protect_apply(&protect, "-editor", &err), 0);
    assert_null(protect_match(&protect, "/w/.idea/x", 2));
    assert_int_equal(protect_apply(&protect, "workflows", &err), 0);
    assert_string_equal(protect_match(&protect, "/w/.github/workflows/x", 2),
                        "protected: continuous integration workflow");
    assert_int_equal(protect_apply(&protect, "nothing", &err), -1);
    assert_null(
        protect_match(&(struct protect){protect_default(true).groups}, "/w/.git/config", 2));
    assert_non_null(
        protect_match(&(struct protect){protect_default(true).groups}, "/w/.git/hooks", 2));
}

static void test_the_setting_that_decided_is_named(void **state)
{
    (void)state;
    struct fence fence;
    fence_of(&fence, LINES("+w /w", "-r /w/s", "-w /w/r"));
    assert_string_equal(fence_view(&fence, "/w/x").write_setting, "+w /w");
    assert_string_equal(fence_view(&fence, "/w/s/x").read_setting, "-r /w/s");
    assert_string_equal(fence_view(&fence, "/w/r/x").write_setting, "-w /w/r");
    assert_string_equal(fence_view(&fence, "/w/.bashrc").write_setting,
                        "protected: shell start-up file");
    assert_string_equal(fence_view(&fence, "/else").write_setting, "default");
    fence_free(&fence);
}

static enum protect_part fresh_at(const char *const *lines, const char *path, bool *writable)
{
    struct fence fence;
    fence_of(&fence, lines);
    struct fence_view view = fence_view(&fence, path);
    *writable = view.writable;
    enum protect_part fresh = view.fresh;
    fence_free(&fence);
    return fresh;
}

static void test_new_repositories_get_what_git_makes(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        enum protect_part fresh;
        bool writable;
    } rows[] = {
        {"/w/a/.git/config", PROTECT_CONFIG, false},
        {"/w/a/.git/hooks", PROTECT_HOOKS, false},
        {"/w/a/.git/hooks/x.sample", PROTECT_SAMPLE, true},
        {"/w/a/.git/hooks/.sample", PROTECT_NO_PART, false},
        {"/w/a/.git/hooks/x", PROTECT_NO_PART, false},
        {"/w/a/.git/hooks/x.sample/y", PROTECT_NO_PART, false},
        {"/w/a/.git/hooks/hooks/x.sample", PROTECT_NO_PART, false},
        {"/w/a/.git/.srt-new-12", PROTECT_NO_PART, false},
        {"/w/a/.git/remotes/origin", PROTECT_NO_PART, false},
        {"/w/a/.git/branches/origin", PROTECT_NO_PART, false},
        {"/w/a/.git/branches", PROTECT_NO_PART, true},
        {"/w/a/.git/refs/remotes/origin/x", PROTECT_NO_PART, true},
        {"/w/a/.git/config.worktree", PROTECT_NO_PART, false},
        {"/w/a/.git/commondir", PROTECT_NO_PART, false},
        {"/w/a/.git/info/attributes", PROTECT_NO_PART, false},
        {"/w/a/.GIT/config", PROTECT_NO_PART, false},
        {"/w/a/.git/Config", PROTECT_NO_PART, false},
        {"/w/a/.git/modules/m/hooks", PROTECT_HOOKS, false},
        {"/w/a/.git/modules/m/hooks/x.sample", PROTECT_SAMPLE, true},
        {"/w/a/.git/modules/m/hooks/x", PROTECT_NO_PART, false},
        {"/w/a/.git/modules/m/config", PROTECT_CONFIG, false},
        {"/w/a/.git/modules/m/n/modules/o/config", PROTECT_CONFIG, false},
        {"/w/a/.git/modules/config", PROTECT_NO_PART, false},
        {"/w/a/.git/modules/m/config.worktree", PROTECT_NO_PART, false},
        {"/w/a/.git/modules/m/commondir", PROTECT_NO_PART, false},
        {"/w/a/.git/modules/m/info/attributes", PROTECT_NO_PART, false},
        {"/w/a/.git/modules/m/refs/remotes/origin/HEAD", PROTECT_NO_PART, true},
        {"/w/a/.git/worktrees/t/commondir", PROTECT_COMMON, false},
        {"/w/a/.git/worktrees/t/gitdir", PROTECT_NO_PART, true},
        {"/w/a/.git/worktrees/t/config", PROTECT_NO_PART, false},
        {"/w/a/.git/worktrees/t/hooks", PROTECT_NO_PART, false},
        {"/w/a/.git/worktrees/t/hooks/x.sample", PROTECT_NO_PART, false},
        {"/w/a/.git/worktrees/t/info/attributes", PROTECT_NO_PART, false},
        {"/w/a/.git/worktrees/t/modules/m/config", PROTECT_CONFIG, false},
        {"/w/a/.git/modules/m/worktrees/t/commondir", PROTECT_COMMON, false},
        {"/w/a/.git/modules/m/worktrees/t/config", PROTECT_NO_PART, false},
        {"/w/old/.git/modules/m/config", PROTECT_CONFIG, false}, /* a new submodule */
        {"/w/a/.husky/hooks", PROTECT_NO_PART, false},
        {"/w/a/.claude/hooks/x.sample", PROTECT_NO_PART, false},
        {"/w/.vscode/.git/config", PROTECT_NO_PART, false},
        {"/w/old/.git/config", PROTECT_NO_PART, false},
        {"/w/old/.git/hooks", PROTECT_NO_PART, false},
        {"/w/old/.git/hooks/x.sample", PROTECT_NO_PART, false},
        {"/w/a/no/.git/config", PROTECT_NO_PART, false},
        {"/w/a/x/config", PROTECT_NO_PART, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool writable;
        enum protect_part fresh =
            fresh_at(LINES("+w /w", "= /w/old/.git", "-w /w/a/no"), rows[i].path, &writable);
        if (fresh != rows[i].fresh || writable != rows[i].writable)
            fail_msg("%s: %d %d", rows[i].path, (int)fresh, writable);
    }
}

static void test_only_protected_git_files_may_be_vetted(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        bool may;
    } rows[] = {
        {"/w/.git/config", true},     {"/w/.gitmodules", true},
        {"/w/a/.git", true},          {"/w/old/.git", true},
        {"/w/no/.git/config", false}, {"/w/named/.git/config", false},
        {"/w/.git/hooks/x", false},   {"/w/hidden/.git", false},
        {"/elsewhere/.git", false},   {"/w/secret/.gitmodules", false},
    };
    struct fence fence;
    fence_of(&fence, LINES("+w /w", "-w /w/no", "-w /w/named/.git/config", "-r /w/hidden"));
    fence_add(&fence, FENCE_DENY_WRITE, "/w/.git/config", PATH_FILE,
              "protected: git configuration");
    fence_add(&fence, FENCE_DENY_WRITE, "/w/old/.git", PATH_FILE, fence_link_setting);
    fence_add(&fence, FENCE_DENY_WRITE, "/w/.git/hooks/x", PATH_FILE, "protected: git hooks");
    fence_add(&fence, FENCE_HIDE_SECRET, "/w/secret/.gitmodules", PATH_FILE, "x");
    fence_seal(&fence);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (fence_may_vet(&fence, rows[i].path) != rows[i].may)
            fail_msg("%s", rows[i].path);
    fence.protect = protect_default(true);
    assert_false(fence_may_vet(&fence, "/w/.git/config"));
    fence_free(&fence);
}

/* As fence.h says it, looking at every rule at every place above. */
static const char *view_by_hand(const struct fence *fence, const char *path)
{
    enum fence_verb read = FENCE_KEEP;
    bool allowed = false, denied = false, secret = false;
    for (size_t len = strlen(path);; len--) {
        bool place = path[len] == '\0' || path[len] == '/' || len == 0;
        bool here[FENCE_KEEP + 1] = {false};
        for (size_t i = 0; place && i < fence->count; i++) {
            const char *rule = fence->rules[i].path;
            if (len == 0 ? strcmp(rule, "/") == 0
                         : strncmp(rule, path, len) == 0 && rule[len] == '\0')
                here[fence->rules[i].verb] = true;
        }
        if (read == FENCE_KEEP)
            read = here[FENCE_ALLOW_READ] || here[FENCE_ALLOW_WRITE] ? FENCE_ALLOW_READ
                   : here[FENCE_DENY_READ]                           ? FENCE_DENY_READ
                                                                     : FENCE_KEEP;
        allowed |= here[FENCE_ALLOW_WRITE];
        denied |= here[FENCE_DENY_WRITE];
        secret |= here[FENCE_HIDE_SECRET];
        if (len == 0)
            return secret || read == FENCE_DENY_READ ? "--" : allowed && !denied ? "rw" : "r-";
    }
}

/* Names that sort before and behind the slash, and begin with one another. */
static void make_path(unsigned *seed, char path[64])
{
    static const char *const names[] = {"a", "a-", "a.b", "aa", "a b", "!"};
    unsigned depth = (*seed >> 20) % 5;
    path[0] = '\0';
    for (unsigned i = 0; i < depth; i++) {
        *seed = *seed * 1103515245 + 12345;
        strcat(strcat(path, "/"), names[(*seed >> 16) % 6]);
    }
    *seed = *seed * 1103515245 + 12345;
    *seed ^= *seed >> 13;
    if (path[0] == '\0')
        strcpy(path, "/");
}

static void test_no_rule_above_a_path_is_passed_over(void **state)
{
    (void)state;
    unsigned seed = 1;
    for (int round = 0; round < 500; round++) {
        struct fence fence = {0};
        for (int i = 0; i < 12; i++) {
            char path[64];
            make_path(&seed, path);
            fence_add(&fence, (enum fence_verb)((seed >> 8) % (FENCE_KEEP + 1)), path, PATH_DIR,
                      "x");
        }
        fence_seal(&fence);
        for (int i = 0; i < 50; i++) {
            char path[64];
            make_path(&seed, path);
            struct fence_view view = fence_view(&fence, path);
            char got[3] = {view.readable ? 'r' : '-', view.writable ? 'w' : '-', '\0'};
            assert_string_equal(got, view_by_hand(&fence, path));
        }
        fence_free(&fence);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_protected_git_files_may_be_vetted),
        cmocka_unit_test(test_without_rules_everything_is_read_and_nothing_written),
        cmocka_unit_test(test_the_nearest_rule_decides_reads),
        cmocka_unit_test(test_an_allow_lifts_a_deny_of_the_same_place_but_no_secret),
        cmocka_unit_test(test_a_denied_write_beats_every_allowed_one),
        cmocka_unit_test(test_writable_below_visible_below_hidden),
        cmocka_unit_test(test_visible_inside_hidden_inside_writable_is_writable_again),
        cmocka_unit_test(test_a_hidden_file_stays_hidden_in_every_combination),
        cmocka_unit_test(test_every_directory_above_a_guard_is_pinned),
        cmocka_unit_test(test_links_and_absent_names),
        cmocka_unit_test(test_no_rule_above_a_path_is_passed_over),
        cmocka_unit_test(test_protected_names_hold_without_a_rule_of_their_own),
        cmocka_unit_test(test_a_protected_name_that_is_the_root_itself_was_meant),
        cmocka_unit_test(test_names_that_a_tree_takes_for_protected_ones),
        cmocka_unit_test(test_words_of_launch_protect),
        cmocka_unit_test(test_the_setting_that_decided_is_named),
        cmocka_unit_test(test_new_repositories_get_what_git_makes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
