#include "control/run.h"

#include "control/activation.h"
#include "control/addresses.h"
#include "control/admin.h"
#include "control/apart.h"
#include "control/attach.h"
#include "control/confine.h"
#include "control/desk.h"
#include "control/handover.h"
#include "control/notify.h"
#include "control/predecessors.h"
#include "control/reload.h"
#include "control/starter.h"
#include "control/tunnels.h"
#include "control/watch.h"
#include "record/log.h"
#include "srt/cleanup.h"
#include "srt/must.h"
#include "transport/loop_memory.h"

#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

enum { SIGNAL_COUNT = 6 };
static const int signals[SIGNAL_COUNT] = {SIGHUP, SIGUSR1, SIGUSR2, SIGTERM, SIGQUIT, SIGINT};

/* The gateway and what only its start and end concern. */
struct run {
    struct gateway gateway;
    struct run_options options;
    enum exit_status status;
    ev_signal signal[SIGNAL_COUNT];
    struct activation *activation;
    ev_timer alive; /* for the service manager */
    bool pinging;
};

/* ---- events of the whole process ---- */

static void on_signal(struct ev_loop *loop, ev_signal *signal, int events)
{
    struct run *run = signal->data;
    struct gateway *gateway = &run->gateway;
    (void)loop;
    (void)events;
    switch (signal->signum) {
    case SIGHUP:
        audit_reopen(gateway->audit);
        predecessors_tell(gateway->predecessors, "reopen");
        if (!gateway->draining && !gateway->retired)
            reload_request(gateway->reloader, true, NULL, NULL);
        break;
    case SIGUSR1:
        audit_reopen(gateway->audit);
        predecessors_tell(gateway->predecessors, "reopen");
        break;
    case SIGUSR2:
        handover_begin(gateway->handover);
        break;
    case SIGINT:
        gateway_stop(gateway);
        break;
    default:
        if (gateway->draining || run->options.private_fd >= 0)
            gateway_stop(gateway);
        else
            gateway_drain(gateway);
    }
}

/* Every worker has answered, and so has this loop. */
static void on_alive(void *arg)
{
    struct run *run = arg;
    struct gateway *gateway = &run->gateway;
    struct workers_stats stats;
    char status[256];
    run->pinging = false;
    if (gateway->retired)
        return;
    workers_stats(gateway->workers, &stats);
    snprintf(status, sizeof(status),
             "%s generation %" PRIu64 ": %" PRIu64 " connections, %" PRIu64
             " tunnels, %zu sandboxes%s",
             gateway->draining ? "draining" : "serving", gateway->snapshot->generation,
             stats.connections_open, stats.tunnels_open, attach_count(gateway->attach),
             audit_healthy(gateway->audit) ? "" : "; the audit log cannot be written");
    notify_alive(status);
}

/* A worker that hangs keeps the answer back, and the watchdog ends us. */
static void on_alive_due(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct run *run = timer->data;
    (void)loop;
    (void)events;
    if (!run->pinging)
        workers_ping(run->gateway.workers, on_alive, run);
    run->pinging = true;
}

static void tell_manager(struct run *run)
{
    const double interval = notify_interval_s();
    notify_ready();
    if (interval <= 0)
        return;
    ev_timer_set(&run->alive, 0., interval);
    ev_timer_start(run->gateway.loop, &run->alive);
}

static void on_addresses_changed(void *arg)
{
    struct gateway *gateway = arg;
    if (gateway->reloader != NULL)
        reload_host(gateway->reloader);
}

static void on_files_changed(void *arg)
{
    struct gateway *gateway = arg;
    if (!gateway->draining && !gateway->retired)
        reload_request(gateway->reloader, false, NULL, NULL);
}

/* ---- the start, in order; each step says what is wrong and returns an exit status ---- */

/* What glibc begins with, said aloud: otherwise both grow with the largest block that was ever
 * freed, and a heap that has been large once stays so. */
static void keep_heaps_small(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, 128 << 10);
    (void)mallopt(M_TRIM_THRESHOLD, 128 << 10);
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Workers are started with these blocked, so that the control loop alone gets them. */
static void block_signals(int how)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        sigaddset(&set, signals[i]);
    pthread_sigmask(how, &set, NULL);
}

static unsigned worker_count(const struct run *run)
{
    cpu_set_t cpus;
    uint32_t configured = run->gateway.snapshot->config->workers;
    if (run->options.private_fd >= 0)
        return 1;
    if (configured > 0)
        return configured;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) > 0)
        return (unsigned)CPU_COUNT(&cpus);
    return 1;
}

static enum exit_status load(struct run *run)
{
    struct gateway *gateway = &run->gateway;
    gateway->snapshot = run->options.private_fd >= 0 ? snapshot_default()
                                                     : gateway_load(gateway->config_path, NULL);
    if (gateway->snapshot == NULL)
        return EXIT_CONFIG;
    gateway->snapshot->generation = 1;
    return EXIT_DONE;
}

/* The sockets that somebody else has opened for us. */
static enum exit_status receive_sockets(struct run *run)
{
    struct gateway *gateway = &run->gateway;
    struct srt_err err;
    run->activation = activation_read(&err);
    if (run->activation == NULL) {
        log_line("%s", err.text);
        return EXIT_SYSTEM;
    }
    if (run->options.take_over_fd < 0)
        return EXIT_DONE;
    if (handover_take(gateway->handover, run->options.take_over_fd, run->activation, &err) != 0) {
        log_line("%s", err.text);
        return EXIT_SYSTEM;
    }
    gateway->snapshot->generation =
        handover_generation(gateway->handover, gateway->snapshot->config->sha256);
    return EXIT_DONE;
}

static enum exit_status open_audit(struct run *run)
{
    struct gateway *gateway = &run->gateway;
    const struct gateway_config *config = gateway->snapshot->config;
    struct srt_err err;
    struct audit_config audit = {.path = config->audit_log,
                                 .required = config->audit_required,
                                 .squid = config->audit_format == AUDIT_SQUID};
    if (run->options.take_over_fd >= 0)
        audit.numbering_fd = handover_take_numbering(gateway->handover);
    if (run->options.private_fd >= 0)
        audit.path = run->options.audit_log != NULL ? run->options.audit_log : "none";
    gateway->audit_path = must_copy(audit.path);
    gateway->audit = audit_open(&audit, &err);
    if (gateway->audit == NULL) {
        log_line("%s", err.text);
        return EXIT_SYSTEM;
    }
    return EXIT_DONE;
}

/* Each is opened unless the service manager has it open already. */
static enum exit_status bind_each(struct gateway *gateway, struct activation *activation)
{
    const struct gateway_config *config = gateway->snapshot->config;
    struct srt_err err;
    gateway->listeners = must(calloc(config->listen_count + 1, sizeof(struct listener *)));
    for (size_t i = 0; i < config->listen_count; i++) {
        gateway->listeners[i] =
            activation_open(activation, OFFERED_LISTEN, &config->listens[i], &err);
        if (gateway->listeners[i] == NULL) {
            log_line("%s:%u: [listen %s]: %s", config->listens[i].place.file,
                     config->listens[i].place.line, config->listens[i].name, err.text);
            return EXIT_SYSTEM;
        }
    }
    return EXIT_DONE;
}

/* Bound before the workers start, so that the guard knows them from the first request on. */
static enum exit_status open_admin(struct run *run)
{
    struct gateway *gateway = &run->gateway;
    const struct gateway_config *config = gateway->snapshot->config;
    struct srt_err err;
    gateway->admin = admin_create(gateway);
    for (size_t i = 0; i < config->admin_count; i++) {
        const struct config_listen wanted = {
            .name = "admin", .address = config->admin[i], .mode = 0660};
        struct listener *listener = activation_open(run->activation, OFFERED_ADMIN, &wanted, &err);
        if (listener == NULL) {
            log_line("admin: %s", err.text);
            return EXIT_SYSTEM;
        }
        admin_listen(gateway->admin, listener);
    }
    return EXIT_DONE;
}

static enum exit_status open_control(struct run *run)
{
    struct gateway *gateway = &run->gateway;
    const struct config_listen wanted = {
        .name = "control", .address = gateway->snapshot->config->control, .mode = 0660};
    struct srt_err err;
    gateway->attach = attach_create(gateway);
    gateway->desk = desk_create(gateway);
    if (wanted.address.path == NULL)
        return EXIT_DONE;
    struct listener *listener = activation_open(run->activation, OFFERED_CONTROL, &wanted, &err);
    if (listener == NULL) {
        log_line("control: %s", err.text);
        return EXIT_SYSTEM;
    }
    attach_listen(gateway->attach, listener);
    return EXIT_DONE;
}

static enum exit_status bind_listeners(struct run *run)
{
    struct srt_err err;
    enum exit_status status;
    if ((status = bind_each(&run->gateway, run->activation)) != EXIT_DONE ||
        (status = open_admin(run)) != EXIT_DONE || (status = open_control(run)) != EXIT_DONE)
        return status;
    if (run->options.take_over_fd >= 0 || activation_check(run->activation, &err) == 0)
        return EXIT_DONE;
    log_line("%s", err.text);
    return EXIT_SYSTEM;
}

static enum exit_status watch_addresses(struct gateway *gateway)
{
    struct srt_err err;
    gateway->addresses = addresses_watch(gateway->loop, on_addresses_changed, gateway, &err);
    if (err.text[0] != '\0')
        log_line("%s", err.text);
    gateway->snapshot->host =
        gateway_make_host(gateway, gateway->snapshot->config, gateway->listeners);
    return EXIT_DONE;
}

static enum exit_status start_workers(struct run *run)
{
    struct gateway *gateway = &run->gateway;
    struct srt_err err;
    autofree struct listener **none =
        must(calloc(gateway->snapshot->config->listen_count + 1, sizeof(struct listener *)));
    /* While the place is taken they get their listeners when the other process lets go. */
    struct workers_config config = {.count = worker_count(run),
                                    .control_loop = gateway->loop,
                                    .audit = gateway->audit,
                                    .snapshot = gateway->snapshot,
                                    .listeners =
                                        run->options.take_over_fd >= 0 ? none : gateway->listeners,
                                    .trace = run->options.trace,
                                    .on_denial = attach_on_denial,
                                    .arg = gateway->attach,
                                    .asks = desk_asks(gateway->desk)};
    gateway->workers = workers_start(&config, &err);
    if (gateway->workers == NULL) {
        log_line("%s", err.text);
        return EXIT_SYSTEM;
    }
    return EXIT_DONE;
}

static void begin_reloads(struct run *run)
{
    struct gateway *gateway = &run->gateway;
    struct faults none = {0};
    gateway->reloader = reloader_create(gateway);
    if (run->options.private_fd < 0)
        reload_watch_files(gateway, &none);
}

static void say_ready(struct run *run)
{
    const struct gateway *gateway = &run->gateway;
    const struct gateway_config *config = gateway->snapshot->config;
    char text[CONFIG_ADDRESS_TEXT_MAX];
    struct json line = {0}; /* a growing buffer */
    for (size_t i = 0; i < config->listen_count; i++) {
        json_append(&line, STR(" "));
        json_append(&line, str_of(config->listens[i].name));
        json_append(&line, STR("="));
        json_append(&line,
                    str_of(config_address_format(text, listener_bound(gateway->listeners[i]))));
    }
    attach_append_address(gateway->attach, &line);
    admin_append_addresses(gateway->admin, &line);
    log_line("ready%.*s", (int)line.len, line.len > 0 ? line.data : "");
    json_free(&line);
}

/* ---- taking another process's place ---- */

static void on_serving(void *arg)
{
    struct run *run = arg;
    activation_clean_up(run->activation);
    activation_free(run->activation);
    run->activation = NULL;
    say_ready(run);
}

static void on_manager(void *arg)
{
    tell_manager(arg);
}

static void on_not_taken(void *arg, const char *why)
{
    struct run *run = arg;
    log_line("the place of the other process is not taken: %s", why);
    run->status = EXIT_SYSTEM;
    gateway_stop(&run->gateway);
}

static void begin_serving(struct run *run)
{
    const struct handover_calls calls = {
        .serving = on_serving, .manager = on_manager, .failed = on_not_taken, .arg = run};
    if (run->options.take_over_fd >= 0) {
        handover_stand_by(run->gateway.handover, &calls);
    } else if (run->options.private_fd < 0) {
        say_ready(run);
        tell_manager(run);
    }
}

static enum exit_status start(struct run *run)
{
    struct gateway *gateway = &run->gateway;
    enum exit_status status;
    /* Watched before it is read, so that no change of it is missed. */
    if (run->options.private_fd < 0) {
        gateway->watch = watch_create(gateway->loop, on_files_changed, gateway);
        watch_mark(gateway->watch);
        watch_set(gateway->watch, &gateway->config_path, 1);
    }
    if ((status = load(run)) != EXIT_DONE || (status = receive_sockets(run)) != EXIT_DONE ||
        (status = open_audit(run)) != EXIT_DONE || (status = bind_listeners(run)) != EXIT_DONE ||
        (status = watch_addresses(gateway)) != EXIT_DONE ||
        (status = start_workers(run)) != EXIT_DONE)
        return status;
    if (run->options.private_fd >= 0)
        attach_serve_private(gateway->attach, run->options.private_fd);
    begin_reloads(run);
    return EXIT_DONE;
}

static void stop(struct run *run)
{
    struct gateway *gateway = &run->gateway;
    ev_timer_stop(gateway->loop, &gateway->drain_deadline);
    ev_timer_stop(gateway->loop, &run->alive);
    activation_free(run->activation);
    if (gateway->audit != NULL)
        audit_mute(gateway->audit); /* it must not wake workers that are gone */
    if (gateway->workers != NULL)
        workers_stop(gateway->workers);
    handover_free(gateway->handover);
    predecessors_free(gateway->predecessors);
    gateway->handover = NULL;
    gateway->predecessors = NULL;
    tunnels_forget(gateway);
    admin_free(gateway->admin);
    attach_free(gateway->attach);
    desk_free(gateway->desk);
    reloader_free(gateway->reloader);
    watch_free(gateway->watch);
    addresses_free(gateway->addresses);
    if (gateway->listeners != NULL)
        for (size_t i = 0; i < gateway->snapshot->config->listen_count; i++)
            if (gateway->listeners[i] != NULL)
                listener_close(gateway->listeners[i]);
    free(gateway->listeners);
    snapshot_release(gateway->snapshot);
    free(gateway->audit_path);
    audit_close(gateway->audit);
}

/* A private gateway lives as long as its launcher's connection: what a terminal sends to the whole
 * foreground process group is for the command. */
static void watch_signals(struct run *run)
{
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        if (run->options.private_fd >= 0 && signals[i] != SIGTERM) {
            signal(signals[i], SIG_IGN);
            continue;
        }
        ev_signal_init(&run->signal[i], on_signal, signals[i]);
        run->signal[i].data = run;
        ev_signal_start(run->gateway.loop, &run->signal[i]);
    }
}

/* What comes while it ends does not change how it ends. */
static void unwatch_signals(struct run *run)
{
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        if (ev_is_active(&run->signal[i]))
            ev_signal_stop(run->gateway.loop, &run->signal[i]);
        signal(signals[i], SIG_IGN);
    }
}

/* Before anything is opened, and before the cage is closed. */
static void prepare_handover(struct run *run)
{
    struct srt_err err;
    if (run->options.private_fd >= 0)
        return;
    struct starter *starter = starter_create(&err);
    if (starter == NULL)
        log_line("no hand-over to a new process (USR2) will be possible: %s", err.text);
    run->gateway.handover = handover_create(&run->gateway, starter);
    run->gateway.predecessors = predecessors_create(&run->gateway);
}

/* Of what a loop cannot do without; libev would abort. */
static void on_loop_failure(const char *what)
{
    log_line("%s: %s", what, strerror(errno));
    _exit(EXIT_SYSTEM);
}

enum exit_status gateway_run(const struct run_options *options)
{
    struct run one = {.options = *options, .gateway = {.config_path = options->config_path}};
    struct run *run = &one;
    prepare_handover(run);
    ev_set_allocator(loop_memory);
    ev_set_syserr_cb(on_loop_failure);
    run->gateway.loop = ev_loop_new(EVFLAG_AUTO);
    if (run->gateway.loop == NULL) {
        log_line("an event loop cannot be had: %s", strerror(errno));
        return EXIT_SYSTEM;
    }
    run->gateway.apart = apart_create(run->gateway.loop);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a log at its size limit is an error of the write */
    keep_heaps_small();
    raise_descriptor_limit();
    struct srt_err err;
    if (confine_process(&err) != 0)
        log_line("running without the gateway's own cage: %s", err.text);
    block_signals(SIG_BLOCK);
    watch_signals(run);
    ev_timer_init(&run->alive, on_alive_due, 0., 0.);
    run->alive.data = run;

    run->status = start(run);
    block_signals(SIG_UNBLOCK);
    if (run->status == EXIT_DONE) {
        begin_serving(run);
        ev_run(run->gateway.loop, 0);
    }
    stop(run);
    unwatch_signals(run);
    apart_free(run->gateway.apart);
    ev_loop_destroy(run->gateway.loop);
    return run->status;
}
