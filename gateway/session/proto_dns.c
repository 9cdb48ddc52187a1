#include "session/naming.h"
#include "session/proto.h"
#include "session/session.h"

/*
 * DNS over TCP (RFC 7766): each message behind its length. A few that are here are answered
 * together; others have their turn in between.
 */

enum { LENGTH = 2, TOGETHER = 8 };

static enum proto_result read_dns(struct session *session)
{
    struct buf *in = &session->client.in, *out = &session->worker->reply;
    buf_clear(out);
    for (int count = 0; count < TOGETHER; count++) {
        const struct str bytes = buf_view(in);
        const uint8_t *head = (const uint8_t *)bytes.p;
        const size_t len = bytes.len >= LENGTH ? (size_t)head[0] << 8 | head[1] : 0;
        if (len > QUERY_MAX)
            return PROTO_CLOSE;
        if (bytes.len < LENGTH + len || bytes.len < LENGTH)
            break;
        uint8_t answer[LENGTH + QUERY_ANSWER_MAX];
        const size_t answered = naming_answer(session->door->sandbox,
                                              (struct str){bytes.p + LENGTH, len}, answer + LENGTH);
        if (answered == 0)
            return PROTO_CLOSE;
        answer[0] = (uint8_t)(answered >> 8);
        answer[1] = (uint8_t)answered;
        buf_append(out, (struct str){(const char *)answer, LENGTH + answered});
        buf_take(in, LENGTH + len);
    }
    if (buf_view(out).len == 0)
        return PROTO_MORE;
    stream_send(&session->client, buf_view(out));
    return PROTO_ANSWERED;
}

/* A question is no request, so that there is nothing to grant or to refuse. */
const struct proto proto_dns = {
    .name = "dns",
    .read = read_dns,
};
