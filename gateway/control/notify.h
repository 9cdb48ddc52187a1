/*
 * Tells the service manager what the gateway is doing (sd_notify(3)'s protocol: one datagram).
 *
 * Nothing happens where NOTIFY_SOCKET is not set. Thread: control. Failure: none that matters to
 * us.
 */
#ifndef CONTROL_NOTIFY_H
#define CONTROL_NOTIFY_H

void notify_ready(void);
void notify_reloading(void);
void notify_stopping(void);

#endif
