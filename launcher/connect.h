/*
 * `srt-launch connect HOST PORT`, run inside a sandbox: standard input and output through the way
 * out, for programs such as ssh that can start a helper but know no proxy.
 *
 * Returns the exit status: 0 when the connection has ended, 1 when it was refused (one line on
 * standard error says why), 125 for wrong usage or outside a sandbox.
 */
#ifndef LAUNCHER_CONNECT_H
#define LAUNCHER_CONNECT_H

int connect_run(char *const *words);

#endif
