#include "control/tunnels.h"

#include "control/channel.h"
#include "control/handover.h"
#include "control/predecessors.h"
#include "srt/must.h"

#include <stdlib.h>

/* A question to several processes; the answers are put together as they come. */
struct poll {
    LIST_ENTRY(poll) link;
    struct gateway *gateway;
    unsigned waiting;
    struct json elements; /* of an array that is not closed */
    char id[REQUEST_ID_LEN + 1];
    bool found;
    tunnels_listed_fn *listed;
    tunnels_cut_fn *cut;
    void *arg;
    int64_t serial; /* of who asked, when that is another process */
};

static struct poll *begin(struct gateway *gateway, void *arg)
{
    struct poll *poll = must(calloc(1, sizeof(*poll)));
    poll->gateway = gateway;
    poll->arg = arg;
    poll->waiting = 1; /* our own workers */
    LIST_INSERT_HEAD(&gateway->polls, poll, link);
    return poll;
}

static void end(struct poll *poll)
{
    LIST_REMOVE(poll, link);
    json_free(&poll->elements);
    free(poll);
}

void tunnels_forget(struct gateway *gateway)
{
    while (!LIST_EMPTY(&gateway->polls))
        end(LIST_FIRST(&gateway->polls));
}

static struct str elements_of(const struct poll *poll)
{
    return (struct str){poll->elements.data, poll->elements.len};
}

static void one_answered(struct poll *poll)
{
    if (--poll->waiting > 0)
        return;
    if (poll->listed != NULL)
        poll->listed(poll->arg, elements_of(poll));
    else if (poll->cut != NULL)
        poll->cut(poll->arg, poll->id, poll->found);
    else
        handover_answer(poll->gateway->handover, poll->serial, poll->found, elements_of(poll));
    end(poll);
}

static void on_other(void *arg, struct channel_message *message)
{
    struct poll *poll = arg;
    struct json more = {0};
    const int parcel = message != NULL ? channel_take_fd(message) : -1;
    poll->found |= message != NULL && channel_flag(message, "found");
    if (parcel >= 0 && parcel_open(parcel, &more) && more.len > 0)
        json_raw(&poll->elements, NULL, (struct str){more.data, more.len});
    json_free(&more);
    one_answered(poll);
}

/* ---- listing ---- */

static void write_tunnel(struct json *out, const struct tunnel_info *tunnel)
{
    json_object_open(out, NULL);
    json_text(out, "id", str_of(tunnel->id));
    json_text(out, "sandbox", str_of(tunnel->sandbox));
    json_text(out, "client", str_of(tunnel->client));
    json_text(out, "listener", str_of(tunnel->listener));
    json_text(out, "policy", str_of(tunnel->policy));
    json_number(out, "generation", (int64_t)tunnel->generation);
    json_text(out, "front", str_of(front_word(tunnel->front)));
    json_text(out, "host", str_of(tunnel->host));
    json_number(out, "port", tunnel->port);
    json_text(out, "addr", str_of(tunnel->addr));
    json_number(out, "bytes_up", (int64_t)tunnel->bytes_up);
    json_number(out, "bytes_down", (int64_t)tunnel->bytes_down);
    json_number(out, "duration_ms", (int64_t)tunnel->duration_ms);
    json_number(out, "idle_ms", (int64_t)tunnel->idle_ms);
    json_object_close(out);
}

static void on_listed(void *arg, const struct tunnel_info *tunnels, size_t count)
{
    struct poll *poll = arg;
    for (size_t i = 0; i < count; i++)
        write_tunnel(&poll->elements, &tunnels[i]);
    one_answered(poll);
}

void tunnels_list(struct gateway *gateway, tunnels_listed_fn *done, void *arg)
{
    struct poll *poll = begin(gateway, arg);
    poll->listed = done;
    poll->waiting += predecessors_ask(
        gateway->predecessors, &(struct predecessors_question){.type = "tunnels"}, on_other, poll);
    workers_tunnels(gateway->workers, on_listed, poll);
}

void tunnels_tell(struct gateway *gateway, int64_t serial)
{
    struct poll *poll = begin(gateway, NULL);
    poll->serial = serial;
    workers_tunnels(gateway->workers, on_listed, poll);
}

/* ---- cutting ---- */

static void on_cut(void *arg, const char *id, bool found)
{
    struct poll *poll = arg;
    (void)id;
    poll->found |= found;
    one_answered(poll);
}

void tunnels_cut(struct gateway *gateway, const char *id, tunnels_cut_fn *done, void *arg)
{
    struct poll *poll = begin(gateway, arg);
    poll->cut = done;
    snprintf(poll->id, sizeof(poll->id), "%s", id);
    poll->waiting +=
        predecessors_ask(gateway->predecessors,
                         &(struct predecessors_question){.type = "cut", .id = id}, on_other, poll);
    workers_cut(gateway->workers, id, on_cut, poll);
}

void tunnels_cut_here(struct gateway *gateway, const char *id, int64_t serial)
{
    struct poll *poll = begin(gateway, NULL);
    poll->serial = serial;
    workers_cut(gateway->workers, id, on_cut, poll);
}
