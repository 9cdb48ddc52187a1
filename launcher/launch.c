#include "launcher/launch.h"

#include "launcher/bwrap.h"
#include "launcher/cell.h"
#include "launcher/datagrams.h"
#include "launcher/environ.h"
#include "launcher/rights.h"
#include "launcher/say.h"
#include "launcher/syscalls.h"
#include "launcher/warden/secrets.h"
#include "srt/attach.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

const char launch_private_tmpdir[] = "/dev/shm/tmp";

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

int launch_refuse_settings(const struct launch *launch)
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
        launch_refuse_settings(launch);
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
        say("warning: %s", launch->notes.warnings[i]);
    for (size_t i = 0; launch->options.verbose && i < launch->notes.detail_count; i++)
        say("%s", launch->notes.details[i]);
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
    autorights struct rights outside = rights_as_inside();
    const char *asked = getenv("TMPDIR");
    struct path_place place = {0};
    bool usable = asked != NULL && asked[0] == '/' && path_resolve(asked, &place, NULL) == 0 &&
                  place.type == PATH_DIR && fence_view(&launch->fence, place.path).writable &&
                  !is_outside_only(place.path) && rights_may(place.path, W_OK | X_OK);
    path_place_free(&place);
    launch->tmpdir = usable ? asked : launch_private_tmpdir;
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

int launch_plan(struct launch *launch)
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

int launch_prepare(struct launch *launch)
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
        choose_violations(launch) != 0 || open_terminal(launch) != 0 || launch_plan(launch) != 0)
        return EXIT_FAILED;
    build_argv(launch);
    launch->name = launch->options.name != NULL ? must_copy(launch->options.name)
                   : launch->settings->launch.name != NULL
                       ? must_copy(launch->settings->launch.name)
                       : make_name(launch->argv[0]);
    return 0;
}

void launch_free_sockets(char ***list)
{
    for (size_t i = 0; *list != NULL && (*list)[i] != NULL; i++)
        free((*list)[i]);
    free(*list);
}

char **launch_sockets(const struct launch *launch)
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
    autofree_sockets char **sockets = launch_sockets(launch);
    for (size_t i = 0; named_sockets(launch) && sockets[i] != NULL; i++)
        if (datagrams_at(sockets[i]))
            return true;
    return false;
}

bool launch_names_socket(const struct launch *launch, const char *path)
{
    autofree_sockets char **sockets = launch_sockets(launch);
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

bool launch_judges_reads(const struct launch *launch)
{
    return hides_something(launch) && secrets_watch(&launch->fence);
}

bool launch_watches_reads(const struct launch *launch, const struct violations *violations)
{
    return launch_judges_reads(launch) ||
           (hides_something(launch) && !violations_ignored(violations, "deny read /"));
}

unsigned launch_syscalls(const struct launch *launch, bool watch_reads)
{
    const struct settings *settings = launch->settings;
    return (settings->network.allow_all_unix_sockets ? SYSCALLS_UNIX_SOCKETS : 0u) |
           (named_sockets(launch) ? SYSCALLS_NAMED_SOCKETS : 0u) |
           (named_datagrams(launch) ? SYSCALLS_NAMED_DATAGRAMS : 0u) |
           (watch_reads ? SYSCALLS_WATCH_READS : 0u) |
           (settings->allow_nested_user_namespaces ? SYSCALLS_NESTED_USERNS : 0u);
}

const char *launch_way_out_place(const struct launch *launch)
{
    return launch->way_out_is_socket ? ATTACH_SOCKET
           : launch->transparent     ? "127.0.0.1:3128 and every other TCP address"
                                     : "127.0.0.1:3128";
}

int launch_dry_run(const struct launch *launch)
{
    puts("mounts:\n  read-only / (everything that no line below changes)");
    for (size_t i = 0; i < launch->plan.count; i++) {
        const struct fence_step *step = &launch->plan.steps[i];
        printf("  %s %s (%s)\n", fence_act_word(step->act), step->path, step->setting);
    }
    if (launch->way_out_is_socket)
        puts("  own /run (--egress socket)");
    if (launch->transparent)
        puts("  own /etc/resolv.conf and /etc/hosts (--egress transparent)");
    puts("environment:");
    for (size_t i = 0; launch->env[i] != NULL; i++)
        printf("  %s\n", launch->env[i]);
    puts("refused system calls:");
    syscalls_print(launch_syscalls(launch, false), stdout);
    if (launch->gateway_socket == NULL && launch->way_out)
        printf("way out: %s, a private gateway\n", launch_way_out_place(launch));
    else if (launch->way_out_is_socket || launch->transparent)
        printf("way out: %s, %s\n", launch_way_out_place(launch), launch->gateway_socket);
    else
        printf("way out: %s\n", launch->way_out ? launch->gateway_socket : "none");
    for (size_t i = 0; i < launch->options.publish.count; i++)
        printf("published on loopback: port %u\n", launch->options.publish.ports[i].inside);
    return 0;
}

int launch_check_gateway(const struct launch *launch, struct srt_err *err)
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

int launch_explain_paths(const struct launch *launch)
{
    for (char **word = launch->options.rest; *word != NULL; word++)
        explain_path(launch, *word);
    return 0;
}

void launch_free(struct launch *launch)
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
