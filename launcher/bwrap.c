#include "launcher/bwrap.h"

#include "launcher/remedy.h"
#include "launcher/stage.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

const char bwrap_system[] = "/usr/bin/bwrap";

/* In a user namespace that is not the first one, such as a sandbox around this one, the owner of
 * the host's programs has no number. Then the place has to vouch for the program. */
static bool is_the_hosts(const char *path, const struct stat *st)
{
    autofclose FILE *map = fopen("/proc/self/uid_map", "re");
    autofclose FILE *nobody = fopen("/proc/sys/kernel/overflowuid", "re");
    unsigned inside, outside, count, overflow;
    if (strcmp(path, bwrap_system) != 0 || map == NULL || nobody == NULL ||
        fscanf(map, "%u %u %u", &inside, &outside, &count) != 3 ||
        fscanf(nobody, "%u", &overflow) != 1)
        return false;
    bool first_namespace = inside == 0 && outside == 0 && count == UINT32_MAX;
    return !first_namespace && st->st_uid == overflow;
}

/* Nobody but root and this user may be able to put another program there. */
static int check_trust(const char *path, const struct fence *fence, struct srt_err *err)
{
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || access(path, X_OK) != 0)
        return srt_err_set(err, "%s is not an executable file", path);
    bool owned = st.st_uid == 0 || st.st_uid == getuid() || is_the_hosts(path, &st);
    if (!owned || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return srt_err_set(err,
                           "%s may be replaced by other users, so it is not trusted to build the "
                           "sandbox; use the one that \"apt install bubblewrap\" brings",
                           path);
    struct fence_view view = fence_view(fence, path);
    if (view.writable)
        return srt_err_set(
            err,
            "%s lies in a directory that the sandbox may write to (%s), so it is not "
            "trusted to build the sandbox",
            path, view.write_setting);
    return 0;
}

char *bwrap_find(const char *asked, const struct fence *fence, struct srt_err *err)
{
    autofree char *named = asked != NULL ? must_copy(asked) : path_search("bwrap");
    if (named == NULL) {
        srt_err_set(
            err, "bubblewrap (bwrap) is not in PATH; install it with \"apt install bubblewrap\"");
        return NULL;
    }
    autofree char *real = realpath(named, NULL);
    if (real == NULL) {
        srt_err_set(err, "%s%s: %s; %s", asked != NULL ? "bwrapPath " : "", named, strerror(errno),
                    asked != NULL ? "the settings may leave it out, then it is looked for in PATH"
                                  : "install bubblewrap with \"apt install bubblewrap\"");
        return NULL;
    }
    return check_trust(real, fence, err) == 0 ? steal_ptr(real) : NULL;
}

/* Words for --args, each terminated, in a memfd: no limit of the command line, nothing to see in
 * ps. */
static int pack_words(const char *const *words, struct srt_err *err)
{
    autoclose int fd = memfd_create("bwrap-args", MFD_CLOEXEC);
    for (size_t i = 0; fd >= 0 && words[i] != NULL; i++) {
        size_t len = strlen(words[i]) + 1;
        if (write(fd, words[i], len) != (ssize_t)len) {
            close(steal_fd(&fd));
            break;
        }
    }
    if (fd < 0 || lseek(fd, 0, SEEK_SET) != 0)
        return srt_err_set(err, "the arguments of bubblewrap cannot be stored: %s",
                           remedy_error(errno));
    return steal_fd(&fd);
}

/* --as-pid-1: no process of bubblewrap's own is left inside, where it would be neither filtered nor
 * protected from the command; the one that waits outside is in our process namespace.
 * No --die-with-parent: killed between clone() and the message that its child waits for, it would
 * leave that child waiting for ever. The end of our socket ends process 1, and with it bubblewrap.
 * No new session: job control of the caller's terminal goes on working, and the system call filter
 * refuses what a shared terminal would make possible. */
static const char *const words_common[] = {
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup",
    "--unshare-net",
    "--as-pid-1",
    "--cap-drop",
    "ALL",
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--perms",
    "1777",
    "--tmpfs",
    "/dev/shm",
};

enum { COMMON_COUNT = sizeof(words_common) / sizeof(words_common[0]) };

enum { MORE_COUNT = 9 };

static void add_words(const char *words[MORE_COUNT], const struct cell_options *options)
{
    if (options->log_socket) {
        *words++ = "--ro-bind-try";
        *words++ = CELL_LOG_SOCKET;
        *words++ = CELL_LOG_SOCKET;
    }
    *words++ = "--remount-ro";
    *words++ = "/dev";
    *words++ = options->weaker_proc ? "--ro-bind" : "--proc";
    *words++ = "/proc";
    if (options->weaker_proc)
        *words++ = "/proc";
}

struct child_fds {
    int sock, leash, complaints, args, self, real_stderr;
};

static void keep_over_exec(int fd)
{
    fcntl(fd, F_SETFD, 0);
}

static _Noreturn void become_bwrap(const struct cell_options *options, const struct child_fds *fds)
{
    static const int ignored[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGPIPE, SIGALRM,
                                  SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU};
    /* It shares our process group; what the terminal sends is for the command. */
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        signal(ignored[i], SIG_IGN);
    keep_over_exec(fds->sock);
    keep_over_exec(fds->leash);
    keep_over_exec(fds->args);
    keep_over_exec(fds->self);
    keep_over_exec(fds->real_stderr);
    dup2(fds->complaints, STDERR_FILENO);

    char args_text[16], self_path[32], stage_text[96];
    snprintf(args_text, sizeof(args_text), "%d", fds->args);
    snprintf(self_path, sizeof(self_path), "/proc/self/fd/%d", fds->self);
    snprintf(stage_text, sizeof(stage_text), "%d,%d,%d,%d%d%d", fds->sock, fds->leash,
             fds->real_stderr, options->closed_streams[0], options->closed_streams[1],
             options->closed_streams[2]);
    /* An empty environment: what the caller sets there is for the command, not for this. */
    char *const empty[] = {NULL};
    execle(options->bwrap, "bwrap", "--args", args_text, "--", self_path, "--last-stage",
           stage_text, (char *)NULL, empty);
    _exit(127);
}

/* Said by the environment, for words only. */
static bool is_nested(void)
{
    const char *runtime = getenv("SANDBOX_RUNTIME");
    return runtime != NULL && strcmp(runtime, "1") == 0;
}

/* The text of a failed start, on one line, with what can be done about it. */
static int explain_failure(int complaints, const char *program, struct srt_err *err)
{
    char text[300] = "";
    size_t len = 0;
    for (ssize_t n; len < sizeof(text) - 1; len += (size_t)n) {
        struct pollfd wake = {.fd = complaints, .events = POLLIN};
        n = poll(&wake, 1, 100) > 0 ? read(complaints, text + len, sizeof(text) - 1 - len) : 0;
        if (n <= 0)
            break;
    }
    while (len > 0 && text[len - 1] == '\n')
        len--;
    text[len] = '\0';
    for (char *p = text; *p != '\0'; p++)
        if (*p == '\n')
            *p = ' ';
    char remedy[700];
    remedy_for(remedy, sizeof(remedy), text, program, "", is_nested());
    return srt_err_set(err, "bubblewrap could not build the sandbox%s%s%s",
                       text[0] != '\0' ? ": " : "", text, remedy);
}

/* Process 1 ends when it sees that we have died; stopped, it sees nothing. So it holds the reading
 * end of a pipe, of which the kernel then tells bubblewrap with a SIGKILL, whose death kills its
 * child in any state. Not before that child is ready: see --die-with-parent above. */
static void put_on_leash(int leash, pid_t bwrap)
{
    fcntl(leash, F_SETOWN, bwrap);
    fcntl(leash, F_SETSIG, SIGKILL);
    fcntl(leash, F_SETFL, O_ASYNC);
}

int bwrap_start(struct cell *cell, const struct cell_options *options, struct srt_err *err)
{
    const char *words[COMMON_COUNT + MORE_COUNT] = {0};
    memcpy(words, words_common, sizeof(words_common));
    add_words(words + COMMON_COUNT, options);

    autoclose int self = open(options->self, O_RDONLY | O_CLOEXEC);
    autoclose int args = pack_words(words, err);
    autoclose int real_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    int pair[2], pipe_fds[2], leash_fds[2];
    if (args < 0)
        return -1;
    if (self < 0)
        return srt_err_set(err, "%s: %s", options->self, remedy_error(errno));
    if (cell->inside.host_proc < 0 || real_stderr < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        char remedy[700];
        int error = errno;
        return srt_err_set(err, "the sandbox cannot be prepared: %s%s", remedy_error(error),
                           remedy_for(remedy, sizeof(remedy), "", options->bwrap, "",
                                      error == EPERM && is_nested()));
    }
    cell->sock = pair[0];
    autoclose int theirs = pair[1];
    if (pipe2(leash_fds, O_CLOEXEC) != 0)
        return srt_err_set(err, "pipe: %s", remedy_error(errno));
    autoclose int leash = leash_fds[0];
    cell->leash = leash_fds[1];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0)
        return srt_err_set(err, "pipe: %s", remedy_error(errno));
    autoclose int complaints = pipe_fds[0], complain = pipe_fds[1];

    cell->direct = false;
    cell->pid = fork();
    if (cell->pid < 0)
        return srt_err_set(err, "fork: %s", remedy_error(errno));
    if (cell->pid == 0) {
        struct child_fds fds = {theirs, leash, complain, args, self, real_stderr};
        become_bwrap(options, &fds);
    }
    close(steal_fd(&theirs));
    close(steal_fd(&complain));
    int result = cell_await(cell, err);
    if (result == 0)
        put_on_leash(leash, cell->pid);
    if (result < 0)
        explain_failure(complaints, options->bwrap, err);
    return result == 0 ? 0 : -1;
}
