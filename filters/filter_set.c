#include "filters/filter_set.h"

#include "filters/builtin.h"
#include "filters/module.h"
#include "srt/must.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

/* ---- creating ---- */

static struct place place_of(const struct srt_filter_key *key)
{
    return (struct place){key->file, key->line, 0};
}

static int read_file(const struct srt_filter_host *host, const struct srt_filter_key *key,
                     struct srt_filter_text *bytes, struct srt_filter_fault *fault)
{
    /* The host is the first member of its set. */
    const struct filter_set *set = (const struct filter_set *)host;
    struct faults faults = {0};
    assert(set->reading != NULL);
    *bytes = builtin_text(
        gateway_config_read_side_file(set->reading, place_of(key), key->value, &faults));
    if (bytes->p == NULL)
        builtin_refuse(fault, key, "%s", faults.items[0].text);
    faults_free(&faults);
    return bytes->p != NULL ? 0 : -1;
}

static void set_state(const struct srt_filter_host *host, const char *name, unsigned worker,
                      const char *state)
{
    const struct filter_set *set = (const struct filter_set *)host;
    assert(worker < FILTER_WORKERS_MAX);
    for (size_t i = 0; i < set->count; i++)
        if (set->items[i].config->name == name)
            atomic_store_explicit(&set->items[i].states[worker], state, memory_order_release);
}

static struct srt_filter_key make_key(const char *key, const char *value, struct place place)
{
    return (struct srt_filter_key){
        .key = key, .value = value, .file = place.file, .line = place.line};
}

/* Its own keys; the socket of `module = unix:/path` is one of them. */
static struct srt_filter_key *copy_keys(const struct config_filter *config, size_t *count)
{
    const char *socket = module_socket(config);
    struct srt_filter_key *keys = must_calloc(config->key_count + 1, sizeof(*keys));
    *count = 0;
    if (socket != NULL)
        keys[(*count)++] = make_key("socket", socket, config->place);
    for (size_t i = 0; i < config->key_count; i++)
        keys[(*count)++] =
            make_key(config->keys[i].key, config->keys[i].value, config->keys[i].place);
    return keys;
}

static void add_fault(const struct filter *filter, const struct srt_filter_fault *fault,
                      struct faults *faults)
{
    const char *text = fault->text[0] != '\0' ? fault->text : "the module refuses it";
    if (fault->key != NULL)
        faults_add(faults, FAULT_ERROR, place_of(fault->key), "[filter %s] %s: %s",
                   filter->config->name, fault->key->key, text);
    else
        faults_add(faults, FAULT_ERROR, filter->config->place, "[filter %s]: %s",
                   filter->config->name, text);
}

static void *try_create(const struct filter_set *set, const struct filter *filter, size_t key_count,
                        struct faults *faults, const struct srt_filter_key **culprit)
{
    struct srt_filter_fault fault = {.size = sizeof(fault)};
    void *made =
        filter->module->create(&set->host, filter->config->name, filter->keys, key_count, &fault);
    fault.text[sizeof(fault.text) - 1] = '\0';
    /* What is missing once a key was taken out need not have been missing before. */
    if (made == NULL && (fault.key != NULL || *culprit == NULL))
        add_fault(filter, &fault, faults);
    *culprit = made == NULL ? fault.key : NULL;
    return made;
}

/* Modules refuse one key at a time. So each key that was refused is taken out and the rest is tried
 * again: every fault is told in one go. What is made without them serves nobody. */
static void find_other_faults(const struct filter_set *set, struct filter *filter, size_t key_count,
                              const struct srt_filter_key *culprit, struct faults *faults)
{
    void *made = NULL;
    while (culprit >= filter->keys && culprit < filter->keys + key_count) {
        const size_t at = (size_t)(culprit - filter->keys);
        key_count--;
        memmove(&filter->keys[at], &filter->keys[at + 1], (key_count - at) * sizeof(*filter->keys));
        made = try_create(set, filter, key_count, faults, &culprit);
    }
    if (made != NULL)
        filter->module->destroy(made);
}

static void create(struct filter_set *set, struct filter *filter, struct faults *faults)
{
    const struct config_filter *config = filter->config;
    filter->module = config->module != NULL ? module_find(config, faults) : NULL;
    if (filter->module == NULL)
        return;
    size_t key_count;
    const struct srt_filter_key *culprit = NULL;
    filter->keys = copy_keys(config, &key_count);
    filter->states = must_calloc(FILTER_WORKERS_MAX, sizeof(*filter->states));
    filter->instance = try_create(set, filter, key_count, faults, &culprit);
    if (culprit != NULL)
        find_other_faults(set, filter, key_count, culprit, faults);
}

struct filter_set *filter_set_create(struct gateway_config *config,
                                     const struct srt_filter_host *gateway, struct faults *faults)
{
    struct filter_set *set = must_calloc(1, sizeof(*set));
    set->host = *gateway;
    set->host.read_file = read_file;
    set->host.set_state = set_state;
    set->count = config->filter_count;
    set->items = must_calloc(set->count, sizeof(*set->items));
    set->reading = config;
    for (size_t i = 0; i < set->count; i++)
        set->items[i].config = &config->filters[i];
    for (size_t i = 0; i < set->count; i++)
        create(set, &set->items[i], faults);
    set->reading = NULL;
    return set;
}

void filter_set_free(struct filter_set *set)
{
    if (set == NULL)
        return;
    for (size_t i = 0; i < set->count; i++) {
        if (set->items[i].instance != NULL)
            set->items[i].module->destroy(set->items[i].instance);
        free(set->items[i].keys);
        free(set->items[i].states);
    }
    free(set->items);
    free(set);
}

/* ---- in a worker ---- */

size_t filter_states(const struct filter *filter, struct filter_state out[FILTER_STATES_MAX])
{
    size_t count = 0;
    for (size_t worker = 0; worker < FILTER_WORKERS_MAX; worker++) {
        const char *word = atomic_load_explicit(&filter->states[worker], memory_order_acquire);
        size_t i = 0;
        while (i < count && word != NULL && strcmp(out[i].word, word) != 0)
            i++;
        if (word == NULL || i == FILTER_STATES_MAX)
            continue;
        if (i == count)
            out[count++] = (struct filter_state){.word = word};
        out[i].workers++;
    }
    return count;
}

void **filter_set_enter(const struct filter_set *set, unsigned worker, struct srt_err *err)
{
    void **locals = must_calloc(set->count, sizeof(*locals));
    for (size_t i = 0; i < set->count; i++) {
        const struct filter *filter = &set->items[i];
        locals[i] = filter->module->enter != NULL ? filter->module->enter(filter->instance, worker)
                                                  : filter->instance;
        if (locals[i] != NULL)
            continue;
        srt_err_set(err, "[filter %s]: it cannot run in worker %u", filter->config->name, worker);
        filter_set_leave(set, locals);
        return NULL;
    }
    return locals;
}

void filter_set_leave(const struct filter_set *set, void **locals)
{
    for (size_t i = 0; locals != NULL && i < set->count && locals[i] != NULL; i++)
        if (set->items[i].module->leave != NULL)
            set->items[i].module->leave(locals[i]);
    free(locals);
}
