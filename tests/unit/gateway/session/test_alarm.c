#include "session/alarm.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>
/* cmocka wants the above first */
#include <cmocka.h>

/* As a launcher can leave it behind: blocking, and whoever had connected has been taken away. */
static int blocking_listener(void)
{
    const struct sockaddr_in any = {.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&any, sizeof(any)), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static void accept_under(struct alarm *alarm, int listener)
{
    assert_true(alarm_set(alarm));
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), error = errno;
    alarm_clear(alarm);
    assert_int_equal(fd, -1);
    assert_int_equal(error, EINTR);
}

static void an_accept_that_waits_is_interrupted(void **state)
{
    (void)state;
    struct alarm alarm = {0};
    const int listener = blocking_listener();
    accept_under(&alarm, listener);
    accept_under(&alarm, listener); /* it can be set again */
    alarm_end(&alarm);
    close(listener);
}

static void *accept_with_signals_blocked(void *arg)
{
    struct alarm alarm = {0};
    accept_under(&alarm, *(int *)arg);
    alarm_end(&alarm);
    return NULL;
}

/* Workers leave all signals to the control thread. */
static void also_on_a_thread_that_blocks_all_signals(void **state)
{
    (void)state;
    sigset_t all, before;
    pthread_t thread;
    int listener = blocking_listener();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    assert_int_equal(pthread_create(&thread, NULL, accept_with_signals_blocked, &listener), 0);
    assert_int_equal(pthread_join(thread, NULL), 0); /* ours blocks them: only its own counts */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(listener);
}

static void one_that_is_cleared_interrupts_nothing(void **state)
{
    (void)state;
    struct alarm alarm = {0};
    assert_true(alarm_set(&alarm));
    alarm_clear(&alarm);
    const struct timespec longer = {.tv_nsec = 300000000};
    assert_int_equal(nanosleep(&longer, NULL), 0);
    alarm_end(&alarm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_accept_that_waits_is_interrupted),
        cmocka_unit_test(also_on_a_thread_that_blocks_all_signals),
        cmocka_unit_test(one_that_is_cleared_interrupts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
