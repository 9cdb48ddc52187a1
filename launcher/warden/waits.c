#include "launcher/warden/waits.h"

#include "launcher/warden/answers.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { CHECK_MS = 500, PAUSE_MAX_MS = 20 };

static void on_time(int signal)
{
    (void)signal;
}

int64_t wait_begin(const struct call *call)
{
    pid_t warden = getpid();
    pid_t pid = fork();
    if (pid < 0)
        return -EAGAIN;
    if (pid > 0)
        return ANSWER_SENT;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != warden)
        _exit(0);
    struct sigaction action = {.sa_handler = on_time}; /* no SA_RESTART */
    struct itimerval often = {.it_interval = {.tv_usec = CHECK_MS * 1000},
                              .it_value = {.tv_usec = CHECK_MS * 1000}};
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigaction(SIGALRM, &action, NULL);
    sigprocmask(SIG_UNBLOCK, &alarm, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    wait_check(call);
    return 0;
}

void wait_check(const struct call *call)
{
    if (!call_waits(call))
        _exit(0);
}

void wait_pause(const struct call *call, unsigned turn)
{
    long ms = turn < PAUSE_MAX_MS ? (long)turn + 1 : PAUSE_MAX_MS;
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
    wait_check(call);
}

void wait_end(const struct call *call, int64_t result)
{
    call_answer(call, result);
    _exit(0);
}
