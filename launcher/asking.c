#include "launcher/asking.h"

#include "srt/clock.h"
#include "srt/must.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    QUEUE_MAX = 1000,
    ID_MAX = 64,
    LATE_MS = 700,   /* after the question came up; who types sooner has not read it */
    RETRY_MS = 1000, /* until we may be in the foreground */
    LINE_MAX_LEN = 64,
};

/* Ends what a command may have left unfinished on the terminal (a control string, invisible text,
 * another character set, a scroll region), as far as terminals agree: CAN, ST, DECSTR, SGR 0. */
static const char reset_screen[] = "\030\033\\\033[!p\033[0m\n";

struct asked {
    TAILQ_ENTRY(asked) link;
    char id[ID_MAX];
    char text[ASKING_TEXT_MAX];
};

/* ---- words ---- */

/* Whatever a gateway sends: only what cannot steer a terminal is shown. */
static void add_safely(char *out, size_t size, const char *text, size_t max)
{
    size_t len = strlen(out);
    for (size_t i = 0; text != NULL && text[i] != '\0' && i < max && len + 1 < size; i++)
        out[len++] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    out[len] = '\0';
}

static void add_member(char *out, const json_t *frame, const char *before, const char *name,
                       size_t max)
{
    const char *text = json_string_value(json_object_get(frame, name));
    if (text == NULL)
        return;
    add_safely(out, ASKING_TEXT_MAX, before, 64);
    add_safely(out, ASKING_TEXT_MAX, text, max);
}

const char *asking_text(const json_t *frame, char out[ASKING_TEXT_MAX])
{
    char port[16];
    const json_int_t number = json_integer_value(json_object_get(frame, "port"));
    out[0] = '\0';
    snprintf(port, sizeof(port), ":%u", (unsigned)number & 0xffff);
    add_safely(out, ASKING_TEXT_MAX, "srt-launch: the sandbox asks for ", 64);
    add_member(out, frame, "", "host", 255);
    add_safely(out, ASKING_TEXT_MAX, port, sizeof(port));
    add_member(out, frame, " (", "front", 16);
    add_member(out, frame, ", ", "method", 16);
    add_member(out, frame, ", policy ", "policy", 64);
    add_safely(out, ASKING_TEXT_MAX, ")", 1);
    return out;
}

enum asking_answer asking_read(const char *line, size_t len)
{
    static const struct {
        const char *words[2];
        enum asking_answer answer;
    } rows[] = {{{"y", "yes"}, ASKING_YES},
                {{"a", "always"}, ASKING_ALWAYS},
                {{"n", "no"}, ASKING_NO},
                {{"d", "never"}, ASKING_NEVER},
                {{"q", "quit"}, ASKING_NO_MORE}};
    while (len > 0 && strchr(" \t\r\n", line[len - 1]) != NULL)
        len--;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t j = 0; j < 2; j++)
            if (strlen(rows[i].words[j]) == len && memcmp(rows[i].words[j], line, len) == 0)
                return rows[i].answer;
    return ASKING_UNCLEAR;
}

/* ---- the terminal ---- */

static void show(const struct asking *asking, const char *text)
{
    for (size_t len = strlen(text); len > 0;) {
        ssize_t n = write(asking->tty, text, len);
        if (n < 0 && errno != EINTR)
            return;
        if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
    }
}

static void show_question(const struct asking *asking)
{
    const struct asked *asked = TAILQ_FIRST(&asking->queue);
    char more[64] = "";
    if (asking->count > 1)
        snprintf(more, sizeof(more), " [%zu more]", asking->count - 1);
    show(asking, reset_screen);
    show(asking, asked->text);
    show(asking, more);
    show(asking, "\n  y once | a always, d never in this sandbox | n no | q no to everything\n"
                 "  your answer, then Enter: ");
}

static void put_question(struct asking *asking)
{
    asking->listening = false;
    asking->at_ms = clock_ms() + LATE_MS;
    show_question(asking);
}

/* Lines, echoed; keys that would send signals are a part of the line, and no answer. What was
 * typed before is thrown away. SIGTTOU is blocked here, so that a background process may do this.
 */
static bool take_terminal(struct asking *asking)
{
    struct termios mine;
    if (tcgetattr(asking->tty, &asking->terminal) != 0)
        return false;
    mine = asking->terminal;
    mine.c_lflag |= ICANON | ECHO | ECHOE | ECHOK;
    mine.c_lflag &= ~(tcflag_t)(ISIG | TOSTOP);
    mine.c_iflag |= ICRNL;
    mine.c_iflag &= ~(tcflag_t)(INLCR | IGNCR);
    mine.c_oflag |= OPOST | ONLCR;
    tcflow(asking->tty, TCOON); /* somebody may have held the output back */
    if (tcsetpgrp(asking->tty, getpgrp()) == 0 && tcsetattr(asking->tty, TCSAFLUSH, &mine) == 0)
        return true;
    tcsetpgrp(asking->tty, asking->foreground);
    return false;
}

static void give_terminal_back(struct asking *asking)
{
    tcsetattr(asking->tty, TCSAFLUSH, &asking->terminal);
    tcsetpgrp(asking->tty, asking->foreground);
}

/* The terminal is ours or the command's, and not of a job that the user has put before us. */
static bool may_ask(const struct asking *asking)
{
    return asking->foreground > 0 && (asking->foreground == getpgrp() ||
                                      freeze_has_group(&asking->freeze, asking->foreground));
}

static void try_to_show(struct asking *asking)
{
    asking->at_ms = clock_ms() + RETRY_MS;
    asking->foreground = tcgetpgrp(asking->tty);
    if (!freeze_begin(&asking->freeze, asking->root, asking->root_is_inside))
        return;
    if (!may_ask(asking) || !take_terminal(asking)) {
        freeze_end(&asking->freeze);
        return;
    }
    asking->shown = true;
    put_question(asking);
}

static void leave_screen(struct asking *asking)
{
    if (!asking->shown)
        return;
    asking->shown = false;
    give_terminal_back(asking);
    freeze_end(&asking->freeze);
    kill(-asking->foreground, SIGWINCH); /* what fills the screen draws it anew */
}

/* ---- questions ---- */

static void drop_first(struct asking *asking)
{
    struct asked *asked = TAILQ_FIRST(&asking->queue);
    TAILQ_REMOVE(&asking->queue, asked, link);
    asking->count--;
    free(asked);
}

/* One after the other, without letting the sandbox go on between. */
static void go_on(struct asking *asking)
{
    if (TAILQ_EMPTY(&asking->queue)) {
        leave_screen(asking);
        asking->at_ms = 0;
    } else if (asking->shown) {
        put_question(asking);
    } else {
        try_to_show(asking);
    }
}

static void send_answer(struct asking *asking, const char *id, bool approves, bool keeps)
{
    struct srt_err err;
    if (egress_answer(asking->egress, id, approves, keeps, &err) != 0 && asking->shown)
        show(asking, "\n  the gateway takes no answer at the moment\n");
}

static void refuse_all(struct asking *asking)
{
    asking->refuses = true;
    while (!TAILQ_EMPTY(&asking->queue)) {
        send_answer(asking, TAILQ_FIRST(&asking->queue)->id, false, false);
        drop_first(asking);
    }
}

static void take_line(struct asking *asking, const char *line, size_t len)
{
    const char *id = TAILQ_FIRST(&asking->queue)->id;
    const enum asking_answer answer = asking_read(line, len);
    switch (answer) {
    case ASKING_UNCLEAR:
        show(asking, "  y, a, n, d or q, then Enter: ");
        return;
    case ASKING_NO_MORE:
        refuse_all(asking);
        break;
    case ASKING_YES:
    case ASKING_ALWAYS:
    case ASKING_NO:
    case ASKING_NEVER:
        send_answer(asking, id, answer == ASKING_YES || answer == ASKING_ALWAYS,
                    answer == ASKING_ALWAYS || answer == ASKING_NEVER);
        drop_first(asking);
        break;
    }
    go_on(asking);
}

static void add(struct asking *asking, const json_t *frame)
{
    const char *id = json_string_value(json_object_get(frame, "id"));
    if (id == NULL || strlen(id) >= ID_MAX || asking->count >= QUEUE_MAX)
        return;
    if (asking->refuses) {
        send_answer(asking, id, false, false);
        return;
    }
    struct asked *asked = must(calloc(1, sizeof(*asked)));
    memcpy(asked->id, id, strlen(id) + 1);
    asking_text(frame, asked->text);
    TAILQ_INSERT_TAIL(&asking->queue, asked, link);
    if (asking->count++ == 0)
        go_on(asking);
}

static void take_back(struct asking *asking, const char *id)
{
    struct asked *asked;
    TAILQ_FOREACH(asked, &asking->queue, link)
        if (id != NULL && strcmp(asked->id, id) == 0)
            break;
    if (asked == NULL)
        return;
    const bool first = asked == TAILQ_FIRST(&asking->queue);
    TAILQ_REMOVE(&asking->queue, asked, link);
    asking->count--;
    free(asked);
    if (!first)
        return;
    if (asking->shown)
        show(asking, "\n  it needs no answer any more\n");
    go_on(asking);
}

void asking_frame(struct asking *asking, const json_t *frame)
{
    const char *type = json_string_value(json_object_get(frame, "type"));
    if (asking->tty < 0 || type == NULL)
        return;
    if (strcmp(type, "ask") == 0)
        add(asking, frame);
    else if (strcmp(type, "answered") == 0)
        take_back(asking, json_string_value(json_object_get(frame, "id")));
}

/* ---- from the loop ---- */

int asking_fd(const struct asking *asking)
{
    return asking->shown && asking->listening ? asking->tty : -1;
}

int64_t asking_deadline_ms(const struct asking *asking)
{
    return asking->shown && asking->listening ? 0 : asking->at_ms;
}

static void take_time(struct asking *asking)
{
    if (asking->at_ms == 0 || clock_ms() < asking->at_ms)
        return;
    if (!asking->shown) {
        go_on(asking);
        return;
    }
    tcflush(asking->tty, TCIFLUSH);
    asking->listening = true;
}

void asking_turn(struct asking *asking, bool readable)
{
    char line[LINE_MAX_LEN];
    if (asking->tty < 0)
        return;
    if (!asking->listening || !asking->shown) {
        take_time(asking);
        return;
    }
    if (!readable)
        return;
    ssize_t n = read(asking->tty, line, sizeof(line));
    if (n > 0)
        take_line(asking, line, (size_t)n);
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
        asking_withdraw(asking); /* the terminal is gone, or it is not ours any more */
}

void asking_withdraw(struct asking *asking)
{
    if (!asking->shown)
        return;
    show(asking, "\n");
    leave_screen(asking);
    asking->at_ms = clock_ms() + RETRY_MS;
}

void asking_forget(struct asking *asking)
{
    if (asking->tty < 0)
        return;
    while (!TAILQ_EMPTY(&asking->queue))
        drop_first(asking);
    go_on(asking);
}

/* ---- life ---- */

int asking_open(struct asking *asking, const char *how, struct srt_err *err)
{
    *asking = (struct asking){.tty = -1};
    TAILQ_INIT(&asking->queue);
    if (how == NULL)
        return 0;
    if (strcmp(how, "tty") != 0)
        return srt_err_set(err, "--ask %s: it can be tty only", how);
    asking->tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (asking->tty < 0)
        return srt_err_set(err, "--ask tty needs a terminal: /dev/tty: %s", strerror(errno));
    return 0;
}

void asking_begin(struct asking *asking, struct egress *egress, pid_t root, bool root_is_inside)
{
    asking->egress = egress;
    asking->root = root;
    asking->root_is_inside = root_is_inside;
}

void asking_close(struct asking *asking)
{
    if (asking->tty < 0)
        return;
    asking_forget(asking);
    close(asking->tty);
    asking->tty = -1;
}
