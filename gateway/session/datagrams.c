#include "session/datagrams.h"

#include "session/naming.h"
#include "session/visit.h"
#include "srt/must.h"

#include <assert.h>
#include <sys/socket.h>

enum {
    DATAGRAMS_TURN = 64, /* before others get their turn */
    /* A launcher can make its socket one that is always readable and has nothing to read. */
    VAIN_MAX = 64,
};

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

static void keep_answer(struct replies *replies, const struct msghdr *header, const uint8_t *answer,
                        size_t len)
{
    struct reply *reply = must(malloc(sizeof(*reply) + len));
    assert(header->msg_namelen <= sizeof(reply->peer));
    memcpy(&reply->peer, header->msg_name, header->msg_namelen);
    memcpy(reply->from, header->msg_control, header->msg_controllen);
    memcpy(reply->bytes, answer, len);
    reply->peer_len = header->msg_namelen;
    reply->from_len = header->msg_controllen;
    reply->len = len;
    STAILQ_INSERT_TAIL(replies, reply, link);
}

/* False: there is nothing to read. */
static bool answer_one(const struct door *door, struct replies *replies)
{
    uint8_t question[QUERY_MAX], answer[QUERY_ANSWER_MAX];
    struct sockaddr_storage peer;
    /* Which address was asked. */
    _Alignas(struct cmsghdr) char asked[CMSG_SPACE(sizeof(struct in6_pktinfo))];
    struct iovec part = {question, sizeof(question)};
    struct msghdr header = {.msg_name = &peer,
                            .msg_namelen = sizeof(peer),
                            .msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = asked,
                            .msg_controllen = sizeof(asked)};
    const ssize_t n = recvmsg(listener_fd(door->listener), &header, MSG_DONTWAIT);
    if (n < 0 || header.msg_namelen == 0)
        return false;
    if ((header.msg_flags & MSG_TRUNC) != 0)
        return true;
    const struct str message = {(const char *)question, (size_t)n};
    const size_t len = naming_answer(door->sandbox, message, answer);
    if (len == 0)
        return true;
    answer_from_there(&header);
    keep_answer(replies, &header, answer, len);
    return true;
}

static void send_there(struct visit *visit)
{
    struct reply *reply;
    STAILQ_FOREACH(reply, &visit->replies, link) {
        struct iovec part = {reply->bytes, reply->len};
        const struct msghdr header = {.msg_name = &reply->peer,
                                      .msg_namelen = reply->peer_len,
                                      .msg_iov = &part,
                                      .msg_iovlen = 1,
                                      .msg_control = reply->from,
                                      .msg_controllen = reply->from_len};
        (void)sendmsg(listener_fd(visit->listener), &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

void on_datagrams(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop, (void)revents;
    struct door *door = io->data;
    struct replies replies = STAILQ_HEAD_INITIALIZER(replies);
    int answered = 0;
    while (answered < DATAGRAMS_TURN && answer_one(door, &replies))
        answered++;
    door->vain = answered > 0 ? 0 : door->vain + 1;
    if (!STAILQ_EMPTY(&replies)) {
        struct visit *visit = visit_create(door, send_there);
        STAILQ_CONCAT(&visit->replies, &replies);
        visit_begin(visit);
    } else if (door->vain > VAIN_MAX) {
        door_shut(door, "nothing is ever read from it");
    }
}
