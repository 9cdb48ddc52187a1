/*
 * What srt-launch says to whoever started it: a line on standard error that begins with its name,
 * or several. There may be names in it that a sandbox has chosen, so that control characters are
 * shown as \xNN.
 *
 * Thread: any. Failure: none that could be told.
 */
#ifndef LAUNCHER_SAY_H
#define LAUNCHER_SAY_H

enum { EXIT_FAILED = 125 }; /* nothing was run, or it could not be seen to its end */

__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
/* The same, and returns EXIT_FAILED, so that `return fail(...)` reads well. */
__attribute__((format(printf, 1, 2))) int fail(const char *format, ...);

#endif
