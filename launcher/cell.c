#include "launcher/cell.h"

#include "launcher/bwrap.h"
#include "launcher/remedy.h"
#include "launcher/say.h"
#include "launcher/spaces.h"
#include "launcher/stage.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { START_MS = 20000 };

static ino_t own_namespace(const char *name)
{
    struct stat st;
    return stat(name, &st) == 0 ? st.st_ino : 0;
}

static bool namespace_is_new(int fd, const char *ours)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_ino != own_namespace(ours);
}

int cell_await(struct cell *cell, struct srt_err *err)
{
    struct pollfd wake = {.fd = cell->sock, .events = POLLIN};
    int ready;
    do
        ready = poll(&wake, 1, START_MS);
    while (ready < 0 && errno == EINTR);
    struct stage_message message = {.word = 0};
    int fds[3] = {-1, -1, -1};
    size_t count = 3;
    ssize_t len = ready > 0 ? fds_receive(cell->sock, &message, sizeof(message), fds, &count) : 0;
    if (len == (ssize_t)sizeof(message) && message.word == STAGE_FAILED) {
        srt_err_set(err, "%.1000s", message.text);
        return 1;
    }
    if (len == (ssize_t)sizeof(message) && message.word == STAGE_READY && count == 0)
        return srt_err_set(err, "what was opened inside cannot be taken: %s", remedy_error(EMFILE));
    if (len != (ssize_t)sizeof(message) || message.word != STAGE_READY || count != 3)
        return srt_err_set(err, "the sandbox ended before it was ready");
    cell->inside.mount_ns = fds[0];
    cell->inside.net_ns = fds[1];
    cell->listener = fds[2];
    if (namespace_is_new(fds[0], "/proc/self/ns/mnt") &&
        namespace_is_new(fds[1], "/proc/self/ns/net"))
        return 0;
    srt_err_set(err, "the sandbox shares a namespace with the host; is this bwrap bubblewrap?");
    return 1;
}

static void forget(struct cell *cell)
{
    cell_kill(cell);
    cell_wait(cell);
    const int fds[] = {cell->inside.mount_ns, cell->inside.net_ns, cell->listener};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    cell->inside.mount_ns = cell->inside.net_ns = cell->listener = -1;
}

int cell_start(struct cell *cell, const struct cell_options *options, struct srt_err *err)
{
    *cell = (struct cell){.sock = -1,
                          .leash = -1,
                          .listener = -1,
                          .inside = {.mount_ns = -1, .net_ns = -1, .host_proc = -1}};
    cell->inside.host_proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!options->bwrap_only && !options->weaker_proc) {
        if (spaces_start(cell, options, err) == 0)
            return 0;
        if (options->verbose)
            say("bubblewrap is asked to build the sandbox, since %s", err->text);
        forget(cell);
    }
    return bwrap_start(cell, options, err);
}

const char *const cell_devices[CELL_DEVICES] = {"null", "zero", "full", "random", "urandom", "tty"};

enum cell_dev cell_dev(const char *path)
{
    static const char *const open_names[] = {"ptmx", "pts/ptmx", "console", "log", "shm"};
    const char *name = path_below(path, "/dev");
    if (name[0] == '\0' || strcmp(name, "pts") == 0)
        return CELL_DEV_CLOSED;
    for (size_t i = 0; i < CELL_DEVICES; i++)
        if (strcmp(name, cell_devices[i]) == 0)
            return CELL_DEV_OPEN;
    for (size_t i = 0; i < sizeof(open_names) / sizeof(open_names[0]); i++)
        if (strcmp(name, open_names[i]) == 0)
            return CELL_DEV_OPEN;
    return CELL_DEV_ABSENT;
}

void cell_wait(struct cell *cell)
{
    while (cell->pid > 0 && waitpid(cell->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    cell->pid = 0;
}

void cell_kill(struct cell *cell)
{
    if (cell->sock >= 0)
        close(steal_fd(&cell->sock)); /* process 1 inside ends at this */
    if (cell->pid > 0)
        kill(cell->pid, SIGKILL);
}
