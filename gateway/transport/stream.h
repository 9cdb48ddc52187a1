/*
 * One end of a connection: a non-blocking stream socket, what was read from it and not yet
 * consumed, and what is to be sent and not yet taken by the kernel.
 *
 * Says what happened (eof, broken), decides nothing and watches nothing. Ownership: the struct owns
 * descriptor and queues; a struct with fd -1 and empty queues owns nothing. Thread: its worker's.
 * Failure: `deaf` when the peer takes nothing any more (what it sent before can still be read:
 * Linux keeps the receive queue of a connection that was reset), `broken` when nothing can be read
 * either.
 *
 * With `tls` everything goes by that, and who uses the stream sees no difference: close_notify is
 * the FIN, an end without one a reset.
 */
#ifndef TRANSPORT_STREAM_H
#define TRANSPORT_STREAM_H

#include "transport/buf.h"
#include "transport/tls.h"

#include <stdint.h>

struct stream {
    int fd;
    uint32_t piped; /* bytes that wait to be sent in a pipe of the relay's; then `out` is empty */
    bool readable,
        writable; /* as far as is known; false after EAGAIN until the loop says otherwise */
    bool eof;     /* the peer has sent its FIN */
    bool fin_sent;
    bool finishing;  /* the FIN is to be sent and cannot be yet (a close_notify needs room) */
    bool reply_owed; /* TLS has to send something of its own before it reads on */
    bool deaf;       /* a send failed: the peer is gone */
    bool broken;     /* reset, and everything that came before was read; implies deaf */
    struct buf in, out;
    struct tls *tls; /* owned; or NULL */
};

/* Takes `fd` over. It counts as readable and writable until a call says otherwise. */
void stream_init(struct stream *stream, int fd);

/* Turns of the handshake of a `tls` that was just set, until TLS_DONE. `*why` goes with TLS_BROKEN.
 */
enum tls_result stream_secure(struct stream *stream, const char **why);

/* TCP_NODELAY and keepalive, so that a peer that vanished is noticed; does nothing on Unix sockets.
 */
void stream_tune(int fd);
/* For a listener whose connections do not leave the machine: bbr, where that is the system's
 * choice, paces even those, which more than doubles what bulk costs; reno is on every system. */
void stream_unpace(int fd);
/* For a socket that somebody else made, or that was accepted from such a listener: close() waits
 * while one that was told to linger has unsent bytes, also where it is not blocking (socket(7)). */
void stream_unlinger(int fd);
/* For a listener of a Unix socket, before anybody connects: what is accepted from it takes no
 * descriptors. Who throws away the last one of a socket that lingers waits for it, too. Linux has
 * that since 6.16, elsewhere it does nothing and is false. */
bool stream_refuse_descriptors(int fd);

/* Reads into `p`. 0: nothing at hand, or eof or broken has been set. */
size_t stream_read(struct stream *stream, void *p, size_t size);
/* Reads into `in` until it holds `max`; returns how much came. */
size_t stream_fill(struct stream *stream, size_t max);

/* The same without copying: into `pipe`, which is empty, and out of it again. What the kernel does
 * not take stays there as `piped`; stream_unpipe() reads it into `out`, so that the pipe is empty
 * again. Not with TLS. */
size_t stream_splice_in(struct stream *stream, int pipe, size_t max);
void stream_splice_out(struct stream *stream, int pipe);
void stream_unpipe(struct stream *stream, int pipe);

/* Something waits until the kernel takes it. */
static inline bool stream_is_sending(const struct stream *stream)
{
    return stream->out.len > 0 || stream->piped > 0;
}

/* Queues bytes, and hands to the kernel what it takes now. */
void stream_send(struct stream *stream, struct str bytes);
/* The same with the last that is sent, where the FIN follows at once: it leaves in one segment with
 * it, and the peer is woken once. */
void stream_send_last(struct stream *stream, struct str bytes);
void stream_flush(struct stream *stream);
/* The FIN, once `out` is empty; again while `finishing`. */
void stream_finish(struct stream *stream);

/* What the loop has to watch for: EV_READ when `reading` is wanted and possible, EV_WRITE when
 * there is something to send that the kernel does not take. */
int stream_interest(const struct stream *stream, bool reading);
/* What the loop has seen. */
void stream_ready(struct stream *stream, int revents);

/* There is input at hand that the loop will not tell of. */
bool stream_has_pending(const struct stream *stream);

/* Bytes that the kernel has taken and may still deliver; 0 on Unix sockets. */
size_t stream_unsent(int fd);

void stream_close(struct stream *stream);

#endif
