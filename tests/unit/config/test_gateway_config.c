#include "config/gateway_config.h"

#include "files.h"
#include "said.h"

#include <inttypes.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct gateway_config *accept_text(const char *text)
{
    struct faults faults = {0};
    struct gateway_config *config = gateway_config_read_text("g.ini", str_of(text), &faults);
    assert_string_equal(said(&faults), "");
    assert_non_null(config);
    return config;
}

struct row {
    const char *text, *said;
};

static void refuse_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct faults faults = {0};
        struct gateway_config *config =
            gateway_config_read_text("g.ini", str_of(rows[i].text), &faults);
        assert_string_equal(said(&faults), rows[i].said);
        assert_null(config);
    }
}

#define REFUSE(rows) refuse_rows(rows, sizeof(rows) / sizeof((rows)[0]))

static void assert_list(const struct config_list *list, const char *const *texts)
{
    size_t i = 0;
    for (; texts[i] != NULL; i++) {
        assert_true(i < list->count);
        assert_true(str_eq(list->items[i].text, str_of(texts[i])));
    }
    assert_int_equal(list->count, i);
}

#define ASSERT_LIST(list, ...) assert_list(list, (const char *const[]){__VA_ARGS__, NULL})

static void every_key_of_the_gateway_is_read(void **state)
{
    (void)state;
    struct gateway_config *config = accept_text("[gateway]\n"
                                                "workers = 3\n"
                                                "audit-log = logs/audit.jsonl\n"
                                                "audit-format = squid\n"
                                                "audit-required = no\n"
                                                "control = /run/c.sock\n"
                                                "admin = unix:/run/a.sock\n"
                                                "admin = 127.0.0.1:9095\n"
                                                "  [::1]:9096\n"
                                                "  localhost:0\n"
                                                "header-timeout = 1s\n"
                                                "connect-timeout = 250ms\n"
                                                "idle-timeout = 1h\n"
                                                "tunnel-lifetime = 1d\n"
                                                "drain-timeout = 0\n"
                                                "max-connections = 5\n"
                                                "max-sandbox-connections = 3\n"
                                                "max-header-bytes = 16k\n"
                                                "reload-tunnels = keep\n"
                                                "[dns]\n"
                                                "servers = 10.0.0.2, [2001:db8::1]:5353 ::1\n"
                                                "hosts-file = none\n"
                                                "timeout = 500ms\n"
                                                "tries = 3\n"
                                                "cache-entries = 0\n"
                                                "min-ttl = 1s\n"
                                                "max-ttl = 1m\n"
                                                "negative-ttl = 0\n");
    assert_int_equal(config->workers, 3);
    assert_string_equal(config->audit_log, "logs/audit.jsonl");
    assert_int_equal(config->audit_format, AUDIT_SQUID);
    assert_false(config->audit_required);
    assert_string_equal(config->control.path, "/run/c.sock");
    assert_int_equal(config->admin_count, 4);
    assert_string_equal(config->admin[0].path, "/run/a.sock");
    assert_null(config->admin[1].path);
    assert_int_equal(config->admin[1].port, 9095);
    assert_int_equal(config->admin[2].addr.family, 6);
    assert_int_equal(config->admin[3].addr.bytes[0], 127);
    assert_int_equal(config->header_timeout_ms, 1000);
    assert_int_equal(config->connect_timeout_ms, 250);
    assert_int_equal(config->idle_timeout_ms, 3600 * 1000);
    assert_int_equal(config->tunnel_lifetime_ms, 24 * 3600 * 1000);
    assert_int_equal(config->drain_timeout_ms, 0);
    assert_int_equal(config->max_connections, 5);
    assert_int_equal(config->max_sandbox_connections, 3);
    assert_int_equal(config->max_header_bytes, 16384);
    assert_int_equal(config->reload_tunnels, RELOAD_KEEP);
    assert_string_equal(config->dns_servers, "10.0.0.2:53,[2001:db8::1]:5353,[::1]:53");
    assert_null(config->dns_hosts_file);
    assert_int_equal(config->dns_timeout_ms, 500);
    assert_int_equal(config->dns_tries, 3);
    assert_int_equal(config->dns_cache_entries, 0);
    assert_int_equal(config->dns_min_ttl_s, 1);
    assert_int_equal(config->dns_max_ttl_s, 60);
    assert_int_equal(config->dns_negative_ttl_s, 0);
    gateway_config_free(config);
}

static void what_is_not_set_has_its_default(void **state)
{
    (void)state;
    struct gateway_config *configs[] = {gateway_config_default(), accept_text("[gateway]\n")};
    for (size_t i = 0; i < 2; i++) {
        struct gateway_config *config = configs[i];
        assert_int_equal(config->workers, 0);
        assert_string_equal(config->audit_log, "stderr");
        assert_int_equal(config->audit_format, AUDIT_JSON);
        assert_true(config->audit_required);
        assert_null(config->control.path);
        assert_int_equal(config->admin_count, 0);
        assert_null(config->admin_token_file);
        assert_int_equal(config->header_timeout_ms, 10000);
        assert_int_equal(config->connect_timeout_ms, 10000);
        assert_int_equal(config->idle_timeout_ms, 900000);
        assert_int_equal(config->tunnel_lifetime_ms, 0);
        assert_int_equal(config->drain_timeout_ms, 30000);
        assert_int_equal(config->max_connections, 100000);
        assert_int_equal(config->max_sandbox_connections, 25000);
        assert_int_equal(config->max_header_bytes, 65536);
        assert_int_equal(config->reload_tunnels, RELOAD_RECHECK);
        assert_string_equal(config->dns_servers, "system");
        assert_string_equal(config->dns_hosts_file, "/etc/hosts");
        assert_int_equal(config->dns_timeout_ms, 2000);
        assert_int_equal(config->dns_tries, 2);
        assert_int_equal(config->dns_cache_entries, 10000);
        assert_int_equal(config->dns_min_ttl_s, 0);
        assert_int_equal(config->dns_max_ttl_s, 3600);
        assert_int_equal(config->dns_negative_ttl_s, 5);
        gateway_config_free(config);
    }
}

static void listeners_clients_policies_and_filters_are_read(void **state)
{
    (void)state;
    struct gateway_config *config = accept_text(
        "[listen tcp]\n"
        "address = [::1]:3128\n"
        "protocol = socks5\n"
        "proxy-protocol = yes\n"
        "[listen sock]\n"
        "address = unix:/run/l.sock\n"
        "mode = 600\n"
        "group = 0\n"
        "policy = build\n"
        "auth = token\n"
        "protocol = http\n"
        "[client a]\n"
        "policy = build\n"
        "token-sha256 = 9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08\n"
        "max-tunnels = 500\n"
        "connect-rate = 50/s\n"
        "bytes-up = 1g/h\n"
        "[client b]\n"
        "policy = base\n"
        "uid = 1001\n"
        "source = 10.1.0.0/16\n"
        "[policy base]\n"
        "allow = a.test\n"
        "[policy build]\n"
        "inherit = base, other\n"
        "mode = report\n"
        "default = ask\n"
        "allow = b.test\n"
        "deny = c.test\n"
        "allow = d.test:443 path=/x/* ; comment\n"
        "private-addresses = allow\n"
        "deny-addresses = 203.0.113.0/24, 2001:db8::/32\n"
        "allow-addresses = 127.0.0.2/32 127.0.0.3\n"
        "sni = off\n"
        "filters = f, g\n"
        "docs = https://wiki.test/egress#top\n"
        "[policy other]\n"
        "[filter f]\n"
        "module = http-guard\n"
        "own = 1\n"
        "own = 2\n"
        "[filter g]\n"
        "module = unix:/run/f.sock\n"
        "timeout = 3s\n");
    assert_int_equal(config->listen_count, 2);
    const struct config_listen *tcp = &config->listens[0], *sock = &config->listens[1];
    assert_string_equal(tcp->name, "tcp");
    assert_int_equal(tcp->place.line, 1);
    assert_int_equal(tcp->address.addr.family, 6);
    assert_int_equal(tcp->address.port, 3128);
    assert_int_equal(tcp->protocol, PROTOCOL_SOCKS5);
    assert_true(tcp->proxy_protocol);
    assert_null(tcp->policy);
    assert_int_equal(tcp->mode, 0660);
    assert_string_equal(sock->address.path, "/run/l.sock");
    assert_int_equal(sock->mode, 0600);
    assert_string_equal(sock->group, "0");
    assert_string_equal(sock->policy, "build");
    assert_int_equal(sock->auth, AUTH_TOKEN);
    assert_int_equal(sock->protocol, PROTOCOL_HTTP);

    assert_int_equal(config->client_count, 2);
    const struct config_client *a = &config->clients[0], *b = &config->clients[1];
    assert_true(a->has_token && !a->has_uid && !a->has_source);
    assert_memory_equal(a->token_sha256, "\x9f\x86\xd0\x81", 4);
    assert_int_equal(a->max_tunnels, 500);
    assert_int_equal(a->connect_rate.count, 50);
    assert_int_equal(a->connect_rate.per_ms, 1000);
    assert_int_equal(a->bytes_up.count, 1 << 30);
    assert_int_equal(a->bytes_up.per_ms, 3600 * 1000);
    assert_true(!b->has_token && b->has_uid && b->has_source);
    assert_int_equal(b->uid, 1001);
    assert_int_equal(b->source.len, 16);
    assert_int_equal(b->max_tunnels, 0);

    assert_int_equal(config->policy_count, 3);
    const struct config_policy *policy = &config->policies[1];
    ASSERT_LIST(&policy->inherit, "base", "other");
    assert_true(policy->report);
    assert_int_equal(policy->fallback, DEFAULT_ASK);
    ASSERT_LIST(&policy->allow, "b.test", "d.test:443 path=/x/*");
    assert_int_equal(policy->allow.items[1].place.line, 30);
    ASSERT_LIST(&policy->deny, "c.test");
    assert_true(policy->private_addresses);
    ASSERT_LIST(&policy->deny_addresses, "203.0.113.0/24", "2001:db8::/32");
    ASSERT_LIST(&policy->allow_addresses, "127.0.0.2/32", "127.0.0.3");
    assert_true(policy->sni_off);
    ASSERT_LIST(&policy->filters, "f", "g");
    assert_string_equal(policy->docs, "https://wiki.test/egress#top");
    assert_false(config->policies[0].report);
    assert_int_equal(config->policies[0].fallback, DEFAULT_DENY);

    assert_int_equal(config->filter_count, 2);
    assert_string_equal(config->filters[0].module, "http-guard");
    assert_int_equal(config->filters[0].timeout_ms, 2000);
    assert_int_equal(config->filters[0].key_count, 2);
    assert_string_equal(config->filters[0].keys[1].value, "2");
    assert_int_equal(config->filters[1].timeout_ms, 3000);
    gateway_config_free(config);
}

static void a_policy_may_say_where_connections_come_from(void **state)
{
    (void)state;
    struct gateway_config *config =
        accept_text("[policy a]\nbind-address = 2001:db8::10, 192.0.2.10 eth0.7\n"
                    "[policy b]\nbind-address = wg0\n"
                    "[policy c]\n");
    char text[ADDR_TEXT_MAX];
    const struct config_bind *bind = &config->policies[0].bind;
    assert_string_equal(addr_format(text, &bind->v4), "192.0.2.10");
    assert_string_equal(addr_format(text, &bind->v6), "2001:db8::10");
    assert_string_equal(bind->interface, "eth0.7");
    bind = &config->policies[1].bind;
    assert_true(bind->v4.family == 0 && bind->v6.family == 0);
    assert_string_equal(bind->interface, "wg0");
    bind = &config->policies[2].bind;
    assert_true(bind->v4.family == 0 && bind->v6.family == 0 && bind->interface[0] == '\0');
    gateway_config_free(config);

    static const struct row rows[] = {
        {"[policy x]\nbind-address = ,\n", "g.ini:2: bind-address names nothing"},
        {"[policy x]\nbind-address = 10.0.0.300\n",
         "g.ini:2: bind-address: `10.0.0.300` is not an IP address or the name of a network "
         "interface"},
        {"[policy x]\nbind-address = 10.0.0.1:80\n",
         "g.ini:2: bind-address: `10.0.0.1:80` is not an IP address or the name of a network "
         "interface"},
        {"[policy x]\nbind-address = interface-names-are-short\n",
         "g.ini:2: bind-address: `interface-names-are-short` is not an IP address or the name of a "
         "network interface"},
        {"[policy x]\nbind-address = ../eth0\n",
         "g.ini:2: bind-address: `../eth0` is not an IP address or the name of a network "
         "interface"},
        {"[policy x]\nbind-address = 10.0.0.1, 10.0.0.2\n",
         "g.ini:2: bind-address: 10.0.0.2 is the second IPv4 address"},
        {"[policy x]\nbind-address = ::5, ::6\n",
         "g.ini:2: bind-address: ::6 is the second IPv6 address"},
        {"[policy x]\nbind-address = eth0 eth1\n",
         "g.ini:2: bind-address: eth1 is the second interface"},
        {"[policy x]\nbind-address = 0.0.0.0\n",
         "g.ini:2: bind-address: connections cannot come from 0.0.0.0"},
        {"[policy x]\nbind-address = ::\n",
         "g.ini:2: bind-address: connections cannot come from ::"},
        {"[policy x]\nbind-address = 224.0.0.1\n",
         "g.ini:2: bind-address: connections cannot come from 224.0.0.1"},
        {"[policy x]\nbind-address = fe80::1\n",
         "g.ini:2: bind-address: connections cannot come from fe80::1"},
        {"[policy x]\nbind-address = 10.0.0.1\nbind-address = eth0\n",
         "g.ini:3: bind-address is set already, at g.ini:2"},
    };
    REFUSE(rows);
}

/* A file that only judges, for `explain` and `replay`, needs no listener. */
static void policies_without_a_listener_are_fine(void **state)
{
    (void)state;
    gateway_config_free(accept_text("[policy p]\nallow = a.test\n"));
    gateway_config_free(accept_text("[listen a]\naddress = 127.0.0.1:0\npolicy = p\n"
                                    "[listen b]\naddress = 127.0.0.1:0\npolicy = p\n"
                                    "[listen c]\naddress = [::]:1\npolicy = p\n"
                                    "[listen d]\naddress = 0.0.0.0:1\npolicy = p\n[policy p]\n"));
    gateway_config_free(accept_text("[policy p]\n"));
}

static void unknown_words_are_refused_with_the_nearest(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"[gatway]\n", "g.ini:1: unknown section [gatway]; did you mean [gateway]?"},
        {"[polcy x]\nallow = a\n", "g.ini:1: unknown section [polcy]; did you mean [policy NAME]?"},
        {"[Policy x]\n", "g.ini:1: unknown section [Policy]; did you mean [policy NAME]?"},
        {"[server]\nx = 1\n",
         "g.ini:1: unknown section [server]; there are gateway, dns, listen, client, policy, "
         "filter and upstream"},
        {"[gateway]\nworker = 2\n", "g.ini:2: unknown key `worker` in [gateway]; did you mean "
                                    "`workers`?"},
        {"[gateway]\nfoo = 2\n", "g.ini:2: unknown key `foo` in [gateway]"},
        {"[policy x]\nalow = a.test\n\ndney = b.test\n",
         "g.ini:2: unknown key `alow` in [policy]; did you mean `allow`?\n"
         "g.ini:4: unknown key `dney` in [policy]; did you mean `deny`?"},
        {"[policy x]\nAllow = a.test\n",
         "g.ini:2: unknown key `Allow` in [policy]; did you mean `allow`?"},
        {"[policy x]\ngood.test:443\n", "g.ini:2: unknown key `good.test` in [policy]"},
        {"[policy x]\ninclude = a\n", "g.ini:2: include belongs into [gateway]"},
        {"[dns]\nworkers = 1\n", "g.ini:2: unknown key `workers` in [dns]"},
    };
    REFUSE(rows);
}

static void sections_need_their_names_once(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"[policy]\n", "g.ini:1: [policy] needs a name: [policy NAME]"},
        {"[gateway x]\n", "g.ini:1: [gateway] has no name, but here is `x`"},
        {"[policy a b]\n",
         "g.ini:1: `a b` is no name: letters, digits and . _ - + @ / can be in one"},
        {"[policy a,b]\n",
         "g.ini:1: `a,b` is no name: letters, digits and . _ - + @ / can be in one"},
        {"[policy x]\n[policy y]\n[policy x]\n[policy x]\n",
         "g.ini:3: [policy x] stands already at g.ini:1\n"
         "g.ini:4: [policy x] stands already at g.ini:3"},
    };
    REFUSE(rows);
    /* The same name for different things is no conflict, and [gateway] may be in several parts. */
    gateway_config_free(accept_text("[policy x]\n[gateway]\nworkers = 1\n[filter x]\nmodule = m\n"
                                    "[gateway]\naudit-log = none\n"));
}

static void values_are_set_once_and_not_empty(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"[gateway]\nworkers = 1\nworkers = 1\n", "g.ini:3: workers is set already, at g.ini:2"},
        {"[gateway]\nworkers = 1\n[dns]\n[gateway]\nworkers = 2\n",
         "g.ini:5: workers is set already, at g.ini:2"},
        {"[gateway]\nworkers =\n", "g.ini:2: workers needs a value"},
        {"[gateway]\nworkers = ; none\n", "g.ini:2: workers needs a value"},
        {"[gateway]\nworkers = 1\n  2\n",
         "g.ini:3: an indented line continues a list, and workers has one value; a new key starts "
         "at the first column"},
        {"[gateway]\nworkers = 1\n  audit-log = none\n",
         "g.ini:3: an indented line continues workers; the key `audit-log` starts at the first "
         "column"},
        {"[policy x]\nallow = a.test\n    b.test\n  deny=c.test\n",
         "g.ini:4: an indented line continues allow; the key `deny` starts at the first column"},
        {"[policy x]\nallow =\n", "g.ini:2: allow needs a value"},
        {"[policy x]\nallow =\n[policy y]\n", "g.ini:2: allow needs a value"},
        {"[policy x]\ninherit = ,\n", "g.ini:2: inherit names nothing"},
        {"[filter x]\nmodule = m\nown =\n", "g.ini:3: own needs a value"},
        {"[policy x]\ndocs = a\ndocs = b\n", "g.ini:3: docs is set already, at g.ini:2"},
    };
    REFUSE(rows);
    /* Two sections of one kind do not share what was set. */
    gateway_config_free(accept_text("[policy x]\ndocs = a\n[policy y]\ndocs = b\n"));
}

static void a_list_may_stand_wholly_on_indented_lines(void **state)
{
    (void)state;
    struct gateway_config *config = accept_text("[policy x]\n"
                                                "allow =\n"
                                                "    a.test\n"
                                                "    ; why\n"
                                                "    b.test:443 ; and this\n"
                                                "deny = c.test\n"
                                                "       d.test\n");
    ASSERT_LIST(&config->policies[0].allow, "a.test", "b.test:443");
    ASSERT_LIST(&config->policies[0].deny, "c.test", "d.test");
    gateway_config_free(config);
}

static void values_have_their_kind(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"[gateway]\nworkers = 0\n",
         "g.ini:2: workers: `0` is not auto or a number from 1 to 1024"},
        {"[gateway]\nworkers = many\n",
         "g.ini:2: workers: `many` is not auto or a number from 1 to 1024"},
        {"[gateway]\nworkers = 1025\n",
         "g.ini:2: workers: `1025` is not auto or a number from 1 to 1024"},
        {"[gateway]\naudit-format = xml\n", "g.ini:2: audit-format: `xml` is not json | squid"},
        {"[gateway]\naudit-required = maybe\n", "g.ini:2: audit-required: `maybe` is not yes | no"},
        {"[gateway]\naudit-log = unix:audit.sock\n",
         "g.ini:2: audit-log: unix: needs an absolute path"},
        {"[gateway]\naudit-log = \"/a\"\n",
         "g.ini:2: audit-log: quotes are not removed here; leave them out"},
        {"[gateway]\nheader-timeout = 10\n",
         "g.ini:2: header-timeout: `10` is not a duration: 0, or a number with ms, s, m, h or d"},
        {"[gateway]\nheader-timeout = 0\n", "g.ini:2: header-timeout must be more than 0"},
        {"[gateway]\nidle-timeout = 500d\n", "g.ini:2: idle-timeout: `500d` is more than 400 days"},
        {"[gateway]\nmax-connections = 0\n",
         "g.ini:2: max-connections: `0` is not a number from 1 to 10000000"},
        {"[gateway]\nmax-sandbox-connections = 0\n",
         "g.ini:2: max-sandbox-connections: `0` is not a number from 1 to 10000000"},
        {"[gateway]\nmax-header-bytes = 64kb\n",
         "g.ini:2: max-header-bytes: `64kb` is not a size: bytes, or a number with k, m or g"},
        {"[gateway]\nmax-header-bytes = 1\n",
         "g.ini:2: max-header-bytes: `1` is not between 256 and 16777216 bytes"},
        {"[gateway]\nreload-tunnels = cut\n",
         "g.ini:2: reload-tunnels: `cut` is not recheck | keep"},
        {"[dns]\nservers = ns.test\n",
         "g.ini:2: servers: `ns.test` is not `system` or a list of IPv4[:PORT] and [IPv6]:PORT"},
        {"[dns]\nservers = 10.0.0.2:0\n",
         "g.ini:2: servers: `10.0.0.2:0` is not `system` or a list of IPv4[:PORT] and "
         "[IPv6]:PORT"},
        {"[dns]\ntimeout = 2m\n", "g.ini:2: timeout: `2m` is more than 60s"},
        {"[dns]\ntries = 11\n", "g.ini:2: tries: `11` is not a number from 1 to 10"},
        {"[dns]\nmin-ttl = 1ms\n", "g.ini:2: min-ttl: `1ms` is not a whole number of seconds"},
        {"[dns]\nmax-ttl = 1s\nmin-ttl = 2s\n", "g.ini:3: min-ttl is more than max-ttl"},
        {"[dns]\nmin-ttl = 2h\n", "g.ini:2: min-ttl is more than max-ttl"},
        {"[policy x]\nmode = off\n", "g.ini:2: mode: `off` is not enforce | report"},
        {"[policy x]\ndefault = yes\n", "g.ini:2: default: `yes` is not deny | ask | allow"},
        {"[policy x]\nsni = yes\n", "g.ini:2: sni: `yes` is not match | off"},
        {"[policy x]\nprivate-addresses = no\n",
         "g.ini:2: private-addresses: `no` is not deny | allow"},
        {"[policy x]\ndeny-addresses = 10.0.0.1/8, x\n",
         "g.ini:2: deny-addresses: `10.0.0.1/8` is not an address or a range ADDRESS/LEN without "
         "bits set behind its length\n"
         "g.ini:2: deny-addresses: `x` is not an address or a range ADDRESS/LEN without bits set "
         "behind its length"},
        {"[filter x]\nmodule = lib.so\n",
         "g.ini:2: module: `lib.so` is not a built-in module, /PATH.so or unix:/PATH"},
        {"[filter x]\nmodule = unix:rel\n",
         "g.ini:2: module: `unix:rel` is not a built-in module, /PATH.so or unix:/PATH"},
        {"[filter x]\nmodule = m\ntimeout = 0\n", "g.ini:3: timeout must be more than 0"},
    };
    REFUSE(rows);
}

static void addresses_are_never_resolved(void **state)
{
    (void)state;
    static const char wanted[] = "an address: IPv4:PORT, [IPv6]:PORT or unix:/PATH";
    static const char *const bad[] = {
        "3128",       ":3128",           "*:3128",       "host.test:3128", "127.0.0.1",
        "127.0.0.1:", "127.0.0.1:65536", "127.1:3128",   "::1:3128",       "[::1]",
        "[::1%lo]:1", "[127.0.0.1:1",    "127.0.0.1:+1", "127.0.0.1: 1",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[128], expected[256];
        snprintf(text, sizeof(text), "[listen x]\naddress = %s\npolicy = p\n[policy p]\n", bad[i]);
        snprintf(expected, sizeof(expected), "g.ini:2: address: `%s` is not %s", bad[i], wanted);
        struct faults faults = {0};
        assert_null(gateway_config_read_text("g.ini", str_of(text), &faults));
        assert_string_equal(said(&faults), expected);
    }
    static const struct row rows[] = {
        {"[gateway]\ncontrol = 127.0.0.1:1\n",
         "g.ini:2: control must be a Unix socket, since launchers hand descriptors over it"},
        {"[gateway]\nadmin = 0.0.0.0:9095\n",
         "g.ini:2: admin: `0.0.0.0:9095` is neither a Unix socket nor a loopback address"},
        {"[gateway]\nadmin = none\nadmin = 127.0.0.1:1\n",
         "g.ini:2: admin = none stands beside other addresses"},
        {"[gateway]\ncontrol = unix:\n", "g.ini:2: control: `unix:` is not unix:/PATH"},
        {"[gateway]\ncontrol = /1234567890123456789012345678901234567890123456789012345678901234567"
         "89012345678901234567890123456789012345678\n",
         "g.ini:2: control: the path `/12345678901234567890123456789012345678901234567890123456789"
         "0123456789012345678901234567890123456789012345678` is longer than the 107 bytes a Unix "
         "socket can have"},
    };
    REFUSE(rows);
}

static void listeners_need_an_address_and_somebody_to_serve(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"[listen x]\npolicy = p\n[policy p]\n", "g.ini:1: [listen x] has no address"},
        {"[listen x]\naddress = 127.0.0.1:0\n",
         "g.ini:1: [listen x] has no policy, and there is no [client] section to decide"},
        {"[listen a]\naddress = 127.0.0.1:1\npolicy = p\n[listen b]\naddress = 127.0.0.1:1\npolicy "
         "= p\n[policy p]\n",
         "g.ini:4: [listen b] has the address of [listen a]"},
        {"[listen a]\naddress = 0.0.0.0:1\npolicy = p\n[listen b]\naddress = 127.0.0.1:1\npolicy = "
         "p\n[policy p]\n",
         "g.ini:4: [listen b] has the address of [listen a]"},
        {"[listen a]\naddress = [::1]:1\npolicy = p\n[listen b]\naddress = [::]:1\npolicy = "
         "p\n[policy p]\n",
         "g.ini:4: [listen b] has the address of [listen a]"},
        {"[listen a]\naddress = unix:/x\npolicy = p\n[listen b]\naddress = unix:/x\npolicy = "
         "p\n[policy p]\n",
         "g.ini:4: [listen b] has the address of [listen a]"},
        {"[gateway]\ncontrol = unix:/x\n[listen b]\naddress = unix:/x\npolicy = p\n[policy p]\n",
         "g.ini:3: [listen b] has the address of control"},
        {"[gateway]\nadmin = 127.0.0.1:9\n[listen b]\naddress = 127.0.0.1:9\npolicy = p\n[policy "
         "p]\n",
         "g.ini:3: [listen b] has the address of admin"},
        {"[gateway]\nadmin = /x\nadmin = unix:/x\n", "g.ini:2: admin names the same address twice"},
        {"[gateway]\ncontrol = unix:/x\nadmin = /x\n", "g.ini:3: admin has the address of control"},
        {"[listen x]\naddress = 127.0.0.1:0\npolicy = p\nauth = token\n[policy p]\n"
         "[client c]\npolicy = p\nuid = 1\n",
         "g.ini:1: [listen x] has auth = token, but no [client] has a token"},
        {"[listen x]\naddress = 127.0.0.1:0\npolicy = p\nmode = 0600\ngroup = 0\n[policy p]\n",
         "g.ini:4: mode is for Unix sockets, and [listen x] is not one\n"
         "g.ini:5: group is for Unix sockets, and [listen x] is not one"},
        {"[listen x]\naddress = /l\npolicy = p\nmode = 0888\n[policy p]\n",
         "g.ini:4: mode: `0888` is not three or four octal digits, at most 0777"},
        {"[listen x]\naddress = /l\npolicy = p\nmode = 1777\n[policy p]\n",
         "g.ini:4: mode: `1777` is not three or four octal digits, at most 0777"},
        {"[listen x]\naddress = /l\npolicy = p\ngroup = no-such-group\n[policy p]\n",
         "g.ini:4: group: there is no group `no-such-group` on this machine"},
    };
    REFUSE(rows);
}

static void clients_need_a_policy_and_a_way_to_know_them(void **state)
{
    (void)state;
    static const char hex[] = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    char both[256];
    snprintf(both, sizeof(both),
             "[policy p]\n[client c]\npolicy = p\ntoken-sha256 = %s\ntoken-file = /etc/hostname\n",
             hex);
    const struct row rows[] = {
        {"[client c]\nuid = 1\n", "g.ini:1: [client c] has no policy"},
        {"[policy p]\n[client c]\npolicy = p\nmax-tunnels = 1\n",
         "g.ini:2: [client c] says nobody: it needs token-sha256, token-file, uid or source"},
        {both, "g.ini:5: [client c] has token-sha256 already, on line 4"},
        /* The secret itself, put there by mistake, is not repeated. */
        {"[policy p]\n[client c]\npolicy = p\ntoken-sha256 = s3cret\n",
         "g.ini:4: token-sha256 must be 64 hexadecimal digits"},
        {"[policy p]\n[client c]\npolicy = p\nuid = root\n",
         "g.ini:4: uid: `root` is not a numeric user id"},
        {"[policy p]\n[client c]\npolicy = p\nuid = 4294967295\n",
         "g.ini:4: uid: `4294967295` is not a numeric user id"},
        {"[policy p]\n[client c]\npolicy = p\nsource = 10.1.0.1/16\n",
         "g.ini:4: source: `10.1.0.1/16` is not an address or a range ADDRESS/LEN without bits set "
         "behind its length"},
        {"[policy p]\n[client c]\npolicy = p\nuid = 1\nconnect-rate = 5\nbytes-up = 0/h\n",
         "g.ini:5: connect-rate: `5` is not a rate above 0: a number and /s, /m, /h or /d\n"
         "g.ini:6: bytes-up: `0/h` is not a rate above 0: a size and /s, /m, /h or /d"},
    };
    REFUSE(rows);
}

static void references_must_lead_somewhere(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"[listen x]\naddress = 127.0.0.1:0\npolicy = bulid\n[policy build]\n",
         "g.ini:3: policy: there is no [policy bulid]; did you mean `build`?"},
        {"[client x]\nuid = 1\npolicy = nowhere\n",
         "g.ini:3: policy: there is no [policy nowhere]"},
        {"[policy x]\ninherit = base, y\n  z\n",
         "g.ini:2: inherit: there is no [policy base]\n"
         "g.ini:2: inherit: there is no [policy y]; did you mean `x`?\n"
         "g.ini:3: inherit: there is no [policy z]; did you mean `x`?"},
        {"[policy x]\nfilters = f\n[policy f]\n", "g.ini:2: filters: there is no [filter f]"},
        {"[filter f]\n", "g.ini:1: [filter f] has no module"},
    };
    REFUSE(rows);
}

static void upstreams_need_an_address(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"[upstream u]\n", "g.ini:1: [upstream u] has no address"},
        {"[upstream u]\naddress = http://p.test\n",
         "g.ini:2: address: `http://p.test`: the port is missing"},
        {"[upstream u]\naddress = http://p.test:1\nca-file = /dev/null\n",
         "g.ini:3: /dev/null: is not a regular file\n"
         "g.ini:3: ca-file: only an https:// upstream shows a certificate"},
        {"[upstream u]\naddress = https://p.test:1\nca-file = /etc/passwd\n",
         "g.ini:3: ca-file: /etc/passwd: it has no certificate (PEM) that can be read"},
        {"[upstream u]\naddress = p.test:1\n",
         "g.ini:2: address: `p.test:1`: it has to be http://HOST:PORT, https://HOST:PORT or "
         "socks5://HOST:PORT"},
        {"[upstream u]\naddress = http://me:s3cret@p.test:1\n",
         "g.ini:2: address: credentials stand in the credentials-file, not here"},
        {"[upstream direct]\naddress = http://p.test:1\n",
         "g.ini:1: [upstream direct] cannot be: via=direct stands for no upstream at all"},
        {"[upstream corp]\naddress = http://p.test:1\n[policy p]\nupstream = crop\n",
         "g.ini:4: upstream: there is no [upstream crop]; did you mean `corp`?"},
    };
    REFUSE(rows);
}

static void inheritance_ends(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"[policy a]\ninherit = a\n", "g.ini:2: inherit: [policy a] inherits itself by way of `a`"},
        {"[policy a]\ninherit = b\n[policy b]\ninherit = c\n[policy c]\ninherit = a\n",
         "g.ini:6: inherit: [policy a] inherits itself by way of `c`"},
    };
    REFUSE(rows);
    /* A diamond is none; forty of them would be a trillion ways if each were walked. */
    char text[4096], *to = text;
    for (int i = 0; i < 30; i++)
        to += sprintf(to, "[policy p%d]\ninherit = p%d, p%d\n", i, i + 1, i + 1);
    sprintf(to, "[policy p30]\n");
    gateway_config_free(accept_text(text));

    to = text;
    for (int i = 0; i < 40; i++)
        to += sprintf(to, "[policy p%d]\ninherit = p%d\n", i, i + 1);
    sprintf(to, "[policy p40]\n");
    struct faults faults = {0};
    assert_null(gateway_config_read_text("g.ini", str_of(text), &faults));
    assert_non_null(strstr(said(&faults), "inherits more than 32 levels deep"));
}

static void syntax_and_meaning_are_told_together(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"[gateway]\njunk\nworkers = 0\n[listen x]\n",
         "g.ini:2: expected KEY = VALUE, found `junk`\n"
         "g.ini:3: workers: `0` is not auto or a number from 1 to 1024\n"
         "g.ini:4: [listen x] has no address\n"
         "g.ini:4: [listen x] has no policy, and there is no [client] section to decide"},
    };
    REFUSE(rows);
}

/* For callers that go on to look for faults in the rules. */
static void what_could_be_read_can_be_had(void **state)
{
    (void)state;
    struct faults faults = {0};
    struct gateway_config *config = gateway_config_read_text_partly(
        "g.ini", STR("[gateway]\nworker = 1\n[policy p]\nallow = a.test\ninherit = p\n"), &faults);
    assert_non_null(config);
    assert_int_equal(faults.errors, 2);
    ASSERT_LIST(&config->policies[0].allow, "a.test");
    gateway_config_free(config);
    faults_free(&faults);
    config = gateway_config_read_partly("/nonexistent/g.ini", &faults);
    assert_int_equal(faults.errors, 1);
    gateway_config_free(config);
    faults_free(&faults);
}

static void refuse_file(const char *path, const char *expected)
{
    struct faults faults = {0};
    assert_null(gateway_config_read(path, &faults));
    assert_string_equal(said(&faults), expected);
}

static void list_files_stand_in_the_place_of_their_key(void **state)
{
    (void)state;
    assert_int_equal(mkdir("etc", 0700) | mkdir("etc/lists", 0700), 0);
    write_file("etc/g.ini", "[policy p]\nallow = a.test\nallow-file = lists/l\nallow = z.test\n"
                            "deny-file = lists/l\n  lists/m\n");
    write_file("etc/lists/l", "# comment\n\n  b.test:443 \r\nc.test reason=\"a # b\"  # why\n");
    write_file("etc/lists/m", "d.test");
    struct faults faults = {0};
    struct gateway_config *config = gateway_config_read("etc/g.ini", &faults);
    assert_string_equal(said(&faults), "");
    const struct config_policy *policy = &config->policies[0];
    ASSERT_LIST(&policy->allow, "a.test", "b.test:443", "c.test reason=\"a # b\"", "z.test");
    ASSERT_LIST(&policy->deny, "b.test:443", "c.test reason=\"a # b\"", "d.test");
    assert_string_equal(policy->allow.items[1].place.file, "etc/lists/l");
    assert_int_equal(policy->allow.items[1].place.line, 3);
    assert_int_equal(policy->allow.items[2].place.line, 4);
    assert_string_equal(policy->allow.items[3].place.file, "etc/g.ini");
    assert_int_equal(config->doc.file_count, 4);
    gateway_config_free(config);
}

static void list_files_at_fault_are_refused(void **state)
{
    (void)state;
    write_file("g.ini", "[policy p]\nallow-file = absent\ndeny-file = .\ndeny-file = empty\n"
                        "deny-file = binary\ndeny-file = latin\ndeny-file = bom\n"
                        "deny-file = \"quoted\"\ndeny-file = comments\n");
    write_file("empty", "");
    write_file("binary", "a.test\nb\x01\n");
    write_file("latin", "\n\n\xfc.test\n");
    write_file("bom", "\xef\xbb\xbf"
                      "a.test\n");
    write_file("comments", "# nothing yet\n");
    refuse_file("g.ini", "binary:2: byte 0x01 is not text\n"
                         "bom:1: starts with a byte order mark; save it as UTF-8 without one\n"
                         "empty:1: is empty\n"
                         "g.ini:2: absent: No such file or directory\n"
                         "g.ini:3: .: is a directory\n"
                         "g.ini:8: deny-file: quotes are not removed here; leave them out\n"
                         "latin:3: byte 0xfc is not text");

    char line[INI_LINE_MAX + 10] = {0};
    memset(line, 'a', INI_LINE_MAX + 1);
    write_file("long", line);
    write_file("g.ini", "[policy p]\nallow-file = long\n");
    refuse_file("g.ini", "long:1: a line has at most 4096 bytes, this one has 4097");
}

static void secrets_come_from_files_without_their_last_newline(void **state)
{
    (void)state;
    write_file("token", "test\n");
    write_file("g.ini", "[gateway]\nadmin-token-file = token\n"
                        "[policy p]\n[client c]\npolicy = p\ntoken-file = token\n");
    struct faults faults = {0};
    struct gateway_config *config = gateway_config_read("g.ini", &faults);
    assert_string_equal(said(&faults), "");
    assert_string_equal(config->admin_token_file, "token");
    assert_memory_equal(config->clients[0].token_sha256, "\x9f\x86\xd0\x81\x88\x4c\x7d\x65", 8);
    gateway_config_free(config);

    write_file("token", "test\r\n");
    config = gateway_config_read("g.ini", &faults);
    assert_string_equal(said(&faults), "");
    assert_memory_equal(config->clients[0].token_sha256, "\x9f\x86\xd0\x81\x88\x4c\x7d\x65", 8);
    gateway_config_free(config);

    write_file("token", "\r\n");
    refuse_file("g.ini", "g.ini:2: admin-token-file: token is empty\n"
                         "g.ini:6: token-file: token is empty");
    write_file("token", "\n");
    refuse_file("g.ini", "g.ini:2: admin-token-file: token is empty\n"
                         "g.ini:6: token-file: token is empty");
    unlink("token");
    refuse_file("g.ini", "g.ini:2: token: No such file or directory\n"
                         "g.ini:6: token: No such file or directory");
}

static char *printed(const struct gateway_config *config)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    gateway_config_print(config, out);
    fclose(out);
    return text;
}

static void credentials_of_an_upstream_are_never_shown(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"\n", "secret is empty"},
        {"s3cret\n", "secret: it has to be USER:PASSWORD"},
        {"me:s3cret\n\n", "secret: the credentials have a control character"},
        {"me:s3\tcret\n", "secret: the credentials have a control character"},
        {"me:", "SOCKS5 knows no empty password"},
    };
    write_file("g.ini", "[upstream u]\naddress = socks5://p.test:1\ncredentials-file = secret\n");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct faults faults = {0};
        write_file("secret", bad[i][0]);
        assert_null(gateway_config_read("g.ini", &faults));
        const char *text = said(&faults);
        assert_null(strstr(text, "s3cret"));
        assert_non_null(strstr(text, bad[i][1]));
    }
    write_file("secret", "me:s3:cret \n");
    struct faults faults = {0};
    struct gateway_config *config = gateway_config_read("g.ini", &faults);
    assert_non_null(config);
    assert_string_equal(config->upstreams[0].user, "me");
    assert_string_equal(config->upstreams[0].password, "s3:cret ");
    char *text = printed(config);
    assert_non_null(strstr(text, "\ncredentials-file = (hidden)\n"));
    assert_null(strstr(text, "s3"));
    free(text);
    gateway_config_free(config);
}

static void relative_paths_start_at_the_file_that_names_them(void **state)
{
    (void)state;
    assert_int_equal(mkdir("sub", 0700), 0);
    write_file("sub/g.ini", "[gateway]\ninclude = more/*.ini\naudit-log = a.jsonl\n"
                            "control = unix:c.sock\n");
    assert_int_equal(mkdir("sub/more", 0700), 0);
    write_file("sub/more/1.ini", "[dns]\nhosts-file = hosts\n");
    struct faults faults = {0};
    struct gateway_config *config = gateway_config_read("sub/g.ini", &faults);
    assert_string_equal(said(&faults), "");
    assert_string_equal(config->audit_log, "sub/a.jsonl");
    assert_string_equal(config->control.path, "sub/c.sock");
    assert_string_equal(config->dns_hosts_file, "sub/more/hosts");
    gateway_config_free(config);
}

static void repeats_across_files_name_the_other_file(void **state)
{
    (void)state;
    write_file("g.ini", "[gateway]\nworkers = 1\ninclude = other\n[policy p]\n");
    write_file("other", "[gateway]\nworkers = 2\n[policy p]\n");
    refuse_file("g.ini", "g.ini:4: [policy p] stands already at other:3\n"
                         "other:2: workers is set already, at g.ini:2");
}

/* Of one file sha256sum(1) gives the same; of several any change of any changes it. */
static void the_digest_covers_every_file(void **state)
{
    (void)state;
    write_file("g.ini", "[o]\n");
    refuse_file("g.ini", "g.ini:1: unknown section [o]; there are gateway, dns, listen, client, "
                         "policy, filter and upstream");
    write_file("one.ini", "[policy p]\n");
    struct faults faults = {0};
    struct gateway_config *one = gateway_config_read("one.ini", &faults);
    assert_memory_equal(one->sha256, one->doc.files[0].sha256, 32);
    gateway_config_free(one);

    write_file("g.ini", "[policy p]\nallow-file = list\n");
    write_file("list", "a.test\n");
    struct gateway_config *before = gateway_config_read("g.ini", &faults);
    struct gateway_config *same = gateway_config_read("g.ini", &faults);
    write_file("list", "b.test\n");
    struct gateway_config *after = gateway_config_read("g.ini", &faults);
    assert_memory_equal(before->sha256, same->sha256, 32);
    assert_memory_not_equal(before->sha256, after->sha256, 32);
    gateway_config_free(before);
    gateway_config_free(same);
    gateway_config_free(after);
    faults_free(&faults);
}

static void a_million_rules_load_at_once(void **state)
{
    (void)state;
    enum { COUNT = 1000000 };
    write_file("g.ini", "[policy p]\ndeny-file = list\n");
    FILE *list = fopen("list", "w");
    for (int i = 0; i < COUNT; i++)
        fprintf(list, "host-%d.example.test\n", i);
    fclose(list);
    struct faults faults = {0};
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    struct gateway_config *config = gateway_config_read("g.ini", &faults);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_non_null(config);
    assert_int_equal(config->policies[0].deny.count, COUNT);
    assert_true(
        str_eq(config->policies[0].deny.items[COUNT - 1].text, STR("host-999999.example.test")));
    assert_int_equal(config->policies[0].deny.items[COUNT - 1].place.line, COUNT);
    print_message("%d rules in %" PRId64 " ms\n", COUNT,
                  (int64_t)(end.tv_sec - start.tv_sec) * 1000 +
                      (end.tv_nsec - start.tv_nsec) / 1000000);
    gateway_config_free(config);
}

/* What GET /config shows is itself a configuration that means the same, secrets apart. */
static void the_effective_configuration_can_be_read_again(void **state)
{
    (void)state;
    struct gateway_config *config = accept_text(
        "[gateway]\naudit-log = none\nadmin = 127.0.0.1:9095\n  /run/a.sock\nworkers = 2\n"
        "control = /run/c\n"
        "[dns]\nservers = 10.0.0.2\nhosts-file = none\n"
        "[listen a]\naddress = [::1]:0\npolicy = p\n[listen b]\naddress = /run/b\nmode = 0600\n"
        "[client c]\npolicy = p\nsource = 10.0.0.0/8\nconnect-rate = 5/m\nbytes-up = 1m/d\n"
        "[client d]\npolicy = p\nuid = 7\nmax-tunnels = 3\n"
        "[policy p]\ninherit = q\n  r\nallow = a.test\ndeny = b.test reason=\"x ; y\"\n"
        "deny-addresses = 10.0.0.0/8\ndefault = allow\nsni = off\nfilters = f\ndocs = d\n"
        "bind-address = eth0, 10.0.0.9\nupstream = u\n"
        "[policy q]\nmode = report\n[policy r]\n"
        "[filter f]\nmodule = m\nsize = 3\n"
        "[upstream u]\naddress = socks5h://Proxy.test:1080/\n");
    char *first = printed(config);
    gateway_config_free(config);
    config = accept_text(first);
    char *second = printed(config);
    gateway_config_free(config);
    assert_string_equal(first, second);
    assert_non_null(strstr(first, "\n[listen a]\naddress = [::1]:0\n"));
    assert_non_null(strstr(first, "\ndeny = b.test reason=\"x ; y\"\n"));
    assert_non_null(strstr(first, "\ninherit = q, r\n"));
    assert_non_null(strstr(first, "\nmode = report\n"));
    assert_non_null(strstr(first, "\nbind-address = 10.0.0.9, eth0\n"));
    assert_non_null(strstr(first, "\nupstream = u\n"));
    assert_non_null(strstr(first, "\n[upstream u]\naddress = socks5://proxy.test:1080\n"));
    free(first);
    free(second);
}

static void the_effective_configuration_hides_secrets(void **state)
{
    (void)state;
    struct gateway_config *config = accept_text(
        "[policy p]\n[client c]\npolicy = p\n"
        "token-sha256 = 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n"
        "[filter f]\nmodule = m\napi-token = s3cret\nurl = http://a.test\n");
    char *text = printed(config);
    assert_non_null(strstr(text, "\ntoken-sha256 = (hidden)\n"));
    assert_non_null(strstr(text, "\napi-token = (hidden)\n"));
    assert_non_null(strstr(text, "\nurl = http://a.test\n"));
    assert_null(strstr(text, "9f86"));
    assert_null(strstr(text, "s3cret"));
    free(text);
    gateway_config_free(config);
}

static void options_has_a_line_for_every_key(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "[gateway]       workers                 auto ",
        "[gateway]       include                 - ",
        "[dns]           servers                 system ",
        "[listen NAME]   address                 - ",
        "[listen NAME]   mode                    0660 ",
        "[client NAME]   bytes-up                - ",
        "[policy NAME]   allow                   - ",
        "[policy NAME]   deny-file               - ",
        "[filter NAME]   timeout                 2s ",
    };
    char *text;
    size_t size, count = 0;
    FILE *out = open_memstream(&text, &size);
    gateway_config_print_options(out);
    fclose(out);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        assert_non_null(strstr(text, lines[i]));
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1)
        count++;
    assert_int_equal(count, 65);
    free(text);
}

#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, enter_directory, leave_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_of_the_gateway_is_read),
        cmocka_unit_test(what_is_not_set_has_its_default),
        cmocka_unit_test(listeners_clients_policies_and_filters_are_read),
        cmocka_unit_test(a_policy_may_say_where_connections_come_from),
        cmocka_unit_test(policies_without_a_listener_are_fine),
        cmocka_unit_test(unknown_words_are_refused_with_the_nearest),
        cmocka_unit_test(sections_need_their_names_once),
        cmocka_unit_test(values_are_set_once_and_not_empty),
        cmocka_unit_test(a_list_may_stand_wholly_on_indented_lines),
        cmocka_unit_test(values_have_their_kind),
        cmocka_unit_test(addresses_are_never_resolved),
        cmocka_unit_test(listeners_need_an_address_and_somebody_to_serve),
        cmocka_unit_test(clients_need_a_policy_and_a_way_to_know_them),
        cmocka_unit_test(references_must_lead_somewhere),
        cmocka_unit_test(upstreams_need_an_address),
        cmocka_unit_test(inheritance_ends),
        cmocka_unit_test(syntax_and_meaning_are_told_together),
        cmocka_unit_test(what_could_be_read_can_be_had),
        IN_DIRECTORY(list_files_stand_in_the_place_of_their_key),
        IN_DIRECTORY(list_files_at_fault_are_refused),
        IN_DIRECTORY(secrets_come_from_files_without_their_last_newline),
        IN_DIRECTORY(credentials_of_an_upstream_are_never_shown),
        IN_DIRECTORY(relative_paths_start_at_the_file_that_names_them),
        IN_DIRECTORY(repeats_across_files_name_the_other_file),
        IN_DIRECTORY(the_digest_covers_every_file),
        IN_DIRECTORY(a_million_rules_load_at_once),
        cmocka_unit_test(the_effective_configuration_can_be_read_again),
        cmocka_unit_test(the_effective_configuration_hides_secrets),
        cmocka_unit_test(options_has_a_line_for_every_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
