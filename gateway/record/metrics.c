#include "record/metrics.h"

#include "srt/cleanup.h"

#include <dirent.h>
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
        snprintf(number, sizeof(number), " %.9g\n", value);
    put_text(out, number);
}

void metrics_single(struct json *out, const char *name, const char *type, const char *help,
                    double value)
{
    metrics_family(out, name, type, help);
    metrics_sample(out, name, NULL, value);
}

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void put_memory(struct json *out)
{
    autofclose FILE *file = fopen("/proc/self/statm", "re");
    unsigned long virtual_pages, resident_pages;
    if (file == NULL || fscanf(file, "%lu %lu", &virtual_pages, &resident_pages) != 2)
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

/* The 22nd field of /proc/self/stat counts ticks since the boot; the name before it may hold spaces
 * and parentheses, so it is read from its last one on. */
static void put_start_time(struct json *out)
{
    char text[1024];
    struct timespec now, boot;
    unsigned long long ticks = 0;
    autofclose FILE *file = fopen("/proc/self/stat", "re");
    if (file == NULL || fgets(text, sizeof(text), file) == NULL)
        return;
    const char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL || sscanf(at, "%llu", &ticks) != 1)
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
