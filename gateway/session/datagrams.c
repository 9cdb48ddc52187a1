#include "session/datagrams.h"

#include "session/core.h"
#include "session/naming.h"

#include <sys/socket.h>

enum {
    DATAGRAMS_TURN = 64, /* before others get their turn */
    /* A launcher can make its socket one that is always readable and has nothing to read. */
    VAIN_MAX = 64,
};

struct datagram {
    uint8_t bytes[QUERY_MAX];
    struct sockaddr_storage peer;
    /* Which address was asked, so that the answer comes from there (ip(7), ipv6(7)). */
    _Alignas(struct cmsghdr) char asked[CMSG_SPACE(sizeof(struct in6_pktinfo))];
    struct iovec part;
    struct msghdr header;
};

static void prepare(struct datagram *datagram)
{
    datagram->part = (struct iovec){datagram->bytes, sizeof(datagram->bytes)};
    datagram->header = (struct msghdr){.msg_name = &datagram->peer,
                                       .msg_namelen = sizeof(datagram->peer),
                                       .msg_iov = &datagram->part,
                                       .msg_iovlen = 1,
                                       .msg_control = datagram->asked,
                                       .msg_controllen = sizeof(datagram->asked)};
}

/* From any interface, and from the very address. */
static void answer_from_there(struct msghdr *header)
{
    struct cmsghdr *control = CMSG_FIRSTHDR(header);
    struct in_pktinfo v4;
    struct in6_pktinfo v6;
    if (control != NULL && control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_PKTINFO &&
        control->cmsg_len == CMSG_LEN(sizeof(v4))) {
        memcpy(&v4, CMSG_DATA(control), sizeof(v4));
        v4 = (struct in_pktinfo){.ipi_spec_dst = v4.ipi_addr};
        memcpy(CMSG_DATA(control), &v4, sizeof(v4));
        header->msg_controllen = CMSG_SPACE(sizeof(v4));
    } else if (control != NULL && control->cmsg_level == IPPROTO_IPV6 &&
               control->cmsg_type == IPV6_PKTINFO && control->cmsg_len == CMSG_LEN(sizeof(v6))) {
        memcpy(&v6, CMSG_DATA(control), sizeof(v6));
        v6.ipi6_ifindex = 0;
        memcpy(CMSG_DATA(control), &v6, sizeof(v6));
        header->msg_controllen = CMSG_SPACE(sizeof(v6));
    } else {
        header->msg_controllen = 0;
    }
}

/* False: there is nothing to read. */
static bool answer_one(const struct door *door)
{
    struct datagram datagram;
    uint8_t answer[QUERY_ANSWER_MAX];
    const int fd = listener_fd(door->listener);
    prepare(&datagram);
    const ssize_t n = recvmsg(fd, &datagram.header, MSG_DONTWAIT);
    if (n < 0 || datagram.header.msg_namelen == 0)
        return false;
    if ((datagram.header.msg_flags & MSG_TRUNC) != 0)
        return true;
    const size_t len =
        naming_answer(door->sandbox, (struct str){(const char *)datagram.bytes, (size_t)n}, answer);
    if (len == 0)
        return true;
    datagram.part = (struct iovec){answer, len};
    answer_from_there(&datagram.header);
    (void)sendmsg(fd, &datagram.header, MSG_DONTWAIT | MSG_NOSIGNAL);
    return true;
}

void on_datagrams(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop, (void)revents;
    struct door *door = io->data;
    int answered = 0;
    while (answered < DATAGRAMS_TURN && answer_one(door))
        answered++;
    door->vain = answered > 0 ? 0 : door->vain + 1;
    if (door->vain > VAIN_MAX)
        door_shut(door, "nothing is ever read from it");
}
