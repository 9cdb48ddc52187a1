#include "control/confine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void *nothing(void *arg)
{
    return arg;
}

/* What a confined process finds: the number of the first surprise, or 0. */
static int look_around(void)
{
    static char *const argv[] = {NULL};
    struct srt_err err;
    pthread_t thread;
    if (confine_process(&err) != 0)
        return 1;
    if (execve("/bin/true", argv, argv) == 0 || errno != EPERM)
        return 2;
    if (unshare(CLONE_NEWUSER) == 0 || errno != EPERM)
        return 3;
    if (setuid(getuid()) == 0 || errno != EPERM)
        return 4;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return 5;
    if (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return 6;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || close(fd) != 0)
        return 7;
    fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || close(fd) != 0)
        return 8;
    return 0;
}

static void a_confined_process_serves_and_does_nothing_else(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(look_around());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_confined_process_serves_and_does_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
