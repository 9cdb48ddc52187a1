#include "launcher/netlink.h"

#include "launcher/remedy.h"
#include "srt/cleanup.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static void *extend(struct netlink *netlink, size_t len)
{
    void *at = netlink->bytes + netlink->len;
    assert(NLMSG_ALIGN(len) <= sizeof(netlink->bytes) - netlink->len);
    memset(at, 0, NLMSG_ALIGN(len));
    netlink->len += NLMSG_ALIGN(len);
    return at;
}

static void grow_message(struct netlink *netlink)
{
    const uint32_t len = (uint32_t)(netlink->len - netlink->message);
    memcpy(netlink->bytes + netlink->message + offsetof(struct nlmsghdr, nlmsg_len), &len,
           sizeof(len));
}

void netlink_begin(struct netlink *netlink, uint16_t type, uint16_t flags, const void *head,
                   size_t head_len)
{
    const struct nlmsghdr message = {.nlmsg_type = type,
                                     .nlmsg_flags = (uint16_t)(flags | NLM_F_REQUEST)};
    netlink->message = netlink->len;
    memcpy(extend(netlink, sizeof(message)), &message, sizeof(message));
    memcpy(extend(netlink, head_len), head, head_len);
    grow_message(netlink);
    netlink->answers += (flags & NLM_F_ACK) != 0;
}

void netlink_put(struct netlink *netlink, uint16_t type, const void *data, size_t len)
{
    const struct nlattr head = {.nla_len = (uint16_t)(sizeof(head) + len), .nla_type = type};
    uint8_t *at = extend(netlink, sizeof(head) + len);
    memcpy(at, &head, sizeof(head));
    memcpy(at + sizeof(head), data, len);
    grow_message(netlink);
}

void netlink_put_text(struct netlink *netlink, uint16_t type, const char *text)
{
    netlink_put(netlink, type, text, strlen(text) + 1);
}

void netlink_put_u32(struct netlink *netlink, uint16_t type, uint32_t value)
{
    netlink_put(netlink, type, &value, sizeof(value));
}

void netlink_put_be32(struct netlink *netlink, uint16_t type, uint32_t value)
{
    netlink_put_u32(netlink, type, htonl(value));
}

size_t netlink_open(struct netlink *netlink, uint16_t type)
{
    const size_t nest = netlink->len;
    netlink_put(netlink, type | NLA_F_NESTED, "", 0);
    return nest;
}

void netlink_close(struct netlink *netlink, size_t nest)
{
    const uint16_t len = (uint16_t)(netlink->len - nest);
    memcpy(netlink->bytes + nest + offsetof(struct nlattr, nla_len), &len, sizeof(len));
}

/* What one read has of answers: how many, and the first error among them. */
static size_t count_answers(const uint8_t *bytes, size_t len, int *error)
{
    size_t count = 0;
    struct nlmsghdr head;
    struct nlmsgerr result;
    for (size_t at = 0; len - at >= sizeof(head); at += NLMSG_ALIGN(head.nlmsg_len)) {
        memcpy(&head, bytes + at, sizeof(head));
        if (head.nlmsg_len < NLMSG_LENGTH(sizeof(result)) || head.nlmsg_len > len - at ||
            head.nlmsg_type != NLMSG_ERROR)
            break;
        memcpy(&result, bytes + at + NLMSG_HDRLEN, sizeof(result));
        count++;
        if (*error == 0)
            *error = -result.error;
        if (NLMSG_ALIGN(head.nlmsg_len) >= len - at)
            break;
    }
    return count;
}

/* The kernel answers within the call that sends. */
static int read_answers(int sock, size_t wanted)
{
    uint8_t bytes[4096];
    int error = 0;
    for (size_t count = 0; count < wanted && error == 0;) {
        const ssize_t len = recv(sock, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (len < 0)
            return errno;
        const size_t more = count_answers(bytes, (size_t)len, &error);
        if (more == 0)
            return EPROTO;
        count += more;
    }
    return error;
}

int netlink_send(const struct netlink *netlink, int protocol, const char *what, struct srt_err *err)
{
    autoclose int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    int error = errno;
    if (sock >= 0)
        error = send(sock, netlink->bytes, netlink->len, 0) == (ssize_t)netlink->len
                    ? read_answers(sock, netlink->answers)
                    : errno;
    if (error == 0)
        return 0;
    srt_err_set(err, "%s: %s", what, remedy_error(error));
    errno = error;
    return -1;
}
