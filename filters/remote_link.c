#include "filters/remote_link.h"

#include "filters/builtin.h"
#include "filters/trusted_path.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { HELLO_MS = 5000, UNREAD_MAX = 1024 * 1024, READ_CHUNK = 16 * 1024 };

struct bytes {
    char *data;
    size_t len, room;
};

struct remote_link {
    const struct srt_filter_host *host;
    struct srt_filter_watch *watch;
    struct remote_link_user user;
    const char *path, *filter;
    unsigned worker;
    enum remote_link_state state;
    int fd;
    struct bytes in, out;
};

/* ---- bytes ---- */

static void bytes_reserve(struct bytes *bytes, size_t more)
{
    if (bytes->room - bytes->len >= more)
        return;
    bytes->room = 2 * bytes->room + more;
    bytes->data = must(realloc(bytes->data, bytes->room));
}

static void bytes_append(struct bytes *bytes, const char *data, size_t len)
{
    bytes_reserve(bytes, len);
    memcpy(bytes->data + bytes->len, data, len);
    bytes->len += len;
}

static void bytes_take(struct bytes *bytes, size_t len)
{
    bytes->len -= len;
    if (bytes->len > 0)
        memmove(bytes->data, bytes->data + len, bytes->len);
}

static void bytes_free(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){0};
}

/* ---- up and down ---- */

static void let_go(struct remote_link *link)
{
    link->host->watch_fd(link->watch, -1, 0);
    link->host->watch_time(link->watch, -1);
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    link->state = REMOTE_LINK_DOWN;
    bytes_free(&link->in);
    bytes_free(&link->out);
}

/* Gives up the connection, if there is one, for that reason. */
static void drop(struct remote_link *link, const char *why)
{
    const bool told = link->state != REMOTE_LINK_DOWN;
    let_go(link);
    if (told)
        link->user.down(link->user.arg, why);
}

static void watch_it(struct remote_link *link)
{
    link->host->watch_fd(link->watch, link->fd,
                         SRT_FILTER_READABLE | (link->out.len > 0 ? SRT_FILTER_WRITABLE : 0));
}

static int connect_to(const char *path, struct srt_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (trusted_path_check(path, S_IFSOCK, err) != 0)
        return -1;
    assert(strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path) + 1);
    autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* A Unix socket is connected at once or not at all; EAGAIN: its queue is full. */
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        return srt_err_set(err, "%s: %s", path, strerror(errno));
    return steal_fd(&fd);
}

/* ---- writing ---- */

/* An error ends the connection, which its reading side sees: nobody is told from within a call. */
static void flush(struct remote_link *link)
{
    while (link->out.len > 0) {
        const ssize_t sent =
            send(link->fd, link->out.data, link->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0) {
            if (errno != EAGAIN) {
                bytes_free(&link->out);
                shutdown(link->fd, SHUT_RDWR);
            }
            break;
        }
        bytes_take(&link->out, (size_t)sent);
    }
    watch_it(link);
}

static void put_line(struct remote_link *link, const char *line)
{
    const bool idle = link->out.len == 0;
    bytes_append(&link->out, line, strlen(line));
    if (idle)
        flush(link);
}

bool remote_link_send(struct remote_link *link, const char *line)
{
    assert(link->state == REMOTE_LINK_UP);
    if (link->out.len > UNREAD_MAX)
        return false;
    put_line(link, line);
    return true;
}

/* ---- reading ---- */

static bool take_hello(struct remote_link *link, struct str line, struct srt_err *why)
{
    struct remote_hello hello;
    if (!remote_read_hello(line, &hello, why))
        return false;
    link->state = REMOTE_LINK_UP;
    link->host->watch_time(link->watch, -1);
    link->user.up(link->user.arg, &hello);
    return true;
}

static bool take_line(struct remote_link *link, struct str line, struct srt_err *why)
{
    return link->state == REMOTE_LINK_GREETING ? take_hello(link, line, why)
                                               : link->user.line(link->user.arg, line, why);
}

static bool is_too_long(size_t len, struct srt_err *why)
{
    if (len <= REMOTE_LINE_MAX)
        return false;
    srt_err_set(why, "it sent a line of more than %d bytes", REMOTE_LINE_MAX);
    return true;
}

/* False: the link is down now. */
static bool take_lines(struct remote_link *link)
{
    struct srt_err why;
    size_t used = 0;
    for (;;) {
        const char *start = link->in.data + used;
        const char *end = link->in.len > used ? memchr(start, '\n', link->in.len - used) : NULL;
        if (end == NULL)
            break;
        const struct str line = {start, (size_t)(end - start)};
        used += line.len + 1;
        if (is_too_long(line.len, &why) || !take_line(link, line, &why)) {
            drop(link, why.text);
            return false;
        }
    }
    bytes_take(&link->in, used);
    if (!is_too_long(link->in.len, &why))
        return true;
    drop(link, why.text);
    return false;
}

/* As much as fits into one turn of the loop: what is left wakes it again. */
static void fill(struct remote_link *link)
{
    bytes_reserve(&link->in, READ_CHUNK);
    const ssize_t got = recv(link->fd, link->in.data + link->in.len, READ_CHUNK, MSG_DONTWAIT);
    if (got > 0) {
        link->in.len += (size_t)got;
        take_lines(link);
    } else if (got == 0) {
        drop(link, "it closed the connection");
    } else if (errno != EAGAIN && errno != EINTR) {
        drop(link, strerror(errno));
    }
}

static void on_event(void *arg, unsigned events)
{
    struct remote_link *link = arg;
    if ((events & SRT_FILTER_TIME) != 0 && link->state == REMOTE_LINK_GREETING) {
        drop(link, "it did not say hello in time");
        return;
    }
    if ((events & SRT_FILTER_TIME) != 0 && link->state == REMOTE_LINK_DOWN) {
        remote_link_connect(link);
        return;
    }
    if ((events & SRT_FILTER_WRITABLE) != 0 && link->fd >= 0)
        flush(link);
    if ((events & SRT_FILTER_READABLE) != 0 && link->fd >= 0)
        fill(link);
}

/* ---- life ---- */

struct remote_link *remote_link_create(const struct srt_filter_host *host, unsigned worker,
                                       const char *filter, const char *path,
                                       const struct remote_link_user *user)
{
    struct remote_link *link = must_calloc(1, sizeof(*link));
    *link = (struct remote_link){
        .host = host, .user = *user, .path = path, .filter = filter, .worker = worker, .fd = -1};
    link->watch = host->watch_begin(worker, on_event, link);
    if (link->watch != NULL)
        return link;
    free(link);
    return NULL;
}

void remote_link_destroy(struct remote_link *link)
{
    if (link == NULL)
        return;
    let_go(link);
    link->host->watch_end(link->watch);
    free(link);
}

enum remote_link_state remote_link_state(const struct remote_link *link)
{
    return link->state;
}

void remote_link_connect(struct remote_link *link)
{
    struct srt_err err;
    assert(link->state == REMOTE_LINK_DOWN);
    link->fd = connect_to(link->path, &err);
    if (link->fd < 0) {
        link->host->watch_time(link->watch, -1);
        link->user.down(link->user.arg, err.text);
        return;
    }
    autofree char *hello = remote_line_hello(link->filter, link->worker);
    link->state = REMOTE_LINK_GREETING;
    link->host->watch_time(link->watch, HELLO_MS);
    put_line(link, hello);
}

void remote_link_connect_after(struct remote_link *link, int64_t after_ms)
{
    assert(link->state == REMOTE_LINK_DOWN);
    link->host->watch_time(link->watch, after_ms);
}
