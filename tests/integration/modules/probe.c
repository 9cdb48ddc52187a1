/*
 * A module for tests that behaves as `answer` in its section says, in every way that a module may
 * and should not. What happens to it goes into the gateway's messages.
 */
#include "srt/filter.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct probe {
    const struct srt_filter_host *host;
    const char *name, *answer;
    /* One thread that answers what is put here; `closing` ends it. */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct srt_filter_ticket ticket;
    int has_ticket, closing;
};

static void say(const struct probe *self, const char *what)
{
    self->host->log(self->name, what);
}

static int is(const struct probe *self, const char *answer)
{
    return strcmp(self->answer, answer) == 0;
}

static void answer_from_thread(const struct probe *self, const struct srt_filter_ticket *ticket)
{
    struct srt_filter_ticket other = *ticket;
    if (is(self, "foreign")) {
        other.serial += 1000;
        self->host->resume(&other, SRT_FILTER_PASS, NULL);
        other = *ticket;
        other.slot += 1000000;
        self->host->resume(&other, SRT_FILTER_PASS, NULL);
        other = *ticket;
        other.worker += 1000;
        self->host->resume(&other, SRT_FILTER_PASS, NULL);
        say(self, "answered what nobody asked");
    } else if (is(self, "twice")) {
        self->host->resume(ticket, SRT_FILTER_DENY, "the first word counts");
        self->host->resume(ticket, SRT_FILTER_PASS, NULL);
    } else if (is(self, "odd")) {
        self->host->resume(ticket, SRT_FILTER_PENDING, "not again\n\x01");
    } else if (is(self, "thread")) {
        self->host->resume(ticket, SRT_FILTER_PASS, NULL);
    }
}

static void *run(void *arg)
{
    struct probe *self = arg;
    pthread_mutex_lock(&self->lock);
    while (!self->closing) {
        if (!self->has_ticket) {
            pthread_cond_wait(&self->wake, &self->lock);
            continue;
        }
        const struct srt_filter_ticket ticket = self->ticket;
        self->has_ticket = 0;
        pthread_cond_broadcast(&self->wake);
        pthread_mutex_unlock(&self->lock);
        answer_from_thread(self, &ticket);
        pthread_mutex_lock(&self->lock);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

static void *create(const struct srt_filter_host *host, const char *name,
                    const struct srt_filter_key *keys, size_t key_count,
                    struct srt_filter_fault *fault)
{
    assert(host->size == sizeof(*host) && fault->size == sizeof(*fault));
    if (key_count != 1 || strcmp(keys[0].key, "answer") != 0) {
        fault->key = key_count > 0 ? &keys[0] : NULL;
        snprintf(fault->text, sizeof(fault->text), "only answer is known");
        return NULL;
    }
    struct probe *self = calloc(1, sizeof(*self));
    if (self == NULL)
        return NULL;
    self->host = host;
    self->name = name;
    self->answer = keys[0].value;
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->wake, NULL);
    if (pthread_create(&self->thread, NULL, run, self) != 0)
        abort();
    return self;
}

static void destroy(void *filter)
{
    struct probe *self = filter;
    pthread_mutex_lock(&self->lock);
    self->closing = 1;
    pthread_cond_broadcast(&self->wake);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->thread, NULL);
    pthread_cond_destroy(&self->wake);
    pthread_mutex_destroy(&self->lock);
    say(self, "destroyed");
    free(self);
}

static void *enter(void *filter, unsigned worker)
{
    struct probe *self = filter;
    (void)worker;
    if (is(self, "no-enter"))
        return NULL;
    say(self, "entered");
    return self;
}

static void leave(void *local)
{
    say(local, "left");
}

static void give_to_thread(struct probe *self, const struct srt_filter_ticket *ticket)
{
    pthread_mutex_lock(&self->lock);
    while (self->has_ticket)
        pthread_cond_wait(&self->wake, &self->lock);
    self->ticket = *ticket;
    self->has_ticket = 1;
    pthread_cond_broadcast(&self->wake);
    pthread_mutex_unlock(&self->lock);
}

static enum srt_filter_verdict on_request(void *local, const struct srt_filter_request *request,
                                          const struct srt_filter_ticket *ticket,
                                          struct srt_filter_edits *edits,
                                          struct srt_filter_ruling *ruling)
{
    struct probe *self = local;
    assert(request->size == sizeof(*request) && ruling->size == sizeof(*ruling));
    if (is(self, "pass"))
        return SRT_FILTER_PASS;
    if (is(self, "deny"))
        return SRT_FILTER_DENY;
    if (is(self, "garbage")) {
        memset(ruling->reason, 7, sizeof(ruling->reason));
        return (enum srt_filter_verdict)77;
    }
    if (is(self, "block")) {
        usleep(400000);
        return SRT_FILTER_PASS;
    }
    if (self->answer[0] == '/') { /* a FIFO; its worker waits for whoever opens it, too */
        say(self, "holds its worker");
        close(open(self->answer, O_RDONLY | O_CLOEXEC));
        return SRT_FILTER_PASS;
    }
    if (is(self, "edit")) {
        const struct srt_filter_text host = {"Host", 4}, length = {"content-length", 14},
                                     name = {"X-Probe", 7}, good = {"1", 1}, bad = {"1\r\nX: 2", 7};
        if (self->host->field_set(edits, host, good) != -1 ||
            self->host->field_remove(edits, length) != -1 ||
            self->host->field_set(edits, name, bad) != -1)
            abort();
        return self->host->field_set(edits, name, good) == 0 ? SRT_FILTER_PASS : SRT_FILTER_DENY;
    }
    if (is(self, "early"))
        self->host->resume(ticket, SRT_FILTER_PASS, NULL);
    else
        give_to_thread(self, ticket);
    return SRT_FILTER_PENDING;
}

static void on_abandon(void *local, const struct srt_filter_ticket *ticket)
{
    const struct probe *self = local;
    say(self, "abandoned");
    if (is(self, "late"))
        self->host->resume(ticket, SRT_FILTER_PASS, NULL);
}

static void on_end(void *local, const struct srt_filter_request *request, uint64_t bytes_up,
                   uint64_t bytes_down)
{
    char text[64];
    (void)request;
    snprintf(text, sizeof(text), "ended up=%llu down=%llu", (unsigned long long)bytes_up,
             (unsigned long long)bytes_down);
    say(local, text);
}

#ifdef MODULE_no_symbol
#define EXPORTED some_other_name
#else
#define EXPORTED srt_filter_module
#endif
extern const struct srt_filter_module EXPORTED;

__attribute__((visibility("default"))) const struct srt_filter_module EXPORTED = {
#ifdef MODULE_wrong_abi
    .abi = SRT_FILTER_ABI + 1,
#else
    .abi = SRT_FILTER_ABI,
#endif
#ifdef MODULE_wrong_size
    .size = sizeof(struct srt_filter_module) - 8,
#else
    .size = sizeof(struct srt_filter_module),
#endif
    .name = "probe",
    .create = create,
    .destroy = destroy,
    .enter = enter,
    .leave = leave,
    .on_request = on_request,
    .on_abandon = on_abandon,
    .on_end = on_end,
};
