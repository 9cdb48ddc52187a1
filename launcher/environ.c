#include "launcher/environ.h"

#include "srt/attach.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <stdlib.h>
#include <string.h>

enum { SAFE_DIRECTORIES_MAX = 8 };

#define PORT_TEXT "3128"
#define PROXY_URL "http://127.0.0.1:" PORT_TEXT
_Static_assert(ATTACH_PORT == 3128, "PORT_TEXT says the same");

static const char loopback_names[] = "localhost,127.0.0.1,::1";

/* Every tool has its own name for the same thing. All of them get HTTP: a SOCKS URL breaks Python
 * tools that lack an extra package, and no credentials are needed, as the listener is the identity.
 */
static const struct {
    const char *name, *value;
} proxies[] = {
    {"HTTP_PROXY", PROXY_URL},
    {"HTTPS_PROXY", PROXY_URL},
    {"ALL_PROXY", PROXY_URL},
    {"FTP_PROXY", PROXY_URL},
    {"http_proxy", PROXY_URL},
    {"https_proxy", PROXY_URL},
    {"all_proxy", PROXY_URL},
    {"ftp_proxy", PROXY_URL},
    {"GRPC_PROXY", PROXY_URL},
    {"grpc_proxy", PROXY_URL},
    {"DOCKER_HTTP_PROXY", PROXY_URL},
    {"DOCKER_HTTPS_PROXY", PROXY_URL},
    {"YARN_HTTP_PROXY", PROXY_URL},
    {"YARN_HTTPS_PROXY", PROXY_URL},
    {"RSYNC_PROXY", "127.0.0.1:" PORT_TEXT},
    {"CLOUDSDK_PROXY_TYPE", "http"},
    {"CLOUDSDK_PROXY_ADDRESS", "127.0.0.1"},
    {"CLOUDSDK_PROXY_PORT", PORT_TEXT},
    {"NODE_USE_ENV_PROXY", "1"},
    {"ELECTRON_GET_USE_PROXY", "1"},
};

/* Of the host and meaningless inside, or about descriptors that are closed. */
static const char *const dropped[] = {"NO_PROXY",       "no_proxy",         "SRT_GATEWAY",
                                      "NOTIFY_SOCKET",  "LISTEN_FDS",       "LISTEN_PID",
                                      "LISTEN_FDNAMES", "SRT_EGRESS_SOCKET"};

struct env {
    char **items;
    size_t count, capacity;
};

static bool has_name(const char *item, const char *name)
{
    size_t len = strlen(name);
    return strncmp(item, name, len) == 0 && item[len] == '=';
}

static char *find(const struct env *env, const char *name)
{
    for (size_t i = 0; i < env->count; i++)
        if (has_name(env->items[i], name))
            return env->items[i] + strlen(name) + 1;
    return NULL;
}

static void append(struct env *env, char *item)
{
    if (env->count + 1 >= env->capacity) {
        env->capacity = env->capacity == 0 ? 64 : 2 * env->capacity;
        env->items = must(reallocarray(env->items, env->capacity, sizeof(char *)));
    }
    env->items[env->count++] = item;
    env->items[env->count] = NULL;
}

static void set(struct env *env, const char *name, const char *value)
{
    char *item = must_format("%s=%s", name, value);
    for (size_t i = 0; i < env->count; i++) {
        if (has_name(env->items[i], name)) {
            free(env->items[i]);
            env->items[i] = item;
            return;
        }
    }
    append(env, item);
}

/* NAME or PREFIX*, against the name of NAME=value. */
static bool pattern_covers(const char *pattern, const char *item)
{
    size_t len = strlen(pattern);
    if (len > 0 && pattern[len - 1] == '*')
        return strncmp(item, pattern, len - 1) == 0;
    return has_name(item, pattern);
}

static bool list_covers(const struct settings_list *list, const char *item)
{
    for (size_t i = 0; i < list->count; i++)
        if (pattern_covers(list->items[i].text, item))
            return true;
    return false;
}

static bool passes(const char *item, const struct settings *settings)
{
    for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
        if (has_name(item, dropped[i]))
            return false;
    for (size_t i = 0; i < sizeof(proxies) / sizeof(proxies[0]); i++)
        if (has_name(item, proxies[i].name))
            return false;
    const struct settings_launch *launch = &settings->launch;
    if (launch->env_allow.present && !list_covers(&launch->env_allow, item))
        return false;
    return !list_covers(&launch->env_deny, item) &&
           !list_covers(&settings->credential_env_deny, item);
}

/* The host part of an allow entry: before the port, without brackets. */
static bool entry_is_loopback(const char *entry)
{
    if (strncmp(entry, "127.", 4) == 0 || strncmp(entry, "[::1]", 5) == 0)
        return true;
    size_t len = strcspn(entry, ":");
    struct str host = {entry, len};
    return str_ieq(host, STR("localhost")) ||
           (len > 10 && str_ieq(str_from(host, len - 10), STR(".localhost")));
}

/* A client told to go straight to loopback would never reach a loopback service of the host that
 * the settings allow: then everything goes through the gateway. */
static bool loopback_is_inside(const struct settings *settings)
{
    const struct settings_list *allowed = &settings->network.allowed_domains;
    for (size_t i = 0; i < allowed->count; i++)
        if (entry_is_loopback(allowed->items[i].text))
            return false;
    return true;
}

static void add_java(struct env *env, bool inside)
{
    const char *given = find(env, "JAVA_TOOL_OPTIONS");
    autofree char *options =
        must_format("%s%s-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=" PORT_TEXT
                    " -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=" PORT_TEXT
                    " -Dhttp.nonProxyHosts=%s -Daether.connector.http.useSystemProperties=true",
                    given != NULL ? given : "", given != NULL && given[0] != '\0' ? " " : "",
                    inside ? "localhost|127.*|[::1]" : "");
    set(env, "JAVA_TOOL_OPTIONS", options);
}

/* One word of a shell command. `percent`: ssh, too, looks for its signs in it. */
static char *shell_quote(const char *text, bool percent)
{
    char *out = must(malloc(strlen(text) * 4 + 3)), *to = out;
    *to++ = '\'';
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            to = stpcpy(to, "'\\'");
        if (*text == '%' && percent)
            *to++ = '%';
        *to++ = *text;
    }
    *to++ = '\'';
    *to = '\0';
    return out;
}

/* The program's path goes through git's shell, then through ssh, whose options are lines, then
 * through ssh's shell. */
static void add_git_ssh(struct env *env, const char *program)
{
    if (program == NULL || strpbrk(program, "\r\n") != NULL ||
        find(env, "GIT_SSH_COMMAND") != NULL || find(env, "GIT_SSH") != NULL)
        return;
    autofree char *path = shell_quote(program, true);
    autofree char *option = must_format("ProxyCommand=%s connect %%h %%p", path);
    autofree char *word = shell_quote(option, false);
    autofree char *command = must_format("ssh -o ControlMaster=no -o ControlPath=none -o %s", word);
    set(env, "GIT_SSH_COMMAND", command);
}

static void add_git_config(struct env *env, unsigned *count, const char *key, const char *value)
{
    char name[32];
    snprintf(name, sizeof(name), "GIT_CONFIG_KEY_%u", *count);
    set(env, name, key);
    snprintf(name, sizeof(name), "GIT_CONFIG_VALUE_%u", *count);
    set(env, name, value);
    (*count)++;
}

static void add_safe_directories(struct env *env, const struct settings_list *list)
{
    if (list->count == 0)
        return;
    const char *given = find(env, "GIT_CONFIG_COUNT");
    unsigned count = given != NULL ? (unsigned)strtoul(given, NULL, 10) : 0;
    if (list->count > SAFE_DIRECTORIES_MAX)
        add_git_config(env, &count, "safe.directory", "*");
    for (size_t i = 0; i < list->count && list->count <= SAFE_DIRECTORIES_MAX; i++) {
        autofree char *below = must_format("%s/*", list->items[i].text);
        add_git_config(env, &count, "safe.directory", list->items[i].text);
        add_git_config(env, &count, "safe.directory", below);
    }
    char text[16];
    snprintf(text, sizeof(text), "%u", count);
    set(env, "GIT_CONFIG_COUNT", text);
}

char **environ_build(char *const *from, const struct settings *settings,
                     const struct environ_options *options)
{
    struct env env = {0};
    for (size_t i = 0; from[i] != NULL; i++)
        if (passes(from[i], settings))
            append(&env, must_copy(from[i]));
    set(&env, "SANDBOX_RUNTIME", "1");
    if (options->tmpdir != NULL) {
        set(&env, "TMPDIR", options->tmpdir);
        set(&env, "TMP", options->tmpdir);
        set(&env, "TEMP", options->tmpdir);
    }
    add_safe_directories(&env, &settings->git_safe_directories);
    if (options->socket) {
        set(&env, "SRT_EGRESS_SOCKET", ATTACH_SOCKET);
        add_git_ssh(&env, options->connect_prog);
    }
    if (!options->proxy)
        return env.items;

    for (size_t i = 0; i < sizeof(proxies) / sizeof(proxies[0]); i++)
        set(&env, proxies[i].name, proxies[i].value);
    bool inside = loopback_is_inside(settings);
    set(&env, "NO_PROXY", inside ? loopback_names : "");
    set(&env, "no_proxy", inside ? loopback_names : "");
    add_java(&env, inside);
    add_git_ssh(&env, options->connect_prog);
    return env.items;
}

void environ_free(char **env)
{
    for (size_t i = 0; env != NULL && env[i] != NULL; i++)
        free(env[i]);
    free(env);
}
