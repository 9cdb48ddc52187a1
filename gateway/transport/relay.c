#include "transport/relay.h"

#include "srt/must.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static const struct relay_pipe no_pipe = {-1, -1};

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

/* ---- pipes ---- */

static struct relay_pipe pipe_make(void)
{
    int ends[2];
    if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0)
        return no_pipe;
    (void)fcntl(ends[1], F_SETPIPE_SZ, RELAY_TURN_BYTES);
    return (struct relay_pipe){.out = ends[0], .in = ends[1]};
}

static void pipe_close(struct relay_pipe *pipe)
{
    if (pipe->in >= 0) {
        close(pipe->out);
        close(pipe->in);
    }
    *pipe = no_pipe;
}

void relay_room_init(struct relay_room *room)
{
    *room = (struct relay_room){
        .scratch = must(malloc(RELAY_CHUNK)), .pipe = pipe_make(), .spare = pipe_make()};
    for (size_t i = 0; i < RELAY_PIPES; i++)
        room->kept[i] = no_pipe;
}

void relay_room_end(struct relay_room *room)
{
    free(room->scratch);
    pipe_close(&room->pipe);
    pipe_close(&room->spare);
    for (size_t i = 0; i < RELAY_PIPES; i++)
        assert(room->kept[i].in < 0);
}

/* The way keeps the room's pipe, and the room gets another. False: too many do, or there is no
 * other.
 */
static bool keep_pipe(struct relay_way *way, struct relay_room *room)
{
    uint8_t at = 0;
    while (at < RELAY_PIPES && room->kept[at].in >= 0)
        at++;
    if (at == RELAY_PIPES)
        return false;
    struct relay_pipe next = room->spare.in >= 0 ? room->spare : pipe_make();
    room->spare = no_pipe;
    if (next.in < 0)
        return false;
    room->kept[at] = room->pipe;
    room->pipe = next;
    way->kept = at + 1;
    return true;
}

static void return_pipe(struct relay_way *way, struct relay_room *room)
{
    struct relay_pipe *kept = &room->kept[way->kept - 1];
    if (room->spare.in < 0)
        room->spare = *kept;
    else
        pipe_close(kept);
    *kept = no_pipe;
    way->kept = 0;
}

/* What is in the way's pipe goes on, or to `out` when that cannot be. */
static void empty_pipe(struct relay_way *way, struct relay_room *room, bool at_once)
{
    const int pipe = room->kept[way->kept - 1].out;
    if (!at_once)
        stream_splice_out(way->to, pipe);
    if (at_once || way->to->deaf)
        stream_unpipe(way->to, pipe);
    if (way->to->piped == 0)
        return_pipe(way, room);
}

static void end_pipe(struct relay_way *way, struct relay_room *room)
{
    if (way->kept == 0)
        return;
    if (way->to->piped > 0) {
        empty_pipe(way, room, true);
        return;
    }
    pipe_close(
        &room->kept[way->kept - 1]); /* with what its stream, which is closed, did not take */
    way->kept = 0;
}

void relay_end(struct relay *relay, struct relay_room *room)
{
    end_pipe(&relay->up, room);
    end_pipe(&relay->down, room);
}

/* ---- turns ---- */

static size_t splice_some(struct relay_way *way, struct relay_room *room, size_t max)
{
    size_t n = stream_splice_in(way->from, room->pipe.in, max);
    if (n == 0)
        return 0;
    const int pipe = room->pipe.out;
    way->to->piped = (uint32_t)n;
    stream_splice_out(way->to, pipe);
    if (way->to->piped > 0 && (way->to->deaf || !keep_pipe(way, room)))
        stream_unpipe(way->to, pipe);
    return n;
}

static bool can_splice(const struct relay_way *way, const struct relay_room *room)
{
    return room->pipe.in >= 0 && way->from->tls == NULL && way->to->tls == NULL;
}

static size_t pump(struct relay_way *way, struct relay_room *room)
{
    size_t moved = move_backlog(way), spliced = 0;
    const bool was_bulk = way->bulk;
    while (!stream_is_sending(way->to) && moved < RELAY_TURN_BYTES && !way->to->deaf) {
        size_t n = way->bulk ? splice_some(way, room, RELAY_TURN_BYTES - moved)
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

static size_t turn_way(struct relay_way *way, const struct relay_way *back, struct relay_room *room)
{
    if (way->done)
        return 0;
    size_t waiting = way->to->out.len + way->to->piped;
    if (way->kept != 0)
        empty_pipe(way, room, false);
    stream_flush(way->to);
    size_t moved = waiting - way->to->out.len - way->to->piped;
    if (way->to->deaf) {
        end_way(way);
        return moved;
    }
    if (way->held)
        return moved + stream_fill(way->from, RELAY_CHUNK);
    if (!stream_is_sending(way->to))
        moved += pump(way, room);
    if (way->to->deaf) {
        end_way(way);
    } else if ((way->from->eof || way->from->broken) && !stream_is_sending(way->to)) {
        /* A reset is passed on by whoever closes the streams: after it no FIN. */
        if (!way->from->broken && !close_is_the_fin(way, back))
            stream_finish(way->to);
        if (way->from->broken || !way->to->finishing)
            end_way(way);
    }
    return moved;
}

static bool has_ended(const struct stream *stream)
{
    return stream->deaf || stream->eof;
}

static void note_end(struct relay *relay)
{
    if (relay->up.ended_first || relay->down.ended_first)
        return;
    relay->up.ended_first = has_ended(relay->up.from);
    relay->down.ended_first = !relay->up.ended_first && has_ended(relay->down.from);
}

size_t relay_turn(struct relay *relay, struct relay_room *room)
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
    return !stream_is_sending(way->to);
}
