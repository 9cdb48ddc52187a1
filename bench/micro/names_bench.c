/*
 * What names and addresses add to a request: a resolution that is at hand (cache, hosts file), the
 * guard over the answer, and the check of a tunnel's ClientHello (a Chromium-like one of 1691 bytes
 * with a post-quantum key share). One JSON object a figure on stdout.
 *
 *   bench-names [TRIES]
 */
#include "dns/resolver.h"
#include "filters/chain.h"
#include "micro/measure.h"
#include "wire/hello.h"

#include <ev.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { NAMES = 1000, ROUNDS = 200, DNS_HEADER = 12, DNS_PACKET_MAX = 1500 };

static unsigned tries = 10;

static void figure(const char *name, double ns)
{
    printf("{\"bench\":\"names\",\"figure\":\"%s\",\"value\":%.1f,\"unit\":\"ns\"", name, ns);
    print_machine();
    fflush(stdout);
}

/* The best of several tries: other work in the caches only ever adds. */
#define MEASURE(name, statement)                                      \
    do {                                                              \
        double best = 1e9;                                            \
        for (unsigned try = 0; try < tries; try++) {                  \
            double start = now_s();                                   \
            for (unsigned i = 0; i < ROUNDS * NAMES; i++)             \
                statement;                                            \
            double each = (now_s() - start) * 1e9 / (ROUNDS * NAMES); \
            best = each < best ? each : best;                         \
        }                                                             \
        figure(name, best);                                           \
    } while (0)

/* -- a name server: 192.0.2.1 for every A, nothing for AAAA -- */

static size_t answer(uint8_t packet[DNS_PACKET_MAX], size_t len)
{
    static const uint8_t record[] = {0xc0, DNS_HEADER, 0, 1, 0,   1, 0, 0,
                                     14,   16,         0, 4, 192, 0, 2, 1};
    size_t end = DNS_HEADER;
    while (end < len && packet[end] != 0)
        end += packet[end] + 1u;
    end += 5; /* the root label, type, class */
    if (end > len)
        abort();
    bool is_a = packet[end - 3] == 1;
    const uint8_t head[] = {0x81, 0x80, 0, 1, 0, is_a, 0, 0, 0, 0};
    memcpy(packet + 2, head, sizeof(head));
    if (!is_a)
        return end;
    memcpy(packet + end, record, sizeof(record));
    return end + sizeof(record);
}

static void *serve(void *arg)
{
    const int *fd = arg;
    uint8_t packet[DNS_PACKET_MAX];
    struct sockaddr_storage peer;
    for (;;) {
        socklen_t peer_len = sizeof(peer);
        ssize_t len =
            recvfrom(*fd, packet, sizeof(packet) - 32, 0, (struct sockaddr *)&peer, &peer_len);
        if (len < DNS_HEADER)
            abort();
        sendto(*fd, packet, answer(packet, (size_t)len), 0, (struct sockaddr *)&peer, peer_len);
    }
    return NULL;
}

static uint16_t start_server(void)
{
    static int fd;
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(sa);
    pthread_t thread;
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&sa, &len) != 0 ||
        pthread_create(&thread, NULL, serve, &fd) != 0)
        abort();
    return ntohs(sa.sin_port);
}

/* -- resolution -- */

static void fill_names(struct name *names, const char *zone)
{
    char text[64];
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(text, sizeof(text), "h%u.%s.example.test", i, zone);
        if (name_parse(&names[i], str_of(text)) != NAME_OK)
            abort();
    }
}

static void write_hosts(const char *path, const struct name *names)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        abort();
    for (unsigned i = 0; i < NAMES; i++)
        fprintf(file, "192.0.2.2 %s\n", names[i].text);
    fclose(file);
}

static void on_answer(void *arg, const struct resolve_answer *answer)
{
    unsigned *left = arg;
    if (answer->status != RESOLVE_OK)
        abort();
    (*left)--;
}

static void warm(struct ev_loop *loop, struct resolver *resolver, const struct name *names)
{
    struct resolve_answer out;
    for (unsigned i = 0; i < NAMES; i++) {
        unsigned left = 1;
        if (resolver_start(resolver, &names[i], NULL, &out, on_answer, &left) == NULL)
            abort(); /* known already */
        while (left > 0)
            ev_run(loop, EVRUN_ONCE);
    }
}

static void at_hand(struct resolver *resolver, const struct name *name)
{
    struct resolve_answer out;
    if (resolver_start(resolver, name, NULL, &out, NULL, NULL) != NULL ||
        out.status != RESOLVE_OK || out.count != 1)
        abort();
}

static void measure_resolution(void)
{
    static struct name cached[NAMES], listed[NAMES];
    char hosts[] = "/tmp/bench-names-XXXXXX", servers[32];
    struct srt_err err;
    int fd = mkstemp(hosts);
    if (fd < 0)
        abort();
    close(fd);
    fill_names(cached, "cached");
    fill_names(listed, "listed");
    write_hosts(hosts, listed);
    snprintf(servers, sizeof(servers), "127.0.0.1:%u", start_server());
    const struct resolver_config config = {.servers = servers,
                                           .hosts_file = hosts,
                                           .timeout_ms = 2000,
                                           .tries = 2,
                                           .cache_entries = 10000,
                                           .max_ttl_s = 3600,
                                           .negative_ttl_s = 5};
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    struct resolver *resolver = resolver_create(loop, &config, &err);
    if (resolver == NULL)
        abort();
    warm(loop, resolver, cached);
    MEASURE("resolve_cached", at_hand(resolver, &cached[i * 7919 % NAMES]));
    MEASURE("resolve_hosts", at_hand(resolver, &listed[i * 7919 % NAMES]));
    resolver_destroy(resolver);
    ev_loop_destroy(loop);
    unlink(hosts);
}

/* -- the guard and the hello -- */

struct scene {
    struct policy *policy;
    struct chain chain;
    struct target target;
    struct question question;
    struct decision decision;
};

static void open_scene(struct scene *scene)
{
    struct faults faults = {0};
    struct gateway_config *config =
        gateway_config_read_text("bench", STR("[policy p]\nallow = good.test\n"), &faults);
    if (config == NULL ||
        (scene->policy = policy_compile(config->policies, config, &faults)) == NULL ||
        !target_parse(&scene->target, STR("good.test:443"), NULL))
        abort();
    gateway_config_free(config);
    scene->chain = (struct chain){.policy = scene->policy};
    scene->question = (struct question){.target = &scene->target};
    if (chain_judge(&scene->chain, &scene->question, &scene->decision) != OUTCOME_ALLOWED)
        abort();
}

static void vet(struct scene *scene, const struct addr *addrs, size_t count)
{
    static const struct guard_host host;
    static struct approved approved;
    if (chain_approve(&scene->chain, &host, &scene->target, addrs, count, &scene->decision,
                      &approved) != OUTCOME_ALLOWED)
        abort();
}

static void check_hello(struct scene *scene, struct str bytes)
{
    struct hello_scan scan = {0};
    struct hello hello;
    if (hello_parse(bytes, &scan, &hello) != HELLO_PARSED || !hello.name_is_valid ||
        chain_judge_sni(&scene->chain, &scene->question, &scene->decision, &hello.name) !=
            OUTCOME_ALLOWED)
        abort();
}

/* The same message in records of `size` bytes. */
static struct str split(struct str whole, size_t size, char out[HELLO_MAX])
{
    struct str rest = str_from(whole, 5);
    size_t len = 0;
    while (rest.len > 0) {
        size_t part = rest.len < size ? rest.len : size;
        const char head[] = {whole.p[0], whole.p[1], whole.p[2], (char)(part >> 8), (char)part};
        memcpy(out + len, head, sizeof(head));
        memcpy(out + len + sizeof(head), rest.p, part);
        len += sizeof(head) + part;
        rest = str_from(rest, part);
    }
    return (struct str){out, len};
}

static void measure_judgement(void)
{
    static char bytes[HELLO_MAX], records[HELLO_MAX];
    struct scene scene;
    struct addr addrs[4];
    const char *const texts[] = {"2600::1", "8.8.8.8", "2600::2", "8.8.4.4"};
    FILE *file = fopen(BENCH_HELLO, "r");
    if (file == NULL)
        abort();
    struct str hello = {bytes, fread(bytes, 1, sizeof(bytes), file)};
    fclose(file);
    open_scene(&scene);
    for (size_t i = 0; i < 4; i++)
        if (!addr_parse(&addrs[i], str_of(texts[i])))
            abort();
    MEASURE("guard_4_addresses", vet(&scene, addrs, 4));
    MEASURE("hello", check_hello(&scene, hello));
    struct str in_records = split(hello, 100, records);
    MEASURE("hello_in_records_of_100", check_hello(&scene, in_records));
    policy_free(scene.policy);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        tries = (unsigned)strtoul(argv[1], NULL, 10);
    measure_resolution();
    measure_judgement();
    return 0;
}
