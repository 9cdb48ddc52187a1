#include "control/starter.h"

#include "srt/cleanup.h"
#include "srt/must.h"

#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
    SOCKET_FD = 3, /* the starter's end */
    CHILD_FD = 3,  /* what the started program is given */
    COMMAND_MAX = 1 << 20,
    RELEASED = -2,
    RELEASE_MS = 1000,
};

static const char take_over[] = "--take-over";

struct starter {
    pid_t pid;
    int fd;
    unsigned char round; /* of the start that is meant */
    struct ev_loop *loop;
    ev_io io;
    starter_ended_fn *ended;
    void *arg;
};

/* How this process was started. */
struct start {
    char *program;
    char **argv; /* into `words` */
    char *words;
    pid_t gateway;
};

/* ---- what is started ---- */

static bool same_file(const char *a, const char *b)
{
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

/* By the name that was used, so that a link that leads to another version is followed; it is
 * looked up when the time comes. */
static char *find_program(const char *name, struct srt_err *err)
{
    char path[4096];
    if (strchr(name, '/') != NULL && same_file(name, "/proc/self/exe"))
        return must_copy(name);
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (len <= 0) {
        srt_err_set(err, "/proc/self/exe: %s", strerror(errno));
        return NULL;
    }
    path[len] = '\0';
    return must_copy(path);
}

static ssize_t read_command_line(char *out, size_t size)
{
    size_t len = 0;
    ssize_t n = -1;
    autoclose int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && len < size && (n = read(fd, out + len, size - len)) > 0)
        len += (size_t)n;
    return n == 0 ? (ssize_t)len : -1;
}

static void start_free(struct start *start)
{
    free(start->program);
    free(start->argv);
    free(start->words);
}

/* As the kernel keeps it: getopt and main() have changed what they were given. What the process
 * before added is left out. */
static int read_start(struct start *start, struct srt_err *err)
{
    *start = (struct start){.gateway = getpid(), .words = must(malloc(COMMAND_MAX + 1))};
    ssize_t len = read_command_line(start->words, COMMAND_MAX);
    if (len <= 0)
        return srt_err_set(err, "/proc/self/cmdline cannot be read");
    start->words[len] = '\0';
    size_t count = 0;
    for (ssize_t i = 0; i < len; i++)
        count += start->words[i] == '\0';
    start->argv = must(calloc(count + 4, sizeof(*start->argv)));
    size_t argc = 0;
    for (char *word = start->words; word < start->words + len; word += strlen(word) + 1) {
        if (strcmp(word, take_over) == 0)
            word += strlen(word) + 1; /* and the number behind it */
        else
            start->argv[argc++] = word;
    }
    static char option[] = "--take-over", number[] = "3";
    start->argv[argc++] = option;
    start->argv[argc] = number;
    start->program = find_program(start->argv[0], err);
    return start->program != NULL ? 0 : -1;
}

/* ---- the process ---- */

static const int deaf_to[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE};
enum { DEAF_COUNT = sizeof(deaf_to) / sizeof(deaf_to[0]) };

struct signals {
    struct sigaction actions[DEAF_COUNT];
    sigset_t mask;
};

/* What is sent to all processes of the service is for the gateway. */
static int turn_deaf(struct signals *before)
{
    sigset_t child;
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    for (size_t i = 0; i < DEAF_COUNT; i++)
        sigaction(deaf_to[i], &ignore, &before->actions[i]);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &before->mask);
    return signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The service manager's words are for the process that it started: the sockets come another way,
 * and the watchdog watches whoever is the main process. */
static void set_environment(const struct start *start)
{
    char number[16];
    const char *watched = getenv("WATCHDOG_PID");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    if (watched == NULL || strtol(watched, NULL, 10) != start->gateway)
        return;
    snprintf(number, sizeof(number), "%d", (int)getpid());
    setenv("WATCHDOG_PID", number, 1);
}

static _Noreturn void become(const struct start *start, const struct signals *signals, int fd)
{
    for (size_t i = 0; i < DEAF_COUNT; i++)
        sigaction(deaf_to[i], &signals->actions[i], NULL);
    sigprocmask(SIG_SETMASK, &signals->mask, NULL);
    set_environment(start);
    if (fd != CHILD_FD && dup2(fd, CHILD_FD) < 0)
        _exit(71);
    (void)fcntl(CHILD_FD, F_SETFD, 0);
    (void)close_range(CHILD_FD + 1, ~0U, 0);
    execv(start->program, start->argv);
    dprintf(STDERR_FILENO, "srt-gateway: %s: %s\n", start->program, strerror(errno));
    _exit(71);
}

/* Waits for what was started, so that its end can be told. Once this process is killed, the kernel
 * gives that to init or to the service manager, who then notices its end as that of any service. */
static _Noreturn void mind(const struct start *start, const struct signals *signals, int fd)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        become(start, signals, fd);
    if (pid < 0)
        _exit(71);
    (void)close_range(SOCKET_FD, ~0U, 0);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            _exit(71);
    _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

/* What was started, and how it ended. */
struct report {
    unsigned char round;
    int code; /* as of exit, 128 and more for signals; or RELEASED */
};

/* A descriptor: start with it. A byte alone: let go. False: the gateway has ended. */
static bool take_order(const struct start *start, const struct signals *signals, pid_t *minder,
                       struct report *report)
{
    unsigned char byte;
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {&byte, 1};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(SOCKET_FD, &header, MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR)
        return true;
    if (n <= 0)
        return false;
    const struct cmsghdr *found = CMSG_FIRSTHDR(&header);
    if (found != NULL && found->cmsg_type == SCM_RIGHTS && *minder < 0) {
        int fd;
        memcpy(&fd, CMSG_DATA(found), sizeof(fd));
        report->round = byte;
        *minder = fork();
        if (*minder == 0)
            mind(start, signals, fd);
        close(fd);
    } else {
        if (*minder > 0)
            kill(*minder, SIGKILL);
        while (*minder > 0 && waitpid(*minder, NULL, 0) < 0 && errno == EINTR)
            ;
        *minder = -1;
        report->code = RELEASED;
        (void)send(SOCKET_FD, report, sizeof(*report), MSG_NOSIGNAL);
    }
    return true;
}

static void report_end(pid_t *minder, struct report *report)
{
    int status;
    if (*minder < 0 || waitpid(*minder, &status, WNOHANG) != *minder)
        return;
    *minder = -1;
    report->code = WIFEXITED(status) ? WEXITSTATUS(status) : 71;
    (void)send(SOCKET_FD, report, sizeof(*report), MSG_NOSIGNAL);
}

static _Noreturn void be_starter(const struct start *start, int fd)
{
    struct signals signals;
    pid_t minder = -1;
    struct report report = {0};
    prctl(PR_SET_NAME, "srt-starter");
    if (fd != SOCKET_FD && dup2(fd, SOCKET_FD) < 0)
        _exit(71);
    (void)fcntl(SOCKET_FD, F_SETFD, FD_CLOEXEC);
    (void)close_range(SOCKET_FD + 1, ~0U, 0);
    const int child_fd = turn_deaf(&signals);
    for (;;) {
        struct signalfd_siginfo told;
        struct pollfd ready[] = {{.fd = SOCKET_FD, .events = POLLIN},
                                 {.fd = child_fd, .events = POLLIN}};
        if (poll(ready, 2, -1) < 0 && errno != EINTR)
            _exit(71);
        while (read(child_fd, &told, sizeof(told)) == (ssize_t)sizeof(told))
            report_end(&minder, &report);
        if (ready[0].revents != 0 && !take_order(start, &signals, &minder, &report))
            _exit(0);
    }
}

/* ---- the gateway's side ---- */

struct starter *starter_create(struct srt_err *err)
{
    struct start start;
    int pair[2];
    if (read_start(&start, err) != 0) {
        start_free(&start);
        return NULL;
    }
    struct starter *starter = must(calloc(1, sizeof(*starter)));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0) {
        starter->fd = pair[0];
        starter->pid = fork();
        if (starter->pid == 0)
            be_starter(&start, pair[1]);
        close(pair[1]);
    } else {
        starter->fd = -1;
        starter->pid = -1;
    }
    start_free(&start);
    if (starter->pid > 0)
        return starter;
    srt_err_set(err, "%s", strerror(errno));
    starter_free(starter);
    return NULL;
}

void starter_free(struct starter *starter)
{
    if (starter == NULL)
        return;
    if (starter->loop != NULL)
        ev_io_stop(starter->loop, &starter->io);
    if (starter->fd >= 0)
        close(starter->fd);
    if (starter->pid > 0)
        while (waitpid(starter->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    free(starter);
}

static void on_told(struct ev_loop *loop, ev_io *io, int events)
{
    struct starter *starter = io->data;
    char text[64];
    struct report report;
    (void)events;
    ssize_t n = recv(starter->fd, &report, sizeof(report), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == (ssize_t)sizeof(report) && report.round != starter->round)
        return; /* of an earlier one, which was let go */
    ev_io_stop(loop, io);
    const int code = n == (ssize_t)sizeof(report) ? report.code : -1;
    if (code < 0)
        snprintf(text, sizeof(text), "the process that starts programs is gone");
    else if (code > 128)
        snprintf(text, sizeof(text), "signal %d ended the new process", code - 128);
    else
        snprintf(text, sizeof(text), "the new process ended with %d", code);
    starter_ended_fn *ended = starter->ended;
    starter->ended = NULL;
    if (ended != NULL)
        ended(starter->arg, text);
}

int starter_start(struct starter *starter, struct ev_loop *loop, int fd, starter_ended_fn *ended,
                  void *arg, struct srt_err *err)
{
    unsigned char round = ++starter->round;
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control = {.bytes = {0}};
    struct iovec part = {&round, 1};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    *rights = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
    if (sendmsg(starter->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
        return srt_err_set(err, "the process that starts programs is gone: %s", strerror(errno));
    starter->loop = loop;
    starter->ended = ended;
    starter->arg = arg;
    ev_io_init(&starter->io, on_told, starter->fd, EV_READ);
    starter->io.data = starter;
    ev_io_start(loop, &starter->io);
    return 0;
}

/* Waited for: the service manager looks at whose child it is as soon as it is told of it. */
void starter_release(struct starter *starter)
{
    const char byte = 'r';
    struct pollfd ready = {.fd = starter->fd, .events = POLLIN};
    struct report report = {0};
    ev_io_stop(starter->loop, &starter->io);
    starter->ended = NULL;
    if (send(starter->fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
        return;
    while (report.code != RELEASED && poll(&ready, 1, RELEASE_MS) > 0 &&
           recv(starter->fd, &report, sizeof(report), MSG_DONTWAIT) > 0)
        ;
}
