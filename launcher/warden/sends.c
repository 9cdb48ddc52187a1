#include "launcher/warden/answers.h"
#include "launcher/warden/held.h"
#include "launcher/warden/sockets.h"
#include "launcher/warden/waits.h"
#include "srt/cleanup.h"
#include "srt/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

/* A call that names its receiver when it sends, which a datagram socket does, or that may:
 * sendmsg() has the name in memory. Like connect(), it is done by us on the caller's own socket,
 * with a copy of everything, whatever kind of socket it is: by the time the kernel looked, another
 * one could stand in its place. */
enum {
    PARTS_MAX = 1024,       /* UIO_MAXIOV */
    DATAGRAM_MAX = 4 << 20, /* more than any socket of a user takes */
    STEP_MAX = 256 << 10,   /* of a stream, at once */
    AT_ONCE_MAX = 1 << 20,  /* of many messages; who sends them goes on with the rest */
    CONTROL_MAX = 16 << 10, /* bytes */
    DESCRIPTORS_MAX = 253,  /* SCM_MAX_FD */
    WRITABLE_MS = 500,
};

struct sending {
    struct call *call;
    const char *operation;
    int process, sock;
    int flags;
    bool stream;
    uint64_t len_at; /* where sendmmsg() wants the number of bytes; 0 = it is the result */
    union socket_address to;
    socklen_t to_len;
    int held;                      /* what `to` leads to */
    struct iovec parts[PARTS_MAX]; /* in the caller's memory */
    size_t part_count, total, sent;
    char control[CONTROL_MAX];
    size_t control_len;
    int carried[DESCRIPTORS_MAX]; /* our copies of what goes along */
    size_t carried_count;
};

static void sending_end(struct sending *sending)
{
    int *all[] = {&sending->process, &sending->sock, &sending->held};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (*all[i] >= 0)
            close(*all[i]);
    for (size_t i = 0; i < sending->carried_count; i++)
        close(sending->carried[i]);
}

#define autosending __attribute__((cleanup(sending_end)))

static int sending_begin(struct sending *sending, struct call *call, const char *operation, int fd,
                         int flags)
{
    *sending = (struct sending){.call = call,
                                .operation = operation,
                                .flags = flags,
                                .sock = -1,
                                .held = -1,
                                .process = call_process(call)};
    if (sending->process < 0)
        return sending->process;
    sending->sock = (int)syscall(SYS_pidfd_getfd, sending->process, fd, 0);
    if (sending->sock < 0)
        return -errno;
    int type = socket_option(sending->sock, SO_TYPE);
    sending->stream = type == SOCK_STREAM;
    if (type < 0)
        return -ENOTSOCK;
    /* Our copy may not outlive the call, and nobody would be told that it need not. */
    if ((flags & MSG_ZEROCOPY) != 0)
        return -ENOBUFS;
    return (flags & MSG_FASTOPEN) != 0 ? -EOPNOTSUPP : 0;
}

/* The next message over the same socket. */
static void sending_reset(struct sending *sending)
{
    if (sending->held >= 0)
        close(sending->held);
    for (size_t i = 0; i < sending->carried_count; i++)
        close(sending->carried[i]);
    sending->held = -1;
    sending->carried_count = sending->control_len = 0;
    sending->part_count = sending->total = sending->sent = 0;
    sending->to_len = 0;
}

static int take_parts(struct sending *sending, uint64_t address, size_t count)
{
    if (count > PARTS_MAX)
        return -EMSGSIZE;
    if (call_read_memory(sending->call, address, sending->parts, count * sizeof(struct iovec)) != 0)
        return -EFAULT;
    sending->part_count = count;
    for (size_t i = 0; i < count; i++) {
        size_t len = sending->parts[i].iov_len;
        if (len > INT_MAX || sending->total + len > INT_MAX)
            return -EINVAL;
        sending->total += len;
    }
    return !sending->stream && sending->total > DATAGRAM_MAX ? -EMSGSIZE : 0;
}

/* The caller's descriptors become ours of the same files. */
static int take_descriptors(struct sending *sending, struct cmsghdr *rights)
{
    size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        unsigned char *at = CMSG_DATA(rights) + i * sizeof(fd);
        if (sending->carried_count == DESCRIPTORS_MAX)
            return -EINVAL;
        memcpy(&fd, at, sizeof(fd));
        fd = (int)syscall(SYS_pidfd_getfd, sending->process, fd, 0);
        if (fd < 0)
            return errno == EBADF ? -EBADF : -EPERM;
        sending->carried[sending->carried_count++] = fd;
        memcpy(at, &fd, sizeof(fd));
    }
    return 0;
}

/* Credentials that the caller states are left out: for us they would be a lie. The kernel says who
 * sends. */
static int take_control(struct sending *sending, uint64_t address, size_t len)
{
    _Alignas(struct cmsghdr) char bytes[CONTROL_MAX];
    if (len > sizeof(bytes))
        return -ENOBUFS;
    if (call_read_memory(sending->call, address, bytes, len) != 0)
        return -EFAULT;
    for (size_t at = 0; len - at >= sizeof(struct cmsghdr);) {
        struct cmsghdr *header = (struct cmsghdr *)(void *)(bytes + at);
        size_t size = header->cmsg_len, room = CMSG_ALIGN(size);
        if (size < sizeof(*header) || size > len - at)
            return -EINVAL;
        bool ours = header->cmsg_level == SOL_SOCKET;
        int result =
            ours && header->cmsg_type == SCM_RIGHTS ? take_descriptors(sending, header) : 0;
        if (result != 0)
            return result;
        if (!ours || header->cmsg_type != SCM_CREDENTIALS) {
            memcpy(sending->control + sending->control_len, header, size);
            sending->control_len += room < len - at ? room : len - at;
        }
        if (room >= len - at)
            break;
        at += room;
    }
    return 0;
}

static int take_name(struct sending *sending, uint64_t address, size_t len)
{
    int result = socket_read_address(sending->call, address, len, &sending->to);
    sending->to_len = (socklen_t)len;
    return result != 0 ? result
                       : socket_aim(sending->call, sending->operation, &sending->to,
                                    &sending->to_len, &sending->held);
}

/* `header` is the caller's, read once. */
static int take_message(struct sending *sending, const struct msghdr *header)
{
    size_t name_len = header->msg_name == NULL ? 0 : header->msg_namelen;
    if (name_len > INT_MAX)
        return -EINVAL;
    if (name_len > sizeof(sending->to))
        name_len = sizeof(sending->to);
    int result = take_parts(sending, (uintptr_t)header->msg_iov, header->msg_iovlen);
    if (result == 0 && name_len > 0)
        result = take_name(sending, (uintptr_t)header->msg_name, name_len);
    if (result == 0 && header->msg_control != NULL && header->msg_controllen > 0)
        result = take_control(sending, (uintptr_t)header->msg_control, header->msg_controllen);
    return result;
}

/* `len` bytes of the message from where it has been sent to. */
static int copy_data(const struct sending *sending, char *out, size_t len)
{
    struct iovec rest[PARTS_MAX];
    struct iovec local = {.iov_base = out, .iov_len = len};
    size_t count = 0, skip = sending->sent, want = len;
    for (size_t i = 0; i < sending->part_count && want > 0; i++) {
        size_t have = sending->parts[i].iov_len, from = skip < have ? skip : have;
        size_t take = have - from < want ? have - from : want;
        skip -= from;
        if (take == 0)
            continue;
        rest[count++] =
            (struct iovec){.iov_base = (char *)sending->parts[i].iov_base + from, .iov_len = take};
        want -= take;
    }
    return len == 0 || process_vm_readv((pid_t)sending->call->request->pid, &local, 1, rest, count,
                                        0) == (ssize_t)len
               ? 0
               : -EFAULT;
}

/* One step; never waits. Adds to what was sent. */
static int push(struct sending *sending)
{
    size_t len = sending->total - sending->sent;
    if (sending->stream && len > STEP_MAX)
        len = STEP_MAX;
    autofree char *data = malloc(len + 1);
    if (data == NULL)
        return -ENOBUFS;
    int result = copy_data(sending, data, len);
    if (result != 0)
        return result;
    struct iovec part = {.iov_base = data, .iov_len = len};
    bool first = sending->sent == 0;
    struct msghdr message = {.msg_name = sending->to_len > 0 ? &sending->to : NULL,
                             .msg_namelen = sending->to_len,
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control =
                                 first && sending->control_len > 0 ? sending->control : NULL,
                             .msg_controllen = first ? sending->control_len : 0};
    if (!held_go(sending->call->ward, sending->call->ward->host_proc))
        return -EACCES;
    ssize_t n = sendmsg(sending->sock, &message, sending->flags | MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0)
        return -errno;
    sending->sent += (size_t)n;
    return 0;
}

static bool has_more(const struct sending *sending)
{
    return sending->stream && sending->sent < sending->total;
}

/* What the caller gets; of sendmmsg(), how many messages. */
static int64_t outcome(const struct sending *sending, int result)
{
    const unsigned len = (unsigned)sending->sent;
    const bool failed = result != 0 && sending->sent == 0;
    if (failed && result == -EPIPE && sending->stream && (sending->flags & MSG_NOSIGNAL) == 0)
        syscall(SYS_pidfd_send_signal, sending->process, SIGPIPE, NULL, 0);
    if (failed && result == -ECONNREFUSED)
        socket_report_abstract(sending->call, sending->operation, &sending->to, sending->to_len);
    if (failed || sending->len_at == 0)
        return failed ? result : (int64_t)sending->sent;
    return call_write_memory(sending->call, sending->len_at, &len, sizeof(len)) == 0 ? 1 : -EFAULT;
}

static bool may_wait(const struct sending *sending)
{
    return (sending->flags & MSG_DONTWAIT) == 0 &&
           (fcntl(sending->sock, F_GETFL) & O_NONBLOCK) == 0;
}

static int64_t patience_ms(int sock)
{
    struct timeval limit = {0};
    socklen_t len = sizeof(limit);
    getsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, &len);
    int64_t ms = (int64_t)limit.tv_sec * 1000 + limit.tv_usec / 1000;
    return ms > 0 ? ms : INT64_MAX;
}

/* Until everything is sent: nothing tells when the queue of a named receiver has room. */
static int push_all(struct sending *sending)
{
    int64_t begin = clock_ms(), patience = patience_ms(sending->sock);
    int result = -EAGAIN;
    for (unsigned turn = 0; result == -EAGAIN || (result == 0 && has_more(sending)); turn++) {
        if (turn > 0 && clock_ms() - begin >= patience)
            return -EAGAIN;
        struct pollfd room = {.fd = sending->sock, .events = POLLOUT};
        if (turn > 0 && result == -EAGAIN && sending->stream)
            poll(&room, 1, WRITABLE_MS);
        else if (turn > 0 && result == -EAGAIN)
            wait_pause(sending->call, turn);
        wait_check(sending->call);
        result = push(sending);
    }
    return result;
}

/* Sends one message. */
static int64_t finish(struct sending *sending)
{
    if (!call_waits(sending->call))
        return -EINTR;
    int result = push(sending);
    bool more = result == -EAGAIN || (result == 0 && has_more(sending));
    if (!more || !may_wait(sending))
        return outcome(sending, result);
    int64_t begun = wait_begin(sending->call);
    if (begun != 0)
        return begun == ANSWER_SENT ? -EINPROGRESS : begun;
    int64_t value = outcome(sending, push_all(sending));
    if (value < 0)
        wait_end(sending->call, value);
    call_return(sending->call, value);
    _exit(0);
}

/* -EINPROGRESS is finish()'s word for an answer that comes later; no socket that does not wait says
 * it of something that is sent. */
static int64_t reply(const struct sending *sending, int64_t value)
{
    if (value == -EINPROGRESS)
        return ANSWER_SENT;
    if (value < 0)
        return value;
    call_return(sending->call, value);
    return ANSWER_SENT;
}

int64_t answer_sendto(struct call *call, const struct table_row *row, const uint64_t *args)
{
    autosending struct sending sending;
    int result = sending_begin(&sending, call, row->operation, (int)args[0], (int)args[3]);
    if (result != 0)
        return result;
    sending.parts[0] =
        (struct iovec){.iov_base = (void *)(uintptr_t)args[1], .iov_len = (size_t)args[2]};
    sending.part_count = 1;
    sending.total = (size_t)args[2] < INT_MAX ? (size_t)args[2] : INT_MAX;
    if (!sending.stream && sending.total > DATAGRAM_MAX)
        return -EMSGSIZE;
    if (args[5] > sizeof(sending.to))
        return -EINVAL;
    if (args[4] != 0 && args[5] != 0)
        result = take_name(&sending, args[4], (size_t)args[5]);
    return result != 0 ? result : reply(&sending, finish(&sending));
}

int64_t answer_sendmsg(struct call *call, const struct table_row *row, const uint64_t *args)
{
    autosending struct sending sending;
    struct msghdr header;
    int result = sending_begin(&sending, call, row->operation, (int)args[0], (int)args[2]);
    if (result == 0)
        result = call_read_memory(call, args[1], &header, sizeof(header));
    if (result == 0)
        result = take_message(&sending, &header);
    return result != 0 ? result : reply(&sending, finish(&sending));
}

/* One of many. Nobody waits for any but the first. */
static int64_t send_one_of(struct sending *sending, uint64_t address, bool first)
{
    struct mmsghdr one;
    sending_reset(sending);
    sending->len_at = address + offsetof(struct mmsghdr, msg_len);
    int64_t value = call_read_memory(sending->call, address, &one, sizeof(one));
    if (value == 0)
        value = take_message(sending, &one.msg_hdr);
    if (value != 0)
        return value;
    if (!first)
        sending->flags |= MSG_DONTWAIT;
    return finish(sending);
}

int64_t answer_sendmmsg(struct call *call, const struct table_row *row, const uint64_t *args)
{
    autosending struct sending sending;
    int64_t value = sending_begin(&sending, call, row->operation, (int)args[0], (int)args[3]);
    if (value != 0)
        return value;
    unsigned done = 0, count = (unsigned)args[2] < PARTS_MAX ? (unsigned)args[2] : PARTS_MAX;
    for (size_t bytes = 0; done < count && bytes < AT_ONCE_MAX && value >= 0;
         bytes += sending.sent) {
        value = send_one_of(&sending, args[1] + done * sizeof(struct mmsghdr), done == 0);
        done += value >= 0;
        if (has_more(&sending))
            break;
    }
    return reply(&sending, done > 0 ? (int64_t)done : value);
}
