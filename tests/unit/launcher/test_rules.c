#include "launcher/rules.h"

#include "srt/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* A tree in a temporary directory, which is the working directory of every test here. */
static char top[64];

static void make(const char *name)
{
    autofree char *path = strdup(name);
    for (char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    if (path[strlen(path) - 1] != '/')
        close(open(path, O_CREAT | O_WRONLY, 0600));
}

static int make_tree(void **state)
{
    (void)state;
    strcpy(top, "/tmp/srt-rules-XXXXXX");
    if (mkdtemp(top) == NULL || chdir(top) != 0)
        return -1;
    static const char *const names[] = {
        "w/.bashrc",  "w/.git/hooks/", "w/.git/config",    "w/a/.env",      "w/a/b/.env", "s/x",
        "w/sub/.git", "w/m.git/HEAD",  "w/m.git/objects/", "w/m.git/refs/", "home/"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        make(names[i]);
    return symlink("../s", "w/out") == 0 && symlink("a", "w/in") == 0 ? 0 : -1;
}

static int remove_tree(void **state)
{
    (void)state;
    autofree char *command = NULL;
    return chdir("/") == 0 && asprintf(&command, "rm -rf %s", top) > 0 && system(command) == 0 ? 0
                                                                                               : -1;
}

static int build(struct fence *fence, const char *filesystem, struct srt_err *err)
{
    struct faults faults = {0};
    struct rules_notes notes = {0};
    autofree char *text = NULL;
    autofree char *home = path_join(top, "home");
    assert_true(
        asprintf(&text,
                 "{\"network\":{\"allowedDomains\":[],\"deniedDomains\":[]},\"filesystem\":{%s}}",
                 filesystem) > 0);
    struct settings *settings = settings_read_text("s", str_of(text), &faults);
    assert_non_null(settings);
    struct rules_world world = {.cwd = top, .home = home};
    *fence = (struct fence){0};
    int result = rules_build(fence, settings, &world, &notes, err);
    rules_notes_free(&notes);
    settings_free(settings);
    faults_free(&faults);
    return result;
}

static void assert_views(const char *filesystem, const char *const *lines)
{
    struct fence fence;
    struct srt_err err;
    if (build(&fence, filesystem, &err) != 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; lines[i] != NULL; i++) {
        autofree char *path = path_join(top, lines[i] + 3);
        struct fence_view view = fence_view(&fence, path);
        if (view.readable != (lines[i][0] == 'r') || view.writable != (lines[i][1] == 'w'))
            fail_msg("%s, but %d %d (%s, %s)", lines[i], view.readable, view.writable,
                     view.read_setting, view.write_setting);
    }
    fence_free(&fence);
}

#define LINES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_relative_names_and_globs(void **state)
{
    (void)state;
    assert_views(
        "\"allowWrite\":[\"w\"],\"denyRead\":[\"s\",\"**/.env\"],\"denyWrite\":[\"w/a/*.txt\"]",
        LINES("rw w/x", "-- w/a/.env", "-- w/a/b/.env", "-- s/x", "r- w/a/later.txt",
              "rw w/a/b/later.txt"));
}

static void test_a_literal_entry_is_no_pattern(void **state)
{
    (void)state;
    assert_views("\"allowWrite\":[\"w\"],\"denyRead\":[{\"path\":\"**/"
                 ".env\",\"literal\":true}],\"denyWrite\":[]",
                 LINES("rw w/a/.env"));
}

static void test_protected_names_that_exist(void **state)
{
    (void)state;
    assert_views("\"allowWrite\":[\"w\"],\"denyRead\":[],\"denyWrite\":[]",
                 LINES("r- w/.bashrc", "r- w/.git/config", "r- w/.git/hooks/x", "r- w/sub/.git",
                       "r- w/m.git/hooks/x", "r- w/m.git/config", "rw w/m.git/objects/x"));
}

static void test_links_inside_a_writable_root_do_not_widen(void **state)
{
    (void)state;
    assert_views("\"allowWrite\":[\"w\",\"w/out\"],\"denyRead\":[],\"denyWrite\":[]",
                 LINES("r- s/x", "rw w/x"));
    assert_views(
        "\"allowWrite\":[\"w\"],\"denyRead\":[\"s\"],\"allowRead\":[\"w/out\"],\"denyWrite\":[]",
        LINES("-- s/x"));
    assert_views("\"allowWrite\":[\"w/in\"],\"denyRead\":[],\"denyWrite\":[]",
                 LINES("rw w/a/x", "r- w/x"));
}

static void test_absent_names(void **state)
{
    (void)state;
    assert_views(
        "\"allowWrite\":[\"w\",\"absent\"],\"denyRead\":[\"gone\"],\"denyWrite\":[\"w/no/such\"]",
        LINES("r- absent", "-- gone/x", "r- w/no/such/x", "rw w/no/other"));
}

static void test_faults_name_the_setting(void **state)
{
    (void)state;
    struct fence fence;
    struct srt_err err;
    if (symlink("loop", "loop") != 0)
        fail();
    assert_int_equal(
        build(&fence, "\"allowWrite\":[],\"denyRead\":[\"s\",\"loop/x\"],\"denyWrite\":[]", &err),
        -1);
    assert_non_null(strstr(err.text, "filesystem.denyRead[1]"));
    fence_free(&fence);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relative_names_and_globs),
        cmocka_unit_test(test_a_literal_entry_is_no_pattern),
        cmocka_unit_test(test_protected_names_that_exist),
        cmocka_unit_test(test_links_inside_a_writable_root_do_not_widen),
        cmocka_unit_test(test_absent_names),
        cmocka_unit_test(test_faults_name_the_setting),
    };
    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
