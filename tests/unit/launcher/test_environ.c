#include "launcher/environ.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static char **env;

static const char *value_of(const char *name)
{
    const char *found = NULL;
    size_t len = strlen(name);
    for (size_t i = 0; env[i] != NULL; i++) {
        if (strncmp(env[i], name, len) == 0 && env[i][len] == '=') {
            assert_null(found); /* a name appears once */
            found = env[i] + len + 1;
        }
    }
    return found;
}

static void build(const char *const *from, const char *settings_text,
                  struct environ_options options)
{
    struct faults faults = {0};
    struct settings *settings = settings_text == NULL
                                    ? settings_default()
                                    : settings_read_text("s", str_of(settings_text), &faults);
    assert_non_null(settings);
    assert_int_equal(faults.errors, 0);
    environ_free(env);
    env = environ_build((char *const *)(uintptr_t)from, settings, &options);
    settings_free(settings);
    faults_free(&faults);
}

#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NETWORK(names)                                                    \
    "{\"network\":{\"allowedDomains\":[" names "],\"deniedDomains\":[]}," \
    "\"filesystem\":{\"denyRead\":[],\"allowWrite\":[],\"denyWrite\":[]}"

static void test_what_the_caller_has_passes_through(void **state)
{
    (void)state;
    build(ENV("HOME=/h", "ODD", "EMPTY=", "A=1"), NULL, (struct environ_options){0});
    assert_string_equal(value_of("HOME"), "/h");
    assert_string_equal(value_of("EMPTY"), "");
    assert_string_equal(value_of("SANDBOX_RUNTIME"), "1");
    assert_null(value_of("TMPDIR"));
}

static void test_a_socket_has_a_variable_of_its_own(void **state)
{
    (void)state;
    build(ENV("SRT_EGRESS_SOCKET=/elsewhere", "HTTP_PROXY=http://corp:1"), NULL,
          (struct environ_options){.socket = true, .connect_prog = "/usr/bin/srt-launch"});
    assert_string_equal(value_of("SRT_EGRESS_SOCKET"), "/run/srt/egress.sock");
    assert_null(value_of("HTTP_PROXY"));
    assert_non_null(value_of("GIT_SSH_COMMAND"));
    build(ENV("SRT_EGRESS_SOCKET=/elsewhere"), NULL, (struct environ_options){.proxy = true});
    assert_null(value_of("SRT_EGRESS_SOCKET"));
}

static void test_proxies_of_the_host_never_stay(void **state)
{
    (void)state;
    static const char *const host[] = {"http_proxy=http://corp:1",
                                       "HTTPS_PROXY=http://corp:1",
                                       "NO_PROXY=*",
                                       "no_proxy=*",
                                       "ALL_PROXY=socks5://corp:1",
                                       NULL};
    build(host, NULL, (struct environ_options){0});
    assert_null(value_of("http_proxy"));
    assert_null(value_of("HTTPS_PROXY"));
    assert_null(value_of("ALL_PROXY"));
    assert_null(value_of("NO_PROXY"));
    build(host, NULL, (struct environ_options){.proxy = true});
    assert_string_equal(value_of("http_proxy"), "http://127.0.0.1:3128");
    assert_string_equal(value_of("ALL_PROXY"), "http://127.0.0.1:3128");
    assert_string_equal(value_of("NO_PROXY"), "localhost,127.0.0.1,::1");
}

static void test_what_tools_have_of_their_own_does_not_beat_it(void **state)
{
    (void)state;
    build(ENV("npm_config_https_proxy=http://corp:1", "NPM_CONFIG_PROXY=http://corp:1",
              "npm_config_noproxy=x", "PIP_PROXY=http://corp:1",
              "GLOBAL_AGENT_HTTP_PROXY=http://corp:1", "CARGO_HTTP_PROXY=corp:1",
              "GOPROXY=https://proxy.golang.test", "GONOPROXY=none",
              "_JAVA_OPTIONS=-Dhttp.proxyHost=corp", "MAVEN_OPTS=-Xmx1g",
              "GRADLE_OPTS=-Xmx1g -Dhttps.proxyHost=corp"),
          NULL, (struct environ_options){.proxy = true});
    static const char *const gone[] = {"npm_config_https_proxy",  "NPM_CONFIG_PROXY",
                                       "npm_config_noproxy",      "PIP_PROXY",
                                       "GLOBAL_AGENT_HTTP_PROXY", "CARGO_HTTP_PROXY"};
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
        assert_null(value_of(gone[i]));
    /* Where Go's modules are fetched from is no proxy. */
    assert_string_equal(value_of("GOPROXY"), "https://proxy.golang.test");
    assert_string_equal(value_of("GONOPROXY"), "none");
    assert_string_equal(value_of("MAVEN_OPTS"), "-Xmx1g");
    const char *ours = strstr(value_of("_JAVA_OPTIONS"), " -Dhttp.proxyHost=127.0.0.1 ");
    assert_non_null(ours);
    assert_string_equal(strstr(value_of("GRADLE_OPTS"), " -Dhttp.proxyHost=127.0.0.1 "), ours);
    assert_ptr_equal(strstr(value_of("GRADLE_OPTS"), "-Xmx1g -Dhttps.proxyHost=corp "),
                     value_of("GRADLE_OPTS"));
}

static void test_java_hears_of_the_temporary_directory(void **state)
{
    (void)state;
    static const struct {
        const char *given, *tmpdir, *options;
    } rows[] = {
        {"A=1", "/dev/shm/tmp", "-Djava.io.tmpdir=/dev/shm/tmp"},
        {"JAVA_TOOL_OPTIONS=-Dmine=1", "/w/t", "-Dmine=1 -Djava.io.tmpdir=/w/t"},
        {"JAVA_TOOL_OPTIONS=-Djava.io.tmpdir=/mine", "/w/t", "-Djava.io.tmpdir=/mine"},
        {"A=1", "/w/my files", "-Djava.io.tmpdir='/w/my files'"},
        {"A=1", "/tmp", NULL},
        {"A=1", "/w/it's", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        build(ENV(rows[i].given), NULL, (struct environ_options){.tmpdir = rows[i].tmpdir});
        if (rows[i].options != NULL)
            assert_string_equal(value_of("JAVA_TOOL_OPTIONS"), rows[i].options);
        else
            assert_null(value_of("JAVA_TOOL_OPTIONS"));
    }
    build(ENV("A=1"), NULL, (struct environ_options){.tmpdir = "/w/t", .proxy = true});
    assert_non_null(strstr(value_of("JAVA_TOOL_OPTIONS"), " -Djava.io.tmpdir=/w/t"));
    assert_non_null(strstr(value_of("JAVA_TOOL_OPTIONS"), "-Dhttp.proxyHost=127.0.0.1 "));
}

static void test_allowed_loopback_goes_through_the_gateway(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        bool inside;
    } rows[] = {
        {NETWORK("\"a.test\"") "}", true},
        {NETWORK("\"localhost\"") "}", false},
        {NETWORK("\"127.0.0.1:80\"") "}", false},
        {NETWORK("\"127.0.0.2\"") "}", false},
        {NETWORK("\"[::1]:80\"") "}", false},
        {NETWORK("\"x.localhost\"") "}", false},
        {NETWORK("\"localhost:3000\"") "}", false},
        {NETWORK("\"localhost.test\"") "}", true},
        {NETWORK("\"LocalHost.:1\"") "}", false},
        {NETWORK("\"*.localhost\"") "}", false},
        {NETWORK("\"[0:0::1]:80\"") "}", false},
        {NETWORK("\"[::ffff:127.0.0.1]\"") "}", false},
        {NETWORK("\"[::2]:80\"") "}", true},
        {NETWORK("\"128.0.0.1\"") "}", true},
        {NETWORK("\"\xc3\xbc.localhost\"") "}", false},
        {NETWORK("\"notlocalhost\"") "}", true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        build(ENV("A=1"), rows[i].settings, (struct environ_options){.proxy = true});
        assert_string_equal(value_of("NO_PROXY"), rows[i].inside ? "localhost,127.0.0.1,::1" : "");
        assert_string_equal(value_of("no_proxy"), value_of("NO_PROXY"));
    }
}

static void test_denied_and_allowed_names(void **state)
{
    (void)state;
    const char *const *from = ENV("AWS_KEY=1", "AWS=2", "TOKEN=3", "TOKENS=4", "PATH=/bin");
    build(from, NETWORK("") ",\"launch\":{\"envDeny\":[\"AWS_*\",\"TOKEN\"]}}",
          (struct environ_options){0});
    assert_null(value_of("AWS_KEY"));
    assert_null(value_of("TOKEN"));
    assert_string_equal(value_of("AWS"), "2");
    assert_string_equal(value_of("TOKENS"), "4");
    build(from, NETWORK("") ",\"launch\":{\"envAllow\":[\"PATH\"]}}", (struct environ_options){0});
    assert_null(value_of("AWS"));
    assert_string_equal(value_of("PATH"), "/bin");
    build(from,
          NETWORK("") ",\"credentials\":{\"envVars\":[{\"name\":\"TOKEN\",\"mode\":\"deny\"}]}}",
          (struct environ_options){0});
    assert_null(value_of("TOKEN"));
}

static void test_values_of_the_user_are_extended_or_kept(void **state)
{
    (void)state;
    struct environ_options options = {.proxy = true, .connect_prog = "/usr/bin/srt-launch"};
    build(ENV("JAVA_TOOL_OPTIONS=-Xmx1g"), NULL, options);
    assert_non_null(strstr(value_of("JAVA_TOOL_OPTIONS"), "-Xmx1g -Dhttp.proxyHost=127.0.0.1"));
    assert_non_null(strstr(value_of("GIT_SSH_COMMAND"), "srt-launch'\\'' connect %h %p'"));
    build(ENV("GIT_SSH_COMMAND=mine"), NULL, options);
    assert_string_equal(value_of("GIT_SSH_COMMAND"), "mine");
    options.connect_prog = "/new\nline/srt-launch";
    build(ENV("A=1"), NULL, options);
    assert_null(value_of("GIT_SSH_COMMAND")); /* ssh reads its options by lines */
}

static void test_temporary_directory(void **state)
{
    (void)state;
    build(ENV("TMP=/x", "TMPDIR=/y"), NULL, (struct environ_options){.tmpdir = "/t"});
    assert_string_equal(value_of("TMPDIR"), "/t");
    assert_string_equal(value_of("TMP"), "/t");
    assert_string_equal(value_of("TEMP"), "/t");
}

static void test_safe_directories_follow_what_is_configured(void **state)
{
    (void)state;
    build(ENV("GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=a.b", "GIT_CONFIG_VALUE_0=c"),
          NETWORK("") ",\"git\":{\"safeDirectories\":[\"/repo\"]}}", (struct environ_options){0});
    assert_string_equal(value_of("GIT_CONFIG_COUNT"), "3");
    assert_string_equal(value_of("GIT_CONFIG_KEY_1"), "safe.directory");
    assert_string_equal(value_of("GIT_CONFIG_VALUE_1"), "/repo");
    assert_string_equal(value_of("GIT_CONFIG_VALUE_2"), "/repo/*");
}

static int forget(void **state)
{
    (void)state;
    environ_free(env);
    env = NULL;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_caller_has_passes_through),
        cmocka_unit_test(test_a_socket_has_a_variable_of_its_own),
        cmocka_unit_test(test_proxies_of_the_host_never_stay),
        cmocka_unit_test(test_what_tools_have_of_their_own_does_not_beat_it),
        cmocka_unit_test(test_java_hears_of_the_temporary_directory),
        cmocka_unit_test(test_allowed_loopback_goes_through_the_gateway),
        cmocka_unit_test(test_denied_and_allowed_names),
        cmocka_unit_test(test_values_of_the_user_are_extended_or_kept),
        cmocka_unit_test(test_temporary_directory),
        cmocka_unit_test(test_safe_directories_follow_what_is_configured),
    };
    return cmocka_run_group_tests(tests, NULL, forget);
}
