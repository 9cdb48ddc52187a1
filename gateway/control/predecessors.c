#include "control/predecessors.h"

#include "control/attach_move.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <sys/queue.h>
#include <sys/socket.h>

/* What one was asked and has not answered. */
struct inquiry {
    STAILQ_ENTRY(inquiry) link;
    int64_t serial;
    predecessors_answer_fn *answer;
    void *arg;
};

struct predecessor {
    LIST_ENTRY(predecessor) link;
    struct predecessors *all;
    struct channel *channel;
    STAILQ_HEAD(, inquiry) inquiries;
    void (*retired)(void *arg); /* NULL: it has */
    void *retired_arg;
};

struct predecessors {
    struct gateway *gateway;
    LIST_HEAD(, predecessor) list;
    int64_t serial; /* of the last inquiry */
};

/* ---- hearing ---- */

static void note_retired(struct predecessor *predecessor)
{
    void (*retired)(void *) = predecessor->retired;
    predecessor->retired = NULL;
    if (retired != NULL)
        retired(predecessor->retired_arg);
}

static void answer_inquiry(struct predecessor *predecessor, struct inquiry *inquiry,
                           struct channel_message *message)
{
    STAILQ_REMOVE(&predecessor->inquiries, inquiry, inquiry, link);
    inquiry->answer(inquiry->arg, message);
    free(inquiry);
}

/* Nothing that it was asked about is open there any more, or it is not for us to know. */
static void lose(struct predecessor *predecessor)
{
    struct inquiry *inquiry;
    LIST_REMOVE(predecessor, link);
    channel_free(predecessor->channel);
    while ((inquiry = STAILQ_FIRST(&predecessor->inquiries)) != NULL)
        answer_inquiry(predecessor, inquiry, NULL);
    free(predecessor);
}

static void hear_answer(struct predecessor *predecessor, struct channel_message *message)
{
    struct inquiry *inquiry;
    STAILQ_FOREACH(inquiry, &predecessor->inquiries, link)
        if (inquiry->serial == channel_number(message, "serial"))
            break;
    if (inquiry != NULL)
        answer_inquiry(predecessor, inquiry, message);
}

static void on_message(void *arg, struct channel_message *message)
{
    struct predecessor *predecessor = arg;
    if (message == NULL) {
        note_retired(predecessor);
        lose(predecessor);
        return;
    }
    const char *sandbox = channel_text(message, "sandbox");
    const char *text = channel_text(message, "message");
    if (channel_is(message, "answer"))
        hear_answer(predecessor, message);
    else if (channel_is(message, "denial") && sandbox != NULL && text != NULL)
        attach_pass_denial(predecessor->all->gateway->attach, sandbox, str_of(text));
    else if (channel_is(message, "retired"))
        note_retired(predecessor);
}

/* ---- telling and asking ---- */

/* We hear of one that is cut off from the loop. False: it was. */
static bool tell(const struct predecessor *predecessor, struct json *message, const int *fds,
                 size_t count)
{
    if (channel_send(predecessor->channel, message, fds, count, CHANNEL_PATIENCE_MS))
        return true;
    (void)shutdown(channel_fd(predecessor->channel), SHUT_RDWR);
    return false;
}

void predecessors_tell(struct predecessors *predecessors, const char *what)
{
    const struct predecessor *predecessor;
    if (predecessors == NULL)
        return;
    LIST_FOREACH(predecessor, &predecessors->list, link) {
        struct json message = channel_compose(what);
        json_number(&message, "generation", (int64_t)predecessors->gateway->snapshot->generation);
        (void)tell(predecessor, &message, NULL, 0);
    }
}

void predecessors_detach(struct predecessors *predecessors, const char *sandbox)
{
    const struct predecessor *predecessor;
    if (predecessors == NULL)
        return;
    LIST_FOREACH(predecessor, &predecessors->list, link) {
        struct json message = channel_compose("detach");
        json_text(&message, "sandbox", str_of(sandbox));
        (void)tell(predecessor, &message, NULL, 0);
    }
}

static bool ask(struct predecessor *predecessor, const struct predecessors_question *question,
                int64_t serial)
{
    struct json message = channel_compose(question->type);
    json_number(&message, "serial", serial);
    json_text(&message, "sandbox", str_of(question->sandbox));
    json_text(&message, "id", str_of(question->id));
    autoclose int parcel = question->parcel != NULL ? parcel_make(str_of(question->parcel)) : -1;
    return tell(predecessor, &message, &parcel, parcel >= 0);
}

unsigned predecessors_ask(struct predecessors *predecessors,
                          const struct predecessors_question *question,
                          predecessors_answer_fn *answer, void *arg)
{
    struct predecessor *predecessor;
    unsigned asked = 0;
    if (predecessors == NULL)
        return 0;
    LIST_FOREACH(predecessor, &predecessors->list, link) {
        const int64_t serial = ++predecessors->serial;
        if (!ask(predecessor, question, serial))
            continue;
        struct inquiry *inquiry = must(calloc(1, sizeof(*inquiry)));
        *inquiry = (struct inquiry){.serial = serial, .answer = answer, .arg = arg};
        STAILQ_INSERT_TAIL(&predecessor->inquiries, inquiry, link);
        asked++;
    }
    return asked;
}

/* ---- who they are ---- */

static struct predecessor *add(struct predecessors *predecessors, struct channel *channel)
{
    struct predecessor *predecessor = must(calloc(1, sizeof(*predecessor)));
    predecessor->all = predecessors;
    predecessor->channel = channel;
    STAILQ_INIT(&predecessor->inquiries);
    LIST_INSERT_HEAD(&predecessors->list, predecessor, link);
    channel_hear(channel, on_message, predecessor);
    return predecessor;
}

void predecessors_add(struct predecessors *predecessors, struct channel *channel)
{
    add(predecessors, channel);
}

void predecessors_succeed(struct predecessors *predecessors, struct channel *channel,
                          void (*retired)(void *arg), void *arg)
{
    struct predecessor *predecessor = add(predecessors, channel);
    struct json serving = channel_compose("serving");
    json_number(&serving, "pid", getpid());
    predecessor->retired = retired;
    predecessor->retired_arg = arg;
    (void)tell(predecessor, &serving, NULL, 0);
}

size_t predecessors_count(const struct predecessors *predecessors)
{
    const struct predecessor *predecessor;
    size_t count = 0;
    if (predecessors == NULL)
        return 0;
    LIST_FOREACH(predecessor, &predecessors->list, link)
        count++;
    return count;
}

bool predecessors_send(const struct predecessors *predecessors, struct channel *successor)
{
    const struct predecessor *predecessor;
    bool sent = true;
    LIST_FOREACH(predecessor, &predecessors->list, link) {
        struct json message = channel_compose("predecessor");
        const int fd = channel_fd(predecessor->channel);
        sent = channel_send(successor, &message, &fd, 1, CHANNEL_PATIENCE_MS) && sent;
    }
    return sent;
}

void predecessors_hand_on(struct predecessors *predecessors)
{
    while (!LIST_EMPTY(&predecessors->list))
        lose(LIST_FIRST(&predecessors->list));
}

struct predecessors *predecessors_create(struct gateway *gateway)
{
    struct predecessors *predecessors = must(calloc(1, sizeof(*predecessors)));
    predecessors->gateway = gateway;
    LIST_INIT(&predecessors->list);
    /* What one answers may be for the process that was its successor before us. */
    predecessors->serial = (int64_t)getpid() << 32;
    return predecessors;
}

void predecessors_free(struct predecessors *predecessors)
{
    if (predecessors == NULL)
        return;
    predecessors_hand_on(predecessors);
    free(predecessors);
}
