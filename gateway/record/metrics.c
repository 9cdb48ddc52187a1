#include "record/metrics.h"

#include "srt/cleanup.h"
#include "srt/str.h"

#include <dirent.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

static void put_text(struct json *out, const char *text)
{
    json_append(out, str_of(text));
}

void metrics_family(struct json *out, const char *name, const char *type, const char *help)
{
    const char *parts[] = {"# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        put_text(out, parts[i]);
}

static void put_label_value(struct json *out, const char *value)
{
    for (; *value != '\0'; value++) {
        if (*value == '\\' || *value == '"')
            put_text(out, "\\");
        if (*value == '\n')
            put_text(out, "\\n");
        else
            json_append(out, (struct str){value, 1});
    }
}

void metrics_sample(struct json *out, const char *name, const struct metrics_label *labels,
                    double value)
{
    char number[40];
    put_text(out, name);
    for (const struct metrics_label *label = labels; label != NULL && label->name != NULL;
         label++) {
        put_text(out, label == labels ? "{" : ",");
        put_text(out, label->name);
        put_text(out, "=\"");
        put_label_value(out, label->value);
        put_text(out, label[1].name == NULL ? "\"}" : "\"");
    }
    if (floor(value) == value && fabs(value) < 1e15)
        snprintf(number, sizeof(number), " %" PRId64 "\n", (int64_t)value);
    else
        snprintf(number, sizeof(number), " %.*g\n", DBL_DIG,
                 value); /* times are 10 digits before the point */
    put_text(out, number);
}

void metrics_single(struct json *out, const char *name, const char *type, const char *help,
                    double value)
{
    metrics_family(out, name, type, help);
    metrics_sample(out, name, NULL, value);
}

static const struct {
    uint64_t ns;
    const char *seconds;
} bounds[METRICS_BUCKETS - 1] = {
    {10000, "1e-05"},      {50000, "5e-05"},   {100000, "0.0001"},  {500000, "0.0005"},
    {1000000, "0.001"},    {5000000, "0.005"}, {10000000, "0.01"},  {50000000, "0.05"},
    {100000000, "0.1"},    {500000000, "0.5"}, {1000000000, "1.0"}, {5000000000, "5.0"},
    {10000000000, "10.0"},
};

size_t metrics_bucket(uint64_t ns)
{
    size_t bucket = 0;
    while (bucket < METRICS_BUCKETS - 1 && ns > bounds[bucket].ns)
        bucket++;
    return bucket;
}

void metrics_histogram(struct json *out, const char *name, const struct metrics_label *labels,
                       const struct metrics_histogram *histogram)
{
    struct metrics_label with_bound[5] = {0};
    char sample[128];
    size_t count = 0;
    uint64_t sum = 0;
    for (; labels != NULL && labels[count].name != NULL && count < 3; count++)
        with_bound[count] = labels[count];
    snprintf(sample, sizeof(sample), "%s_bucket", name);
    for (size_t i = 0; i < METRICS_BUCKETS; i++) {
        const bool last = i == METRICS_BUCKETS - 1;
        sum += histogram->buckets[i];
        with_bound[count] = (struct metrics_label){"le", last ? "+Inf" : bounds[i].seconds};
        metrics_sample(out, sample, with_bound, (double)sum);
    }
    snprintf(sample, sizeof(sample), "%s_sum", name);
    metrics_sample(out, sample, labels, (double)histogram->sum_ns / 1e9);
    snprintf(sample, sizeof(sample), "%s_count", name);
    metrics_sample(out, sample, labels, (double)sum);
}

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* The number in the `index`-th place (from 0) of words between spaces. */
static bool number_at(const char *text, size_t index, uint64_t *out)
{
    while (index-- > 0) {
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    return str_uint((struct str){text, strcspn(text, " \n")}, UINT64_MAX, out);
}

static bool read_line(const char *path, char *text, int size)
{
    autofclose FILE *file = fopen(path, "re");
    return file != NULL && fgets(text, size, file) != NULL;
}

static void put_memory(struct json *out)
{
    char text[256];
    uint64_t virtual_pages, resident_pages;
    if (!read_line("/proc/self/statm", text, sizeof(text)) || !number_at(text, 0, &virtual_pages) ||
        !number_at(text, 1, &resident_pages))
        return;
    double page = (double)sysconf(_SC_PAGESIZE);
    metrics_single(out, "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.",
                   (double)virtual_pages * page);
    metrics_single(out, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.",
                   (double)resident_pages * page);
}

static void put_descriptors(struct json *out)
{
    struct rlimit limit;
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (dir != NULL) {
        for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
            count += entry->d_name[0] != '.';
        closedir(dir);
        metrics_single(out, "process_open_fds", "gauge", "Number of open file descriptors.",
                       (double)(count - 1)); /* without the one that counts */
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        metrics_single(out, "process_max_fds", "gauge", "Maximum number of open file descriptors.",
                       (double)limit.rlim_cur);
}

/* The 22nd field of /proc/self/stat counts ticks since the boot; the name in the second may hold
 * spaces and parentheses, so places are counted from its last one, before the third field. */
static void put_start_time(struct json *out)
{
    char text[1024];
    struct timespec now, boot;
    uint64_t ticks;
    if (!read_line("/proc/self/stat", text, sizeof(text)))
        return;
    const char *name_end = strrchr(text, ')');
    if (name_end == NULL || !number_at(name_end, 22 - 2, &ticks))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    double booted = (double)(now.tv_sec - boot.tv_sec) + (double)(now.tv_nsec - boot.tv_nsec) / 1e9;
    metrics_single(out, "process_start_time_seconds", "gauge",
                   "Start time of the process since unix epoch in seconds.",
                   booted + (double)ticks / (double)sysconf(_SC_CLK_TCK));
}

void metrics_process(struct json *out)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        metrics_single(out, "process_cpu_seconds_total", "counter",
                       "Total user and system CPU time spent in seconds.",
                       seconds(usage.ru_utime) + seconds(usage.ru_stime));
    put_memory(out);
    put_descriptors(out);
    put_start_time(out);
}
