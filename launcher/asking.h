/*
 * --ask tty: the user says on the terminal what the sandbox may reach that nobody has decided.
 *
 * The command may have the same terminal, and may be hostile. So everything inside is held still
 * (launcher/freeze.h) while a question is on the screen, nothing that was typed before counts, the
 * terminal is put into a state of its own and then back into the one that the command had, and only
 * printable ASCII of a question is shown. Where that cannot be had, or we are not in the terminal's
 * foreground, nobody is asked; the gateway's time then runs out, and the answer is no.
 *
 * Ownership: asking_close() gives the terminal back. Thread: the launcher's only one. Failure: -1
 * with `err` when there is no terminal.
 */
#ifndef LAUNCHER_ASKING_H
#define LAUNCHER_ASKING_H

#include "launcher/egress.h"
#include "launcher/freeze.h"

#include <sys/queue.h>
#include <termios.h>

struct asked;

struct asking {
    int tty;               /* -1: nobody is asked */
    struct egress *egress; /* takes the answers */
    pid_t root;            /* everything below it is the sandbox */
    bool root_is_inside;   /* and so is itself */
    TAILQ_HEAD(, asked) queue;
    size_t count;
    bool shown;     /* the first of them is on the screen, and the sandbox is held */
    bool listening; /* what is typed counts */
    bool refuses;   /* the user wants no more questions */
    int64_t at_ms;  /* shown: from when on answers count; otherwise: of the next try. 0: none */
    pid_t foreground;
    struct termios terminal;
    struct freeze freeze;
};

/* `how` is the option's value, or NULL: nobody is asked. */
int asking_open(struct asking *asking, const char *how, struct srt_err *err);
void asking_begin(struct asking *asking, struct egress *egress, pid_t root, bool root_is_inside);
/* What the gateway says: "ask" and "answered". */
void asking_frame(struct asking *asking, const json_t *frame);

/* To be polled for input; -1: nothing to wait for. */
int asking_fd(const struct asking *asking);
/* On clock_ms(); 0: none. */
int64_t asking_deadline_ms(const struct asking *asking);
void asking_turn(struct asking *asking, bool readable);

/* The question goes off the screen, to come back: a signal is for the command. */
void asking_withdraw(struct asking *asking);
/* There is no gateway, and no question, any more. */
void asking_forget(struct asking *asking);
void asking_close(struct asking *asking);

/* ---- what is shown and read; pure ---- */

enum asking_answer {
    ASKING_UNCLEAR,
    ASKING_YES,
    ASKING_ALWAYS, /* in this sandbox */
    ASKING_NO,
    ASKING_NEVER,   /* in this sandbox */
    ASKING_NO_MORE, /* and no to everything else */
};
enum asking_answer asking_read(const char *line, size_t len);

enum { ASKING_TEXT_MAX = 1024 };
/* The question as it goes to the terminal; returns `out`. */
const char *asking_text(const json_t *frame, char out[ASKING_TEXT_MAX]);

#endif
