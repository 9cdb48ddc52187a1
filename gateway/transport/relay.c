#include "transport/relay.h"

#include <assert.h>

void relay_init(struct relay *relay, struct stream *client, struct stream *upstream)
{
    *relay = (struct relay){
        .up = {.from = client, .to = upstream},
        .down = {.from = upstream, .to = client},
    };
}

void relay_release(struct relay_way *way)
{
    way->held = false;
}

void relay_pass(struct relay_way *way, size_t len)
{
    struct buf *in = &way->from->in;
    assert(way->held && len <= in->len);
    way->bytes += len;
    stream_send(way->to, (struct str){buf_view(in).p, len});
    buf_take(in, len);
}

static void end_way(struct relay_way *way)
{
    way->done = true;
    buf_free(&way->from->in);
}

/* Bytes that were read before the relay began, or while the way was held. */
static size_t move_backlog(struct relay_way *way)
{
    size_t len = way->from->in.len;
    if (len == 0)
        return 0;
    way->bytes += len;
    buf_move(&way->to->out, &way->from->in);
    stream_flush(way->to);
    return len;
}

static size_t copy_some(struct relay_way *way, char *scratch)
{
    size_t n = stream_read(way->from, scratch, RELAY_CHUNK);
    if (n > 0)
        stream_send(way->to, (struct str){scratch, n});
    return n;
}

static size_t splice_some(struct relay_way *way, const int pipe[2], size_t max)
{
    size_t n = stream_splice_in(way->from, pipe[1], max);
    if (n > 0)
        stream_splice_out(way->to, pipe[0], n);
    return n;
}

static bool can_splice(const struct relay_way *way, const struct relay_room *room)
{
    return room->pipe[0] >= 0 && way->from->tls == NULL && way->to->tls == NULL;
}

static size_t pump(struct relay_way *way, const struct relay_room *room)
{
    size_t moved = move_backlog(way), spliced = 0;
    const bool was_bulk = way->bulk;
    while (way->to->out.len == 0 && moved < RELAY_TURN_BYTES && !way->to->deaf) {
        size_t n = way->bulk ? splice_some(way, room->pipe, RELAY_TURN_BYTES - moved)
                             : copy_some(way, room->scratch);
        if (n == 0)
            break;
        spliced += way->bulk ? n : 0;
        way->bytes += n;
        moved += n;
        way->bulk = way->bulk || (n == RELAY_CHUNK && can_splice(way, room));
    }
    if (was_bulk && spliced < RELAY_BULK_LEAST)
        way->bulk = false;
    return moved;
}

/* Whoever sees that the relay is over closes the streams, and the close of one that has nothing to
 * say is its FIN. */
static bool close_is_the_fin(const struct relay_way *way, const struct relay_way *back)
{
    return back->done && way->to->eof && way->to->tls == NULL;
}

static size_t turn_way(struct relay_way *way, const struct relay_way *back,
                       const struct relay_room *room)
{
    if (way->done)
        return 0;
    size_t waiting = way->to->out.len;
    stream_flush(way->to);
    size_t moved = waiting - way->to->out.len;
    if (way->to->deaf) {
        end_way(way);
        return moved;
    }
    if (way->held)
        return moved + stream_fill(way->from, RELAY_CHUNK);
    if (way->to->out.len == 0)
        moved += pump(way, room);
    if (way->to->deaf) {
        end_way(way);
    } else if ((way->from->eof || way->from->broken) && way->to->out.len == 0) {
        /* A reset is passed on by whoever closes the streams: after it no FIN. */
        if (!way->from->broken && !close_is_the_fin(way, back))
            stream_finish(way->to);
        if (way->from->broken || !way->to->finishing)
            end_way(way);
    }
    return moved;
}

static void note_end(struct relay *relay)
{
    if (relay->ended_first != RELAY_NOBODY)
        return;
    const struct stream *client = relay->up.from, *upstream = relay->down.from;
    if (client->deaf || client->eof)
        relay->ended_first = RELAY_CLIENT;
    else if (upstream->deaf || upstream->eof)
        relay->ended_first = RELAY_UPSTREAM;
}

size_t relay_turn(struct relay *relay, const struct relay_room *room)
{
    size_t moved = turn_way(&relay->up, &relay->down, room);
    note_end(relay);
    moved += turn_way(&relay->down, &relay->up, room);
    note_end(relay);
    /* A stream that broke just now has also ended the way that was looked at before. */
    if (relay->up.to->deaf)
        moved += turn_way(&relay->up, &relay->down, room);
    return moved;
}

bool relay_is_over(const struct relay *relay)
{
    return relay->up.done && relay->down.done;
}

bool relay_reads(const struct relay *relay, const struct stream *stream)
{
    const struct relay_way *way = stream == relay->up.from ? &relay->up : &relay->down;
    if (way->done)
        return false;
    if (way->held)
        return way->from->in.len < RELAY_CHUNK;
    return way->to->out.len == 0;
}
