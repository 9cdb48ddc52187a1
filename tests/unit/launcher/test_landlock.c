#include "launcher/landlock.h"

#include "srt/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* What a process behind the wall finds out; it says so with its exit status. */
enum { HELD = 0, NOT_INSTALLED = 1, TOO_NARROW = 2, TOO_WIDE = 3 };

static char top[64];

static int make_tree(void **state)
{
    (void)state;
    strcpy(top, "/tmp/srt-landlock-XXXXXX");
    if (mkdtemp(top) == NULL || chdir(top) != 0 || mkdir("w", 0700) != 0 ||
        mkdir("outside", 0700) != 0)
        return -1;
    autoclose int fd = open("outside/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    autoclose int single = open("single", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    return fd < 0 || single < 0 ? -1 : 0;
}

static int remove_tree(void **state)
{
    (void)state;
    autofree char *command = NULL;
    return chdir("/") == 0 && asprintf(&command, "rm -rf %s", top) > 0 && system(command) == 0 ? 0
                                                                                               : -1;
}

static bool opens(const char *path, int flags)
{
    autoclose int fd = open(path, flags | O_CLOEXEC, 0600);
    return fd >= 0;
}

static _Noreturn void behind_the_wall(bool files)
{
    struct srt_err err;
    static char w[] = "w", gone[] = "gone", single[] = "single";
    char *const roots[] = {w, gone, single, NULL};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || landlock_install(roots, files, &err) != 0)
        _exit(NOT_INSTALLED);
    bool works = opens("w/f", O_CREAT | O_WRONLY) && mkdir("w/a", 0700) == 0 &&
                 rename("w/f", "w/a/f") == 0 && link("w/a/f", "w/g") == 0 &&
                 truncate("w/g", 1) == 0 && symlink("x", "w/l") == 0 && unlink("w/l") == 0 &&
                 unlink("w/g") == 0 && unlink("w/a/f") == 0 && rmdir("w/a") == 0 &&
                 opens("single", O_WRONLY | O_TRUNC) && opens("outside/file", O_RDONLY) &&
                 opens("/dev/null", O_RDWR) && opens("outside", O_RDONLY);
    if (!works)
        _exit(TOO_NARROW);
    bool outside = opens("outside/new", O_CREAT | O_WRONLY) || opens("outside/file", O_WRONLY) ||
                   truncate("outside/file", 1) == 0 || mkdir("outside/d", 0700) == 0 ||
                   rename("outside/file", "outside/g") == 0 || unlink("single") == 0;
    if (outside != !files)
        _exit(TOO_WIDE);
    if (landlock_version() >= 6 && (kill(getppid(), 0) == 0 || errno != EPERM))
        _exit(TOO_WIDE);
    _exit(HELD);
}

static int status_behind(bool files)
{
    pid_t pid = fork();
    if (pid == 0)
        behind_the_wall(files);
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_writes_and_signals_stay_inside(void **state)
{
    (void)state;
    if (landlock_version() < 3)
        skip();
    assert_int_equal(status_behind(true), HELD);
}

static void test_files_are_left_alone_where_mounts_are_made(void **state)
{
    (void)state;
    if (landlock_version() < 6)
        skip();
    assert_int_equal(status_behind(false), HELD);
}

static void test_place_that_cannot_be_looked_at_is_a_failure(void **state)
{
    (void)state;
    static char below_a_file[] = "/dev/null/below";
    char *const roots[] = {below_a_file, NULL};
    struct srt_err err;
    if (landlock_version() == 0)
        skip();
    assert_int_equal(landlock_install(roots, true, &err), -1);
    assert_non_null(strstr(err.text, below_a_file));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_writes_and_signals_stay_inside, make_tree,
                                        remove_tree),
        cmocka_unit_test_setup_teardown(test_files_are_left_alone_where_mounts_are_made, make_tree,
                                        remove_tree),
        cmocka_unit_test(test_place_that_cannot_be_looked_at_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
