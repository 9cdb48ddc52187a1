#include "launcher/stage.h"

#include "launcher/inside.h"
#include "launcher/job.h"
#include "launcher/landlock.h"
#include "launcher/remedy.h"
#include "launcher/syscalls.h"
#include "srt/attach.h"
#include "srt/cleanup.h"
#include "srt/clock.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>

enum {
    GRACE_MS = 200, /* for what the command leaves behind, between TERM and the end */
    FAILED = 125,
};

bool stage_send(int sock, enum stage_word word, int32_t number, const char *text)
{
    struct stage_message message = {.word = (uint8_t)word, .number = number};
    snprintf(message.text, sizeof(message.text), "%s", text != NULL ? text : "");
    return fds_send(sock, &message, sizeof(message), NULL, 0);
}

static _Noreturn void fail(int sock, const char *text)
{
    stage_send(sock, STAGE_FAILED, 0, text);
    _exit(FAILED);
}

/* With the number of the last error, and what lifts the limit that it may have come from. */
static _Noreturn void fail_for_lack(int sock, const char *text)
{
    struct srt_err err;
    srt_err_set(&err, "%s: %s", text, remedy_error(errno));
    fail(sock, err.text);
}

/* bubblewrap has done all this; a stand-in that only says so is found out here. */
static void check_walls(int sock)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2];
    if (getpid() != 1)
        fail(sock, "the sandbox has no process namespace of its own; is this bwrap bubblewrap?");
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        fail(sock, "the sandbox may gain privileges; is this bwrap bubblewrap?");
    if (syscall(SYS_capget, &header, caps) != 0 ||
        (caps[0].effective | caps[1].effective | caps[0].permitted | caps[1].permitted) != 0)
        fail(sock, "the sandbox has capabilities; is this bwrap bubblewrap?");
}

/* The way out begins here; where none is wanted, srt-launch closes it. */
static int open_proxy_port(void)
{
    autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(ATTACH_PORT),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, SOMAXCONN) != 0)
        return -1;
    return steal_fd(&fd);
}

/* Where the caller had a standard stream closed, what is opened here may take its number for a
 * while; all of it is close-on-exec, so the command finds the stream closed again. */
static int send_ready(int sock)
{
    autoclose int listener = open_proxy_port();
    autoclose int mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    autoclose int net = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (listener < 0 || mounts < 0 || net < 0)
        return -1;
    struct stage_message ready = {.word = STAGE_READY};
    const int fds[] = {mounts, net, listener};
    return fds_send(sock, &ready, sizeof(ready), fds, 3) ? 0 : -1;
}

/* The only way to go on is this one message. */
static int wait_for_go(int sock)
{
    struct stage_message message = {.word = 0};
    int fds[4];
    size_t count = 4, next = 1;
    ssize_t len = fds_receive(sock, &message, sizeof(message), fds, &count);
    if (len != sizeof(message) || message.word != STAGE_GO)
        _exit(FAILED);
    errno = EMFILE;
    if (count == 0)
        fail_for_lack(sock, "the command's descriptors cannot be taken");
    for (int fd = 0; fd < 3; fd++) {
        if ((message.number & 1 << fd) == 0)
            continue;
        if (next == count || dup2(fds[next], fd) < 0)
            _exit(FAILED);
        if (fds[next] != fd)
            close(fds[next]);
        next++;
    }
    if (next != count)
        _exit(FAILED);
    return fds[0];
}

static void reset_signals(uint64_t ignored)
{
    for (int number = 1; number < NSIG; number++)
        if (number != SIGKILL && number != SIGSTOP)
            signal(number, (ignored >> (number - 1) & 1) != 0 ? SIG_IGN : SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Only with SIGTTOU blocked may a background process do this. */
static void take_terminal(pid_t group)
{
    tcsetpgrp(STDIN_FILENO, group);
}

static bool send_listener(int sock, int listener)
{
    struct stage_message message = {.word = STAGE_LISTENER, .number = listener >= 0};
    return fds_send(sock, &message, sizeof(message), &listener, listener >= 0 ? 1 : 0);
}

static const char not_handed_out[] = "the command's calls cannot be handed to the supervisor";

/* A process that shares our descriptors and not the filter that we are about to get, under which a
 * message would wait for whoever gets it. It sends the descriptor whose number it reads from the
 * returned pipe, and is done. */
static int start_sender(int sock)
{
    int ends[2], listener;
    if (pipe2(ends, O_CLOEXEC) != 0)
        fail_for_lack(sock, "the command cannot be started: pipe");
    long pid = syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid < 0)
        fail_for_lack(sock, "the command cannot be started: fork");
    if (pid > 0)
        return ends[1];
    if (read(ends[0], &listener, sizeof(listener)) != (ssize_t)sizeof(listener))
        _exit(FAILED); /* whoever should have written has said why */
    if (!send_listener(sock, listener))
        fail_for_lack(sock, not_handed_out);
    _exit(0);
}

/* The last thing before the command: from here on its own calls wait for the warden. */
static void hand_out_listener(int sock, unsigned options)
{
    struct srt_err err;
    int status = FAILED, sender = -1;
    if ((options & SYSCALLS_NAMED_DATAGRAMS) != 0)
        sender = start_sender(sock);
    int listener = syscalls_install_notify(options, &err);
    if (listener == -1)
        fail(sock, err.text);
    if (listener < 0 && (options & SYSCALLS_NAMED_SOCKETS) != 0)
        fail(sock, "network.allowUnixSockets is not to be had in a sandbox inside a sandbox");
    if (listener < 0 && syscalls_install(options, &err) != 0)
        fail(sock, err.text);
    if (sender >= 0) {
        (void)!write(sender, &listener, sizeof(listener));
        if (waitpid(-1, &status, 0) < 0 || status != 0)
            _exit(FAILED);
        close(sender);
    } else if (!send_listener(sock, listener)) {
        fail_for_lack(sock, not_handed_out);
    }
    if (listener >= 0)
        close(listener);
}

/* execvp() says EACCES also when only a directory of PATH could not be searched, such as one of
 * root's by a user who has its PATH; a shell says that there is no such command. */
static int exec_error(const char *name, int error)
{
    const char *path = getenv("PATH");
    if (error != EACCES || strchr(name, '/') != NULL || path == NULL)
        return error;
    for (;; path++) {
        char file[PATH_MAX];
        int len = (int)strcspn(path, ":");
        int printed = len > 0 ? snprintf(file, sizeof(file), "%.*s/%s", len, path, name)
                              : snprintf(file, sizeof(file), "%s", name);
        if (printed > 0 && (size_t)printed < sizeof(file) && access(file, F_OK) == 0)
            return error;
        path += len;
        if (*path == '\0')
            return ENOENT;
    }
}

/* Between fork and execve. `report` closes on success, so silence is success. Waits at last until
 * process 1 has its filter, too, as nothing may run beside it before. */
static _Noreturn void become_command(int sock, const struct job *job, int report, int filtered)
{
    if (job->own_group) {
        setpgid(0, 0);
        take_terminal(getpid());
    }
    umask((mode_t)job->umask);
    reset_signals(job->ignored_signals);
    assert(job->argv[0] != NULL);
    struct srt_err err;
    if (syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC) != 0)
        fail(sock, "descriptors of the caller cannot be closed");
    if (chdir(job->cwd) != 0) {
        srt_err_set(&err, "the working directory %s inside the sandbox: %s; change to another one",
                    job->cwd, strerror(errno));
        fail(sock, err.text);
    }
    if (landlock_install(job->roots, !job->nested, &err) != 0)
        fail(sock, err.text);
    environ = (char **)(uintptr_t)job->env;
    if (job->supervised)
        hand_out_listener(sock, job->syscalls);
    else if (syscalls_install(job->syscalls, &err) != 0)
        fail(sock, err.text);
    char byte;
    int error = EIO; /* process 1 has ended, or will never have its filter */
    if (read(filtered, &byte, 1) == 1) {
        execvp(job->argv[0], job->argv);
        error = exec_error(job->argv[0], errno);
    }
    (void)!write(report, &error, sizeof(error));
    _exit(FAILED);
}

static pid_t start_command(int sock, const struct job *job)
{
    struct srt_err err;
    int report[2], filtered[2];
    if (pipe2(report, O_CLOEXEC) != 0 || pipe2(filtered, O_CLOEXEC) != 0)
        fail_for_lack(sock, "the command cannot be started: pipe");
    pid_t pid = fork();
    if (pid < 0)
        fail_for_lack(sock, "the command cannot be started: fork");
    if (pid == 0)
        become_command(sock, job, report[1], filtered[0]);
    if (syscalls_install(job->syscalls, &err) != 0)
        fail(sock, err.text);
    (void)!write(filtered[1], "", 1);
    close(filtered[0]);
    close(filtered[1]);
    close(report[1]);
    if (job->own_group)
        setpgid(pid, pid);
    int error = 0;
    ssize_t len = read(report[0], &error, sizeof(error));
    close(report[0]);
    if (len == (ssize_t)sizeof(error)) {
        stage_send(sock, STAGE_NOT_RUN, error, NULL);
        _exit(FAILED);
    }
    return pid;
}

/* The run ends with the command: what it left gets TERM, a moment, and then the end of its world.
 */
static _Noreturn void finish(int sock, int signals, int status)
{
    stage_send(sock, STAGE_ENDED, status, NULL);
    int64_t end = clock_ms() + GRACE_MS;
    kill(-1, SIGTERM);
    kill(-1, SIGCONT);
    for (int64_t left = GRACE_MS; left > 0; left = end - clock_ms()) {
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (pid < 0)
            break;
        struct pollfd wake = {.fd = signals, .events = POLLIN};
        poll(&wake, 1, (int)left);
        struct signalfd_siginfo info;
        (void)!read(signals, &info, sizeof(info));
    }
    _exit(0);
}

/* What process 1 watches over. */
struct ward {
    int sock, signals;
    pid_t command;
    bool own_group, wait;
    bool lingers; /* the command has ended with `status`, and others are waited for */
    int status;
};

static void on_command(struct ward *ward, int status)
{
    if (WIFSTOPPED(status)) {
        if (ward->own_group)
            stage_send(ward->sock, STAGE_STOPPED, WSTOPSIG(status), NULL);
        return;
    }
    if (!ward->wait)
        finish(ward->sock, ward->signals, status);
    ward->lingers = true;
    ward->status = status;
    stage_send(ward->sock, STAGE_LINGERS, 0, NULL);
}

static void reap(struct ward *ward)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0)
        if (pid == ward->command && !ward->lingers)
            on_command(ward, status);
    if (pid < 0 && errno == ECHILD && ward->lingers)
        finish(ward->sock, ward->signals, ward->status);
}

static void hand_on(const struct ward *ward, enum stage_word word, int number)
{
    if (ward->lingers && (word == STAGE_SIGNAL || word == STAGE_TYPED))
        kill(-1, number);
    else if (word == STAGE_SIGNAL || (word == STAGE_TYPED && kill(-ward->command, number) != 0))
        kill(ward->command, number);
}

static void obey(const struct ward *ward)
{
    struct stage_message message = {.word = 0};
    size_t none = 0;
    ssize_t len = fds_receive(ward->sock, &message, sizeof(message), NULL, &none);
    if (len <= 0)
        _exit(FAILED); /* the launcher is gone: so is everything here */
    if (len != sizeof(message))
        return;
    if (message.word == STAGE_FOREGROUND && ward->own_group && !ward->lingers) {
        take_terminal(ward->command);
        kill(-ward->command, SIGCONT);
    } else if (message.number > 0 && message.number < NSIG) {
        hand_on(ward, (enum stage_word)message.word, message.number);
    }
}

static _Noreturn void watch(int sock, pid_t command, const struct job *job)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    struct ward ward = {.sock = sock,
                        .signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
                        .command = command,
                        .own_group = job->own_group,
                        .wait = job->wait};
    if (ward.signals < 0)
        fail_for_lack(sock, "the command cannot be watched: signalfd");
    reap(&ward);
    for (;;) {
        struct pollfd wake[] = {{.fd = sock, .events = POLLIN},
                                {.fd = ward.signals, .events = POLLIN}};
        if (poll(wake, 2, -1) < 0 && errno != EINTR)
            _exit(FAILED);
        struct signalfd_siginfo info;
        if (wake[1].revents != 0 && read(ward.signals, &info, sizeof(info)) > 0)
            reap(&ward);
        if (wake[0].revents != 0)
            obey(&ward);
    }
}

/* Standard error has carried bubblewrap's complaints until now. */
static int take_streams(const char *words, int *leash)
{
    int sock, real_stderr;
    char closed[4];
    if (sscanf(words, "%d,%d,%d,%3[01]", &sock, leash, &real_stderr, closed) != 4 ||
        strlen(closed) != 3 || dup2(real_stderr, STDERR_FILENO) < 0 ||
        fcntl(sock, F_SETFD, FD_CLOEXEC) != 0)
        _exit(FAILED);
    for (int fd = 0; fd < 3; fd++)
        if (closed[fd] == '1')
            close(fd);
    return sock;
}

_Noreturn void stage_run(int sock)
{
    /* Not dumpable from the first moment: nobody inside may look into this process or its
     * descriptors. The parent is in another process namespace, so only the end of `sock` tells that
     * it died before the death signal was asked for; wait_for_go() and obey() see that. */
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "srt-launch");
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);

    check_walls(sock);
    if (send_ready(sock) != 0)
        fail_for_lack(sock, "the sandbox's namespaces and its port cannot be handed out");
    autoclose int fd = wait_for_go(sock);
    struct job job;
    if (!job_unpack(&job, fd))
        fail_for_lack(sock, "the job cannot be read");
    close(steal_fd(&fd));
    pid_t command = start_command(sock, &job);
    /* The terminal, the standard streams and the directory are the command's now, not ours. */
    if (!job.own_group)
        syscall(SYS_close_range, 0, 2, 0);
    watch(sock, command, &job);
}

static bool close_all_but(int first, int second)
{
    int low = first < second ? first : second, high = first < second ? second : first;
    return (low == 3 || syscall(SYS_close_range, 3, low - 1, 0) == 0) &&
           (high == low + 1 || syscall(SYS_close_range, low + 1, high - 1, 0) == 0) &&
           syscall(SYS_close_range, high + 1, ~0u, 0) == 0;
}

_Noreturn void stage_main(const char *words)
{
    int leash; /* is only held (launcher/bwrap.c) */
    int sock = take_streams(words, &leash);
    if (!close_all_but(sock, leash))
        fail(sock, "descriptors of the caller cannot be closed");
    stage_run(sock);
}
