#include "session/ending.h"

#include "session/exchange.h"
#include "session/report.h"
#include "session/session.h"
#include "session/spending.h"
#include "session/standing.h"
#include "session/steps.h"

#include <stdlib.h>
#include <unistd.h>

void end_attempt(struct session *s)
{
    struct attempt *attempt = s->attempt;
    if (attempt == NULL)
        return;
    if (attempt->query != NULL)
        resolver_cancel(attempt->query);
    name_service_leave(attempt->names);
    if (attempt->connector != NULL)
        connector_cancel(attempt->connector);
    if (attempt->connected && attempt->connection.fd >= 0)
        close(attempt->connection.fd);
    via_leave(s);
    free(attempt->approved);
    slab_give(attempt);
    s->attempt = NULL;
}

static void note_tunnel_bytes(struct session *s)
{
    if (s->relay.up.from == NULL)
        return;
    s->request.bytes_up += s->relay.up.bytes;
    s->request.bytes_down += s->relay.down.bytes;
    relay_end(&s->relay, &s->worker->room);
    s->relay = (struct relay){0};
    free(s->look);
    s->look = NULL;
}

void end_admission(struct session *s, enum close_cause cause)
{
    if (!s->request.admitted)
        return;
    note_tunnel_bytes(s);
    report_close(s, cause);
    filtering_end(s);
    counter_add(&s->worker->counters.tunnels_closed, 1);
    counter_add(&s->worker->counters.bytes_up, s->request.bytes_up);
    counter_add(&s->worker->counters.bytes_down, s->request.bytes_down);
    s->request.admitted = false;
}

void end_request(struct session *s, enum close_cause cause)
{
    end_admission(s, cause);
    filtering_forget(s);
    end_attempt(s);
    ticket_forget(s);
    spending_end(s);
    standing_leave(s);
    request_reset(&s->request);
}

void end_upstream(struct session *s)
{
    ev_io_stop(s->worker->loop, &s->upstream_io);
    stream_close(&s->upstream);
}

static void end_client(struct session *s)
{
    ev_io_stop(s->worker->loop, &s->client_io);
    stream_close(&s->client);
}

/* The descriptor alone. */
static int take_fd(struct session *s, struct stream *stream, ev_io *io)
{
    int fd = stream->fd;
    ev_io_stop(s->worker->loop, io);
    stream->fd = -1;
    stream_close(stream);
    return fd;
}

static void end_slowly(struct session *s, struct stream *stream, ev_io *io, bool resets)
{
    struct farewells *farewells = &s->worker->farewells;
    const int fd = take_fd(s, stream, io);
    door_linger(s->door);
    if (resets)
        farewell_reset(farewells, fd, door_unlinger, s->door);
    else
        farewell_linger(farewells, fd, door_unlinger, s->door);
}

void end_client_slowly(struct session *s, bool resets)
{
    end_slowly(s, &s->client, &s->client_io, resets);
}

/* A reset of one side becomes a reset of the other, after what was read has been delivered. */
static void close_tunnel(struct session *s)
{
    if (s->upstream.deaf && !s->client.deaf)
        end_client_slowly(s, true);
    else if (s->client.deaf && !s->upstream.deaf)
        end_slowly(s, &s->upstream, &s->upstream_io, true);
}

void end_session(struct session *s)
{
    struct worker *worker = s->worker;
    if (s->relay.up.from != NULL)
        close_tunnel(s);
    else if (s->client.fd >= 0 && exchange_would_look_whole(s)) /* or it has been seen off */
        end_client_slowly(s, true);
    end_request(s, s->cause);
    end_upstream(s);
    end_client(s);
    ev_timer_stop(worker->loop, &s->timer);
    http_free(s->http);
    credentials_clear(&s->credentials);
    LIST_REMOVE(s, link);
    door_leave(s->door);
    counter_add(&worker->counters.connections_closed, 1);
    workers_connection_closed(worker->team);
    slab_give(s);
    worker_check_drained(worker);
}
