#include "config/settings.h"

#include "said.h"

#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

struct row {
    const char *text, *said;
};

/* Every row is refused with exactly these faults. */
static void refuse_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct faults faults = {0};
        struct settings *settings = settings_read_text("s.json", str_of(rows[i].text), &faults);
        assert_string_equal(said(&faults), rows[i].said);
        assert_null(settings);
    }
}

/* Every row is accepted and said so. */
static void note_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct faults faults = {0};
        struct settings *settings = settings_read_text("s.json", str_of(rows[i].text), &faults);
        assert_string_equal(said(&faults), rows[i].said);
        assert_non_null(settings);
        settings_free(settings);
    }
}

#define REFUSE(rows) refuse_rows(rows, sizeof(rows) / sizeof((rows)[0]))
#define NOTE(rows) note_rows(rows, sizeof(rows) / sizeof((rows)[0]))

static void assert_list(const struct settings_list *list, const char *const *texts)
{
    assert_true(list->present);
    size_t i = 0;
    for (; texts[i] != NULL; i++) {
        assert_true(i < list->count);
        assert_string_equal(list->items[i].text, texts[i]);
    }
    assert_int_equal(list->count, i);
}

#define ASSERT_LIST(list, ...) assert_list(list, (const char *const[]){__VA_ARGS__, NULL})

static void everything_that_is_done_is_read(void **state)
{
    (void)state;
    static const char text[] =
        "{\n"
        "  \"network\": {\n"
        "    \"allowedDomains\": [\"a.test\", \"*.b.test:8443\"],\n"
        "    \"deniedDomains\": [\"bad.b.test\"],\n"
        "    \"deniedDomainReasons\": {\"bad.b.test\": \"use good.b.test\"},\n"
        "    \"strictAllowlist\": true,\n"
        "    \"deniedResolvedAddresses\": [\"192.0.2.0/24\", \"2001:db8::1\"],\n"
        "    \"allowUnixSockets\": [\"/run/a.sock\"],\n"
        "    \"allowAllUnixSockets\": true\n"
        "  },\n"
        "  \"filesystem\": {\n"
        "    \"disabled\": false, \"allowGitConfig\": true,\n"
        "    \"denyRead\": [\"~/.ssh\", {\"path\": \"a[1]\", \"literal\": true}],\n"
        "    \"allowRead\": [\"~/.ssh/known_hosts\"], \"allowWrite\": [\".\"],\n"
        "    \"denyWrite\": [\".env\"]\n"
        "  },\n"
        "  \"credentials\": {\n"
        "    \"files\": [{\"path\": \"~/.netrc\", \"mode\": \"deny\"}],\n"
        "    \"envVars\": [{\"mode\": \"deny\", \"name\": \"API_TOKEN\"}]\n"
        "  },\n"
        "  \"ignoreViolations\": {\"*\": [\"/usr\"], \"npm\": []},\n"
        "  \"enableWeakerNestedSandbox\": true, \"allowNestedUserNamespaces\": true,\n"
        "  \"bwrapPath\": \"/usr/bin/bwrap\",\n"
        "  \"git\": {\"safeDirectories\": [\"/src\"]},\n"
        "  \"launch\": {\n"
        "    \"gateway\": \"unix:/run/g.sock\", \"policy\": \"build\", \"egress\": \"port\",\n"
        "    \"name\": \"n1\", \"violations\": \"v.jsonl\", \"envDeny\": [\"AWS_*\", \"X\"],\n"
        "    \"envAllow\": [\"PATH\"], \"protect\": [\"Makefile\"]\n"
        "  }\n"
        "}\n";
    struct faults faults = {0};
    struct settings *s = settings_read_text("s.json", str_of(text), &faults);
    assert_string_equal(said(&faults), "");
    assert_non_null(s);
    assert_string_equal(s->file, "s.json");
    assert_true(s->network.present);
    ASSERT_LIST(&s->network.allowed_domains, "a.test", "*.b.test:8443");
    assert_string_equal(s->network.allowed_domains.items[1].setting, "network.allowedDomains[1]");
    assert_int_equal(s->network.allowed_domains.items[1].line, 3);
    assert_int_equal(s->network.allowed_domains.items[1].column, 34);
    ASSERT_LIST(&s->network.denied_domains, "bad.b.test");
    assert_int_equal(s->network.reason_count, 1);
    assert_string_equal(s->network.reasons[0].pattern, "bad.b.test");
    assert_string_equal(s->network.reasons[0].reason, "use good.b.test");
    assert_true(s->network.strict_allowlist);
    ASSERT_LIST(&s->network.denied_resolved_addresses, "192.0.2.0/24", "2001:db8::1");
    ASSERT_LIST(&s->network.allow_unix_sockets, "/run/a.sock");
    assert_true(s->network.allow_all_unix_sockets);
    assert_false(s->filesystem.disabled);
    assert_true(s->filesystem.allow_git_config);
    ASSERT_LIST(&s->filesystem.deny_read, "~/.ssh", "a[1]");
    assert_false(s->filesystem.deny_read.items[0].literal);
    assert_true(s->filesystem.deny_read.items[1].literal);
    assert_string_equal(s->filesystem.deny_read.items[1].setting, "filesystem.denyRead[1]");
    ASSERT_LIST(&s->filesystem.allow_read, "~/.ssh/known_hosts");
    ASSERT_LIST(&s->filesystem.allow_write, ".");
    ASSERT_LIST(&s->filesystem.deny_write, ".env");
    ASSERT_LIST(&s->credential_files_deny, "~/.netrc");
    assert_string_equal(s->credential_files_deny.items[0].setting, "credentials.files[0]");
    ASSERT_LIST(&s->credential_env_deny, "API_TOKEN");
    assert_int_equal(s->ignore_violation_count, 2);
    assert_string_equal(s->ignore_violations[0].command, "*");
    ASSERT_LIST(&s->ignore_violations[0].texts, "/usr");
    assert_string_equal(s->ignore_violations[1].command, "npm");
    assert_true(s->enable_weaker_nested_sandbox);
    assert_true(s->allow_nested_user_namespaces);
    assert_string_equal(s->bwrap_path, "/usr/bin/bwrap");
    ASSERT_LIST(&s->git_safe_directories, "/src");
    assert_string_equal(s->launch.gateway, "unix:/run/g.sock");
    assert_string_equal(s->launch.policy, "build");
    assert_string_equal(s->launch.egress, "port");
    assert_string_equal(s->launch.name, "n1");
    assert_string_equal(s->launch.violations, "v.jsonl");
    ASSERT_LIST(&s->launch.env_deny, "AWS_*", "X");
    ASSERT_LIST(&s->launch.env_allow, "PATH");
    ASSERT_LIST(&s->launch.protect, "Makefile");
    assert_non_null(strstr(s->network_json, "\"allowedDomains\": [\"a.test\", \"*.b.test:8443\"],\n"
                                            "    \"deniedDomains\": [\"bad.b.test\"],"));
    settings_free(s);
}

/* P01: an absent or empty allow list allows nothing; it never means "no restriction". */
static void absence_is_kept_apart_from_emptiness_and_allows_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool network, list;
    } rows[] = {
        {"{}", false, false},
        {" {\"network\": {}} \n", true, false},
        {"{\"network\": {\"allowedDomains\": []}}", true, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct faults faults = {0};
        struct settings *s = settings_read_text("s.json", str_of(rows[i].text), &faults);
        assert_string_equal(said(&faults), "");
        assert_int_equal(s->network.present, rows[i].network);
        assert_int_equal(s->network.allowed_domains.present, rows[i].list);
        assert_int_equal(s->network.allowed_domains.count, 0);
        assert_int_equal(s->network_json != NULL, rows[i].network);
        settings_free(s);
    }
    struct settings *s = settings_default();
    assert_false(s->network.present);
    assert_int_equal(s->filesystem.allow_write.count, 0);
    settings_free(s);
}

/* C14: each corner of JSON has one outcome, and a place. */
static void what_is_not_json_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"", "s.json:1:1: is empty; no settings at all are {}"},
        {" \n\t\n", "s.json:1:1: is empty; no settings at all are {}"},
        {"\xef\xbb\xbf{}",
         "s.json:1:1: starts with a byte order mark; save it as UTF-8 without one"},
        {"{\n  \"network\": {},\n  \"network\": {}\n}",
         "s.json:3:3: is not valid JSON: duplicate object key near '\"network\"'"},
        {"{\"network\": {\"allowedDomains\": [\"a\"],\n \"allowedDomains\": []}}",
         "s.json:2:2: is not valid JSON: duplicate object key near '\"allowedDomains\"'"},
        {"{\"a\": 1,}", "s.json:1:9: is not valid JSON: string or '}' expected near '}'"},
        {"{} x", "s.json:1:4: is not valid JSON: end of file expected near 'x'"},
        {"{}\n{}", "s.json:2:1: is not valid JSON: end of file expected near '{'"},
        {"// c\n{}", "s.json:1:1: is not valid JSON: invalid token near '/'"},
        {"{\"bwrapPath\": 1e400}",
         "s.json:1:19: is not valid JSON: real number overflow near '1e400'"},
        {"{\"bwrapPath\": 99999999999999999999}",
         "s.json:1:34: is not valid JSON: too big integer near '99999999999999999999'"},
        {"{\"bwrapPath\": \"\\ud800\"}",
         "s.json:1:22: is not valid JSON: invalid Unicode '\\uD800' near '\"\\ud800\"'"},
        {"{\"bwrapPath\": \"/a\\u0000b\"}", "s.json:1:25: a string holds a NUL character"},
        {"{\"bwrapPath\": \"/a\xff\"}",
         "s.json:1:17: is not valid JSON: unable to decode byte 0xff near '\"/a'"},
        {"{\"bwrapPath\": \"/a\xc3\xa4\",\n \"x\"}",
         "s.json:2:5: is not valid JSON: ':' expected near '}'"},
        {"{\"bwrapPath\": NaN}", "s.json:1:17: is not valid JSON: invalid token near 'NaN'"},
        {"[]", "s.json:1:1: the whole must be an object, not an array"},
        {"{\"\": 1, \"\": 2}", "s.json:1:9: is not valid JSON: duplicate object key near '\"\"'"},
        {"{\"\u00e4\\\"\": 1, \"\u00e4\\\"\": 2}",
         "s.json:1:12: is not valid JSON: duplicate object key near '\"\u00e4\\\"\"'"},
        {"null", "s.json:1:1: the whole must be an object, not null"},
        {" \"x\"", "s.json:1:2: the whole must be an object, not a string"},
        {"3", "s.json:1:1: the whole must be an object, not a number"},
        {"{", "s.json:1:1: is not valid JSON: string or '}' expected near end of file"},
    };
    REFUSE(rows);
}

static void nul_bytes_are_refused(void **state)
{
    (void)state;
    static const char text[] = "{\"bwrapPath\": \"/a\0b\"}";
    struct faults faults = {0};
    assert_null(settings_read_text("s.json", (struct str){text, sizeof(text) - 1}, &faults));
    assert_non_null(strstr(said(&faults), "s.json:1:17: is not valid JSON"));
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    static const size_t depths[] = {64, 2000, 10000, 1000000};
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        char *text = malloc(depths[i] + 1);
        memset(text, '[', depths[i]);
        text[depths[i]] = '\0';
        struct faults faults = {0};
        assert_null(settings_read_text("s.json", str_of(text), &faults));
        assert_int_equal(faults.count, 1);
        faults_free(&faults);
        free(text);
    }
    char text[400] = "{\"windows\": {\"a\": ";
    size_t len = strlen(text);
    for (size_t i = 0; i < 63; i++)
        text[len + i] = '[', text[len + 63 + i] = ']';
    strcpy(text + len + 126, "}}");
    struct faults faults = {0};
    assert_null(settings_read_text("s.json", str_of(text), &faults));
    assert_string_equal(said(&faults), "s.json:1:81: is nested more than 64 levels deep");
}

/* C01: a misspelt restriction is a fault, not a restriction less. */
static void unknown_keys_are_refused_at_every_level(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{\"filesystem\": {\n  \"denyWriteTypo\": []}}",
         "s.json:2:3: unknown key filesystem.denyWriteTypo; did you mean denyWrite?"},
        {"{\"filesytem\": {}}", "s.json:1:2: unknown key filesytem; did you mean filesystem?"},
        {"{\"network\": {\"allowedDomain\": []}}",
         "s.json:1:14: unknown key network.allowedDomain; did you mean allowedDomains?"},
        {"{\"launch\": {\"polcy\": \"a\"}}",
         "s.json:1:13: unknown key launch.polcy; did you mean policy?"},
        {"{\"credentials\": {\"files\": [{\"path\": \"a\", \"mode\": \"deny\", \"zzz\": 1}]}}",
         "s.json:1:58: unknown key credentials.files[0].zzz"},
        {"{\"git\": {\"x\": 1}}", "s.json:1:10: unknown key git.x"},
        {"{\"filesystem\": {\"denyRead\": [{\"path\": \"a\", \"literal\": true, \"x\": 1}]}}",
         "s.json:1:61: unknown key filesystem.denyRead[0].x"},
        {"{\"a\\nb\": 1}", "s.json:1:2: unknown key a\\x0ab"},
        /* Both are told, and what is between them does not shift the places. */
        {"{\"aaaa\": [1, {\"b\": \"}]\\\"\"}],\n\"bbbb\": 2}",
         "s.json:1:2: unknown key aaaa\ns.json:2:1: unknown key bbbb"},
    };
    REFUSE(rows);
}

static void wrong_types_are_refused(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{\"network\": null}", "s.json:1:13: network must be an object, not null"},
        {"{\"network\": {\"allowedDomains\": null}}",
         "s.json:1:32: network.allowedDomains must be an array, not null"},
        {"{\"network\": {\"allowedDomains\": \"a.test\"}}",
         "s.json:1:32: network.allowedDomains must be an array, not a string"},
        {"{\"network\": {\"allowedDomains\": [\"a.test\",\n 7, \"\"]}}",
         "s.json:2:2: network.allowedDomains[1] must be a string, not a number\n"
         "s.json:2:5: network.allowedDomains[2] must not be empty"},
        {"{\"network\": {\"strictAllowlist\": 1}}",
         "s.json:1:33: network.strictAllowlist must be true or false, not a number"},
        {"{\"network\": {\"strictAllowlist\": \"true\"}}",
         "s.json:1:33: network.strictAllowlist must be true or false, not a string"},
        {"{\"network\": {\"deniedDomainReasons\": {\"a.test\": \"\"}}}",
         "s.json:1:48: network.deniedDomainReasons.a.test must not be empty"},
        {"{\"network\": {\"deniedDomainReasons\": []}}",
         "s.json:1:37: network.deniedDomainReasons must be an object, not an array"},
        {"{\"network\": {\"deniedResolvedAddresses\": [\"10.0.0.1/8\"]}}",
         "s.json:1:42: network.deniedResolvedAddresses[0]: `10.0.0.1/8` is not an address or a "
         "range ADDRESS/LEN without bits set behind its length"},
        {"{\"filesystem\": {\"denyRead\": [7]}}",
         "s.json:1:30: filesystem.denyRead[0] must be a path or {\"path\": PATH, \"literal\": "
         "true}, not a number"},
        {"{\"filesystem\": {\"denyRead\": [\"\"]}}",
         "s.json:1:30: filesystem.denyRead[0] must not be empty"},
        {"{\"filesystem\": {\"denyRead\": [{\"path\": \"a\"}]}}",
         "s.json:1:30: filesystem.denyRead[0] must have both path and literal"},
        {"{\"filesystem\": {\"denyRead\": [{\"path\": \"a\", \"literal\": false}]}}",
         "s.json:1:55: filesystem.denyRead[0].literal must be true, not false"},
        {"{\"bwrapPath\": \"bwrap\"}", "s.json:1:15: bwrapPath must be an absolute path"},
        {"{\"ignoreViolations\": {\"*\": \"x\"}}",
         "s.json:1:28: ignoreViolations.* must be an array, not a string"},
        {"{\"credentials\": {\"envVars\": [{\"name\": \"1A\", \"mode\": \"deny\"}]}}",
         "s.json:1:30: credentials.envVars[0].name: `1A` is not the name of a variable"},
        {"{\"credentials\": {\"files\": [{\"path\": \"a\", \"mode\": \"hide\"}]}}",
         "s.json:1:50: credentials.files[0].mode must be deny or mask, not `hide`"},
        {"{\"credentials\": {\"files\": [{\"path\": \"a\"}]}}",
         "s.json:1:28: credentials.files[0] must have both path and mode"},
        {"{\"launch\": {\"gateway\": \"http://x\"}}",
         "s.json:1:24: launch.gateway must be private or unix:/PATH, not `http://x`"},
        {"{\"launch\": {\"egress\": \"ports\"}}",
         "s.json:1:23: launch.egress must be port, transparent, socket or none, not `ports`"},
        {"{\"launch\": {\"envDeny\": [\"A*B\", \"A=B\"]}}",
         "s.json:1:25: launch.envDeny[0]: `A*B` is neither a variable's name nor PREFIX*\n"
         "s.json:1:32: launch.envDeny[1]: `A=B` is neither a variable's name nor PREFIX*"},
        {"{\"launch\": {\"name\": \"\"}}", "s.json:1:21: launch.name must not be empty"},
        {"{\"mandatoryDenySearchDepth\": 11}",
         "s.json:1:30: mandatoryDenySearchDepth must be a whole number from 1 to 10"},
        {"{\"network\": {\"parentProxy\": \"http://p.test\"}}",
         "s.json:1:29: network.parentProxy must be an object, not a string"},
        {"{\"network\": {\"parentProxy\": {\"http\": \"ftp://me:s3cret@p.test\"}}}",
         "s.json:1:38: network.parentProxy.http is not the address of a proxy: it has to be "
         "http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT"},
        {"{\"network\": {\"parentProxy\": {\"noproxy\": \"*\"}}}",
         "s.json:1:30: unknown key network.parentProxy.noproxy; did you mean noProxy?"},
        {"{\"allowPty\": \"yes\"}", "s.json:1:14: allowPty must be true or false, not a string"},
    };
    REFUSE(rows);
}

static void what_is_not_done_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "{\"network\": {\"httpProxyPort\": 8080}}",
        "{\"network\": {\"socksProxyPort\": 8080}}",
        "{\"network\": {\"mitmProxy\": {\"socketPath\": \"/a\", \"domains\": [\"a.test\"]}}}",
        "{\"network\": {\"filterRequest\": true}}",
        "{\"network\": {\"allowPlaintextHeaderSet\": true}}",
        "{\"network\": {\"stripResponseHeaders\": [\"x\"]}}",
        "{\"network\": {\"refuseOpaqueTunnels\": true}}",
        "{\"network\": {\"requireHostMatch\": true}}",
        "{\"network\": {\"ambiguousRequestTarget\": \"refuse\"}}",
        "{\"network\": {\"tlsTerminate\": {}}}",
        "{\"credentials\": {\"allowPlaintextInject\": true}}",
        "{\"credentials\": {\"awsPairs\": []}}",
        "{\"credentials\": {\"sigv4\": {}}}",
        "{\"credentials\": {\"files\": [{\"path\": \"a\", \"mode\": \"mask\"}]}}",
        ("{\"credentials\": {\"envVars\": [{\"name\": \"A\", \"mode\": \"deny\", \"extract\": "
         "\"(x)\"}]}}"),
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct faults faults = {0};
        assert_null(settings_read_text("s.json", str_of(keys[i]), &faults));
        assert_int_equal(faults.count, 1);
        assert_non_null(strstr(said(&faults), "asks for what this version does not do: "));
    }
    static const struct row rows[] = {
        {"{\"network\": {\"mitmProxy\": {}}}",
         "s.json:1:27: network.mitmProxy asks for what this version does not do: another proxy in "
         "place of the gateway; parentProxy names one that the gateway goes through"},
        {"{\"credentials\": {\"files\": [{\"path\": \"a\", \"mode\": \"mask\"}]}}",
         "s.json:1:50: credentials.files[0].mode = mask asks for what this version does not do: "
         "credentials are not masked, only denied"},
    };
    REFUSE(rows);
}

static void switches_that_are_off_ask_for_nothing(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{\"network\": {\"refuseOpaqueTunnels\": false, \"requireHostMatch\": false,"
         " \"allowPlaintextHeaderSet\": false, \"allowLocalBinding\": false}, \"allowPty\": false}",
         ""},
    };
    NOTE(rows);
}

static void keys_of_other_platforms_are_noted(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{\"network\": {\"allowMachLookup\": [\"com.apple.*\"]}}",
         "s.json:1:33: warning: network.allowMachLookup has no effect: it is for macOS"},
        {"{\"network\": {\"allowLocalBinding\": true}}",
         "s.json:1:35: warning: network.allowLocalBinding has no effect: the sandbox has a "
         "loopback of its own to bind to"},
        {"{\"allowAppleEvents\": true,\n\"enableWeakerNetworkIsolation\": true, \"allowPty\": "
         "true}",
         "s.json:1:22: warning: allowAppleEvents has no effect: it is for macOS\n"
         "s.json:2:33: warning: enableWeakerNetworkIsolation has no effect: it is for macOS\n"
         "s.json:2:51: warning: allowPty has no effect: it is for macOS"},
        {"{\"windows\": {\"anything\": [1, {}]}}",
         "s.json:1:13: warning: windows has no effect: it is for Windows"},
        {"{\"ripgrep\": {\"command\": \"rg\"}, \"socatPath\": \"/usr/bin/socat\"}",
         "s.json:1:13: warning: ripgrep has no effect: srt-launch builds the fence without it\n"
         "s.json:1:45: warning: socatPath has no effect: srt-launch builds the fence without it"},
        {"{\"mandatoryDenySearchDepth\": 3, \"seccomp\": {}}",
         "s.json:1:30: warning: mandatoryDenySearchDepth has no effect: names are protected at any "
         "depth\n"
         "s.json:1:44: warning: seccomp has no effect: srt-launch makes the system call filter "
         "itself"},
        {"{\"network\": {\"deniedDomainReasons\": {\"a.test\": \"no\"}, \"deniedDomains\": "
         "[\"b.test\"]}}",
         "s.json:1:13: warning: network.deniedDomainReasons has a reason for `a.test`, which is "
         "not in network.deniedDomains"},
    };
    NOTE(rows);
}

/* C02: what is named must be a readable regular file with settings in it. */
static void files_that_cannot_be_settings_are_refused(void **state)
{
    (void)state;
    char home[4096], directory[] = "/tmp/settings.XXXXXX";
    assert_non_null(getcwd(home, sizeof(home)));
    assert_non_null(mkdtemp(directory));
    assert_int_equal(chdir(directory), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    FILE *file = fopen("sealed", "w");
    fputs("{}", file);
    fclose(file);
    assert_int_equal(chmod("sealed", 0), 0);
    fclose(fopen("empty", "w"));

    static const struct row rows[] = {
        {"missing", "missing:1:1: No such file or directory"},
        {"fifo", "fifo:1:1: is empty; no settings at all are {}"},
        {".", ".:1:1: is a directory"},
        {"empty", "empty:1:1: is empty; no settings at all are {}"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct faults faults = {0};
        assert_null(settings_read(rows[i].text, &faults));
        assert_string_equal(said(&faults), rows[i].said);
    }
    /* Also for root, to whom the kernel would give it. */
    struct faults faults = {0};
    assert_null(settings_read("sealed", &faults));
    assert_string_equal(said(&faults), geteuid() == 0
                                           ? "sealed:1:1: nobody has permission to read it"
                                           : "sealed:1:1: Permission denied");
    assert_int_equal(chmod("sealed", 0400), 0);
    struct settings *settings = settings_read("sealed", &faults);
    assert_non_null(settings);
    settings_free(settings);
    assert_int_equal(unlink("fifo") | unlink("sealed") | unlink("empty"), 0);
    assert_int_equal(chdir(home), 0);
    assert_int_equal(rmdir(directory), 0);
}

static bool read_network(struct settings_network *out, const char *text, struct faults *faults)
{
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    const bool good = settings_network_read(out, "attach", json, faults);
    json_decref(json);
    return good;
}

static void a_network_object_is_read_alone(void **state)
{
    (void)state;
    struct settings_network network;
    struct faults faults = {0};
    assert_true(read_network(&network, "{\"allowedDomains\":[\"a.test\"]}", &faults));
    ASSERT_LIST(&network.allowed_domains, "a.test");
    assert_string_equal(network.allowed_domains.items[0].setting, "network.allowedDomains[0]");
    settings_network_free(&network);

    assert_false(read_network(&network, "{\"allowed\":[]}", &faults));
    assert_string_equal(said(&faults), "attach: unknown key network.allowed");
    assert_false(read_network(&network, "[]", &faults));
    assert_string_equal(said(&faults), "attach: network must be an object, not an array");
    assert_int_equal(network.allowed_domains.count, 0);
}

/* Without a text, every value has a number of its own all the same. */
static void the_values_of_a_network_object_are_told_apart(void **state)
{
    (void)state;
    struct settings_network network;
    struct faults faults = {0};
    assert_true(read_network(&network,
                             "{\"allowedDomains\":[\"a.test\",\"b.test\"],"
                             "\"deniedDomains\":[\"c.test\",\"d.test\"]}",
                             &faults));
    const struct settings_text *const items[] = {
        &network.allowed_domains.items[0], &network.allowed_domains.items[1],
        &network.denied_domains.items[0], &network.denied_domains.items[1]};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(items[i]->line, 0);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(items[i]->column, items[j]->column);
    }
    settings_network_free(&network);
}

/* The launcher sends on what stands in the file. */
static void the_network_object_is_kept_as_it_is_written(void **state)
{
    (void)state;
    struct faults faults = {0};
    struct settings *settings = settings_read_text(
        "f",
        STR("{ \"launch\": {},\n\"network\" : { \"allowedDomains\" :\t[ \"\\u0061.test\" ] } \n}"),
        &faults);
    assert_non_null(settings);
    assert_string_equal(settings->network_json, "{ \"allowedDomains\" :\t[ \"\\u0061.test\" ] }");
    settings_free(settings);
}

/* Quotes, characters of several bytes and escapes before it do not shift a place. */
static void places_behind_strings_are_right(void **state)
{
    (void)state;
    struct faults faults = {0};
    assert_null(settings_read_text(
        "f", STR("{\"network\":{\"allowedDomains\":[\"\\\"\\\\\",\"ä€\",7]}}"), &faults));
    assert_string_equal(said(&faults),
                        "f:1:43: network.allowedDomains[2] must be a string, not a number");
}

/* jansson takes a number with a NUL behind it; the places would not go along. */
static void a_nul_byte_is_refused(void **state)
{
    (void)state;
    struct faults faults = {0};
    assert_null(settings_read_text("f", STR("{\"git\":7\0,\"network\":{\"x\":[1,2,3]}}"), &faults));
    assert_string_equal(said(&faults), "f:1:1: is not valid JSON: there is a NUL byte in it");
}

static void hostile_sizes_are_bounded(void **state)
{
    (void)state;
    enum { COUNT = SETTINGS_VALUES_MAX };
    char *text = malloc(COUNT * 4 + 64);
    char *to = text + sprintf(text, "{\"network\":{\"allowedDomains\":[");
    for (int i = 0; i < COUNT; i++)
        to += sprintf(to, "\"a\",");
    sprintf(to, "\"a\"]}}");
    struct faults faults = {0};
    assert_null(settings_read_text("f", str_of(text), &faults));
    assert_string_equal(said(&faults),
                        "f:1:1: is larger than 8388608 bytes or has more than 200000 values");
    free(text);
}

/* docs/settings.md: every example in it is accepted without a word. */
static void the_examples_of_the_documentation_are_settings(void **state)
{
    (void)state;
    char *page = NULL;
    size_t size = 0, count = 0;
    FILE *file = fopen("../docs/settings.md", "r");
    assert_non_null(file);
    assert_true(getdelim(&page, &size, '\0', file) > 0);
    fclose(file);
    for (const char *at = page, *end; (at = strstr(at, "```json\n")) != NULL; at = end) {
        at += strlen("```json\n");
        end = strstr(at, "\n```");
        assert_non_null(end);
        struct faults faults = {0};
        struct settings *settings =
            settings_read_text("example", (struct str){at, (size_t)(end - at)}, &faults);
        assert_string_equal(said(&faults), "");
        settings_free(settings);
        count++;
    }
    assert_int_equal(count, 2);
    free(page);
}

/* What the documentation says of a key and what is done with it: one row a key. */
static void the_documentation_knows_every_key(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "allowedDomains",
        "deniedDomains",
        "deniedDomainReasons",
        "strictAllowlist",
        "deniedResolvedAddresses",
        "allowUnixSockets",
        "allowAllUnixSockets",
        "allowLocalBinding",
        "allowMachLookup",
        "httpProxyPort",
        "socksProxyPort",
        "mitmProxy",
        "filterRequest",
        "allowPlaintextHeaderSet",
        "stripResponseHeaders",
        "refuseOpaqueTunnels",
        "requireHostMatch",
        "ambiguousRequestTarget",
        "tlsTerminate",
        "parentProxy",
        "disabled",
        "denyRead",
        "allowRead",
        "allowWrite",
        "denyWrite",
        "allowGitConfig",
        "files",
        "envVars",
        "extract",
        "onExtractNoMatch",
        "decode",
        "maskClaims",
        "maskDuplicates",
        "injectHosts",
        "allowPlaintextInject",
        "awsPairs",
        "sigv4",
        "ignoreViolations",
        "enableWeakerNestedSandbox",
        "allowNestedUserNamespaces",
        "enableWeakerNetworkIsolation",
        "allowAppleEvents",
        "allowPty",
        "ripgrep",
        "mandatoryDenySearchDepth",
        "seccomp",
        "bwrapPath",
        "socatPath",
        "javaAgentJarPath",
        "git",
        "windows",
        "launch",
        "gateway",
        "policy",
        "egress",
        "name",
        "violations",
        "envDeny",
        "envAllow",
        "protect",
    };
    char *page = NULL;
    size_t size = 0;
    FILE *file = fopen("../docs/settings.md", "r");
    assert_non_null(file);
    assert_true(getdelim(&page, &size, '\0', file) > 0);
    fclose(file);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char word[64];
        snprintf(word, sizeof(word), "`%s`", keys[i]);
        if (strstr(page, word) == NULL)
            fail_msg("docs/settings.md does not say what is done with %s", word);
    }
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_that_is_done_is_read),
        cmocka_unit_test(absence_is_kept_apart_from_emptiness_and_allows_nothing),
        cmocka_unit_test(what_is_not_json_is_refused_with_its_place),
        cmocka_unit_test(nul_bytes_are_refused),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(unknown_keys_are_refused_at_every_level),
        cmocka_unit_test(wrong_types_are_refused),
        cmocka_unit_test(what_is_not_done_is_refused_by_name),
        cmocka_unit_test(switches_that_are_off_ask_for_nothing),
        cmocka_unit_test(keys_of_other_platforms_are_noted),
        cmocka_unit_test(files_that_cannot_be_settings_are_refused),
        cmocka_unit_test(a_network_object_is_read_alone),
        cmocka_unit_test(the_values_of_a_network_object_are_told_apart),
        cmocka_unit_test(the_network_object_is_kept_as_it_is_written),
        cmocka_unit_test(places_behind_strings_are_right),
        cmocka_unit_test(a_nul_byte_is_refused),
        cmocka_unit_test(hostile_sizes_are_bounded),
        cmocka_unit_test(the_examples_of_the_documentation_are_settings),
        cmocka_unit_test(the_documentation_knows_every_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
