#include "asked.h"
#include "filters/builtin.h"
#include "filters/module.h"

#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/modules-XXXXXX";

static void assert_module_refused(const char *module, const char *said)
{
    char expected[512];
    struct faults faults = {0};
    const struct config_filter filter = {
        .name = "f", .module = module, .place = {"gateway.ini", 7, 0}};
    assert_null(module_find(&filter, &faults));
    assert_int_equal(faults.count, 1);
    assert_int_equal(faults.items[0].line, 7);
    snprintf(expected, sizeof(expected), "[filter f]: %s", said);
    assert_string_equal(faults.items[0].text, expected);
    faults_free(&faults);
}

static void built_ins_by_their_word(void **state)
{
    (void)state;
    for (size_t i = 0; builtin_modules[i] != NULL; i++) {
        char why[256];
        struct faults faults = {0};
        const struct config_filter filter = {.name = "f", .module = builtin_modules[i]->name};
        assert_ptr_equal(module_find(&filter, &faults), builtin_modules[i]);
        assert_null(module_unfit(builtin_modules[i], why, sizeof(why)));
    }
    assert_module_refused("http-gard",
                          "there is no built-in module 'http-gard'; did you mean http-guard?");
}

static void another_process_is_asked_by_the_module_remote(void **state)
{
    (void)state;
    struct faults faults = {0};
    const struct config_filter filter = {.name = "f", .module = "unix:/run/x"};
    assert_ptr_equal(module_find(&filter, &faults), &module_remote);
    assert_string_equal(module_socket(&filter), "/run/x");
    assert_faulty("[filter f]\nmodule = unix:/run/x\nsocket = /run/y\n",
                  "gateway.ini:3: [filter f] socket: it stands on line 1 already\n");
    assert_faulty("[filter f]\nmodule = remote\n", "gateway.ini:1: [filter f]: it has no socket\n");
    assert_faulty("[filter f]\nmodule = remote\nsocket = /run/y\nqueue = x\n",
                  "gateway.ini:4: [filter f] queue: 'x' is not a number from 0 to 100000\n");
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    char why[256];
    struct srt_filter_module module = module_quota;
    module.abi = 2;
    assert_string_equal(module_unfit(&module, why, sizeof(why)), "its ABI is 2, the gateway's 1");
    module = module_quota;
    module.size += 8;
    assert_non_null(strstr(module_unfit(&module, why, sizeof(why)), "bytes, the gateway's"));
    module = module_quota;
    module.on_request = NULL;
    assert_string_equal(module_unfit(&module, why, sizeof(why)),
                        "it lacks name, create, destroy or on_request");
    module = module_quota;
    module.leave = module.destroy;
    assert_string_equal(module_unfit(&module, why, sizeof(why)),
                        "it has one of enter and leave without the other");
}

static void a_path_that_others_could_change_is_not_loaded(void **state)
{
    (void)state;
    char inner[64], path[96], other[96], said[300];
    snprintf(inner, sizeof(inner), "%s/inner", directory);
    snprintf(path, sizeof(path), "%s/inner/m.so", directory);
    snprintf(other, sizeof(other), "%s/link.so", directory);
    assert_int_equal(mkdir(inner, 0755), 0);
    snprintf(said, sizeof(said), "%s: No such file or directory", path);
    assert_module_refused(path, said);

    FILE *file = fopen(path, "w");
    fputs("not an object", file);
    fclose(file);
    assert_int_equal(chmod(path, 0664), 0);
    snprintf(said, sizeof(said), "%s is writable by others (mode 0664)", path);
    assert_module_refused(path, said);

    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(chmod(inner, 0777), 0);
    snprintf(said, sizeof(said), "%s is writable by others (mode 0777)", inner);
    assert_module_refused(path, said);

    assert_int_equal(chmod(inner, 0755), 0);
    assert_int_equal(chmod(directory, 0775), 0);
    snprintf(said, sizeof(said), "%s is writable by others (mode 0775)", directory);
    assert_module_refused(path, said);
    assert_int_equal(chmod(directory, 0755), 0);

    assert_int_equal(symlink(path, other), 0);
    snprintf(said, sizeof(said), "%s leads to %s: write that path", other, path);
    assert_module_refused(other, said);
    snprintf(said, sizeof(said), "%s is not a regular file", inner);
    assert_module_refused(inner, said);

    /* Now it may be loaded, and is no object. */
    snprintf(said, sizeof(said), "%s: file too short", path);
    assert_module_refused(path, said);
    unlink(other);
    unlink(path);
    rmdir(inner);
}

static int set_up(void **state)
{
    (void)state;
    umask(022);
    return mkdtemp(directory) != NULL && chmod(directory, 0755) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_ins_by_their_word),
        cmocka_unit_test(another_process_is_asked_by_the_module_remote),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_path_that_others_could_change_is_not_loaded),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
