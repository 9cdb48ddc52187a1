#include "control/reload.h"

#include "control/addresses.h"
#include "control/desk.h"
#include "control/granting.h"
#include "control/notify.h"
#include "control/predecessors.h"
#include "control/watch.h"
#include "record/log.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <assert.h>
#include <sys/queue.h>

struct waiter {
    STAILQ_ENTRY(waiter) link;
    reload_done_fn *done;
    void *arg;
};
STAILQ_HEAD(waiters, waiter);

struct reloader {
    struct gateway *gateway;
    bool busy;          /* between prepare and the end of commit */
    bool wanted, asked; /* another one was requested; somebody waits for it */
    bool host_wanted;
    bool held; /* see reload_pause() */
    void (*paused)(void *arg);
    void *paused_arg;
    uint64_t followed; /* the successor's generation */

    /* The one under way. */
    struct snapshot *next;
    struct listener **listeners;
    bool quiet; /* only the view of the machine changes */
    struct waiters now, later;
    struct faults faults;
    struct diff diff;
    bool answer_unchanged;
    uint8_t sha256[32];
    bool read;

    char last_error[1024];
};

static void begin_next(struct reloader *reloader);

/* ---- listeners: kept where they serve what is asked, else opened ---- */

static bool is_taken(const struct reloader *reloader, const struct listener *listener)
{
    for (size_t i = 0; i < reloader->next->config->listen_count; i++)
        if (reloader->listeners[i] == listener)
            return true;
    return false;
}

/* The old one that does for `config`: the one of that name, or else (NULL) whichever is free. */
static struct listener *find_kept(const struct reloader *reloader,
                                  const struct config_listen *config, const char *name)
{
    const struct gateway *gateway = reloader->gateway;
    const struct gateway_config *old = gateway->snapshot->config;
    for (size_t i = 0; i < old->listen_count; i++)
        if ((name == NULL || strcmp(old->listens[i].name, name) == 0) &&
            !is_taken(reloader, gateway->listeners[i]) &&
            listener_serves(gateway->listeners[i], config))
            return gateway->listeners[i];
    return NULL;
}

/* Those of the same name first: several may ask for port 0, and each is to stay who it is. */
static void keep_listeners(struct reloader *reloader)
{
    const struct gateway_config *config = reloader->next->config;
    for (size_t i = 0; i < config->listen_count; i++)
        reloader->listeners[i] = find_kept(reloader, &config->listens[i], config->listens[i].name);
    for (size_t i = 0; i < config->listen_count; i++)
        if (reloader->listeners[i] == NULL)
            reloader->listeners[i] = find_kept(reloader, &config->listens[i], NULL);
}

/* The section that a listener serves until now; NULL: it is new. */
static const struct config_listen *find_section(const struct gateway *gateway,
                                                const struct listener *listener)
{
    for (size_t i = 0; i < gateway->snapshot->config->listen_count; i++)
        if (gateway->listeners[i] == listener)
            return &gateway->snapshot->config->listens[i];
    return NULL;
}

/* The configuration does not come into force: what was opened for it goes, what was kept is again
 * as it was. */
static void close_new_listeners(struct reloader *reloader)
{
    if (reloader->listeners == NULL)
        return;
    for (size_t i = 0; i < reloader->next->config->listen_count; i++) {
        struct listener *listener = reloader->listeners[i];
        if (listener == NULL)
            continue;
        const struct config_listen *section = find_section(reloader->gateway, listener);
        struct srt_err err;
        if (section == NULL)
            listener_close(listener);
        else if (listener_dress(listener, section, &err) != 0)
            log_line("reload: %s", err.text);
    }
    free(reloader->listeners);
    reloader->listeners = NULL;
}

static void open_listeners(struct reloader *reloader)
{
    const struct gateway_config *config = reloader->next->config;
    reloader->listeners = must(calloc(config->listen_count + 1, sizeof(struct listener *)));
    if (reloader->gateway->retired)
        return;
    keep_listeners(reloader);
    for (size_t i = 0; i < config->listen_count; i++) {
        struct srt_err err;
        const struct config_listen *section = &config->listens[i];
        bool done;
        if (reloader->listeners[i] != NULL) {
            done = listener_dress(reloader->listeners[i], section, &err) == 0;
        } else {
            reloader->listeners[i] = listener_open(section, &err);
            done = reloader->listeners[i] != NULL;
        }
        if (!done)
            faults_add(&reloader->faults, FAULT_ERROR, section->place, "%s", err.text);
    }
}

/* ---- keys that are read once, at the start ---- */

static bool same_address(const struct config_address *a, const struct config_address *b)
{
    if (a->path != NULL || b->path != NULL)
        return a->path != NULL && b->path != NULL && strcmp(a->path, b->path) == 0;
    return a->port == b->port && addr_eq(&a->addr, &b->addr);
}

static bool same_admin(const struct gateway_config *a, const struct gateway_config *b)
{
    if (a->admin_count != b->admin_count)
        return false;
    for (size_t i = 0; i < a->admin_count; i++)
        if (!same_address(&a->admin[i], &b->admin[i]))
            return false;
    return true;
}

static void refuse_fixed(struct reloader *reloader, const char *key, bool same)
{
    if (same)
        return;
    bool written;
    struct place place = snapshot_place(reloader->next->config, "gateway", "", key, &written);
    faults_add(&reloader->faults, FAULT_ERROR, place,
               "%s cannot be changed by a reload; restart the gateway", key);
}

static void check_fixed_keys(struct reloader *reloader)
{
    const struct gateway_config *old = reloader->gateway->snapshot->config;
    const struct gateway_config *new = reloader->next->config;
    refuse_fixed(reloader, "workers", old->workers == new->workers);
    refuse_fixed(reloader, "audit-log", strcmp(old->audit_log, new->audit_log) == 0);
    refuse_fixed(reloader, "audit-format", old->audit_format == new->audit_format);
    refuse_fixed(reloader, "audit-required", old->audit_required == new->audit_required);
    refuse_fixed(reloader, "control", same_address(&old->control, &new->control));
    refuse_fixed(reloader, "admin", same_admin(old, new));
}

/* ---- the end of a reload ---- */

const char *reload_hex(char out[65], const uint8_t sha256[32])
{
    for (size_t i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", sha256[i]);
    return out;
}

void reload_write_result(const struct reload_result *result, struct json *json)
{
    static const char *const words[] = {
        [RELOAD_APPLIED] = "ok", [RELOAD_UNCHANGED] = "unchanged", [RELOAD_FAILED] = "failed"};
    char digest[65], line[2048];
    json_text(json, "result", str_of(words[result->status]));
    json_number(json, "generation", (int64_t)result->generation);
    json_text(json, "sha256",
              result->sha256 != NULL ? str_of(reload_hex(digest, result->sha256)) : STR_NULL);
    diff_write(result->diff, json);
    json_array_open(json, "faults");
    for (size_t i = 0; i < result->faults->count; i++)
        json_text(json, NULL, str_of(fault_format(&result->faults->items[i], line, sizeof(line))));
    json_array_close(json);
}

static void say_result(const struct reload_result *result)
{
    char line[2048];
    for (size_t i = 0; i < result->faults->count; i++)
        log_line("reload: %s", fault_format(&result->faults->items[i], line, sizeof(line)));
    switch (result->status) {
    case RELOAD_APPLIED:
        log_line("reload: generation %llu is in force, %zu rules added, %zu removed",
                 (unsigned long long)result->generation, result->diff->added.total,
                 result->diff->removed.total);
        break;
    case RELOAD_UNCHANGED:
        log_line("reload: nothing has changed, generation %llu stays in force",
                 (unsigned long long)result->generation);
        break;
    case RELOAD_FAILED:
        log_line("reload failed, generation %llu stays in force",
                 (unsigned long long)result->generation);
        break;
    }
}

static void note_error(struct reloader *reloader, const struct reload_result *result)
{
    reloader->last_error[0] = '\0';
    if (result->status != RELOAD_FAILED)
        return;
    for (size_t i = 0; i < result->faults->count; i++)
        if (result->faults->items[i].level == FAULT_ERROR) {
            fault_format(&result->faults->items[i], reloader->last_error,
                         sizeof(reloader->last_error));
            return;
        }
}

static void answer_waiters(struct reloader *reloader, const struct reload_result *result)
{
    struct waiter *waiter;
    while ((waiter = STAILQ_FIRST(&reloader->now)) != NULL) {
        STAILQ_REMOVE_HEAD(&reloader->now, link);
        if (waiter->done != NULL)
            waiter->done(waiter->arg, result);
        free(waiter);
    }
}

/* The record of this reload is the successor's. A policy that cannot be read cannot be kept to. */
static void end_following(struct gateway *gateway, const struct reload_result *result)
{
    if (result->status != RELOAD_FAILED)
        return;
    log_line("what the new process has put in force cannot be taken up by this one: %s",
             reload_last_error(gateway->reloader));
    gateway_drain(gateway);
}

static void finish(struct reloader *reloader, enum reload_status status)
{
    struct gateway *gateway = reloader->gateway;
    struct reload_result result = {
        .status = status,
        .generation = gateway->snapshot->generation,
        .sha256 = reloader->read ? reloader->sha256 : NULL,
        .diff = &reloader->diff,
        .faults = &reloader->faults,
    };
    note_error(reloader, &result);
    if (gateway->retired)
        end_following(gateway, &result);
    else
        reload_watch_files(gateway, &reloader->faults);
    if (!gateway->retired && (status != RELOAD_UNCHANGED || reloader->answer_unchanged)) {
        struct json fields = {0};
        json_text(&fields, "kind", STR("reload"));
        reload_write_result(&result, &fields);
        gateway_record(gateway, &fields);
        say_result(&result);
    }
    answer_waiters(reloader, &result);
    diff_free(&reloader->diff);
    faults_free(&reloader->faults);
    reloader->faults = (struct faults){0};
    if (status == RELOAD_APPLIED)
        predecessors_tell(gateway->predecessors, "reload");
    if (!gateway->draining && !gateway->retired)
        notify_ready();
    reloader->busy = false;
    begin_next(reloader);
}

static void forget_next(struct reloader *reloader)
{
    close_new_listeners(reloader);
    snapshot_release(reloader->next);
    reloader->next = NULL;
}

/* ---- prepare and commit ---- */

static void close_dropped_listeners(struct gateway *gateway, struct listener *const *kept,
                                    size_t kept_count)
{
    for (size_t i = 0; i < gateway->snapshot->config->listen_count; i++) {
        bool drop = true;
        for (size_t j = 0; j < kept_count; j++)
            drop &= kept[j] != gateway->listeners[i];
        if (drop)
            listener_close(gateway->listeners[i]);
    }
}

static void on_committed(void *arg)
{
    struct reloader *reloader = arg;
    struct gateway *gateway = reloader->gateway;
    if (!reloader->quiet)
        close_dropped_listeners(gateway, reloader->listeners, reloader->next->config->listen_count);
    if (!reloader->quiet) {
        free(gateway->listeners);
        gateway->listeners = reloader->listeners;
        reloader->listeners = NULL;
    }
    snapshot_release(gateway->snapshot);
    gateway->snapshot = reloader->next;
    granting_on_reload(desk_granting(gateway->desk));
    reloader->next = NULL;
    if (!reloader->quiet) {
        finish(reloader, RELOAD_APPLIED);
        return;
    }
    reloader->busy = false;
    begin_next(reloader);
}

static void on_prepared(void *arg, const char *error)
{
    struct reloader *reloader = arg;
    if (error == NULL) {
        if (!reloader->quiet)
            diff_make(&reloader->diff, reloader->gateway->snapshot, reloader->next);
        workers_commit(reloader->gateway->workers, on_committed, reloader);
        return;
    }
    workers_abort(reloader->gateway->workers);
    forget_next(reloader);
    if (!reloader->quiet) {
        faults_add(&reloader->faults, FAULT_ERROR,
                   (struct place){reloader->gateway->config_path, 0, 0}, "%s", error);
        finish(reloader, RELOAD_FAILED);
        return;
    }
    log_line("this machine's addresses have changed, but a worker could not take that up: %s",
             error);
    reloader->busy = false;
    begin_next(reloader);
}

static void begin_reload(struct reloader *reloader)
{
    struct gateway *gateway = reloader->gateway;
    reloader->busy = true;
    reloader->quiet = false;
    reloader->wanted = false;
    reloader->answer_unchanged = reloader->asked;
    reloader->asked = false;
    STAILQ_CONCAT(&reloader->now, &reloader->later);
    if (!gateway->retired) {
        notify_reloading();
        watch_mark(gateway->watch);
    }
    reloader->next = snapshot_load(gateway->config_path, &reloader->faults);
    reloader->read = reloader->next != NULL;
    if (!reloader->read) {
        finish(reloader, RELOAD_FAILED);
        return;
    }
    memcpy(reloader->sha256, reloader->next->config->sha256, sizeof(reloader->sha256));
    if (memcmp(reloader->sha256, gateway->snapshot->config->sha256, sizeof(reloader->sha256)) ==
        0) {
        forget_next(reloader);
        finish(reloader, RELOAD_UNCHANGED);
        return;
    }
    if (!gateway->retired)
        check_fixed_keys(reloader);
    if (reloader->faults.errors == 0)
        open_listeners(reloader);
    if (reloader->faults.errors > 0) {
        forget_next(reloader);
        finish(reloader, RELOAD_FAILED);
        return;
    }
    reloader->next->generation =
        gateway->retired ? reloader->followed : gateway->snapshot->generation + 1;
    reloader->next->host = gateway_make_host(gateway, reloader->next->config, reloader->listeners);
    workers_prepare(gateway->workers, reloader->next, reloader->listeners, on_prepared, reloader);
}

static void begin_host(struct reloader *reloader)
{
    struct gateway *gateway = reloader->gateway;
    reloader->busy = true;
    reloader->quiet = true;
    reloader->host_wanted = false;
    reloader->next =
        snapshot_with_host(gateway->snapshot, gateway_make_host(gateway, gateway->snapshot->config,
                                                                gateway->listeners));
    workers_prepare(gateway->workers, reloader->next, gateway->listeners, on_prepared, reloader);
}

static void begin_next(struct reloader *reloader)
{
    if (reloader->busy)
        return;
    if (reloader->paused != NULL) {
        void (*paused)(void *) = reloader->paused;
        reloader->paused = NULL;
        paused(reloader->paused_arg);
        return;
    }
    if (reloader->held || reloader->gateway->draining)
        return;
    if (reloader->wanted)
        begin_reload(reloader);
    else if (reloader->host_wanted)
        begin_host(reloader);
}

/* ---- the outside ---- */

struct reloader *reloader_create(struct gateway *gateway)
{
    struct reloader *reloader = must(calloc(1, sizeof(*reloader)));
    reloader->gateway = gateway;
    STAILQ_INIT(&reloader->now);
    STAILQ_INIT(&reloader->later);
    return reloader;
}

void reloader_free(struct reloader *reloader)
{
    struct waiter *waiter;
    if (reloader == NULL)
        return;
    if (reloader->next != NULL)
        forget_next(reloader);
    STAILQ_CONCAT(&reloader->now, &reloader->later);
    while ((waiter = STAILQ_FIRST(&reloader->now)) != NULL) {
        STAILQ_REMOVE_HEAD(&reloader->now, link);
        free(waiter);
    }
    diff_free(&reloader->diff);
    faults_free(&reloader->faults);
    free(reloader);
}

void reload_request(struct reloader *reloader, bool asked, reload_done_fn *done, void *arg)
{
    struct waiter *waiter = must(calloc(1, sizeof(*waiter)));
    waiter->done = done;
    waiter->arg = arg;
    STAILQ_INSERT_TAIL(&reloader->later, waiter, link);
    reloader->wanted = true;
    reloader->asked |= asked;
    begin_next(reloader);
}

void reload_pause(struct reloader *reloader, void (*paused)(void *arg), void *arg)
{
    reloader->held = true;
    reloader->paused = paused;
    reloader->paused_arg = arg;
    begin_next(reloader);
}

void reload_resume(struct reloader *reloader)
{
    reloader->held = false;
    reloader->paused = NULL;
    begin_next(reloader);
}

void reload_follow(struct reloader *reloader, uint64_t generation)
{
    reloader->followed = generation;
    reload_request(reloader, false, NULL, NULL);
}

void reload_host(struct reloader *reloader)
{
    reloader->host_wanted = true;
    begin_next(reloader);
}

const char *reload_last_error(const struct reloader *reloader)
{
    return reloader->last_error;
}

/* ---- what to watch ---- */

void reload_watch_files(struct gateway *gateway, const struct faults *faults)
{
    const struct ini_doc *doc = &gateway->snapshot->config->doc;
    const size_t most = doc->file_count + doc->include_dir_count + faults->count;
    const char **paths = must_calloc(most, sizeof(*paths));
    size_t count = 0;
    for (size_t i = 0; i < doc->file_count; i++)
        paths[count++] = doc->files[i].path;
    for (size_t i = 0; i < doc->include_dir_count; i++)
        paths[count++] = doc->include_dirs[i];
    /* A file that is at fault may be new to the configuration, and its repair must be noticed. */
    for (size_t i = 0; i < faults->count; i++)
        if (faults->items[i].file[0] != '\0' &&
            (i == 0 || strcmp(faults->items[i].file, faults->items[i - 1].file) != 0))
            paths[count++] = faults->items[i].file;
    watch_set(gateway->watch, paths, count);
    free(paths);
}
