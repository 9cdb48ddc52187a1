/*
 * Tells the service manager what the gateway is doing (sd_notify(3)'s protocol: one datagram).
 *
 * Nothing happens where NOTIFY_SOCKET is not set. Thread: control. Failure: none that matters to
 * us.
 */
#ifndef CONTROL_NOTIFY_H
#define CONTROL_NOTIFY_H

#include <stdbool.h>

void notify_ready(void);
void notify_reloading(void);
void notify_stopping(void);
/* Another process is the main one from now on; this one has nothing more to say. */
void notify_main_pid(int pid);

/* Seconds between two calls of notify_alive() that keep the service manager content: half of
 * WATCHDOG_USEC, or some time of our own for the sake of the status; 0: nobody listens. */
double notify_interval_s(void);
/* The whole gateway works. `status` is one line for people. */
void notify_alive(const char *status);

#endif
