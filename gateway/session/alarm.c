#include "session/alarm.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static const struct itimerspec never;
/* Again and again: the first may come before the call has begun. */
static const struct itimerspec soon = {.it_value.tv_nsec = 100000000,
                                       .it_interval.tv_nsec = 100000000};

static void on_signal(int number)
{
    (void)number; /* that it came is enough */
}

static void use_signal(void)
{
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART */
    sigemptyset(&action.sa_mask);
    (void)sigaction(SIGALRM, &action, NULL);
}

static bool make(struct alarm *alarm)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, use_signal);
    sigset_t signal;
    sigemptyset(&signal);
    sigaddset(&signal, SIGALRM);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
    event._sigev_un._tid = gettid(); /* sigev_notify_thread_id, where the C library has the name */
    alarm->made = pthread_sigmask(SIG_UNBLOCK, &signal, NULL) == 0 &&
                  timer_create(CLOCK_MONOTONIC, &event, &alarm->timer) == 0;
    return alarm->made;
}

bool alarm_set(struct alarm *alarm)
{
    return (alarm->made || make(alarm)) && timer_settime(alarm->timer, 0, &soon, NULL) == 0;
}

void alarm_clear(struct alarm *alarm)
{
    (void)timer_settime(alarm->timer, 0, &never, NULL);
}

void alarm_end(struct alarm *alarm)
{
    if (alarm->made)
        (void)timer_delete(alarm->timer);
    alarm->made = false;
}
