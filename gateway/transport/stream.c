#include "transport/stream.h"

#include <assert.h>
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* asm-generic/socket.h, younger than our headers */
#endif

enum { FILL_STEP = 16 << 10 };

void stream_init(struct stream *stream, int fd)
{
    *stream = (struct stream){.fd = fd, .readable = true, .writable = true};
}

enum tls_result stream_secure(struct stream *stream, const char **why)
{
    enum tls_result result = tls_handshake(stream->tls, why);
    stream->reply_owed = result == TLS_WANTS_WRITE;
    return result;
}

void stream_tune(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},   {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 60}, {IPPROTO_TCP, TCP_KEEPINTVL, 15},
        {IPPROTO_TCP, TCP_KEEPCNT, 4},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

void stream_unpace(int fd)
{
    static const char always_there[] = "reno";
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, always_there, sizeof(always_there) - 1);
}

void stream_unlinger(int fd)
{
    const struct linger none = {0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
}

bool stream_refuse_descriptors(int fd)
{
    const int off = 0;
    return setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off)) == 0;
}

static size_t read_tls(struct stream *stream, void *p, size_t size)
{
    size_t done = 0;
    enum tls_result result = tls_read(stream->tls, p, size, &done);
    stream->reply_owed = result == TLS_WANTS_WRITE;
    if (result == TLS_WANTS_READ)
        stream->readable = false;
    else if (result == TLS_END && !stream->deaf)
        stream->eof = true;
    else if (result == TLS_END || result == TLS_BROKEN)
        stream->broken = stream->deaf = true;
    return result == TLS_DONE ? done : 0;
}

static void note_nothing_read(struct stream *stream, ssize_t n)
{
    /* A send that failed has consumed the socket's error: the end then reads like a FIN. */
    if (n == 0 && !stream->deaf)
        stream->eof = true;
    else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        stream->readable = false;
    else if (n == 0 || errno != EINTR)
        stream->broken = stream->deaf = true;
}

size_t stream_read(struct stream *stream, void *p, size_t size)
{
    if (!stream->readable || stream->eof || stream->broken || size == 0)
        return 0;
    if (stream->tls != NULL)
        return read_tls(stream, p, size);
    ssize_t n = recv(stream->fd, p, size, 0);
    /* A short read has emptied the socket: the loop says when there is more. */
    if (n > 0)
        stream->readable = (size_t)n == size;
    else
        note_nothing_read(stream, n);
    return n > 0 ? (size_t)n : 0;
}

size_t stream_splice_in(struct stream *stream, int pipe, size_t max)
{
    assert(stream->tls == NULL);
    if (!stream->readable || stream->eof || stream->broken)
        return 0;
    /* A short one says nothing: a pipe is also full by the number of its pieces. */
    ssize_t n = splice(stream->fd, NULL, pipe, NULL, max, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n <= 0)
        note_nothing_read(stream, n);
    return n > 0 ? (size_t)n : 0;
}

/* By way of storage that is there anyway: how much comes is not known before, and room for all that
 * could is dear to get and to give back. */
size_t stream_fill(struct stream *stream, size_t max)
{
    static _Thread_local char room[FILL_STEP];
    size_t total = 0;
    while (stream->in.len < max) {
        const size_t want = max - stream->in.len;
        const size_t n = stream_read(stream, room, want < FILL_STEP ? want : FILL_STEP);
        buf_append(&stream->in, (struct str){room, n});
        total += n;
        if (n == 0)
            break;
    }
    return total;
}

static size_t write_tls(struct stream *stream, struct str bytes)
{
    size_t total = 0;
    while (total < bytes.len && stream->writable && !stream->deaf) {
        size_t done = 0;
        enum tls_result result = tls_write(stream->tls, bytes.p + total, bytes.len - total, &done);
        if (result == TLS_DONE)
            total += done;
        else if (result == TLS_WANTS_WRITE)
            stream->writable = false;
        else
            stream->deaf = true; /* nor is anything to be read first: there is no renegotiation */
    }
    return total;
}

static size_t write_some(struct stream *stream, struct str bytes, int flags)
{
    size_t done = 0;
    if (stream->tls != NULL)
        return write_tls(stream, bytes);
    while (done < bytes.len && stream->writable && !stream->deaf) {
        ssize_t n = send(stream->fd, bytes.p + done, bytes.len - done, MSG_NOSIGNAL | flags);
        if (n >= 0)
            done += (size_t)n;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            stream->writable = false;
        else if (errno != EINTR)
            stream->deaf = true;
    }
    return done;
}

void stream_unpipe(struct stream *stream, int pipe)
{
    while (stream->piped > 0) {
        ssize_t n = read(pipe, buf_room(&stream->out, stream->piped), stream->piped);
        if (n < 0 && errno == EINTR)
            continue;
        assert(n > 0); /* it was put there and counted */
        buf_added(&stream->out, (size_t)n);
        stream->piped -= (uint32_t)n;
    }
    if (stream->deaf)
        buf_free(&stream->out);
}

void stream_splice_out(struct stream *stream, int pipe)
{
    assert(stream->tls == NULL && stream->out.len == 0);
    /* Again after a short one, until the kernel says that there is no more room: only then does the
     * loop have something to wait for. */
    while (stream->piped > 0 && stream->writable && !stream->deaf) {
        ssize_t n =
            splice(pipe, NULL, stream->fd, NULL, stream->piped, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (n >= 0)
            stream->piped -= (uint32_t)n;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            stream->writable = false;
        else if (errno != EINTR)
            stream->deaf = true;
    }
}

void stream_flush(struct stream *stream)
{
    if (stream->out.len > 0)
        buf_take(&stream->out, write_some(stream, buf_view(&stream->out), 0));
    if (stream->deaf)
        buf_free(&stream->out);
}

static void send_with(struct stream *stream, struct str bytes, int flags)
{
    size_t done = 0;
    assert(stream->piped == 0);
    stream_flush(stream);
    if (stream->out.len == 0)
        done = write_some(stream, bytes, flags);
    if (!stream->deaf)
        buf_append(&stream->out, str_from(bytes, done));
}

void stream_send(struct stream *stream, struct str bytes)
{
    send_with(stream, bytes, 0);
}

void stream_send_last(struct stream *stream, struct str bytes)
{
    send_with(stream, bytes, MSG_MORE);
}

void stream_finish(struct stream *stream)
{
    assert(!stream_is_sending(stream));
    if (stream->fin_sent || stream->deaf)
        return;
    if (stream->tls != NULL) {
        enum tls_result result = tls_finish(stream->tls);
        stream->finishing = result == TLS_WANTS_WRITE;
        if (stream->finishing)
            return;
    }
    stream->fin_sent = true;
    if (shutdown(stream->fd, SHUT_WR) != 0)
        stream->deaf = true;
}

int stream_interest(const struct stream *stream, bool reading)
{
    if (stream->broken)
        return 0;
    const bool sending =
        stream_is_sending(stream) || stream->finishing || (reading && stream->reply_owed);
    return (reading && !stream->eof ? EV_READ : 0) | (sending ? EV_WRITE : 0);
}

bool stream_has_pending(const struct stream *stream)
{
    return stream->tls != NULL && !stream->eof && !stream->broken && tls_has_pending(stream->tls);
}

void stream_ready(struct stream *stream, int revents)
{
    if (revents & EV_READ)
        stream->readable = true;
    if (revents & EV_WRITE)
        stream->writable = true;
}

size_t stream_unsent(int fd)
{
    int queued = 0;
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    /* After a reset the kernel has thrown all of it away, but still counts it. */
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 && info.tcpi_state == TCP_CLOSE)
        return 0;
    return ioctl(fd, SIOCOUTQ, &queued) == 0 && queued > 0 ? (size_t)queued : 0;
}

void stream_close(struct stream *stream)
{
    /* Whoever took the descriptor away ends the connection otherwise. */
    if (stream->tls != NULL && stream->fd >= 0 && !stream->deaf && !stream->fin_sent &&
        stream->out.len == 0)
        (void)tls_finish(stream->tls);
    tls_free(stream->tls);
    if (stream->fd >= 0)
        close(stream->fd);
    buf_free(&stream->in);
    buf_free(&stream->out);
    *stream = (struct stream){.fd = -1};
}
