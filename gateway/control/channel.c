#include "control/channel.h"

#include "control/apart.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <assert.h>
#include <errno.h>
#include <ev.h>
#include <jansson.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { MESSAGE_MAX = 128 << 10 }; /* within what a socket's buffer holds everywhere */

struct channel {
    struct apart *apart;
    int fd;
    struct apart_watch watch;
    channel_heard_fn *heard;
    void *arg;
};

struct channel_message {
    json_t *body;
    int fds[CHANNEL_FDS_MAX];
    size_t fd_count, taken;
};

/* ---- life ---- */

static void on_readable(struct apart_watch *watch, int events);

struct channel *channel_create(struct apart *apart, int fd)
{
    struct channel *channel = must(calloc(1, sizeof(*channel)));
    channel->apart = apart;
    channel->fd = fd;
    channel->watch = (struct apart_watch){.fd = fd, .heard = on_readable, .data = channel};
    return channel;
}

void channel_free(struct channel *channel)
{
    if (channel == NULL)
        return;
    channel_deafen(channel);
    close(channel->fd);
    free(channel);
}

int channel_fd(const struct channel *channel)
{
    return channel->fd;
}

/* ---- sending ---- */

struct json channel_compose(const char *type)
{
    struct json message = {0};
    json_object_open(&message, NULL);
    json_text(&message, "type", str_of(type));
    return message;
}

static bool wait_for(const struct channel *channel, short events, int ms)
{
    struct pollfd ready = {.fd = channel->fd, .events = events};
    int n;
    do
        n = poll(&ready, 1, ms);
    while (n < 0 && errno == EINTR);
    return n > 0;
}

static bool send_whole(const struct channel *channel, const struct msghdr *header, int ms)
{
    for (;;) {
        if (sendmsg(channel->fd, header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            return true;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN || ms == 0 || !wait_for(channel, POLLOUT, ms))
            return false;
    }
}

bool channel_send(struct channel *channel, struct json *message, const int *fds, size_t count,
                  int ms)
{
    union {
        char bytes[CMSG_SPACE(CHANNEL_FDS_MAX * sizeof(int))];
        struct cmsghdr aligned;
    } control = {.bytes = {0}};
    assert(count <= CHANNEL_FDS_MAX);
    json_object_close(message);
    struct iovec part = {message->data, message->len};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, count * sizeof(int));
    }
    bool sent = message->len <= MESSAGE_MAX && send_whole(channel, &header, ms);
    json_free(message);
    return sent;
}

/* ---- receiving ---- */

static void take_descriptors(struct channel_message *message, struct msghdr *header)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c != NULL; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        message->fd_count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(message->fds, CMSG_DATA(c), message->fd_count * sizeof(int));
    }
}

/* `*gone`: there will be no more. */
static struct channel_message *receive(struct channel *channel, bool *gone)
{
    union {
        char bytes[CMSG_SPACE(CHANNEL_FDS_MAX * sizeof(int))];
        struct cmsghdr aligned;
    } control;
    autofree char *bytes = must(malloc(MESSAGE_MAX));
    struct channel_message *message = must(calloc(1, sizeof(*message)));
    struct iovec part = {bytes, MESSAGE_MAX};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(channel->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    *gone = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (n > 0) {
        take_descriptors(message, &header);
        message->body = json_loadb(bytes, (size_t)n, 0, NULL);
        *gone =
            !json_is_object(message->body) || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    }
    if (n > 0 && !*gone)
        return message;
    channel_message_free(message);
    return NULL;
}

struct channel_message *channel_receive(struct channel *channel, int ms)
{
    bool gone;
    if (!wait_for(channel, POLLIN, ms))
        return NULL;
    return receive(channel, &gone);
}

void channel_message_free(struct channel_message *message)
{
    if (message == NULL)
        return;
    for (int fd; (fd = channel_take_fd(message)) >= 0;)
        close(fd);
    json_decref(message->body);
    free(message);
}

static void on_readable(struct apart_watch *watch, int events)
{
    struct channel *channel = watch->data;
    bool gone;
    (void)events;
    struct channel_message *message = receive(channel, &gone);
    if (message == NULL && !gone)
        return;
    if (gone)
        channel_deafen(channel);
    channel->heard(channel->arg, message);
    channel_message_free(message);
}

void channel_hear(struct channel *channel, channel_heard_fn *heard, void *arg)
{
    channel->heard = heard;
    channel->arg = arg;
    apart_set(channel->apart, &channel->watch, EV_READ);
}

void channel_deafen(struct channel *channel)
{
    apart_set(channel->apart, &channel->watch, 0);
}

/* ---- reading ---- */

const char *channel_text(const struct channel_message *message, const char *key)
{
    return json_string_value(json_object_get(message->body, key));
}

bool channel_is(const struct channel_message *message, const char *type)
{
    const char *found = channel_text(message, "type");
    return found != NULL && strcmp(found, type) == 0;
}

int64_t channel_number(const struct channel_message *message, const char *key)
{
    return json_integer_value(json_object_get(message->body, key));
}

bool channel_flag(const struct channel_message *message, const char *key)
{
    return json_is_true(json_object_get(message->body, key));
}

int channel_take_fd(struct channel_message *message)
{
    return message->taken < message->fd_count ? message->fds[message->taken++] : -1;
}

/* ---- parcels ---- */

int parcel_make(struct str bytes)
{
    autoclose int fd = memfd_create("srt-parcel", MFD_CLOEXEC);
    for (size_t at = 0; fd >= 0 && at < bytes.len;) {
        ssize_t n = write(fd, bytes.p + at, bytes.len - at);
        if (n < 0 && errno != EINTR)
            return -1;
        at += n > 0 ? (size_t)n : 0;
    }
    return steal_fd(&fd);
}

bool parcel_open(int fd, struct json *out)
{
    autoclose int taken = fd;
    char chunk[16 << 10];
    ssize_t n = 0;
    for (off_t at = 0; taken >= 0 && (n = pread(taken, chunk, sizeof(chunk), at)) > 0; at += n)
        json_append(out, (struct str){chunk, (size_t)n});
    return taken >= 0 && n == 0;
}
