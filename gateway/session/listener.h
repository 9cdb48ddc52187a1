/*
 * A listening socket: where clients come in.
 *
 * Opened and closed on the control thread, accepted from on the workers. A gateway's own listener
 * is one socket that every worker watches (whoever is idle accepts; no SO_REUSEPORT, so a second
 * instance can never share the port); one that a launcher handed over is pinned to one worker.
 * A listener outlives reloads: what applies on it (protocol, policy, auth) is looked up in the
 * snapshot in force, never stored here.
 *
 * Ownership: counted; listener_open() gives the caller one count and each worker takes its own, the
 * descriptor is closed with the last. Failure: NULL and `err`.
 */
#ifndef SESSION_LISTENER_H
#define SESSION_LISTENER_H

#include "config/gateway_config.h"
#include "srt/err.h"

struct listener;

/* What is spoken at one that a launcher handed over. */
enum listener_kind {
    LISTENER_PROXY,       /* HTTP and SOCKS5, as at the gateway's own */
    LISTENER_TRANSPARENT, /* anything; the kernel has redirected it from where it was meant to go */
    LISTENER_DNS_UDP,     /* a bound socket of datagrams: nothing is accepted from it */
    LISTENER_DNS_TCP,
};

/* Binds and listens. TCP: exclusive. Unix: with mode and group; a path left behind is replaced only
 * when it is a socket on which nobody answers. Blocking calls: control thread only. */
struct listener *listener_open(const struct config_listen *config, struct srt_err *err);

/* One that somebody else bound and may have still, so that what waits for its lock is not done at
 * once (transport/foreign.h), and it has no listener_bound(). `fd` is taken over, also on failure
 * (not a listening stream socket, or for LISTENER_DNS_UDP not a UDP socket). */
struct listener *listener_adopt(int fd, enum listener_kind kind, struct srt_err *err);
enum listener_kind listener_kind(const struct listener *listener);

/* What waits for the lock: nothing that is called there later does because of a flag, what is
 * accepted there is as a client's connection has to be, and answers come from where the question
 * went. False with errno: it cannot be used. */
bool listener_unblock(const struct listener *listener);
bool listener_tune(const struct listener *listener);

/* The same for a [listen] section, which it then is like one that listener_open() made; but its
 * path is not removed at the end, since whoever bound it goes on listening there. `inherited`: it
 * was opened by listener_open() in another process, and from listener_claim() on the path is ours.
 */
struct listener *listener_adopt_for(int fd, const struct config_listen *config, bool inherited,
                                    struct srt_err *err);
void listener_claim(struct listener *listener);
/* Whether its path, if it has one, is removed at the end. */
bool listener_is_own(const struct listener *listener);

/* The address with the real port, or the path as configured. Lives as long as the listener. */
const struct config_address *listener_bound(const struct listener *listener);
int listener_fd(const struct listener *listener);

/* Whether this socket is where `config` asks for one, so that a reload keeps it: same address (port
 * 0: whatever port it got) or path. */
bool listener_serves(const struct listener *listener, const struct config_listen *config);

/* Gives the path of one that is kept the mode and group of `config`; no group is the process's own.
 * Where they are somebody else's (listener_is_own()), they stay. -1 with `err`. */
int listener_dress(struct listener *listener, const struct config_listen *config,
                   struct srt_err *err);

struct listener *listener_take(struct listener *listener);

/* The control thread's farewell: the path of a Unix socket is removed if it is still this socket,
 * then the count is given back. */
void listener_close(struct listener *listener);
/* Gives a count back, without touching the path; any thread. */
void listener_release(struct listener *listener);

#endif
