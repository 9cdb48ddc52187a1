#include "launcher/supervise.h"

#include "launcher/refusals.h"
#include "launcher/remedy.h"
#include "launcher/say.h"
#include "launcher/stage.h"
#include "srt/cleanup.h"
#include "srt/clock.h"
#include "srt/must.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>

enum {
    KILL_AFTER_MS = 5000, /* between TERM and the end of everything inside */
    SETTLE_MS = 10000,    /* for a gateway to answer what --control-fd had at the start */
    RETRY_MS = 250,       /* between two tries to reach a gateway that went away */
    EXIT_NOT_EXECUTABLE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNAL = 128,
};

static const int handed_on[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGWINCH,
                                SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2};
enum { HANDED_ON = sizeof(handed_on) / sizeof(handed_on[0]) };

struct watch {
    struct supervise *run;
    int signals;
    int64_t kill_at_ms, retry_at_ms; /* 0 = not set */
    bool terminal_given, said_lost, lingers;
    uint64_t serial;
    struct termios terminal;
    int result; /* exit status, once it is known */
    bool ended;
};

uint64_t supervise_ignored_signals(void)
{
    uint64_t ignored = 0;
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            ignored |= UINT64_C(1) << (number - 1);
    }
    return ignored;
}

bool supervise_owns_terminal(void)
{
    struct stat st[3];
    for (int fd = 0; fd < 3; fd++)
        if (!isatty(fd) || fstat(fd, &st[fd]) != 0 || st[fd].st_rdev != st[0].st_rdev)
            return false;
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* SIGTTOU is blocked here, so a background process may do this too. */
static void take_terminal(struct watch *watch)
{
    if (watch->terminal_given)
        tcsetpgrp(STDIN_FILENO, getpgrp());
    watch->terminal_given = false;
}

static void continue_command(struct watch *watch)
{
    if (watch->run->job->own_group && !watch->lingers && tcgetpgrp(STDIN_FILENO) == getpgrp()) {
        watch->terminal_given = true;
        stage_send(watch->run->cell->sock, STAGE_FOREGROUND, 0, NULL);
    } else {
        stage_send(watch->run->cell->sock, STAGE_SIGNAL, SIGCONT, NULL);
    }
}

/* Stops this process as the default action of SIGTSTP does; where nobody could continue us (an
 * orphaned process group) the kernel does not stop us, and the command goes straight on. */
static void stop_ourselves(struct watch *watch)
{
    take_terminal(watch);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTSTP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sigprocmask(SIG_BLOCK, &set, NULL);
    continue_command(watch);
}

static void on_signal(struct watch *watch, const struct signalfd_siginfo *info)
{
    int number = (int)info->ssi_signo;
    /* What the terminal sends went to the command's process group as well. */
    bool from_terminal = info->ssi_code == SI_KERNEL;
    if (number == SIGCHLD)
        return;
    if (number != SIGWINCH && number != SIGCONT)
        asking_withdraw(watch->run->asking); /* who is held hears nothing */
    if (number == SIGCONT) {
        continue_command(watch);
        return;
    }
    if (!from_terminal || watch->run->job->own_group)
        stage_send(watch->run->cell->sock, from_terminal ? STAGE_TYPED : STAGE_SIGNAL, number,
                   NULL);
    if (number == SIGTSTP && !watch->run->job->own_group) /* else when the command has stopped */
        stop_ourselves(watch);
    if (number == SIGTERM && watch->kill_at_ms == 0)
        watch->kill_at_ms = clock_ms() + KILL_AFTER_MS;
}

static void on_signals(struct watch *watch)
{
    struct signalfd_siginfo info;
    while (read(watch->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        on_signal(watch, &info);
}

static void end(struct watch *watch, int result)
{
    if (!watch->ended)
        watch->result = result;
    watch->ended = true;
}

/* Whoever hides the directories of programs hears that a program is not there, and who hides one
 * that it cannot be executed. */
static bool say_what_hides(const struct watch *watch, const char *program, bool missing)
{
    struct path_place place;
    struct stat st;
    autofree char *absolute = realpath(program, NULL);
    if (absolute == NULL || stat(absolute, &st) != 0 || !S_ISREG(st.st_mode) ||
        access(absolute, X_OK) != 0 || path_resolve(absolute, &place, NULL) != 0)
        return false;
    struct fence_view view = fence_view(watch->run->law->fence, place.path);
    if (view.readable && missing)
        say("%s is there, but not what runs it: an interpreter, or the system's loader", program);
    else if (!view.readable)
        say("%s is hidden by %s", place.path, view.read_setting);
    path_place_free(&place);
    return true;
}

static void say_why(const struct watch *watch, const char *word, bool missing)
{
    if (strchr(word, '/') != NULL) {
        say_what_hides(watch, word, missing);
        return;
    }
    const char *list = getenv("PATH");
    autofree char *path = must_copy(list != NULL ? list : "/usr/bin:/bin");
    char *rest = path;
    for (const char *dir; (dir = strsep(&rest, ":")) != NULL;) {
        autofree char *program = path_join(dir[0] != '\0' ? dir : ".", word);
        if (say_what_hides(watch, program, missing))
            return;
    }
}

static int not_run(const struct watch *watch, int error)
{
    const char *word = watch->run->job->argv[0];
    bool missing = error == ENOENT || error == ENOTDIR;
    say("%s: %s", word, missing ? "command not found" : strerror(error));
    if (missing && strpbrk(word, " \t;|&") != NULL)
        say("the whole command line was one word; to have it run by a shell, use: srt-launch -c "
            "'...'");
    else if (missing || error == EACCES)
        say_why(watch, word, missing);
    return missing ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

static void lose_warden(struct watch *watch)
{
    say("the process that supervises the sandbox has died; the command is killed");
    end(watch, EXIT_FAILED);
    cell_kill(watch->run->cell);
}

static void on_listener(struct watch *watch, bool there_is_one, int listener)
{
    if (there_is_one && listener < 0)
        say("what tells of the command's calls cannot be taken: %s", remedy_error(EMFILE));
    if (there_is_one) {
        if (listener < 0 || !warden_give(watch->run->warden, listener))
            lose_warden(watch);
        return;
    }
    warden_end(watch->run->warden);
    if (watch->run->verbose)
        say("this runs inside a supervised sandbox: new protected names are only found at the end");
}

static void on_stage(struct watch *watch)
{
    struct stage_message message = {.word = 0};
    int listener = -1;
    size_t count = 1;
    ssize_t len = fds_receive(watch->run->cell->sock, &message, sizeof(message), &listener, &count);
    if (len <= 0) {
        /* Process 1 inside has died without a word. */
        if (!watch->ended)
            say("the sandbox was ended from outside");
        end(watch, EXIT_SIGNAL + SIGKILL);
        return;
    }
    if (len != (ssize_t)sizeof(message))
        return;
    message.text[sizeof(message.text) - 1] = '\0';
    switch ((enum stage_word)message.word) {
    case STAGE_ENDED:
        end(watch, WIFSIGNALED(message.number) ? EXIT_SIGNAL + WTERMSIG(message.number)
                                               : WEXITSTATUS(message.number));
        break;
    case STAGE_NOT_RUN:
        end(watch, not_run(watch, message.number));
        break;
    case STAGE_FAILED:
        say("%s", message.text);
        end(watch, EXIT_FAILED);
        break;
    case STAGE_STOPPED:
        stop_ourselves(watch);
        break;
    case STAGE_LINGERS:
        watch->lingers = true;
        take_terminal(watch); /* a Ctrl-C is for us now, and we hand it on */
        break;
    case STAGE_LISTENER:
        on_listener(watch, message.number != 0, count == 1 ? steal_fd(&listener) : -1);
        break;
    case STAGE_READY:
    case STAGE_GO:
    case STAGE_SIGNAL:
    case STAGE_TYPED:
    case STAGE_FOREGROUND:
        break;
    }
}

/* False at the end of the warden. */
static bool on_report(struct watch *watch)
{
    static struct warden_report report;
    int fds[2] = {-1, -1};
    size_t count = 2;
    ssize_t len =
        fds_receive(watch->run->warden->reports, &report, sizeof(report) - 1, fds, &count);
    if (len <= (ssize_t)offsetof(struct warden_report, path))
        return false;
    ((char *)&report)[len] = '\0';
    if (report.kind == WARDEN_REPLACE) {
        report.setting[sizeof(report.setting) - 1] = '\0';
        warden_replace(&report, fds[0], fds[1]);
        return true;
    }
    const struct hints_place place = {
        .fence = watch->run->law->fence, .home = watch->run->home, .cwd = watch->run->job->cwd};
    refusals_report(watch->run->violations, &place, &report);
    return true;
}

/* It ends by itself when nobody is left whose calls it could answer. Any other end leaves calls
 * that nobody judges: then everything ends. */
static void on_warden(struct watch *watch)
{
    if (on_report(watch))
        return;
    int status = 0;
    while (waitpid(watch->run->warden->pid, &status, 0) < 0 && errno == EINTR)
        ;
    watch->run->warden->pid = 0;
    close(steal_fd(&watch->run->warden->reports));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    lose_warden(watch);
}

static const char *member(const json_t *frame, const char *name)
{
    return json_string_value(json_object_get(frame, name));
}

static void on_answer(struct watch *watch, const json_t *frame, bool in_force)
{
    json_int_t serial = json_integer_value(json_object_get(frame, "serial"));
    egress_answered(watch->run->egress, (uint64_t)serial, in_force);
    const char *message = member(frame, "message");
    if (in_force)
        say("network policy %lld is in force, generation %lld", (long long)serial,
            (long long)json_integer_value(json_object_get(frame, "generation")));
    else
        say("network policy %lld is rejected, the one before stays: %s", (long long)serial,
            message != NULL ? message : "no reason was given");
}

static void on_frame(struct watch *watch, const json_t *frame)
{
    const char *type = member(frame, "type");
    if (type == NULL)
        return;
    asking_frame(watch->run->asking, frame);
    if (strcmp(type, "denial") == 0) {
        refusals_denial(watch->run->violations, frame);
    } else if (strcmp(type, "updated") == 0 || strcmp(type, "rejected") == 0) {
        on_answer(watch, frame, type[0] == 'u');
    }
}

static void on_gateway(struct watch *watch)
{
    bool lost;
    json_t *frame = egress_next(watch->run->egress, &lost);
    for (; frame != NULL; frame = egress_pending(watch->run->egress)) {
        on_frame(watch, frame);
        json_decref(frame);
    }
    if (!lost)
        return;
    close(steal_fd(&watch->run->egress->connection));
    asking_forget(watch->run->asking);
    watch->retry_at_ms = clock_ms();
    if (!watch->said_lost)
        say("the gateway is gone; the sandbox has no way out until it is back");
    watch->said_lost = true;
}

static void retry_gateway(struct watch *watch)
{
    struct srt_err err;
    if (egress_attach_again(watch->run->egress, &err) == 0) {
        watch->retry_at_ms = 0;
        watch->said_lost = false;
        say("the gateway is back");
    } else if (watch->run->egress->listener_count == 0) {
        watch->retry_at_ms = 0;
        say("%s", err.text);
    } else {
        if (watch->run->verbose)
            say("%s", err.text);
        watch->retry_at_ms = clock_ms() + RETRY_MS;
    }
}

static void on_control(struct watch *watch)
{
    struct control *control = &watch->run->control;
    control_fill(control);
    for (;;) {
        struct srt_err err;
        autofree char *network = control_next(control, &err);
        if (network == NULL && err.text[0] == '\0')
            return;
        if (network != NULL && watch->run->egress != NULL &&
            egress_update(watch->run->egress, ++watch->serial, network, &err) == 0)
            continue;
        if (network != NULL && watch->run->egress == NULL)
            srt_err_set(&err, "with --egress none there is no network policy to change");
        say("--control-fd: %s", err.text);
    }
}

static int next_timeout_ms(const struct watch *watch)
{
    const int64_t times[] = {watch->kill_at_ms, watch->retry_at_ms,
                             asking_deadline_ms(watch->run->asking)};
    int64_t next = 0;
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        if (times[i] != 0 && (next == 0 || times[i] < next))
            next = times[i];
    if (next == 0)
        return -1;
    int64_t left = next - clock_ms();
    return left < 0 ? 0 : (int)left;
}

static void on_time(struct watch *watch)
{
    int64_t now = clock_ms();
    if (watch->kill_at_ms != 0 && now >= watch->kill_at_ms) {
        say("the command did not end within 5 s of SIGTERM and is killed");
        end(watch, EXIT_SIGNAL + SIGKILL);
        cell_kill(watch->run->cell);
    } else if (watch->retry_at_ms != 0 && now >= watch->retry_at_ms) {
        retry_gateway(watch);
    }
}

static void loop(struct watch *watch)
{
    struct supervise *run = watch->run;
    while (!watch->ended) {
        struct pollfd wake[] = {
            {.fd = watch->signals, .events = POLLIN},
            {.fd = run->cell->sock, .events = POLLIN},
            {.fd = run->egress != NULL ? run->egress->connection : -1, .events = POLLIN},
            {.fd = run->control.fd, .events = POLLIN},
            {.fd = run->warden->reports, .events = POLLIN},
            {.fd = violations_pending(run->violations) ? run->violations->fd : -1,
             .events = POLLOUT},
            {.fd = asking_fd(run->asking), .events = POLLIN},
        };
        if (poll(wake, 7, next_timeout_ms(watch)) < 0 && errno != EINTR)
            end(watch, EXIT_FAILED);
        if (wake[0].revents != 0)
            on_signals(watch);
        if (run->egress != NULL && wake[2].revents != 0)
            on_gateway(watch);
        if (wake[3].revents != 0)
            on_control(watch);
        if (wake[4].revents != 0)
            on_warden(watch);
        if (wake[5].revents != 0)
            violations_flush(run->violations);
        asking_turn(run->asking, wake[6].revents != 0);
        if (wake[1].revents != 0)
            on_stage(watch);
        on_time(watch);
    }
}

static sigset_t signals_to_take(uint64_t ignored)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < HANDED_ON; i++)
        if ((ignored >> (handed_on[i] - 1) & 1) == 0)
            sigaddset(&set, handed_on[i]);
    return set;
}

static void collect_last_reports(struct watch *watch)
{
    struct pollfd wake = {.fd = watch->run->warden->reports, .events = POLLIN};
    while (wake.fd >= 0 && poll(&wake, 1, 0) > 0 && on_report(watch))
        ;
    violations_add_unlisted(watch->run->violations, warden_missed(watch->run->warden));
    warden_end(watch->run->warden);
}

/* Denials that were on their way when the command ended still count. */
static void collect_last_denials(struct watch *watch)
{
    json_t *frame;
    while (watch->run->egress != NULL && (frame = egress_last(watch->run->egress)) != NULL) {
        on_frame(watch, frame);
        json_decref(frame);
    }
}

/* What --control-fd holds already is in force, or rejected, before the command starts. A gateway
 * that is lost meanwhile hears it when it is back. */
static bool settle_policy(struct watch *watch)
{
    const struct egress *egress = watch->run->egress;
    on_control(watch);
    for (int64_t end_ms = clock_ms() + SETTLE_MS;
         egress != NULL && egress->connection >= 0 && !STAILQ_EMPTY(&egress->changes);) {
        struct pollfd wake = {.fd = egress->connection, .events = POLLIN};
        int64_t left = end_ms - clock_ms();
        if (left <= 0)
            return false;
        if (poll(&wake, 1, (int)left) > 0)
            on_gateway(watch);
    }
    return true;
}

int supervise_run(struct supervise *run, int job_fd)
{
    struct watch watch = {.run = run, .terminal_given = run->job->own_group};
    /* From here on signals are for the command. Blocked in ourselves only; the stage sets its own.
     */
    sigset_t set = signals_to_take(run->job->ignored_signals), block = set;
    sigaddset(&block, SIGTTOU);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &block, NULL);
    watch.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (run->job->own_group)
        tcgetattr(STDIN_FILENO, &watch.terminal);

    if (!settle_policy(&watch)) {
        say("the gateway does not answer about the policy that --control-fd holds");
        cell_kill(run->cell);
        cell_wait(run->cell);
        return EXIT_FAILED;
    }
    struct stage_message go = {.word = STAGE_GO};
    int fds[4] = {job_fd};
    size_t count = 1;
    for (int fd = 0; fd < 3; fd++) {
        if (run->streams[fd] < 0)
            continue;
        go.number |= 1 << fd;
        fds[count++] = run->streams[fd];
    }
    if (watch.signals < 0 || !fds_send(run->cell->sock, &go, sizeof(go), fds, count)) {
        say("the sandbox ended before the command could run");
        cell_kill(run->cell);
        cell_wait(run->cell);
        return EXIT_FAILED;
    }
    asking_begin(run->asking, run->egress, run->cell->pid, run->cell->direct);
    loop(&watch);
    asking_close(run->asking);
    cell_wait(run->cell);
    if (run->egress != NULL)
        egress_hang_up(run->egress);
    collect_last_reports(&watch);
    collect_last_denials(&watch);
    take_terminal(&watch);
    if (run->job->own_group && watch.result > EXIT_SIGNAL)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &watch.terminal); /* it may have died in raw mode */
    close(watch.signals);
    return watch.result;
}
