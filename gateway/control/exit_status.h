/* What srt-gateway and its commands end with: those of <sysexits.h> where there is one. */
#ifndef CONTROL_EXIT_STATUS_H
#define CONTROL_EXIT_STATUS_H

enum exit_status {
    EXIT_DONE = 0,
    EXIT_NO = 1, /* denied, changed, or the running gateway said no */
    EXIT_USAGE = 64,
    EXIT_NOT_RUNNING = 69,
    EXIT_BUG = 70,
    EXIT_SYSTEM = 71,
    EXIT_CONFIG = 78,
};

#endif
