#include "dns/watched_file.h"

#include <stdint.h>
#include <string.h>
#include <time.h>

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           is_same_time(&a->st_mtim, &b->st_mtim) && is_same_time(&a->st_ctim, &b->st_ctim);
}

/* The kernel stamps files with the time of its last tick (up to 10 ms old). A file this fresh may
 * still be written to without its stamp or size showing it. */
static bool is_fresh(const struct stat *st)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t age_ms = (int64_t)(now.tv_sec - st->st_ctim.tv_sec) * 1000 +
                     (now.tv_nsec - st->st_ctim.tv_nsec) / 1000000;
    return age_ms < 20;
}

static struct stat look(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        memset(&st, 0, sizeof(st));
    return st;
}

static void remember(struct watched_file *file, const struct stat *st)
{
    file->seen = *st;
    if (is_fresh(st))
        file->seen.st_ino = (ino_t)-1;
}

void watched_file_init(struct watched_file *file, const char *path)
{
    struct stat st = look(path);
    *file = (struct watched_file){.path = path};
    remember(file, &st);
}

bool watched_file_changed(struct watched_file *file, double now_s)
{
    double since_s = now_s - file->checked_s;
    if (since_s >= 0 && since_s < 1.0 / WATCHED_FILE_CHECKS_PER_S)
        return false;
    file->checked_s = now_s;

    struct stat st = look(file->path);
    if (is_same(&st, &file->seen))
        return false;
    remember(file, &st);
    return true;
}
