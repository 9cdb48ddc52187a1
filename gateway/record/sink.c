#include "record/sink.h"

#include "srt/cleanup.h"
#include "srt/must.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { STALL_MS = 50 }; /* a reader who takes longer counts as not there */

/* ---- opening ---- */

/* A FIFO is opened for both directions: that works without a reader and never ends with EPIPE when
 * the reader restarts; O_NONBLOCK keeps a reader that stopped from stopping the writer. */
static int open_file(const char *path, enum sink_kind *kind, struct srt_err *err)
{
    struct stat st;
    bool fifo = stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
    int flags = fifo ? O_RDWR | O_NONBLOCK : O_WRONLY | O_APPEND | O_CREAT;
    autoclose int fd = open(path, flags | O_CLOEXEC | O_NOCTTY, 0640);
    if (fd < 0)
        return srt_err_set(err, "audit-log %s cannot be opened: %s%s", path, strerror(errno),
                           errno == ENOENT ? " (its directory must exist)" : "");
    if (fstat(fd, &st) != 0)
        return srt_err_set(err, "audit-log %s: %s", path, strerror(errno));
    *kind = S_ISREG(st.st_mode) ? SINK_FILE : SINK_PIPE;
    return steal_fd(&fd);
}

/* Connects to a collector's socket, whichever of the two kinds it is. Neither waits: a stream whose
 * backlog is full is an error like any other, and tried again. */
static int open_socket(const char *path, enum sink_kind *kind, struct srt_err *err)
{
    static const int types[] = {[SINK_STREAM] = SOCK_STREAM, [SINK_DATAGRAM] = SOCK_DGRAM};
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(addr.sun_path))
        return srt_err_set(err, "audit-log unix:%s: a socket's path has at most %zu bytes", path,
                           sizeof(addr.sun_path) - 1);
    memcpy(addr.sun_path, path, strlen(path) + 1);
    for (*kind = SINK_STREAM; *kind <= SINK_DATAGRAM; ++*kind) {
        autoclose int fd = socket(AF_UNIX, types[*kind] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
            return steal_fd(&fd);
        if (errno != EPROTOTYPE)
            break;
    }
    return srt_err_set(err, "audit-log unix:%s cannot be connected to: %s", path, strerror(errno));
}

static bool is_standard_error(const struct sink *sink)
{
    return strcmp(sink->path, "stderr") == 0;
}

static int open_standard_error(enum sink_kind *kind, struct srt_err *err)
{
    struct stat st;
    if (fstat(STDERR_FILENO, &st) != 0)
        return srt_err_set(err, "audit-log stderr: %s", strerror(errno));
    *kind = S_ISREG(st.st_mode) ? SINK_FILE : SINK_PIPE;
    return STDERR_FILENO;
}

static void drop(struct sink *sink)
{
    if (sink->fd >= 0 && !is_standard_error(sink))
        close(sink->fd);
    sink->fd = -1;
}

int sink_reopen(struct sink *sink, struct srt_err *err)
{
    enum sink_kind kind = SINK_FILE;
    const int fd = is_standard_error(sink)                ? open_standard_error(&kind, err)
                   : strncmp(sink->path, "unix:", 5) == 0 ? open_socket(sink->path + 5, &kind, err)
                                                          : open_file(sink->path, &kind, err);
    if (fd < 0)
        return -1;
    drop(sink);
    sink->fd = fd;
    sink->kind = kind;
    return 0;
}

int sink_open(struct sink *sink, const char *path, struct srt_err *err)
{
    *sink = (struct sink){.path = must_copy(path), .fd = -1};
    return sink_reopen(sink, err);
}

void sink_close(struct sink *sink)
{
    if (sink->path != NULL)
        drop(sink);
    free(sink->path);
    sink->path = NULL;
}

bool sink_is_gone(const struct sink *sink)
{
    struct stat st;
    return sink->kind == SINK_FILE && !is_standard_error(sink) && fstat(sink->fd, &st) == 0 &&
           st.st_nlink == 0;
}

void sink_end_line(const struct sink *sink)
{
    struct stat st;
    char last = '\n';
    if (sink->kind != SINK_FILE || is_standard_error(sink))
        return;
    autoclose int reader = open(sink->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (reader < 0 || fstat(reader, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        return;
    if (pread(reader, &last, 1, st.st_size - 1) == 1 && last != '\n') {
        ssize_t written = write(sink->fd, "\n", 1);
        (void)written; /* a full disk is found out by the first record */
    }
}

/* ---- writing ---- */

/* False: errno says why. */
static bool wait_writable(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int n = poll(&ready, 1, STALL_MS);
    if (n == 0)
        errno = EAGAIN;
    return n > 0;
}

/* A datagram is a record, without the newline that ends it elsewhere. */
static ssize_t send_once(const struct sink *sink, const char *bytes, size_t len)
{
    if (sink->kind == SINK_STREAM)
        return send(sink->fd, bytes, len, MSG_NOSIGNAL);
    const char *newline = memchr(bytes, '\n', len);
    const size_t line = newline != NULL ? (size_t)(newline - bytes) : len;
    const ssize_t sent = send(sink->fd, bytes, line, MSG_NOSIGNAL);
    return sent < 0 ? -1 : (ssize_t)(line + (newline != NULL));
}

/* A collector that is gone is looked for again, here and at every retry; what it had of a line is
 * gone with it, so whoever comes next gets that line from its beginning (sink_take_back). */
static ssize_t send_some(struct sink *sink, const char *bytes, size_t len)
{
    struct srt_err err;
    if (sink->fd < 0 && sink_reopen(sink, &err) != 0)
        return -1;
    ssize_t sent = send_once(sink, bytes, len);
    if (sent < 0 && errno == EAGAIN && wait_writable(sink->fd))
        sent = send_once(sink, bytes, len);
    if (sent < 0 && errno != EAGAIN && errno != EINTR && errno != EMSGSIZE && errno != ENOBUFS) {
        const int cause = errno;
        drop(sink);
        errno = cause;
    }
    return sent;
}

/* A pipe that is writable takes PIPE_BUF bytes without blocking (pipe(7)), which is all that can be
 * relied on where the descriptor is shared with others and must stay as it is. */
ssize_t sink_write(struct sink *sink, const char *bytes, size_t len)
{
    if (sink->kind == SINK_FILE)
        return write(sink->fd, bytes, len);
    if (sink->kind != SINK_PIPE)
        return send_some(sink, bytes, len);
    if (!wait_writable(sink->fd))
        return -1;
    return write(sink->fd, bytes, len < PIPE_BUF ? len : PIPE_BUF);
}

bool sink_take_back(const struct sink *sink, size_t len)
{
    struct stat st;
    if (sink->fd < 0)
        return true; /* gone with the connection that had it */
    return sink->kind == SINK_FILE && fstat(sink->fd, &st) == 0 && st.st_size >= (off_t)len &&
           ftruncate(sink->fd, st.st_size - (off_t)len) == 0;
}
