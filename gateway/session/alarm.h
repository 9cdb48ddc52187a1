/*
 * Ends a system call of this thread that should not have waited.
 *
 * accept4() obeys the O_NONBLOCK of a listener that a launcher shares with us and may clear at any
 * moment; nothing that is looked at before the call can rule that out. So while connections are
 * accepted there, a timer is set that would interrupt it; other calls of that turn do not wait.
 * Thread: alarm_set() and alarm_clear() on the one thread that first used it. Failure: no timer can
 * be had; then alarm_set() says so.
 */
#ifndef SESSION_ALARM_H
#define SESSION_ALARM_H

#include <stdbool.h>
#include <time.h>

struct alarm {
    timer_t timer;
    bool made;
};

/* From a tenth of a second on, calls of this thread fail with EINTR, again and again. */
bool alarm_set(struct alarm *alarm);
void alarm_clear(struct alarm *alarm);
/* On any thread. */
void alarm_end(struct alarm *alarm);

#endif
