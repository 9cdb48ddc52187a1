/*
 * What block-list costs with millions of names: reading the file, making the table, bytes a name,
 * and a look-up with ten names and with all of them. One JSON object a figure on stdout.
 *
 *   bench-block-list [NAMES]      default 5000000
 */
#include "filters/builtin.h"
#include "filters/filter_set.h"
#include "micro/measure.h"
#include "srt/cleanup.h"

#include <sys/stat.h>

enum { QUESTIONS = 65536, HOST_MAX = 64, TRIES = 10 };

static void figure(const char *name, unsigned names, double value, const char *unit)
{
    printf("{\"bench\":\"block-list\",\"figure\":\"%s\",\"names\":%u,\"value\":%.1f,\"unit\":\"%"
           "s\"",
           name, names, value, unit);
    print_machine();
    fflush(stdout);
}

static void name_of(unsigned i, char out[HOST_MAX])
{
    snprintf(out, HOST_MAX, "m%u.zone%u.example.test", i, i % 1000);
}

static size_t write_list(const char *path, unsigned names)
{
    char name[HOST_MAX];
    struct stat st;
    FILE *file = fopen(path, "w");
    if (file == NULL)
        abort();
    for (unsigned i = 0; i < names; i++) {
        name_of(i, name);
        fprintf(file, "%s\n", name);
    }
    if (fclose(file) != 0 || stat(path, &st) != 0)
        abort();
    return (size_t)st.st_size;
}

/* The best of several tries: other work in the caches only ever adds. */
static double look_up_ns(const struct filter_set *set, unsigned names, bool listed)
{
    static char hosts[QUESTIONS][HOST_MAX];
    const struct filter *filter = &set->items[0];
    double best = 1e9;
    for (unsigned i = 0; i < QUESTIONS; i++)
        name_of(listed ? dice(names) : names + i, hosts[i]);
    for (unsigned try = 0; try < TRIES; try++) {
        const double start = now_s();
        for (unsigned i = 0; i < QUESTIONS; i++) {
            const struct srt_filter_request request = {
                .size = sizeof(request), .host = {hosts[i], strlen(hosts[i])}, .port = 443};
            struct srt_filter_ruling ruling;
            const enum srt_filter_verdict verdict =
                filter->module->on_request(filter->instance, &request, NULL, NULL, &ruling);
            if ((verdict == SRT_FILTER_DENY) != listed)
                abort();
        }
        const double each = (now_s() - start) * 1e9 / QUESTIONS;
        best = each < best ? each : best;
    }
    return best;
}

static void measure(const char *path, unsigned names)
{
    static const struct srt_filter_host host = {.size = sizeof(host)};
    char text[512];
    struct faults faults = {0};
    const size_t bytes = write_list(path, names);
    snprintf(text, sizeof(text), "[filter listed]\nmodule = block-list\nfile = %s\n", path);
    struct gateway_config *config = gateway_config_read_text("bench.ini", str_of(text), &faults);
    const size_t heap_before = heap_bytes();
    const double start = now_s();
    struct filter_set *set = filter_set_create(config, &host, &faults);
    const double loaded = now_s();
    faults_print(&faults, stderr);
    if (faults.count > 0)
        abort();
    figure("load", names, (loaded - start) * 1e3, "ms");
    figure("text", names, (double)bytes / names, "bytes/name");
    figure("memory", names, (double)(heap_bytes() - heap_before) / names, "bytes/name");
    figure("look_up_listed", names, look_up_ns(set, names, true), "ns");
    figure("look_up_unknown", names, look_up_ns(set, names, false), "ns");
    const double before_free = now_s();
    filter_set_free(set);
    gateway_config_free(config);
    figure("free", names, (now_s() - before_free) * 1e3, "ms");
    faults_free(&faults);
}

int main(int argc, char **argv)
{
    char path[] = "/tmp/bench-block-list-XXXXXX";
    const unsigned names = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 5000000;
    autoclose int fd = mkstemp(path);
    if (fd < 0 || names == 0)
        return 64;
    measure(path, 10);
    measure(path, names);
    unlink(path);
    return 0;
}
