/*
 * --control-fd: complete settings objects, one a line, whose network part replaces the one in
 * force. The end of the descriptor ends the last line, too.
 *
 * Ownership: control_close(). Thread: one. Failure: a line that is no settings object is reported
 * and changes nothing; the end of the descriptor leaves the last policy in force.
 */
#ifndef LAUNCHER_CONTROL_H
#define LAUNCHER_CONTROL_H

#include "srt/err.h"

#include <stdbool.h>
#include <stddef.h>

struct control {
    int fd; /* -1 = none, or ended */
    char *in;
    size_t len, capacity;
    unsigned long line;
};

/* Reads what is there without waiting. */
void control_fill(struct control *control);
/* The `network` object of the next whole line, to be freed; NULL when there is none. A line at
 * fault fills `err` and is skipped: then NULL with err->text set, and the caller asks again. */
char *control_next(struct control *control, struct srt_err *err);
void control_close(struct control *control);

#endif
