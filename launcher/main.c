/*
 * srt-launch: builds the fence, hands the sandbox's only way out to a gateway, runs the command.
 * The order of run() is the design: nothing runs before every wall stands and the gateway has
 * agreed.
 */
#include "launcher/afterwards.h"
#include "launcher/bwrap.h"
#include "launcher/cell.h"
#include "launcher/connect.h"
#include "launcher/control.h"
#include "launcher/datagrams.h"
#include "launcher/doctor.h"
#include "launcher/egress.h"
#include "launcher/environ.h"
#include "launcher/job.h"
#include "launcher/landlock.h"
#include "launcher/mounts.h"
#include "launcher/options.h"
#include "launcher/rules.h"
#include "launcher/stage.h"
#include "launcher/streams.h"
#include "launcher/supervise.h"
#include "launcher/syscalls.h"
#include "launcher/transparent.h"
#include "launcher/warden/secrets.h"
#include "srt/attach.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#ifndef SRT_VERSION
#define SRT_VERSION "0.1.0"
#endif

enum {
    EXIT_FAILED = 125,
    EXIT_CHANGED = -1, /* for ourselves: the tree is not as it was planned any more */
    PLANS_MAX = 3,
};

const int must_status = EXIT_FAILED;

static const char private_tmpdir[] = "/dev/shm/tmp";

struct launch {
    struct options options;
    char **words;             /* of main() */
    uint64_t ignored_signals; /* by the caller */
    struct settings *settings;
    struct fence fence;
    struct fence_plan plan;
    struct rules_notes notes;
    char *cwd, *home, *self, *settings_path, *name, *gateway_program, *violations_path;
    const char *gateway_socket, *policy, *tmpdir;
    bool way_out;
    bool way_out_is_socket; /* not a port of the sandbox's loopback */
    bool transparent;       /* also wherever else programs connect to */
    bool closed_streams[3];
    struct streams streams;
    int violations_fd;
    struct asking asking;
    bool planned;           /* warnings have been said */
    struct srt_err changed; /* with EXIT_CHANGED: what has */
    char **env;
    char *shell_words[4];
    char **argv;
};

__attribute__((format(printf, 1, 0))) static void say_list(const char *format, va_list args)
{
    fputs("srt-launch: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_list(format, args);
    va_end(args);
}

__attribute__((format(printf, 1, 2))) static int fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_list(format, args);
    va_end(args);
    return EXIT_FAILED;
}

/* A closed standard stream would be given to the first thing opened, which then would go inside. */
static void occupy_streams(bool closed[3])
{
    for (int fd = 0; fd < 3; fd++) {
        closed[fd] = fcntl(fd, F_GETFD) < 0;
        if (closed[fd] && open("/dev/null", O_RDWR) != fd)
            _exit(EXIT_FAILED);
    }
}

static char *find_home(void)
{
    const char *home = getenv("HOME");
    if (home == NULL || home[0] != '/') {
        const struct passwd *entry = getpwuid(getuid());
        home = entry != NULL ? entry->pw_dir : NULL;
    }
    return must_copy(home);
}

static char *find_self(void)
{
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
    return len > 0 ? must(strndup(path, (size_t)len)) : NULL;
}

static int refuse_settings(const struct launch *launch)
{
    return fail(
        "%s: the settings are refused; nothing was run and no other settings are used instead",
        launch->settings_path);
}

static int read_settings(struct launch *launch)
{
    struct faults faults = {0};
    const char *named = launch->options.settings;
    if (named != NULL)
        launch->settings_path = path_absolute(named, launch->cwd, launch->home, NULL);
    else if (launch->home != NULL)
        launch->settings_path = path_join(launch->home, ".srt-settings.json");

    /* A link that leads nowhere is there: somebody meant it to be settings. */
    struct stat st;
    if (named == NULL && (launch->settings_path == NULL ||
                          (lstat(launch->settings_path, &st) != 0 && errno == ENOENT)))
        launch->settings = settings_default();
    else
        launch->settings = settings_read(launch->settings_path, &faults);
    bool good = launch->settings != NULL && faults.errors == 0;
    if (!good || launch->options.verbose)
        faults_print(&faults, stderr);
    if (!good)
        refuse_settings(launch);
    faults_free(&faults);
    return good ? 0 : -1;
}

/* An option, then the environment where there is one, then the settings. */
static const char *choose(const char *option, const char *variable, const char *setting)
{
    const char *from_env = variable != NULL ? getenv(variable) : NULL;
    if (option != NULL)
        return option;
    return from_env != NULL && from_env[0] != '\0' ? from_env : setting;
}

static int choose_way_out(struct launch *launch)
{
    const struct settings_launch *set = &launch->settings->launch;
    const char *egress = choose(launch->options.egress, NULL, set->egress);
    launch->way_out_is_socket = egress != NULL && strcmp(egress, "socket") == 0;
    launch->transparent = egress != NULL && strcmp(egress, "transparent") == 0;
    launch->way_out = egress == NULL || strcmp(egress, "port") == 0 || launch->way_out_is_socket ||
                      launch->transparent;
    if (!launch->way_out && strcmp(egress, "none") != 0)
        return fail("--egress knows port, transparent, socket and none, not \"%s\"", egress);

    const char *gateway = choose(launch->options.gateway, "SRT_GATEWAY", set->gateway);
    launch->policy = choose(launch->options.policy, NULL, set->policy);
    if (gateway == NULL || strcmp(gateway, "private") == 0) {
        if (launch->policy != NULL)
            return fail(
                "--policy names a policy of a shared gateway, so it needs --gateway unix:PATH");
        return 0;
    }
    if (strncmp(gateway, "unix:", 5) != 0 || gateway[5] != '/')
        return fail("--gateway is private or unix:/PATH, not \"%s\"", gateway);
    launch->gateway_socket = gateway + 5;
    return 0;
}

static bool named_sockets(const struct launch *launch)
{
    const struct settings *settings = launch->settings;
    return (settings->network.allow_unix_sockets.count > 0 || launch->way_out_is_socket) &&
           !settings->network.allow_all_unix_sockets;
}

static int check_sockets(const struct launch *launch)
{
    const struct settings *settings = launch->settings;
    if (launch->way_out_is_socket && settings->allow_nested_user_namespaces)
        return fail("--egress socket and allowNestedUserNamespaces exclude each other");
    if (named_sockets(launch) && settings->allow_nested_user_namespaces)
        return fail("network.allowUnixSockets and allowNestedUserNamespaces exclude each other");
    static const char *const engines[] = {"docker.sock", "containerd.sock", "podman.sock",
                                          "crio.sock"};
    for (size_t i = 0; i < settings->network.allow_unix_sockets.count; i++)
        for (size_t j = 0; j < sizeof(engines) / sizeof(engines[0]); j++)
            if (strstr(settings->network.allow_unix_sockets.items[i].text, engines[j]) != NULL)
                say("warning: %s: whoever may talk to %s can do anything on this machine",
                    settings->network.allow_unix_sockets.items[i].setting, engines[j]);
    return 0;
}

/* The gateway that lies beside this program, then the one in PATH. */
static char *find_gateway(const char *self)
{
    autofree char *dir = path_parent(self);
    char *beside = path_join(dir, "srt-gateway");
    if (access(beside, X_OK) == 0)
        return beside;
    free(beside);
    return path_search("srt-gateway");
}

/* The password of a parent proxy, in a settings file that is otherwise no secret. */
static bool settings_hold_secret(const struct settings *settings)
{
    const struct settings_parent *parent = &settings->network.parent;
    return (parent->http.text != NULL && strchr(parent->http.text, '@') != NULL) ||
           (parent->https.text != NULL && strchr(parent->https.text, '@') != NULL);
}

/* What came through a pipe is not there to be changed or read again. */
static const char *file_of_settings(const struct launch *launch)
{
    struct stat st;
    return launch->settings_path != NULL && stat(launch->settings_path, &st) == 0 &&
                   S_ISFIFO(st.st_mode)
               ? NULL
               : launch->settings_path;
}

/* ssh takes no configuration there that is not root's, and in a user namespace that knows this user
 * only, nothing is root's: it would refuse to work at all. */
static int hide_unusable(struct launch *launch, struct srt_err *err)
{
    static const char place[] = "/etc/ssh/ssh_config.d";
    struct stat st;
    if (geteuid() == 0 || lstat(place, &st) != 0 || !S_ISDIR(st.st_mode))
        return 0;
    return rules_guard(&launch->fence, FENCE_DENY_READ, place,
                       "default: ssh refuses files of unknown owners", &launch->notes, err);
}

static int choose_violations(struct launch *launch)
{
    const char *path =
        choose(launch->options.violations, NULL, launch->settings->launch.violations);
    launch->violations_fd = launch->options.violations_fd;
    if (path == NULL || launch->violations_fd >= 0)
        return 0;
    launch->violations_path = path_absolute(path, launch->cwd, launch->home, NULL);
    return launch->violations_path != NULL
               ? 0
               : fail("--violations %s: the home directory is unknown", path);
}

static bool writes_violations(const struct launch *launch)
{
    return launch->violations_path != NULL && !launch->options.dry_run &&
           launch->options.action == OPTIONS_RUN;
}

/* What a sandbox tries goes into the file; a link that an earlier one has made would have that
 * added to any other. */
static int check_violations(const struct launch *launch, struct srt_err *err)
{
    const char *path = launch->violations_path;
    struct path_place place = {0};
    int result = path_resolve(path, &place, err);
    for (size_t i = 0; i < place.link_count && result == 0; i++) {
        struct fence_view view = fence_view(&launch->fence, place.links[i]);
        if (view.writable)
            result = srt_err_set(err,
                                 "--violations %s: %s is a symbolic link in a directory that the "
                                 "sandbox may write to (%s), so it is not followed; name the file "
                                 "that it leads to, or remove it",
                                 path, place.links[i], view.write_setting);
    }
    path_place_free(&place);
    return result;
}

/* Once the fence says which links to trust. */
static int open_violations(struct launch *launch, struct srt_err *err)
{
    const char *path = launch->violations_path;
    if (!writes_violations(launch))
        return 0;
    if (check_violations(launch, err) != 0)
        return -1;
    const int how = O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    if (launch->violations_fd < 0) /* it is open when the fence is planned anew */
        launch->violations_fd = open(path, O_WRONLY | how, 0600);
    if (launch->violations_fd < 0 && errno == ENXIO) /* a FIFO whose reader may yet come */
        launch->violations_fd = open(path, O_RDWR | how, 0600);
    if (launch->violations_fd < 0)
        return srt_err_set(err, "--violations %s: %s", path, strerror(errno));
    return rules_guard(&launch->fence, FENCE_DENY_WRITE, path, "protected: srt-launch itself",
                       &launch->notes, err);
}

static int build_fence(struct launch *launch)
{
    autofree char *default_settings =
        launch->home != NULL ? path_join(launch->home, ".srt-settings.json") : NULL;
    /* Also the programs that build the next sandbox. A bubblewrap elsewhere is refused where the
     * sandbox could write to it (bwrap.c). */
    const char *settings = file_of_settings(launch);
    const char *const candidates[] = {settings,
                                      default_settings,
                                      writes_violations(launch) ? NULL : launch->violations_path,
                                      launch->self,
                                      launch->gateway_program,
                                      access(bwrap_system, F_OK) == 0 ? bwrap_system : NULL};
    enum { CANDIDATES = sizeof(candidates) / sizeof(candidates[0]) };
    const char *never_write[CANDIDATES + 1] = {0};
    size_t count = 0;
    for (size_t i = 0; i < CANDIDATES; i++)
        if (candidates[i] != NULL)
            never_write[count++] = candidates[i];

    autofree char *user_gateway =
        launch->home != NULL ? path_join(launch->home, ".config/srt-gateway") : NULL;
    const char *const places[] = {
        "/etc/srt-gateway",     "/run/srt-gateway",
        "/var/log/srt-gateway", user_gateway,
        launch->gateway_socket, settings_hold_secret(launch->settings) ? settings : NULL};
    enum { PLACES = sizeof(places) / sizeof(places[0]) };
    const char *never_read[PLACES + 1] = {0};
    count = 0;
    for (size_t i = 0; i < PLACES; i++)
        if (places[i] != NULL && access(places[i], F_OK) == 0)
            never_read[count++] = places[i];

    struct rules_world world = {.cwd = launch->cwd,
                                .home = launch->home,
                                .never_write = never_write,
                                .never_read = never_read};
    struct srt_err err;
    int result = rules_build(&launch->fence, launch->settings, &world, &launch->notes, &err);
    if (result == 0)
        result = hide_unusable(launch, &err);
    if (result == 0)
        result = open_violations(launch, &err);
    for (size_t i = 0; !launch->planned && i < launch->notes.warning_count; i++)
        fprintf(stderr, "srt-launch: warning: %s\n", launch->notes.warnings[i]);
    for (size_t i = 0; launch->options.verbose && i < launch->notes.detail_count; i++)
        fprintf(stderr, "srt-launch: %s\n", launch->notes.details[i]);
    if (result != 0)
        return fail("%s", err.text);
    fence_plan_make(&launch->plan, &launch->fence);
    return 0;
}

static bool is_outside_only(const char *path)
{
    return path_within(path, "/dev") && cell_dev(path) == CELL_DEV_ABSENT;
}

/* The caller's own TMPDIR where the sandbox may write to it, otherwise one in private memory, which
 * leaves nothing on the host, however the run ends. */
static void choose_tmpdir(struct launch *launch)
{
    const char *asked = getenv("TMPDIR");
    struct path_place place = {0};
    struct stat st;
    bool usable = asked != NULL && asked[0] == '/' && path_resolve(asked, &place, NULL) == 0 &&
                  place.type == PATH_DIR && fence_view(&launch->fence, place.path).writable &&
                  !is_outside_only(place.path) && stat(place.path, &st) == 0 &&
                  access(place.path, W_OK | X_OK) == 0;
    path_place_free(&place);
    launch->tmpdir = usable ? asked : private_tmpdir;
}

static const char *visible_self(const struct launch *launch)
{
    return fence_view(&launch->fence, launch->self).readable ? launch->self : NULL;
}

static void build_environment(struct launch *launch)
{
    struct environ_options options = {.proxy = launch->way_out && !launch->way_out_is_socket,
                                      .socket = launch->way_out_is_socket,
                                      .tmpdir = launch->tmpdir,
                                      .connect_prog = visible_self(launch)};
    launch->env = environ_build(environ, launch->settings, &options);
}

static void build_argv(struct launch *launch)
{
    static char bash[] = "/bin/bash", sh[] = "/bin/sh", dash_c[] = "-c";
    if (launch->options.shell_string == NULL) {
        launch->argv = launch->options.rest;
        return;
    }
    size_t count = 0;
    while (launch->options.rest[count] != NULL)
        count++;
    launch->argv = must(calloc(count + 4, sizeof(char *)));
    launch->argv[0] = access(bash, X_OK) == 0 ? bash : sh;
    launch->argv[1] = dash_c;
    launch->argv[2] = must_copy(launch->options.shell_string);
    memcpy(launch->argv + 3, launch->options.rest, count * sizeof(char *));
}

static char *make_name(const char *command)
{
    const char *base = strrchr(command, '/');
    base = base != NULL ? base + 1 : command;
    char word[33] = "";
    for (size_t i = 0; i < sizeof(word) - 1 && base[i] != '\0'; i++)
        word[i] = isalnum((unsigned char)base[i]) || strchr("._-", base[i]) != NULL ? base[i] : '_';
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return must_format("%s-%d-%lld%03ld", word, getpid(), (long long)now.tv_sec,
                       now.tv_nsec / 1000000);
}

static int open_terminal(struct launch *launch)
{
    struct srt_err err;
    const char *how = launch->options.ask;
    if (how != NULL && !launch->way_out)
        return fail("--ask %s: with --egress none there is nothing to ask about", how);
    if (asking_open(&launch->asking, launch->options.dry_run ? NULL : how, &err) != 0)
        return fail("%s", err.text);
    return 0;
}

/* By the tree as it is now; a plan that was made before is replaced. */
static int plan(struct launch *launch)
{
    fence_plan_free(&launch->plan);
    fence_free(&launch->fence);
    rules_notes_free(&launch->notes);
    environ_free(launch->env);
    launch->env = NULL;
    if (build_fence(launch) != 0)
        return EXIT_FAILED;
    launch->planned = true;
    struct fence_view view = fence_view(&launch->fence, launch->cwd);
    if (!view.readable && launch->options.action == OPTIONS_RUN)
        return fail("the working directory %s is hidden by %s; change to another one", launch->cwd,
                    view.read_setting);
    if (is_outside_only(launch->cwd) && launch->options.action == OPTIONS_RUN)
        return fail("the working directory %s is not in the sandbox, which has a /dev of its own; "
                    "change to another one",
                    launch->cwd);
    choose_tmpdir(launch);
    build_environment(launch);
    return 0;
}

static int prepare(struct launch *launch)
{
    char cwd[PATH_MAX];
    if (getcwd(cwd, sizeof(cwd)) == NULL && errno == ERANGE)
        return fail(
            "the path of the working directory is longer than %d bytes; change to one above",
            PATH_MAX - 1);
    if (getcwd(cwd, sizeof(cwd)) == NULL || cwd[0] != '/')
        return fail("the working directory cannot be determined (%s); change to one that exists",
                    strerror(errno));
    launch->cwd = must_copy(cwd);
    launch->home = find_home();
    launch->self = find_self();
    if (launch->cwd == NULL || launch->self == NULL)
        return fail("/proc is needed to find this program");
    if (read_settings(launch) != 0)
        return EXIT_FAILED;
    launch->gateway_program = find_gateway(launch->self);
    if (choose_way_out(launch) != 0 || check_sockets(launch) != 0 ||
        choose_violations(launch) != 0 || open_terminal(launch) != 0 || plan(launch) != 0)
        return EXIT_FAILED;
    build_argv(launch);
    launch->name = launch->options.name != NULL ? must_copy(launch->options.name)
                   : launch->settings->launch.name != NULL
                       ? must_copy(launch->settings->launch.name)
                       : make_name(launch->argv[0]);
    return 0;
}

static void free_sockets(char ***list)
{
    for (size_t i = 0; *list != NULL && (*list)[i] != NULL; i++)
        free((*list)[i]);
    free(*list);
}

#define autofree_sockets __attribute__((cleanup(free_sockets)))

/* Absolute; where links lead is looked at when something connects, as the service may come later.
 */
static char **list_sockets(const struct launch *launch)
{
    const struct settings_list *list = &launch->settings->network.allow_unix_sockets;
    char **sockets = must(calloc(list->count + 2, sizeof(char *)));
    size_t count = 0;
    if (launch->way_out_is_socket)
        sockets[count++] = must_copy(ATTACH_SOCKET);
    for (size_t i = 0; i < list->count; i++) {
        sockets[count] = path_absolute(list->items[i].text, launch->cwd, launch->home, NULL);
        count += sockets[count] != NULL;
    }
    return sockets;
}

static bool named_datagrams(const struct launch *launch)
{
    autofree_sockets char **sockets = list_sockets(launch);
    for (size_t i = 0; named_sockets(launch) && sockets[i] != NULL; i++)
        if (datagrams_at(sockets[i]))
            return true;
    return false;
}

static bool names_socket(const struct launch *launch, const char *path)
{
    autofree_sockets char **sockets = list_sockets(launch);
    for (size_t i = 0; sockets[i] != NULL; i++)
        if (strcmp(sockets[i], path) == 0)
            return true;
    return false;
}

static bool hides_something(const struct launch *launch)
{
    const struct settings *settings = launch->settings;
    return settings->filesystem.deny_read.count + settings->credential_files_deny.count > 0;
}

/* Whether something is hidden that the mounts alone cannot hide. */
static bool judges_reads(const struct launch *launch)
{
    return hides_something(launch) && secrets_watch(&launch->fence);
}

/* All else is watched only for somebody who wants to hear of it. */
static bool watches_reads(const struct launch *launch, const struct violations *violations)
{
    return judges_reads(launch) ||
           (hides_something(launch) && !violations_ignored(violations, "deny read /"));
}

static unsigned syscall_options(const struct launch *launch, bool watch_reads)
{
    const struct settings *settings = launch->settings;
    return (settings->network.allow_all_unix_sockets ? SYSCALLS_UNIX_SOCKETS : 0u) |
           (named_sockets(launch) ? SYSCALLS_NAMED_SOCKETS : 0u) |
           (named_datagrams(launch) ? SYSCALLS_NAMED_DATAGRAMS : 0u) |
           (watch_reads ? SYSCALLS_WATCH_READS : 0u) |
           (settings->allow_nested_user_namespaces ? SYSCALLS_NESTED_USERNS : 0u);
}

/* Inside. */
static const char *way_out_place(const struct launch *launch)
{
    return launch->way_out_is_socket ? ATTACH_SOCKET
           : launch->transparent     ? "127.0.0.1:3128 and every other TCP address"
                                     : "127.0.0.1:3128";
}

static int dry_run(const struct launch *launch)
{
    puts("mounts:\n  read-only / (everything that no line below changes)");
    for (size_t i = 0; i < launch->plan.count; i++) {
        const struct fence_step *step = &launch->plan.steps[i];
        printf("  %s %s (%s)\n", fence_act_word(step->act), step->path, step->setting);
    }
    puts("environment:");
    for (size_t i = 0; launch->env[i] != NULL; i++)
        printf("  %s\n", launch->env[i]);
    puts("refused system calls:");
    syscalls_print(syscall_options(launch, false), stdout);
    if (launch->gateway_socket == NULL && launch->way_out)
        printf("way out: %s, a private gateway\n", way_out_place(launch));
    else if (launch->way_out_is_socket || launch->transparent)
        printf("way out: %s, %s\n", way_out_place(launch), launch->gateway_socket);
    else
        printf("way out: %s\n", launch->way_out ? launch->gateway_socket : "none");
    for (size_t i = 0; i < launch->options.publish.count; i++)
        printf("published on loopback: port %u\n", launch->options.publish.ports[i].inside);
    return 0;
}

/* It runs outside. One that was found in PATH could be an earlier sandbox's. */
static int check_gateway(const struct launch *launch, struct srt_err *err)
{
    const char *program = launch->gateway_program;
    autofree char *own_dir = path_parent(launch->self), *found_dir = path_parent(program);
    if (strcmp(own_dir, found_dir) == 0)
        return 0;
    struct path_place place = {0};
    if (path_resolve(program, &place, err) != 0)
        return -1;
    autofree char *dir = path_parent(place.path);
    struct fence_view view = fence_view(&launch->fence, dir);
    for (size_t i = 0; i < place.link_count && !view.writable; i++)
        view = fence_view(&launch->fence, place.links[i]);
    path_place_free(&place);
    return view.writable
               ? srt_err_set(err,
                             "%s, which PATH leads to, lies in a directory that the sandbox may "
                             "write to (%s), so it is not trusted to be the way out; put "
                             "srt-gateway beside srt-launch",
                             program, view.write_setting)
               : 0;
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
    if (launch->gateway_socket == NULL && check_gateway(launch, &err) != 0)
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
    return refuse_settings(launch);
}

/* For --verbose. Faults and warnings are said where they are found; --dry-run lists the rest. */
static void tell_what_is_done(const struct launch *launch, const struct egress *egress)
{
    size_t acts[FENCE_PIN + 1] = {0};
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
        say("way out: %s, to a gateway of this run alone, %s", way_out_place(launch),
            launch->gateway_program);
    else
        say("way out: %s, to the gateway at unix:%s under its policy %s, as %s",
            way_out_place(launch), launch->gateway_socket, egress_policy(egress), launch->name);
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

static int put_up_mounts(struct launch *launch, const struct cell *cell, int socket_dir)
{
    struct mounts_job job = {
        .plan = &launch->plan,
        .tmpdir = launch->tmpdir == private_tmpdir ? private_tmpdir : NULL,
        .socket_dir = socket_dir,
        .own_names = launch->transparent,
        .names_judged = is_supervised(launch),
        .reads_judged = judges_reads(launch),
    };
    struct srt_err err;
    int result = inside_do(&cell->inside, INSIDE_MOUNTS, mounts_carry_out, &job, NULL, &err);
    if (result == MOUNTS_CHANGED) {
        launch->changed = err;
        return EXIT_CHANGED;
    }
    return result == 0 ? 0 : fail("%s", err.text);
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
    return (struct job){.syscalls = syscall_options(launch, watches_reads(launch, violations)),
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

static int run_job(struct launch *launch, struct cell *cell, struct egress *egress,
                   struct control control, struct violations *violations, const struct job *job,
                   int job_fd)
{
    autofree_sockets char **sockets = list_sockets(launch);
    struct warden_law law = {.fence = &launch->fence,
                             .plan = &launch->plan,
                             .sockets = sockets,
                             .syscalls = job->syscalls,
                             .silent = violations_ignored(violations, "deny ")};
    struct supervise supervise = {.cell = cell,
                                  .egress = launch->way_out ? egress : NULL,
                                  .control = control,
                                  .asking = &launch->asking,
                                  .home = launch->home,
                                  .law = &law,
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
    report_violations(launch, violations, started, status);
    control_close(&supervise.control);
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
    if (streams_reopen(&launch->streams, &cell->inside, &err) != 0)
        return fail("%s", err.text);
    int mounted = put_up_mounts(launch, cell, socket_dir);
    if (mounted != 0)
        return mounted;
    if (publish_start(&launch->options.publish, &cell->inside, &err) != 0)
        return fail("%s", err.text);

    static struct violations violations;
    violations_open(&violations, launch->name, launch->argv, launch->settings,
                    launch->violations_fd);
    autofree char **roots = list_roots(&launch->plan);
    const struct job job = make_job(launch, roots, &violations);
    autoclose int job_fd = job_pack(&job, &err);
    if (job_fd < 0)
        return fail("%s", err.text);
    const int status = run_job(launch, cell, egress, control, &violations, &job, job_fd);
    violations_close(&violations);
    return status;
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
                                   .log_socket = names_socket(launch, CELL_LOG_SOCKET),
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
        status = plan(launch) == 0 ? run_once(launch) : EXIT_FAILED;
    }
    return status != EXIT_CHANGED
               ? status
               : fail("%s, %d times in a row; run the command again when that has settled",
                      launch->changed.text, PLANS_MAX);
}

/* No setting says anything about the sandbox's own /dev. */
static void explain_dev(const char *path, struct fence_view *view)
{
    bool open = cell_dev(path) == CELL_DEV_OPEN || path_within(path, "/dev/shm");
    if (!open && cell_dev(path) == CELL_DEV_CLOSED)
        return;
    view->readable = view->writable = open;
    view->read_setting = view->write_setting =
        open ? "default: the sandbox's own /dev" : "default: not in the sandbox's own /dev";
}

/* A name that leads nowhere, such as a loop of links, can be neither read nor written. */
static void explain_path(const struct launch *launch, const char *word)
{
    struct srt_err err;
    struct path_place place = {0};
    struct fence_view view = {.read_setting = err.text, .write_setting = err.text};
    autofree char *absolute = path_absolute(word, launch->cwd, launch->home, &err);
    if (absolute != NULL && path_resolve(absolute, &place, &err) == 0)
        view = fence_view(&launch->fence, place.path);
    if (place.path != NULL && path_within(place.path, "/dev") && view.readable &&
        strcmp(view.write_setting, "default") == 0)
        explain_dev(place.path, &view);
    autofree char *shown = fault_escape(word);
    autofree char *read_setting = fault_escape(view.read_setting);
    autofree char *write_setting = fault_escape(view.write_setting);
    printf("%s: readable: %s (%s); writable: %s (%s)\n", shown, view.readable ? "yes" : "no",
           read_setting, view.writable ? "yes" : "no", write_setting);
    path_place_free(&place);
}

static int explain_paths(const struct launch *launch)
{
    for (char **word = launch->options.rest; *word != NULL; word++)
        explain_path(launch, *word);
    return 0;
}

static void launch_free(struct launch *launch)
{
    asking_close(&launch->asking);
    fence_plan_free(&launch->plan);
    fence_free(&launch->fence);
    rules_notes_free(&launch->notes);
    environ_free(launch->env);
    if (launch->argv != NULL && launch->argv != launch->options.rest) {
        free(launch->argv[2]);
        free(launch->argv);
    }
    settings_free(launch->settings);
    free(launch->cwd);
    free(launch->home);
    free(launch->self);
    free(launch->settings_path);
    free(launch->name);
    free(launch->gateway_program);
    free(launch->violations_path);
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

/* A frame of its own: it is large. */
__attribute__((noinline)) static int act(int argc, char **argv)
{
    /* Where a caller ignores it, nobody here would learn how a child has ended, nor would most
     * commands. */
    signal(SIGCHLD, SIG_DFL);
    if (argc == 3 && strcmp(argv[1], "--last-stage") == 0)
        stage_main(argv[2]);
    if (argc == 4 && strcmp(argv[1], "--doctor-inside") == 0)
        leave(doctor_inside(argv[2], argv[3]));
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
        return 0;
    case OPTIONS_VERSION:
        puts("srt-launch " SRT_VERSION);
        return 0;
    case OPTIONS_CONNECT:
        leave(connect_run(launch.options.rest));
    case OPTIONS_DOCTOR:
        return doctor_run(launch.options.rest);
    case OPTIONS_EXPLAIN_PATH:
    case OPTIONS_RUN:
        break;
    }
    if (prepare(&launch) == 0)
        status = launch.options.action == OPTIONS_EXPLAIN_PATH ? explain_paths(&launch)
                 : launch.options.dry_run                      ? dry_run(&launch)
                                                               : run(&launch);
    if (status == 0 && fflush(stdout) != 0)
        status = fail("standard output: %s", strerror(errno));
    launch_free(&launch);
    return status;
}

int main(int argc, char **argv)
{
    return has_stack() ? act(argc, argv) : EXIT_FAILED;
}
