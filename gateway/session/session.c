#include "session/session.h"

#include "record/log.h"
#include "session/ending.h"
#include "session/exchange.h"
#include "session/report.h"
#include "session/standing.h"
#include "session/steps.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct step_row {
    const char *name;
    double (*deadline)(const struct session *); /* on the loop's clock, 0 = none; NULL = none */
    enum step (*enter)(struct session *);
    enum step (*wake)(struct session *); /* NULL: nothing can happen meanwhile */
    enum step (*late)(struct session *);
};

static const struct step_row step_rows[STEP_COUNT] = {
    [STEP_READ] = {"READ", read_deadline, enter_read, wake_read, read_late},
    [STEP_JUDGE] = {"JUDGE", NULL, enter_judge, NULL, NULL},
    [STEP_FILTER] = {"FILTER", filter_deadline, enter_filter, wake_filter, filter_late},
    [STEP_RESOLVE] = {"RESOLVE", way_deadline, enter_resolve, wake_resolve, way_late},
    [STEP_VET] = {"VET", NULL, enter_vet, NULL, NULL},
    [STEP_CONNECT] = {"CONNECT", way_deadline, enter_connect, wake_connect, way_late},
    [STEP_HANDSHAKE] = {"HANDSHAKE", handshake_deadline, enter_handshake, wake_handshake,
                        handshake_late},
    [STEP_RECORD] = {"RECORD", NULL, enter_record, wake_record, NULL},
    [STEP_ANSWER] = {"ANSWER", NULL, enter_answer, NULL, NULL},
    [STEP_HELLO] = {"HELLO", hello_deadline, wake_hello, wake_hello, hello_late},
    [STEP_RELAY] = {"RELAY", relay_deadline, enter_relay, wake_relay, relay_late},
    [STEP_EXCHANGE] = {"EXCHANGE", exchange_deadline, enter_exchange, wake_exchange, exchange_late},
    [STEP_REFUSE] = {"REFUSE", NULL, enter_refuse, wake_refuse, NULL},
    [STEP_HEAR] = {"HEAR", hear_deadline, wake_hear, wake_hear, hear_late},
    [STEP_LEAVE] = {"LEAVE", leave_deadline, enter_leave, wake_leave, leave_late},
    [STEP_CLOSE] = {"CLOSE", NULL, NULL, NULL, NULL},
};

static bool is_timed(enum step step)
{
    return step == STEP_JUDGE || step == STEP_RESOLVE || step == STEP_CONNECT;
}

/* What the step that is left was for took this long. One that its client did not wait for says
 * nothing, nor one that had nothing to do. */
static void count_time(struct session *s, enum step next, int64_t now)
{
    const bool idle = (s->step == STEP_RESOLVE && s->request.target.is_addr) ||
                      (s->step == STEP_CONNECT && s->http != NULL && s->http->reused);
    if (idle || next == STEP_CLOSE || next == STEP_LEAVE)
        return;
    const enum timing timing = s->step == STEP_JUDGE     ? TIMING_DECISION
                               : s->step == STEP_RESOLVE ? TIMING_DNS
                                                         : TIMING_CONNECT;
    worker_count_time(s->worker, timing, next == STEP_REFUSE, now - s->entered_ns);
}

static void set_step(struct session *s, enum step step)
{
    if (is_timed(s->step) || is_timed(step)) {
        const int64_t now = session_clock_ns();
        if (is_timed(s->step))
            count_time(s, step, now);
        s->entered_ns = now;
    }
    if (s->worker->trace)
        log_line("worker %u session %u: %s -> %s", s->worker->index, s->number,
                 step_rows[s->step].name, step_rows[step].name);
    s->step = step;
    s->entered = session_now(s);
}

static bool wants_input(const struct session *s, const struct stream *stream)
{
    switch (s->step) {
    case STEP_READ:
        return stream == &s->upstream ||
               (stream->in.len < session_head_limit(s) && stream->out.len < UNANSWERED_MAX);
    case STEP_HANDSHAKE:
        return stream == &s->upstream;
    case STEP_HEAR:
        return stream == &s->client && stream->in.len < HEAR_MAX;
    case STEP_FILTER:
        return stream == &s->client && stream->in.len < session_head_limit(s);
    case STEP_HELLO:
    case STEP_RELAY:
        return relay_reads(&s->relay, stream);
    case STEP_EXCHANGE:
        return exchange_reads(s, stream);
    case STEP_JUDGE:
    case STEP_RESOLVE:
    case STEP_VET:
    case STEP_CONNECT:
    case STEP_RECORD:
    case STEP_ANSWER:
    case STEP_REFUSE:
    case STEP_LEAVE:
    case STEP_CLOSE:
    case STEP_COUNT:
        break;
    }
    return false;
}

/* Each change costs a system call, and what the step at hand does not want, one soon after it
 * mostly does: a watcher keeps waiting for input until it has been woken by some that nobody wants.
 * One of a new upstream begins so, since its descriptor is watched already. */
static void watch_stream(struct session *s, struct stream *stream, ev_io *io)
{
    const int active = ev_is_active(io) ? io->events & (EV_READ | EV_WRITE) : 0;
    int events = stream->fd >= 0 ? stream_interest(stream, wants_input(s, stream)) : 0;
    const bool keeps = stream == &s->upstream || s->watches_client;
    if (stream->fd >= 0 && !stream->readable && !stream->eof && !stream->broken)
        events |= keeps ? EV_READ : active & EV_READ;
    if (events == active)
        return;
    ev_io_stop(s->worker->loop, io);
    ev_io_modify(io, events);
    if (events != 0)
        ev_io_start(s->worker->loop, io);
}

static double fires_at(struct session *s)
{
    return session_now(s) + ev_timer_remaining(s->worker->loop, &s->timer);
}

/* Deadlines move with every byte, so the timer is left where it is while it fires early enough: it
 * then finds that it is not time yet. */
static void watch_time(struct session *s)
{
    const struct step_row *row = &step_rows[s->step];
    double at = row->deadline != NULL ? row->deadline(s) : 0;
    if (s->yields)
        at = session_now(s);
    if (ev_is_active(&s->timer) && at > 0 && fires_at(s) <= at)
        return;
    ev_timer_stop(s->worker->loop, &s->timer);
    if (at <= 0)
        return;
    double after = at - session_now(s);
    ev_timer_set(&s->timer, after > 0 ? after : 0., 0.);
    ev_timer_start(s->worker->loop, &s->timer);
}

/* The only place where a session moves on, and where it ends. */
static void proceed(struct session *s, enum step next)
{
    assert(!s->running);
    s->running = true;
    while (next != STEP_WAIT) {
        set_step(s, next);
        if (next == STEP_CLOSE) {
            end_session(s);
            return;
        }
        next = step_rows[next].enter(s);
    }
    s->running = false;
    watch_stream(s, &s->client, &s->client_io);
    watch_stream(s, &s->upstream, &s->upstream_io);
    s->yields |= stream_has_pending(&s->upstream) && wants_input(s, &s->upstream);
    watch_time(s);
}

/* A step that waits for somebody else leaves nothing unsaid meanwhile: the loop would tell without
 * end that there is room again. Those that carry bytes send by themselves, and count what goes. */
static void flush_meanwhile(struct session *s)
{
    if (s->step == STEP_HELLO || s->step == STEP_RELAY || s->step == STEP_EXCHANGE)
        return;
    stream_flush(&s->client);
    if (s->upstream.fd >= 0)
        stream_flush(&s->upstream);
}

void session_run(struct session *s)
{
    const struct step_row *row = &step_rows[s->step];
    s->turns = 0;
    s->yields = false;
    flush_meanwhile(s);
    proceed(s, row->wake != NULL ? row->wake(s) : STEP_WAIT);
}

static void on_client(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop;
    struct session *s = io->data;
    stream_ready(&s->client, revents);
    if (client_has_left(s))
        proceed(s, way_abandon(s));
    else
        session_run(s);
}

static void on_upstream(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop;
    struct session *s = io->data;
    stream_ready(&s->upstream, revents);
    session_run(s);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)revents;
    struct session *s = timer->data;
    const struct step_row *row = &step_rows[s->step];
    double deadline = row->deadline != NULL ? row->deadline(s) : 0;
    if (s->yields)
        session_run(s);
    else if (deadline > 0 && ev_now(loop) >= deadline - .001)
        proceed(s, row->late(s));
    else
        watch_time(s);
}

static void read_peer(struct session *s, const struct sockaddr *addr)
{
    struct ucred cred;
    socklen_t cred_len = sizeof(cred);
    if (addr_from_sockaddr(addr, &s->peer.addr, &s->peer.port))
        return;
    s->peer.addr = (struct addr){0};
    s->peer.has_uid = getsockopt(s->client.fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) == 0;
    s->peer.uid = s->peer.has_uid ? cred.uid : 0;
    s->peer.pid = s->peer.has_uid ? cred.pid : 0;
}

/* The place of one is nearly all that an idle tunnel costs. */
_Static_assert(sizeof(struct session) <= 1208, "27 fill a block of a slab (transport/slab.c)");

void session_create(struct door *door, int fd, const struct sockaddr *peer, enum outcome at_door,
                    bool has_queued)
{
    struct worker *worker = door->worker;
    struct session *s = slab_take(&worker->session_room);
    s->worker = worker;
    s->door = door;
    door->sessions++;
    s->at_door = at_door;
    s->proto = door->proto;
    s->cause = CLOSE_CLIENT;
    s->number = (uint32_t)atomic_load_explicit(&worker->counters.connections, memory_order_relaxed);
    counter_add(&worker->counters.connections, 1);
    workers_connection_opened(worker->team);
    LIST_INSERT_HEAD(&worker->sessions, s, link);
    request_reset(&s->request);
    stream_init(&s->client, fd);
    s->client.readable = has_queued;
    s->upstream.fd = -1;
    ev_io_init(&s->client_io, on_client, fd, 0);
    ev_io_init(&s->upstream_io, on_upstream, -1, 0);
    ev_init(&s->timer, on_timer);
    s->client_io.data = s->upstream_io.data = s->timer.data = s;
    read_peer(s, peer);
    s->step = STEP_READ;
    s->entered = s->active = s->began = session_now(s);
    session_run(s);
}

/* What waits for an approval has not been decided; its record says how that ended. */
static void end_wait(struct session *s, enum close_cause cause)
{
    if (!filtering_awaits_approval(s))
        return;
    (void)filtering_give_up(s, true);
    s->request.outcome = s->request.decision.ruling.outcome;
    if (cause == CLOSE_DRAIN)
        s->request.outcome = OUTCOME_DRAINING;
    (void)report_refusal(s, 0);
}

void session_cut(struct session *s, enum close_cause cause)
{
    end_wait(s, cause);
    s->cause = cause;
    proceed(s, STEP_CLOSE);
}

bool session_is_tunnel(const struct session *s)
{
    return s->request.admitted;
}

/* Its client can still be told anything. */
static bool is_unanswered(const struct session *s)
{
    return s->request.front == FRONT_HTTP && s->http != NULL &&
           (s->step != STEP_EXCHANGE || !s->http->head_passed);
}

/* It may go on, and does so as what is in force now wants it. */
static void go_on_as_judged(struct session *s)
{
    const bool reads = standing_reads_hello(&s->request.decision);
    if (s->step == STEP_EXCHANGE)
        standing_lapse(s);
    if (s->step == STEP_RESOLVE || s->step == STEP_CONNECT || s->step == STEP_HANDSHAKE) {
        end_upstream(s);
        proceed(s, STEP_RESOLVE);
    } else if (s->step == STEP_RELAY && reads && s->request.front != FRONT_HTTP &&
               s->request.first_bytes == FIRST_UNREAD) {
        s->relay.up.held = true; /* nothing has passed, or it would have been denied */
        proceed(s, STEP_HELLO);
    } else if (s->step == STEP_HELLO && !reads) {
        proceed(s, STEP_RELAY);
    } else {
        watch_time(s); /* its limits may end it earlier now */
    }
}

/* Somebody is being asked: the question stays, unless there is none any more. */
static void recheck_wait(struct session *s)
{
    if (standing_still_asks(s))
        return;
    filtering_forget(s);
    proceed(s, STEP_JUDGE);
}

void session_recheck(struct session *s)
{
    if (filtering_awaits_approval(s)) {
        recheck_wait(s);
        return;
    }
    /* One whose record is still under way looks for itself; one that is refused is refused. */
    if (!s->request.admitted || s->step == STEP_RECORD || s->step == STEP_REFUSE)
        return;
    /* Who waits for an answer gets one. The records of the others keep the generation of the
     * decision that they belong to. */
    const bool unanswered = is_unanswered(s);
    enum outcome outcome = standing_move(s, unanswered);
    if (outcome == OUTCOME_ALLOWED)
        go_on_as_judged(s);
    else if (unanswered)
        proceed(s, refuse_as_overtaken(s, outcome));
    else
        session_cut(s, CLOSE_POLICY);
}

void session_drain(struct session *s)
{
    if (s->step == STEP_READ && s->began <= 0)
        session_run(s);
    else if (filtering_awaits_approval(s)) {
        filtering_forget(s);
        proceed(s, step_refuse(s, OUTCOME_DRAINING));
    }
}

void session_describe(const struct session *s, struct tunnel_info *out, char host[NAME_MAX_LEN + 1],
                      char addr[ADDR_TEXT_MAX])
{
    const struct request *request = &s->request;
    const struct policy *policy = standing_policy(s);
    *out = (struct tunnel_info){
        .sandbox = s->door->sandbox != NULL ? s->door->sandbox->name : NULL,
        .client = s->identity.client_name,
        .listener = s->door->name,
        .policy = policy != NULL ? policy_name(policy) : NULL,
        .generation = request->generation,
        .front = request->front,
        .host = target_host(host, &request->target),
        .port = request->target.port,
        .addr = addr_format(addr, &request->addr),
        .bytes_up = request->bytes_up + s->relay.up.bytes,
        .bytes_down = request->bytes_down + s->relay.down.bytes,
        .since_ms = (int64_t)(request->since * 1000.),
        .duration_ms = (uint64_t)((session_now(s) - request->since) * 1000.),
        .idle_ms = (uint64_t)((session_now(s) - s->active) * 1000.),
    };
    memcpy(out->id, request->id, sizeof(out->id));
}
