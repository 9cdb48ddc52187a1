#include "launcher/repository.h"

#include "srt/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* Every test works in an empty temporary directory. */
static char top[64];

static int enter(void **state)
{
    (void)state;
    strcpy(top, "/tmp/srt-repository-XXXXXX");
    return mkdtemp(top) != NULL && chdir(top) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    autofree char *command = NULL;
    return chdir("/") == 0 && asprintf(&command, "rm -rf %s", top) > 0 && system(command) == 0 ? 0
                                                                                               : -1;
}

static void put(const char *name, const char *text)
{
    autofree char *path = strdup(name);
    for (char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    autofclose FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
}

static char *at(const char *name)
{
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", top, name) > 0);
    return path;
}

static void assert_opens(const char *dot_git, bool linked, const char *git_dir,
                         const char *common_dir)
{
    struct repository repository;
    autofree char *path = at(dot_git), *git = at(git_dir), *common = at(common_dir);
    assert_true(repository_open(&repository, path));
    assert_int_equal(repository.linked, linked);
    assert_string_equal(repository.git_dir, git);
    assert_string_equal(repository.common_dir, common);
    repository_free(&repository);
}

static void test_directories_and_files(void **state)
{
    (void)state;
    put("a/.git/HEAD", "");
    assert_opens("a/.git", false, "a/.git", "a/.git");
    put("sub/.git", "gitdir: ../a/.git/modules/sub\r\n");
    assert_opens("sub/.git", true, "sub/../a/.git/modules/sub", "sub/../a/.git/modules/sub");
    put("a/.git/worktrees/w/commondir", "../..\n");
    autofree char *line = NULL;
    assert_true(asprintf(&line, "gitdir: %s/a/.git/worktrees/w\n", top) > 0);
    put("w/.git", line);
    assert_opens("w/.git", true, "a/.git/worktrees/w", "a/.git/worktrees/w/../..");
}

static void test_what_is_none(void **state)
{
    (void)state;
    struct repository repository;
    put("a/.git", "gitfile: x\n");
    put("b/.git", "gitdir: \n");
    put("c/.git", "");
    mkdir("d", 0700);
    assert_int_equal(mkfifo("d/.git", 0600), 0);
    static const char *const names[] = {"a/.git", "b/.git", "c/.git", "d/.git", "none/.git"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        autofree char *path = at(names[i]);
        if (repository_open(&repository, path))
            fail_msg("opened: %s", names[i]);
        repository_free(&repository);
    }
}

struct seen {
    char text[1024];
    size_t len;
};

static void remember(void *context, enum repository_place place, const char *path)
{
    struct seen *seen = context;
    static const char letters[] = {
        [REPOSITORY_HOOKS] = 'h', [REPOSITORY_CONFIG] = 'c', [REPOSITORY_MONITOR] = 'm'};
    /* Without the temporary directory's name. */
    const char *shown = strncmp(path, top, strlen(top)) == 0 ? path + strlen(top) : path;
    if (seen->len + strlen(shown) + 4 >= sizeof(seen->text))
        return;
    seen->len += (size_t)snprintf(seen->text + seen->len, sizeof(seen->text) - seen->len, "%c %s;",
                                  letters[place], shown);
}

static void assert_names(const char *file, const char *expected)
{
    struct seen seen = {.text = ""};
    autofree char *path = at(file);
    repository_read_config(path, "/home/u", remember, &seen);
    assert_string_equal(seen.text, expected);
}

static void test_places_that_are_named(void **state)
{
    (void)state;
    put("config",
        "[core]\n\thooksPath = tools/hooks\n\thookspath = /abs\n\tHOOKSPATH = ~/own\n"
        "\thooksPath = ~other/x\n\thooksPath\n\tfsmonitor = true\n\tfsmonitor = bin/watch\n"
        "[core \"x\"]\n\thooksPath = no\n[alias]\n\tpath = no\n");
    assert_names("config", "h tools/hooks;h /abs;h /home/u/own;m bin/watch;");
    assert_names("absent", "");
}

static void test_files_that_are_included(void **state)
{
    (void)state;
    put("a/config", "[include]\n\tpath = ../b/more\n[includeIf \"gitdir:/x\"]\n\tpath = if\n");
    put("b/more", "[core]\n\thooksPath = from-more\n[include]\n\tpath = last\n");
    put("b/last", "[core]\n\thooksPath = from-last\n[broken");
    assert_names("a/config", "c /a/../b/more;h from-more;c /a/../b/last;h from-last;c /a/if;");
}

static void test_circles_end(void **state)
{
    (void)state;
    put("config", "[include]\n\tpath = config\n[include]\n\tpath = config\n");
    struct seen seen = {.text = ""};
    autofree char *path = at("config");
    repository_read_config(path, NULL, remember, &seen);
    assert_true(seen.len > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_directories_and_files, enter, leave),
        cmocka_unit_test_setup_teardown(test_what_is_none, enter, leave),
        cmocka_unit_test_setup_teardown(test_places_that_are_named, enter, leave),
        cmocka_unit_test_setup_teardown(test_files_that_are_included, enter, leave),
        cmocka_unit_test_setup_teardown(test_circles_end, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
