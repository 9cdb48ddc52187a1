#include "launcher/environ.h"

#include "dns/addr.h"
#include "srt/attach.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

/* Of the host and meaningless inside, or about descriptors that are closed. The proxies that tools
 * have names of their own for beat those above, and lead to where nobody inside can go. In any case
 * of letters: npm does not tell them apart. */
static const char *const dropped[] = {
    "NO_PROXY",
    "npm_config_proxy",
    "npm_config_http_proxy",
    "npm_config_https_proxy",
    "npm_config_noproxy",
    "PIP_PROXY",
    "CARGO_HTTP_PROXY",
    "GLOBAL_AGENT_HTTP_PROXY",
    "GLOBAL_AGENT_HTTPS_PROXY",
    "GLOBAL_AGENT_NO_PROXY",
    "NO_GRPC_PROXY",
    "SRT_GATEWAY",
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "SRT_EGRESS_SOCKET",
};

/* What a JVM or its build tool reads after JAVA_TOOL_OPTIONS, or as its command line. */
static const char *const java_options[] = {"_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_OPTS",
                                           "MAVEN_OPTS",    "GRADLE_OPTS",      "SBT_OPTS"};

struct env {
    char **items;
    size_t count, capacity;
};

static bool has_name(const char *item, const char *name)
{
    size_t len = strlen(name);
    return strncmp(item, name, len) == 0 && item[len] == '=';
}

/* The same, whatever the case of its letters. */
static bool is_named(const char *item, const char *name)
{
    size_t len = strlen(name);
    return strncasecmp(item, name, len) == 0 && item[len] == '=';
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
        if (is_named(item, dropped[i]))
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

/* RFC 6761 6.3. What the other labels are is the gateway's to judge, whose libidn2 need not be
 * loaded at every start for this. */
static bool last_label_is_localhost(struct str host)
{
    if (host.len > 0 && host.p[host.len - 1] == '.')
        host.len--;
    const char *dot = memrchr(host.p, '.', host.len);
    const struct str label = dot != NULL ? str_from(host, (size_t)(dot + 1 - host.p)) : host;
    return str_ieq(label, str_of("localhost"));
}

/* The host part of an allow entry: before the port, without brackets. `*.localhost` is loopback as
 * well as `localhost`, and so is every spelling of these. */
static bool entry_is_loopback(const char *entry)
{
    struct addr addr;
    const bool bracket = entry[0] == '[';
    const bool wildcard = strncmp(entry, "*.", 2) == 0;
    const char *from = entry + (bracket ? 1 : wildcard ? 2 : 0);
    const struct str host = {from, strcspn(from, bracket ? "]" : ":")};
    if (addr_parse(&addr, host))
        return addr_is_loopback(&addr);
    return last_label_is_localhost(host);
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

/* Behind what stands there: of two values for a property the later one counts. */
static void add_options(struct env *env, const char *name, const char *options)
{
    const char *given = find(env, name);
    const bool some = given != NULL && given[0] != '\0';
    autofree char *both = must_format("%s%s%s", some ? given : "", some ? " " : "", options);
    set(env, name, both);
}

static void add_java(struct env *env, bool inside)
{
    autofree char *options =
        must_format("-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=" PORT_TEXT
                    " -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=" PORT_TEXT
                    " -Dhttp.nonProxyHosts=%s -Daether.connector.http.useSystemProperties=true",
                    inside ? "localhost|127.*|[::1]" : "");
    add_options(env, "JAVA_TOOL_OPTIONS", options);
    for (size_t i = 0; i < sizeof(java_options) / sizeof(java_options[0]); i++) {
        const char *given = find(env, java_options[i]);
        if (given != NULL && strstr(given, "proxyHost") != NULL)
            add_options(env, java_options[i], options);
    }
}

/* JVMs do not look at TMPDIR, and /tmp, where they go, is seldom writable inside. A user's own
 * choice is kept. In quotes that the JVM takes off. */
static void add_java_tmpdir(struct env *env, const char *tmpdir)
{
    const char *given = find(env, "JAVA_TOOL_OPTIONS");
    if (strcmp(tmpdir, "/tmp") == 0 || strchr(tmpdir, '\'') != NULL ||
        (given != NULL && strstr(given, "java.io.tmpdir") != NULL))
        return;
    const char *quote = strpbrk(tmpdir, " \t\n\"") != NULL ? "'" : "";
    autofree char *option = must_format("-Djava.io.tmpdir=%s%s%s", quote, tmpdir, quote);
    add_options(env, "JAVA_TOOL_OPTIONS", option);
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

static void add_proxies(struct env *env, const struct settings *settings,
                        const struct environ_options *options)
{
    for (size_t i = 0; i < sizeof(proxies) / sizeof(proxies[0]); i++)
        set(env, proxies[i].name, proxies[i].value);
    bool inside = loopback_is_inside(settings);
    set(env, "NO_PROXY", inside ? loopback_names : "");
    set(env, "no_proxy", inside ? loopback_names : "");
    add_java(env, inside);
    add_git_ssh(env, options->connect_prog);
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
    if (options->proxy)
        add_proxies(&env, settings, options);
    if (options->tmpdir != NULL)
        add_java_tmpdir(&env, options->tmpdir);
    return env.items;
}

void environ_free(char **env)
{
    for (size_t i = 0; env != NULL && env[i] != NULL; i++)
        free(env[i]);
    free(env);
}
