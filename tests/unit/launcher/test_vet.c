#include "launcher/vet.h"

#include "srt/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A directory that may be written to, with an old repository, a new one and a stranger's. */
struct tree {
    char top[PATH_MAX];
    struct fence fence;
};

static char *at(const struct tree *tree, const char *name)
{
    return path_join(tree->top, name);
}

static void make(const struct tree *tree, const char *name, const char *content)
{
    autofree char *path = at(tree, name);
    for (char *p = path + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        mkdir(path, 0755);
        *p = '/';
    }
    autofclose FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(content, file);
}

static const char old_config[] =
    "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://h/x\n";

static int tree_open(void **state)
{
    struct tree *tree = calloc(1, sizeof(*tree));
    char name[] = "/tmp/srt-vet-XXXXXX";
    assert_non_null(tree);
    assert_non_null(mkdtemp(name));
    assert_non_null(realpath(name, tree->top));
    make(tree, "old/.git/config", old_config);
    make(tree, "new/.git/HEAD", "ref: refs/heads/m\n");
    make(tree, "w/f", "");
    make(tree, "evil/config", "[core]\n\tfsmonitor = x\n");
    tree->fence.protect = protect_default(false);
    fence_add(&tree->fence, FENCE_ALLOW_WRITE, tree->top, PATH_DIR, "filesystem.allowWrite[0]");
    autofree char *config = at(tree, "old/.git/config");
    fence_add(&tree->fence, FENCE_DENY_WRITE, config, PATH_FILE, "protected: git configuration");
    fence_seal(&tree->fence);
    *state = tree;
    return 0;
}

static int tree_close(void **state)
{
    struct tree *tree = *state;
    char command[PATH_MAX + 16];
    snprintf(command, sizeof(command), "rm -rf %s", tree->top);
    int result = system(command);
    fence_free(&tree->fence);
    free(tree);
    return result;
}

/* Puts a content where a file of this name is to stand. */
static int put(const struct tree *tree, const char *name, const char *content, size_t len,
               char why[VET_WHY_SIZE])
{
    autofree char *path = at(tree, name), *dir = path_parent(path);
    autoclose int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    autofclose FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, len, file), len);
    fflush(file);
    struct vet_place place = {.fence = &tree->fence,
                              .kind = vet_kind(&tree->fence, path),
                              .dir = dir_fd,
                              .name = strrchr(path, '/') + 1,
                              .path = path};
    why[0] = '\0';
    return vet_put(&place, fileno(file), 0640, why);
}

static void assert_holds(const struct tree *tree, const char *name, const char *content)
{
    autofree char *path = at(tree, name);
    char text[1024] = "";
    autofclose FILE *file = fopen(path, "re");
    if (content == NULL) {
        assert_null(file);
        return;
    }
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    assert_string_equal(text, content);
}

static void assert_put(const struct tree *tree, const char *name, const char *content,
                       const char *result)
{
    char why[VET_WHY_SIZE];
    if (put(tree, name, content, strlen(content), why) != 0)
        fail_msg("%s: %s: %s", name, content, why);
    assert_holds(tree, name, result);
}

static void assert_refused(const struct tree *tree, const char *name, const char *content,
                           const char *reason)
{
    char why[VET_WHY_SIZE];
    if (put(tree, name, content, strlen(content), why) != -EROFS)
        fail_msg("%s: %s", name, content);
    if (strstr(why, reason) == NULL)
        fail_msg("%s: %s", content, why);
}

static void test_kinds(void **state)
{
    const struct tree *tree = *state;
    static const struct {
        const char *name;
        enum vet_kind kind;
    } rows[] = {
        {"w/.git", VET_LINK},
        {"w/.gitmodules", VET_MODULES},
        {"new/.git/config", VET_CONFIG},
        {"new/.git/modules/a/config", VET_MODULE_CONFIG},
        {"old/.git/modules/a/config", VET_MODULE_CONFIG},
        {"old/.git/config", VET_CHANGES},
        {"old/.git/worktrees/a/commondir", VET_COMMON},
        {"old/.git/worktrees/a/config", VET_NOTHING},
        {"old/.git/commondir", VET_NOTHING},
        {"old/.git/modules/a/commondir", VET_NOTHING},
        {"old/.git/config.worktree", VET_NOTHING},
        {"old/.git/hooks/config", VET_NOTHING},
        {"evil/config", VET_NOTHING},
        {"w/.GIT", VET_NOTHING},
        {"../.git", VET_NOTHING},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        autofree char *path = at(tree, rows[i].name), *clean = path_clean(path);
        if (vet_kind(&tree->fence, clean) != rows[i].kind)
            fail_msg("%s", rows[i].name);
    }
}

static void test_links_lead_to_guarded_places(void **state)
{
    const struct tree *tree = *state;
    char absolute[PATH_MAX + 64];
    snprintf(absolute, sizeof(absolute), "gitdir: %s/old/.git/worktrees/a\n", tree->top);
    assert_put(tree, "w/.git", absolute, absolute);
    static const char relative[] = "gitdir: ../new/.git/modules/a\n";
    assert_put(tree, "w/.git", relative, relative);
    static const char *const bad[] = {"gitdir: ../evil\n",
                                      "gitdir: ../old/.git\n",
                                      "gitdir: ../old/.git/modules\n",
                                      "gitdir: ../old/.git/modules/../../../evil\n",
                                      "gitdir: ../old/.git/modules/a/\n",
                                      "gitdir: /.git/modules/a\n",
                                      "gitdir: /usr/.git/worktrees/a\n",
                                      "gitdir: ../../../../../../.git/modules/a\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(tree, "w/.git", bad[i], "gitdir has to be");
    assert_refused(tree, "w/.git", "gitdir: ../old/.git/modules/a\n\n", "the one line");
    assert_holds(tree, "w/.git", relative);
    /* Whatever the names are, links that were there before may lead elsewhere. */
    autofree char *link = at(tree, "w/evil"), *modules = at(tree, "old/.git/modules");
    assert_int_equal(symlink("../evil", link), 0);
    assert_int_equal(symlink("../../evil", modules), 0);
    assert_refused(tree, "w/.git", "gitdir: evil\n", "gitdir has to be");
    assert_refused(tree, "w/.git", "gitdir: ../old/.git/modules/a\n", "gitdir has to be");
    assert_holds(tree, "w/.git", relative);
}

static void test_links_byte_by_byte(void **state)
{
    const struct tree *tree = *state;
    static const char whole[] = "gitdir: ../new/.git/modules/a\n";
    char why[VET_WHY_SIZE];
    for (size_t len = 0; len < sizeof(whole) - 1; len++)
        assert_int_equal(put(tree, "w/.git", whole, len, why), -EROFS);
    assert_holds(tree, "w/.git", NULL);
    assert_int_equal(put(tree, "w/.git", whole, sizeof(whole) - 1, why), 0);
}

static void test_a_denied_repository_is_not_led_to(void **state)
{
    struct tree *tree = *state;
    autofree char *dot_git = at(tree, "new/.git");
    fence_add(&tree->fence, FENCE_DENY_WRITE, dot_git, PATH_DIR, "filesystem.denyWrite[0]");
    fence_seal(&tree->fence);
    assert_refused(tree, "w/.git", "gitdir: ../new/.git/modules/a\n", "gitdir has to be");
}

static void test_the_common_directory(void **state)
{
    const struct tree *tree = *state;
    make(tree, "old/.git/worktrees/a/HEAD", "x\n");
    assert_refused(tree, "old/.git/worktrees/a/commondir", "../../../evil\n", "commondir has to");
    assert_put(tree, "old/.git/worktrees/a/commondir", "../..\n", "../..\n");
}

static void test_a_submodule_has_no_work_tree_in_its_configuration(void **state)
{
    const struct tree *tree = *state;
    make(tree, "new/.git/modules/a/HEAD", "x\n");
    assert_put(tree, "new/.git/modules/a/config",
               "[core]\n\tbare = false\n\tworktree = /home/x\n[branch \"m\"]\n\tremote = origin\n",
               "[core]\n\tbare = false\n[branch \"m\"]\n\tremote = origin\n");
    assert_refused(tree, "new/.git/modules/a/config", "[core]\n\tfsmonitor = x\n",
                   "core.fsmonitor");
    assert_refused(tree, "new/.git/config", "[core]\n\tworktree = /home/x\n", "core.worktree");
}

static void test_an_old_configuration_keeps_what_it_says(void **state)
{
    const struct tree *tree = *state;
    char text[512];
    snprintf(text, sizeof(text), "%s[branch \"m\"]\n\tremote = origin\n", old_config);
    assert_put(tree, "old/.git/config", text, text);
    assert_refused(tree, "old/.git/config", "[core]\n\tbare = false\n", "left out");
    assert_refused(tree, "old/.git/config", "", "left out");
    snprintf(text, sizeof(text), "%s[alias]\n\tst = !x\n", old_config);
    assert_refused(tree, "old/.git/config", text, "alias.st");
}

static void test_an_old_submodule_moves_without_its_work_tree(void **state)
{
    struct tree *tree = *state;
    static const char old[] =
        "[core]\n\tbare = false\n\tworktree = ../../../a\n[user]\n\tname = x\n";
    make(tree, "old/.git/modules/a/config", old);
    autofree char *config = at(tree, "old/.git/modules/a/config");
    fence_add(&tree->fence, FENCE_DENY_WRITE, config, PATH_FILE, "protected: git configuration");
    fence_seal(&tree->fence);
    assert_put(tree, "old/.git/modules/a/config", old, old);
    assert_refused(tree, "old/.git/modules/a/config", "[core]\n\tbare = false\n", "left out");
    assert_put(tree, "old/.git/modules/a/config",
               "[core]\n\tbare = false\n\tworktree = /home/x\n[user]\n\tname = x\n",
               "[core]\n\tbare = false\n[user]\n\tname = x\n");
}

static void test_a_link_that_is_there_stays(void **state)
{
    const struct tree *tree = *state;
    autofree char *modules = at(tree, "w/.gitmodules"), *config = at(tree, "new/.git/config");
    assert_int_equal(symlink("f", modules), 0);
    assert_int_equal(symlink("HEAD", config), 0);
    assert_refused(tree, "w/.gitmodules", "", "no file");
    assert_refused(tree, "new/.git/config", "", "no file");
    assert_holds(tree, "w/f", "");
    assert_holds(tree, "new/.git/HEAD", "ref: refs/heads/m\n");
}

static void test_what_stands_there_is_a_copy(void **state)
{
    const struct tree *tree = *state;
    make(tree, "lock", "[core]\n\tbare = false\n");
    autofree char *lock = at(tree, "lock"), *dir = at(tree, "new/.git");
    autofree char *config = at(tree, "new/.git/config"), *other = at(tree, "other");
    autoclose int held = open(lock, O_RDWR | O_CLOEXEC);
    autoclose int to = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(link(lock, other), 0);
    struct vet_place place = {
        .fence = &tree->fence, .kind = VET_CONFIG, .dir = to, .name = "config", .path = config};
    char why[VET_WHY_SIZE];
    assert_int_equal(vet_rename(&place, AT_FDCWD, lock, why), 0);
    assert_int_equal(pwrite(held, "[alias]", 7, 0), 7);
    assert_holds(tree, "new/.git/config", "[core]\n\tbare = false\n");
    assert_int_equal(access(lock, F_OK), -1);
    /* Neither a link nor a directory is taken, and nothing is left behind. */
    assert_int_equal(symlink("other", lock), 0);
    assert_int_not_equal(vet_rename(&place, AT_FDCWD, lock, why), 0);
    assert_int_not_equal(vet_rename(&place, AT_FDCWD, dir, why), 0);
    char command[PATH_MAX + 64];
    snprintf(command, sizeof(command), "test -z \"$(find %s -name '.srt-new*')\"", tree->top);
    assert_int_equal(system(command), 0);
}

int main(void)
{
#define WITH_TREE(test) cmocka_unit_test_setup_teardown(test, tree_open, tree_close)
    const struct CMUnitTest tests[] = {
        WITH_TREE(test_kinds),
        WITH_TREE(test_links_lead_to_guarded_places),
        WITH_TREE(test_links_byte_by_byte),
        WITH_TREE(test_a_denied_repository_is_not_led_to),
        WITH_TREE(test_the_common_directory),
        WITH_TREE(test_a_submodule_has_no_work_tree_in_its_configuration),
        WITH_TREE(test_an_old_configuration_keeps_what_it_says),
        WITH_TREE(test_an_old_submodule_moves_without_its_work_tree),
        WITH_TREE(test_a_link_that_is_there_stays),
        WITH_TREE(test_what_stands_there_is_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
