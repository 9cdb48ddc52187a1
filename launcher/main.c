/*
 * srt-launch: builds the fence, hands the sandbox's only way out to a gateway, runs the command.
 * The order of run_once() and run_inside() is the design: nothing runs before every wall stands and
 * the gateway has agreed.
 */
#include "launcher/afterwards.h"
#include "launcher/bwrap.h"
#include "launcher/cell.h"
#include "launcher/connect.h"
#include "launcher/control.h"
#include "launcher/doctor.h"
#include "launcher/egress.h"
#include "launcher/job.h"
#include "launcher/landlock.h"
#include "launcher/launch.h"
#include "launcher/mounts.h"
#include "launcher/refusals.h"
#include "launcher/say.h"
#include "launcher/stage.h"
#include "launcher/strays.h"
#include "launcher/supervise.h"
#include "launcher/transparent.h"
#include "srt/attach.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#ifndef SRT_VERSION
#define SRT_VERSION "0.1.0"
#endif

enum {
    EXIT_CHANGED = -1, /* for ourselves: the tree is not as it was planned any more */
    PLANS_MAX = 3,
};

const int must_status = EXIT_FAILED;

/* A closed standard stream would be given to the first thing opened, which then would go inside.
 * What stands in for it cannot be used either, so that what is written is not lost in silence. */
static void occupy_streams(bool closed[3])
{
    for (int fd = 0; fd < 3; fd++) {
        closed[fd] = fcntl(fd, F_GETFD) < 0;
        if (closed[fd] && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            _exit(EXIT_FAILED);
    }
}

static int begin_way_out(const struct launch *launch, struct egress *egress)
{
    struct srt_err err;
    if (!launch->way_out)
        return 0;
    if (launch->gateway_socket == NULL && launch->gateway_program == NULL)
        return fail(
            "srt-gateway is neither beside srt-launch nor in PATH; install it, name a running one "
            "with --gateway unix:PATH, or use --egress none");
    if (launch->gateway_socket == NULL && launch_check_gateway(launch, &err) != 0)
        return fail("%s", err.text);
    struct egress_options options = {.socket_path = launch->gateway_socket,
                                     .gateway_path = launch->gateway_program,
                                     .name = launch->name,
                                     .policy = launch->policy,
                                     .command = launch->argv[0],
                                     .asks = launch->asking.tty >= 0};
    return egress_begin(egress, &options, &err) == 0 ? 0 : fail("%s", err.text);
}

/* The patterns of the settings are the gateway's to judge; where they stand is ours to say. */
static size_t tell_of_network(const struct launch *launch, const struct egress *egress,
                              const char *list, enum fault_level level)
{
    struct faults faults = {0};
    const json_t *texts = egress_list(egress, list);
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const char *text = json_string_value(json_array_get(texts, i));
        const char *end = text != NULL ? strstr(text, ": ") : NULL;
        if (end != NULL)
            faults_add(&faults, level,
                       settings_place(launch->settings, (struct str){text, (size_t)(end - text)}),
                       "%s", text);
    }
    faults_print(&faults, stderr);
    size_t count = faults.count;
    faults_free(&faults);
    return count;
}

static int refused_by_gateway(const struct launch *launch, const struct egress *egress,
                              const char *why)
{
    if (tell_of_network(launch, egress, "faults", FAULT_ERROR) == 0)
        return fail("%s", why);
    return launch_refuse_settings(launch);
}

/* For --verbose. Faults and warnings are said where they are found; --dry-run lists the rest. */
static void tell_what_is_done(const struct launch *launch, const struct egress *egress)
{
    size_t acts[FENCE_LINK + 1] = {0};
    for (size_t i = 0; i < launch->plan.count; i++)
        acts[launch->plan.steps[i].act]++;
    if (launch->settings->file != NULL)
        say("settings: %s", launch->settings->file);
    else
        say("settings: none, so nothing is reached and hardly anything can be written to");
    say("files: %zu places writable, %zu read-only in them, %zu hidden, %zu visible in those; "
        "--dry-run lists them",
        acts[FENCE_WRITABLE], acts[FENCE_READONLY], acts[FENCE_HIDDEN], acts[FENCE_VISIBLE]);
    say("temporary files: %s", launch->tmpdir);
    if (!launch->way_out)
        say("way out: none");
    else if (launch->gateway_socket == NULL)
        say("way out: %s, to a gateway of this run alone, %s", launch_way_out_place(launch),
            launch->gateway_program);
    else
        say("way out: %s, to the gateway at unix:%s under its policy %s, as %s",
            launch_way_out_place(launch), launch->gateway_socket, egress_policy(egress),
            launch->name);
    tell_of_network(launch, egress, "warnings", FAULT_WARNING);
}

/* Only the gateway knows where its files and sockets are. */
static int guard_gateway(struct launch *launch, const struct egress *egress)
{
    static const struct {
        const char *list;
        enum fence_verb verb;
    } rows[] = {{"hide", FENCE_HIDE_SECRET}, {"protect", FENCE_DENY_WRITE}};
    struct srt_err err;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const json_t *places = egress_list(egress, rows[i].list);
        for (size_t j = 0; j < json_array_size(places); j++) {
            const char *path = json_string_value(json_array_get(places, j));
            if (path == NULL || path[0] != '/')
                return fail("the gateway names a place that is not an absolute path");
            if (rules_guard(&launch->fence, rows[i].verb, path, "protected: the gateway",
                            &launch->notes, &err) != 0)
                return fail("%s", err.text);
        }
    }
    fence_plan_free(&launch->plan);
    fence_plan_make(&launch->plan, &launch->fence);
    return 0;
}

/* The places of the plan's writable steps; the strings are the plan's. */
static char **list_roots(const struct fence_plan *plan)
{
    char **roots = must(calloc(plan->count + 1, sizeof(char *)));
    size_t count = 0;
    for (size_t i = 0; i < plan->count; i++)
        if (plan->steps[i].act == FENCE_WRITABLE)
            roots[count++] = plan->steps[i].path;
    return roots;
}

/* What the gateway is given. */
struct way_out {
    struct egress_listener listeners[ATTACH_MAX_LISTENERS];
    size_t count;
    int socket_dir; /* -1: none */
};

static void add_listener(struct way_out *way_out, const char *kind, int fd)
{
    way_out->listeners[way_out->count++] = (struct egress_listener){.kind = kind, .fd = fd};
}

static int open_socket(struct way_out *way_out, const struct cell *cell, struct srt_err *err)
{
    struct inside_gift gift = {.count = 0};
    if (inside_do(&cell->inside, INSIDE_MOUNTS, mounts_make_socket, NULL, &gift, err) != 0)
        return -1;
    assert(gift.count == 2);
    add_listener(way_out, "proxy", gift.fds[0]);
    way_out->socket_dir = gift.fds[1];
    return 0;
}

static int open_transparent(struct way_out *way_out, const struct cell *cell, struct srt_err *err)
{
    struct inside_gift gift = {.count = 0};
    if (inside_do(&cell->inside, INSIDE_NET, transparent_open, NULL, &gift, err) != 0)
        return -1;
    assert(gift.count == TRANSPARENT_LISTENERS);
    for (size_t i = 0; i < gift.count; i++)
        add_listener(way_out, transparent_kinds[i], gift.fds[i]);
    return 0;
}

/* The listener that process 1 opened, and others; or a socket in its place, or nothing. */
static int open_way_out(const struct launch *launch, struct cell *cell, struct way_out *way_out,
                        struct srt_err *err)
{
    autoclose int port = steal_fd(&cell->listener);
    if (!launch->way_out)
        return 0;
    if (launch->way_out_is_socket)
        return open_socket(way_out, cell, err);
    add_listener(way_out, "proxy", steal_fd(&port));
    return launch->transparent ? open_transparent(way_out, cell, err) : 0;
}

/* Whether the warden is to hold whoever is inside to the same rules: in a mount namespace of its
 * own making a caller's paths mean other things than the warden's. */
static bool is_supervised(const struct launch *launch)
{
    return !launch->settings->allow_nested_user_namespaces;
}

static mode_t own_umask(void)
{
    const mode_t mask = umask(0);
    umask(mask);
    return mask;
}

static struct job make_job(const struct launch *launch, char *const *roots,
                           const struct violations *violations)
{
    return (struct job){.syscalls =
                            launch_syscalls(launch, launch_watches_reads(launch, violations)),
                        .ignored_signals = launch->ignored_signals,
                        .umask = own_umask(),
                        .supervised = is_supervised(launch),
                        .wait = launch->options.wait,
                        .own_group = supervise_owns_terminal(),
                        .nested = launch->settings->allow_nested_user_namespaces,
                        .roots = roots,
                        .cwd = launch->cwd,
                        .argv = launch->argv,
                        .env = launch->env};
}

/* Everything inside has ended. */
static void report_violations(const struct launch *launch, struct violations *violations,
                              struct timespec started, int status)
{
    const uint64_t before = violations->total;
    if (!launch->settings->filesystem.disabled &&
        !afterwards_report(&launch->fence, started, violations))
        say("warning: the writable directories are too large to be searched for new protected "
            "names");
    violations_finish(violations);
    if (violations->failed != 0)
        say("warning: violations could not be written down: %s", strerror(violations->failed));
    /* What a command leaves behind for others to run is said even when it succeeded. */
    if ((status != 0 || violations->total > before) && violations->fd < 0)
        violations_summary(violations, stderr);
}

static enum refusals_way way_of(const struct launch *launch)
{
    return !launch->way_out            ? REFUSALS_NONE
           : launch->way_out_is_socket ? REFUSALS_SOCKET
           : launch->transparent       ? REFUSALS_TRANSPARENT
                                       : REFUSALS_PORT;
}

/* A look at them takes a process, so only for somebody who will hear of it. */
static void report_strays(const struct launch *launch, const struct cell *cell,
                          struct violations *violations, int status)
{
    if ((status != 0 || violations->fd >= 0) && !violations_ignored(violations, "deny "))
        refusals_strays(violations, strays_seen(&cell->inside), way_of(launch));
}

static int run_job(struct launch *launch, struct cell *cell, struct egress *egress,
                   struct control control, struct violations *violations,
                   const struct warden_law *law, struct warden *warden, const struct job *job)
{
    struct srt_err err;
    autoclose int job_fd = job_pack(job, &err);
    if (job_fd < 0)
        return fail("%s", err.text);
    struct supervise supervise = {.cell = cell,
                                  .egress = launch->way_out ? egress : NULL,
                                  .control = control,
                                  .asking = &launch->asking,
                                  .home = launch->home,
                                  .law = law,
                                  .warden = warden,
                                  .violations = violations,
                                  .job = job,
                                  .streams = launch->streams.fds,
                                  .verbose = launch->options.verbose};
    struct timespec started;
    clock_gettime(CLOCK_REALTIME_COARSE, &started); /* by which files get their times */
    const int status = supervise_run(&supervise, job_fd);
    streams_restore_flags(&launch->streams);
    if (launch->options.verbose)
        say("ended with status %d", status);
    report_strays(launch, cell, violations, status);
    report_violations(launch, violations, started, status);
    control_close(&supervise.control);
    return status;
}

/* What is done in the sandbox's mount namespace before the command runs. */
struct furniture {
    struct streams *streams;
    struct mounts_job mounts;
};

static int furnish(void *context, const struct inside *inside, struct inside_gift *gift,
                   struct srt_err *err)
{
    struct furniture *furniture = context;
    if (streams_reopen(furniture->streams, inside, gift, err) != 0)
        return -1;
    return mounts_carry_out(&furniture->mounts, inside, gift, err);
}

/* By the warden, where there is to be one. */
static int furnish_cell(struct launch *launch, const struct cell *cell, int socket_dir,
                        const struct warden_law *law, struct warden *warden)
{
    struct furniture furniture = {
        .streams = &launch->streams,
        .mounts = {.plan = &launch->plan,
                   .tmpdir = launch->tmpdir == launch_private_tmpdir ? launch_private_tmpdir : NULL,
                   .socket_dir = socket_dir,
                   .own_names = launch->transparent,
                   .names_judged = is_supervised(launch),
                   .reads_judged = launch_judges_reads(launch)}};
    struct srt_err err;
    struct inside_gift gift = {.count = 0};
    int result = is_supervised(launch)
                     ? warden_start(warden, &cell->inside, law, furnish, &furniture, &gift, &err)
                     : inside_do(&cell->inside, INSIDE_MOUNTS, furnish, &furniture, &gift, &err);
    streams_take(&launch->streams, &gift);
    if (result == MOUNTS_CHANGED) {
        launch->changed = err;
        return EXIT_CHANGED;
    }
    return result == 0 ? 0 : fail("%s", err.text);
}

static int run_fenced(struct launch *launch, struct cell *cell, struct egress *egress,
                      struct control control, int socket_dir)
{
    static struct violations violations;
    violations_open(&violations, launch->name, launch->argv, launch->settings,
                    launch->violations_fd);
    autofree char **roots = list_roots(&launch->plan);
    autofree_sockets char **sockets = launch_sockets(launch);
    const struct job job = make_job(launch, roots, &violations);
    const struct warden_law law = {.fence = &launch->fence,
                                   .plan = &launch->plan,
                                   .sockets = sockets,
                                   .syscalls = job.syscalls,
                                   .silent = violations_ignored(&violations, "deny ")};
    struct warden warden = {.reports = -1};
    struct srt_err err;
    int status = furnish_cell(launch, cell, socket_dir, &law, &warden);
    if (status == 0 && publish_start(&launch->options.publish, &cell->inside, &err) != 0)
        status = fail("%s", err.text);
    if (status == 0)
        status = run_job(launch, cell, egress, control, &violations, &law, &warden, &job);
    warden_end(&warden);
    violations_close(&violations);
    return status;
}

static int run_inside(struct launch *launch, struct cell *cell, struct egress *egress)
{
    struct srt_err err;
    struct control control = {.fd = launch->options.control_fd};
    struct way_out way_out = {.socket_dir = -1};
    if (open_way_out(launch, cell, &way_out, &err) != 0)
        return fail("%s", err.text);
    autoclose int socket_dir = way_out.socket_dir;
    if (launch->way_out && egress_attach(egress, launch->settings->network_json, way_out.listeners,
                                         way_out.count, &err) != 0)
        return refused_by_gateway(launch, egress, err.text);
    if (launch->way_out && guard_gateway(launch, egress) != 0)
        return EXIT_FAILED;
    if (launch->options.verbose)
        tell_what_is_done(launch, egress);
    return run_fenced(launch, cell, egress, control, socket_dir);
}

static void end_way_out(struct egress *egress)
{
    json_t *frame;
    egress_hang_up(egress);
    while ((frame = egress_last(egress)) != NULL)
        json_decref(frame);
}

/* One try: nothing of it is left when it ends. */
static int run_once(struct launch *launch)
{
    struct srt_err err;
    if (streams_look(&launch->streams, launch->closed_streams, &err) != 0)
        return fail("%s", err.text);
    autofree char *program = bwrap_find(launch->settings->bwrap_path, &launch->fence, &err);
    if (program == NULL)
        return fail("%s", err.text);
    struct cell_options options = {.bwrap = program,
                                   .bwrap_only = launch->settings->bwrap_path != NULL ||
                                                 strcmp(program, bwrap_system) != 0,
                                   .self = launch->self,
                                   .argv = launch->words,
                                   .log_socket = launch_names_socket(launch, CELL_LOG_SOCKET),
                                   .weaker_proc = launch->settings->enable_weaker_nested_sandbox,
                                   .verbose = launch->options.verbose};
    memcpy(options.closed_streams, launch->closed_streams, sizeof(options.closed_streams));
    if (options.verbose && landlock_missing() != NULL)
        say("%s", landlock_missing());
    if (options.weaker_proc)
        say("warning: enableWeakerNestedSandbox shows the processes of the host in /proc");
    struct cell cell = {.sock = -1, .leash = -1};
    struct egress egress = {.connection = -1};
    int status = begin_way_out(launch, &egress);
    if (status == 0)
        status = cell_start(&cell, &options, &err) == 0 ? run_inside(launch, &cell, &egress)
                                                        : fail("%s", err.text);
    publish_close(&launch->options.publish);
    cell_kill(&cell);
    cell_wait(&cell);
    if (status == EXIT_CHANGED)
        end_way_out(&egress);
    egress_close(&egress);
    streams_give_back(&launch->streams);
    return status;
}

/* Others' directories come and go, in /tmp above all. Nothing has run yet, so it is begun anew. */
static int run(struct launch *launch)
{
    int status = run_once(launch);
    for (int plans = 1; status == EXIT_CHANGED && plans < PLANS_MAX; plans++) {
        if (launch->options.verbose)
            say("%s, so it is planned anew", launch->changed.text);
        status = launch_plan(launch) == 0 ? run_once(launch) : EXIT_FAILED;
    }
    return status != EXIT_CHANGED
               ? status
               : fail("%s, %d times in a row; run the command again when that has settled",
                      launch->changed.text, PLANS_MAX);
}

/* Inside a sandbox nothing is left to the exit handlers: a leak checker among them would want to
 * trace this process, and the filter refuses that. */
static _Noreturn void leave(int status)
{
    fflush(NULL);
    _exit(status);
}

/* What is short of stack dies without a word, and so might the warden while the command runs. Said
 * with less than stdio takes. */
static bool has_stack(void)
{
    enum { NEEDED = 256 * 1024 };
    static const char text[] = "srt-launch: the limit on the stack is less than the 256 KiB that "
                               "this needs; raise it (ulimit -s)\n";
    struct rlimit stack;
    bool enough = getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= NEEDED;
    if (!enough)
        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    return enough;
}

/* What nobody gets to read is no success. */
static int written(int status)
{
    return status == 0 && fflush(stdout) != 0 ? fail("standard output: %s", strerror(errno))
                                              : status;
}

/* A frame of its own: it is large. */
__attribute__((noinline)) static int act(int argc, char **argv)
{
    /* Where a caller ignores it, nobody here would learn how a child has ended, nor would most
     * commands. */
    signal(SIGCHLD, SIG_DFL);
    if (argc == 3 && strcmp(argv[1], "--last-stage") == 0)
        stage_main(argv[2]);
    if (argc == 5 && strcmp(argv[1], "--doctor-inside") == 0)
        leave(doctor_inside(argv[2], argv[3], argv[4]));
    if (argc == 2 && strcmp(argv[1], "--doctor-transparent") == 0)
        leave(doctor_transparent());
    struct launch launch = {.words = argv,
                            .ignored_signals = supervise_ignored_signals(),
                            .violations_fd = -1,
                            .asking = {.tty = -1}};
    signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error that can be told */
    occupy_streams(launch.closed_streams);
    struct srt_err err;
    if (options_parse(&launch.options, argv, &err) != 0)
        return fail("%s", err.text);

    int status = EXIT_FAILED;
    switch (launch.options.action) {
    case OPTIONS_HELP:
        options_usage(stdout);
        return written(0);
    case OPTIONS_VERSION:
        puts("srt-launch " SRT_VERSION);
        return written(0);
    case OPTIONS_CONNECT:
        leave(connect_run(launch.options.rest));
    case OPTIONS_DOCTOR:
        return written(doctor_run(launch.options.rest));
    case OPTIONS_EXPLAIN_PATH:
    case OPTIONS_RUN:
        break;
    }
    if (launch_prepare(&launch) == 0)
        status = launch.options.action == OPTIONS_EXPLAIN_PATH ? launch_explain_paths(&launch)
                 : launch.options.dry_run                      ? launch_dry_run(&launch)
                                                               : run(&launch);
    launch_free(&launch);
    return written(status);
}

int main(int argc, char **argv)
{
    return has_stack() ? act(argc, argv) : EXIT_FAILED;
}
