/*
 * What a policy costs: loading a list file of a million rules, bytes a rule beyond its text, and a
 * decision with ten rules and with a million. One JSON object a figure on stdout.
 *
 * A decision among a million rules is as dear as the waits for memory in it. So it is asked about
 * more hosts than a cache holds, and one wait is measured beside it: what the million adds, in
 * waits, is a figure that machines agree about. The same for a few hosts, as busy clients ask.
 *
 *   bench-policy [RULES [TRIES]]      default 1000000 10
 */
#include "filters/index.h"
#include "filters/policy.h"
#include "micro/measure.h"
#include "srt/cleanup.h"

#include <sys/stat.h>

enum { QUESTIONS = 65536, FEW = 512, DECISIONS = 2 * QUESTIONS };
static unsigned tries = 10;

enum { FAR_BYTES = 64 << 20, LINE = 64, STEPS = 200000 };

static void figure(const char *name, unsigned rules, double value, const char *unit)
{
    printf("{\"bench\":\"policy\",\"figure\":\"%s\",\"rules\":%u,\"value\":%.1f,\"unit\":\"%s\"",
           name, rules, value, unit);
    print_machine();
    fflush(stdout);
}

/* Mostly names, a quarter wildcards, some ports, some ranges; the host of rule `i` is found again.
 */
static void host_of(unsigned i, char *out, size_t size)
{
    snprintf(out, size, "h%u.zone%u.example.test", i, i % 1000);
}

static void write_rule(FILE *file, unsigned i)
{
    char host[64];
    host_of(i, host, sizeof(host));
    if (i % 20 == 7)
        fprintf(file, "%u.%u.%u.0/24\n", 1 + i % 200, i / 256 % 256, i / 65536 % 256);
    else if (i % 4 == 1)
        fprintf(file, "*.%s\n", host);
    else if (i % 10 == 3)
        fprintf(file, "%s:8443\n", host);
    else
        fprintf(file, "%s\n", host);
}

static size_t write_configuration(const char *folder, unsigned rules)
{
    char path[512];
    struct stat st;
    snprintf(path, sizeof(path), "%s/list.txt", folder);
    FILE *list = fopen(path, "w");
    if (list == NULL)
        abort();
    for (unsigned i = 0; i < rules; i++)
        write_rule(list, i);
    fclose(list);
    if (stat(path, &st) != 0)
        abort();
    snprintf(path, sizeof(path), "%s/gateway.ini", folder);
    FILE *ini = fopen(path, "w");
    if (ini == NULL)
        abort();
    fprintf(ini, "[policy p]\nallow-file = list.txt\n");
    fclose(ini);
    return (size_t)st.st_size;
}

static void remove_configuration(const char *folder)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/list.txt", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/gateway.ini", folder);
    unlink(path);
    rmdir(folder);
}

/* Reads each line of a big block in an order that nothing foresees; returns ns for one. */
static double wait_ns(void)
{
    uint32_t lines = FAR_BYTES / LINE, at = 0;
    char *block = index_memory(FAR_BYTES);
    uint32_t *order = calloc(lines, sizeof(*order));
    if (order == NULL)
        abort();
    for (uint32_t i = 1; i < lines; i++) { /* one cycle through all of them (Sattolo) */
        uint32_t other = dice(i);
        order[i] = order[other];
        order[other] = i;
    }
    for (uint32_t i = 0; i < lines; i++)
        memcpy(block + (size_t)i * LINE, &order[i], sizeof(*order));
    free(order);
    double best = 1e9;
    for (unsigned try = 0; try < tries; try++) {
        double start = now_s();
        for (unsigned i = 0; i < STEPS; i++)
            memcpy(&at, block + (size_t)at * LINE, sizeof(at));
        double each = (now_s() - start) * 1e9 / STEPS;
        best = each < best ? each : best;
    }
    volatile uint32_t end = at;
    (void)end;
    free(block);
    return best;
}

static void make_questions(struct target *targets, unsigned rules, bool known)
{
    for (unsigned i = 0; i < QUESTIONS; i++) {
        char host[64], asked[80];
        host_of(known ? dice(rules) : rules + i, host, sizeof(host));
        snprintf(asked, sizeof(asked), "%s%s:443", i % 4 == 1 ? "www." : "", host);
        if (!target_parse(&targets[i], str_of(asked), NULL))
            abort();
    }
}

/* The best of several tries: other work in the caches only ever adds. */
static double decision_ns(const struct policy *policy, const struct target *targets, unsigned count)
{
    double best = 1e9;
    volatile unsigned allowed = 0;
    for (unsigned try = 0; try < tries; try++) {
        double start = now_s();
        for (unsigned i = 0; i < DECISIONS; i++) {
            struct question question = {.target = &targets[i % count]};
            allowed = allowed + (policy_judge(policy, &question).outcome == OUTCOME_ALLOWED);
        }
        double each = (now_s() - start) * 1e9 / DECISIONS;
        best = each < best ? each : best;
    }
    return best;
}

static void measure(unsigned rules)
{
    static struct target targets[QUESTIONS];
    char folder[] = "/tmp/bench-policy-XXXXXX", path[512];
    struct faults faults = {0};
    if (mkdtemp(folder) == NULL)
        abort();
    size_t text = write_configuration(folder, rules);
    snprintf(path, sizeof(path), "%s/gateway.ini", folder);

    size_t heap_before = heap_bytes();
    double start = now_s();
    struct gateway_config *config = gateway_config_read(path, &faults);
    double read = now_s();
    struct policy *policy =
        config != NULL ? policy_compile(config->policies, config, &faults) : NULL;
    double compiled = now_s();
    faults_print(&faults, stderr);
    if (policy == NULL || policy_rule_count(policy) != rules)
        abort();
    figure("read", rules, (read - start) * 1e3, "ms");
    figure("compile", rules, (compiled - read) * 1e3, "ms");
    figure("load", rules, (compiled - start) * 1e3, "ms");
    figure("memory_beyond_text", rules, (double)(heap_bytes() - heap_before - text) / rules,
           "bytes/rule");
    make_questions(targets, rules, true);
    figure("decision_known_host", rules, decision_ns(policy, targets, QUESTIONS), "ns");
    figure("decision_few_hosts", rules, decision_ns(policy, targets, FEW), "ns");
    make_questions(targets, rules, false);
    figure("decision_unknown_host", rules, decision_ns(policy, targets, QUESTIONS), "ns");
    policy_free(policy);
    gateway_config_free(config);
    faults_free(&faults);
    remove_configuration(folder);
}

int main(int argc, char **argv)
{
    unsigned long rules = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    if (argc > 2)
        tries = (unsigned)strtoul(argv[2], NULL, 10);
    if (rules < 10 || rules > 50000000) {
        fprintf(stderr, "usage: bench-policy [RULES [TRIES]]   (10 to 50000000)\n");
        return 64;
    }
    figure("wait_for_memory", 0, wait_ns(), "ns");
    measure(10);
    measure((unsigned)rules);
    return 0;
}
