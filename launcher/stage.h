/*
 * The last stage: this program again, as process 1 inside the sandbox, and what the launcher and it
 * say to each other over a SOCK_SEQPACKET pair that nothing else inside holds.
 *
 *   stage -> launcher   READY  with the mount and network namespace and the listener of the
 *                              proxy's port as descriptors
 *   launcher -> stage   GO     with the job in a memfd and streams to use instead; only this
 *                              message starts the command, an end of the connection never does
 *   stage -> launcher   FAILED (text), NOT_RUN (errno of execve), STOPPED (signal), LINGERS,
 *                       ENDED (wait status)
 *   launcher -> stage   SIGNAL (number), FOREGROUND
 *
 * The stage filters itself before it starts anything, is not dumpable, reaps, hands signals on, and
 * ends everything when the command or the launcher ends. Failure: FAILED, and the process ends.
 */
#ifndef LAUNCHER_STAGE_H
#define LAUNCHER_STAGE_H

#include <stdbool.h>
#include <stdint.h>

enum stage_word {
    STAGE_READY = 'r',
    STAGE_GO = 'g',
    STAGE_FAILED = 'f',
    STAGE_NOT_RUN = 'x',
    STAGE_STOPPED = 't',
    STAGE_ENDED = 'e',
    STAGE_LISTENER =
        'n', /* with the descriptor, or without one where supervision is not to be had */
    STAGE_LINGERS = 'l', /* the command has ended, but not all that it started */
    STAGE_SIGNAL = 's',
    STAGE_TYPED = 'y', /* a signal that the terminal sends: to the command's whole group */
    STAGE_FOREGROUND = 'c',
};

struct stage_message {
    uint8_t word;
    int32_t number;
    char text[1024];
};

bool stage_send(int sock, enum stage_word word, int32_t number, const char *text);

/* Goes on as process 1, in its namespaces and without capabilities; `sock` is the only descriptor
 * above the standard streams. */
_Noreturn void stage_run(int sock);

/* The same where bubblewrap has executed this program as process 1. `words` is what bwrap.c wrote:
 * the descriptors of the pair and of the caller's standard error, and which standard streams the
 * caller had closed. */
_Noreturn void stage_main(const char *words);

#endif
