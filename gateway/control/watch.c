#include "control/watch.h"

#include "srt/must.h"

#include <ev.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const double settle_s = 0.2;
static const double look_s = 2.0;

enum { LINKS_MAX = 40 }; /* as the kernel's own limit */

/* No IN_MODIFY: a log in the same directory would never let it settle, and who writes also closes.
 */
enum {
    EVENTS = IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_ATTRIB |
             IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR
};

struct watched {
    char *path;
    uint64_t mark; /* how it looked before it was read last */
};

struct watch {
    struct ev_loop *loop;
    ev_io notice;
    ev_timer settle, look;
    void (*changed)(void *arg);
    void *arg;
    int fd; /* inotify; -1: none */
    struct watched *paths;
    size_t count;
    uint64_t reported; /* how the files looked when they were last reported, or marked */
    uint64_t seen;     /* how they looked a moment ago, while settling */
    struct timespec marked_at;
};

static const uint64_t hash_start = 0xcbf29ce484222325u;

static uint64_t mix(uint64_t hash, uint64_t value)
{
    for (int byte = 0; byte < 8; byte++) {
        hash = (hash ^ (value & 255)) * 0x100000001b3u; /* FNV-1a */
        value >>= 8;
    }
    return hash;
}

static uint64_t look_of(const struct stat *st)
{
    uint64_t hash = mix(hash_start, st->st_dev);
    hash = mix(hash, st->st_ino);
    hash = mix(hash, (uint64_t)st->st_size);
    hash = mix(hash, (uint64_t)st->st_mtim.tv_sec);
    hash = mix(hash, (uint64_t)st->st_mtim.tv_nsec);
    hash = mix(hash, (uint64_t)st->st_ctim.tv_sec);
    return mix(hash, (uint64_t)st->st_ctim.tv_nsec);
}

static uint64_t look_at(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? look_of(&st) : 1;
}

static uint64_t look_at_all(const struct watch *watch)
{
    uint64_t hash = hash_start;
    for (size_t i = 0; i < watch->count; i++)
        hash = mix(hash, look_at(watch->paths[i].path));
    return hash;
}

/* ---- inotify on every directory in which a component of a path could be replaced ---- */

static void watch_dir(const struct watch *watch, const char *dir)
{
    if (watch->fd >= 0)
        (void)inotify_add_watch(watch->fd, dir[0] != '\0' ? dir : "/", EVENTS);
}

/* A path as the kernel walks it: what is left of it, and where that starts. */
struct walk {
    char rest[PATH_MAX], at[PATH_MAX]; /* `at` "" is the root */
    int links;
};

static bool walk_start(struct walk *walk, const char *path)
{
    char cwd[PATH_MAX] = "";
    *walk = (struct walk){0};
    if (path[0] != '/' && getcwd(cwd, sizeof(cwd)) == NULL)
        return false;
    int len = snprintf(walk->rest, sizeof(walk->rest), "%s/%s", cwd, path);
    return len > 0 && (size_t)len < sizeof(walk->rest);
}

/* The symlink at `walk->at` stands in a directory whose path has `dir_len` bytes: its target comes
 * before the rest. */
static bool walk_link(struct walk *walk, size_t dir_len)
{
    char target[PATH_MAX], rest[PATH_MAX];
    ssize_t len = readlink(walk->at, target, sizeof(target) - 1);
    if (len <= 0 || ++walk->links > LINKS_MAX)
        return false;
    target[len] = '\0';
    int printed = snprintf(rest, sizeof(rest), "%s/%s", target, walk->rest);
    if (printed < 0 || (size_t)printed >= sizeof(rest))
        return false;
    memcpy(walk->rest, rest, (size_t)printed + 1);
    walk->at[target[0] == '/' ? 0 : dir_len] = '\0';
    return true;
}

/* One component. Watched are the directories in which a symlink or the last component stands, and
 * the one in which what is missing would appear. False: the walk has ended. */
static bool walk_step(const struct watch *watch, struct walk *walk)
{
    const char *part = walk->rest + strspn(walk->rest, "/");
    size_t len = strcspn(part, "/"), dir_len = strlen(walk->at);
    bool last = part[len + strspn(part + len, "/")] == '\0';
    struct stat st;
    if (len == 0 || dir_len + len + 2 > sizeof(walk->at))
        return false;
    if (len == 2 && memcmp(part, "..", 2) == 0) {
        char *slash = strrchr(walk->at, '/');
        if (slash != NULL)
            *slash = '\0';
    } else if (len > 1 || part[0] != '.') {
        snprintf(walk->at + dir_len, sizeof(walk->at) - dir_len, "/%.*s", (int)len, part);
    }
    memmove(walk->rest, part + len, strlen(part + len) + 1);
    if (walk->at[0] == '\0')
        return true;
    bool missing = lstat(walk->at, &st) != 0;
    bool link = !missing && S_ISLNK(st.st_mode);
    if (last || link || missing) {
        char dir[PATH_MAX];
        snprintf(dir, sizeof(dir), "%.*s", (int)dir_len, walk->at);
        watch_dir(watch, dir);
    }
    return link ? walk_link(walk, dir_len) : !missing;
}

static void watch_path(const struct watch *watch, const char *path)
{
    struct walk walk;
    struct stat st;
    if (!walk_start(&walk, path))
        return;
    while (walk_step(watch, &walk))
        ;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        watch_dir(watch, path);
}

static void on_notice(struct ev_loop *loop, ev_io *io, int events)
{
    struct watch *watch = io->data;
    char notes[4096];
    (void)events;
    while (read(watch->fd, notes, sizeof(notes)) > 0)
        ;
    if (!ev_is_active(&watch->settle)) {
        watch->seen = look_at_all(watch);
        ev_timer_again(loop, &watch->settle);
    }
}

/* inotify follows inodes, not names, so a fresh instance is made each time. */
static void watch_everything(struct watch *watch)
{
    if (watch->fd >= 0) {
        ev_io_stop(watch->loop, &watch->notice);
        close(watch->fd);
    }
    watch->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watch->fd < 0)
        return;
    for (size_t i = 0; i < watch->count; i++)
        watch_path(watch, watch->paths[i].path);
    ev_io_init(&watch->notice, on_notice, watch->fd, EV_READ);
    watch->notice.data = watch;
    ev_io_start(watch->loop, &watch->notice);
}

/* ---- when to report ---- */

static void on_settle(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct watch *watch = timer->data;
    (void)events;
    uint64_t now = look_at_all(watch);
    if (now != watch->seen) {
        watch->seen = now; /* still moving */
        return;
    }
    ev_timer_stop(loop, timer);
    if (now == watch->reported)
        return;
    watch->reported = now;
    watch_everything(watch);
    watch->changed(watch->arg);
}

static void on_look(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct watch *watch = timer->data;
    (void)events;
    if (ev_is_active(&watch->settle))
        return;
    watch->seen = look_at_all(watch);
    if (watch->seen != watch->reported)
        ev_timer_again(loop, &watch->settle);
}

struct watch *watch_create(struct ev_loop *loop, void (*changed)(void *arg), void *arg)
{
    struct watch *watch = must(calloc(1, sizeof(*watch)));
    watch->loop = loop;
    watch->changed = changed;
    watch->arg = arg;
    watch->fd = -1;
    ev_timer_init(&watch->settle, on_settle, 0., settle_s);
    ev_timer_init(&watch->look, on_look, look_s, look_s);
    watch->settle.data = watch->look.data = watch;
    ev_timer_start(loop, &watch->look);
    return watch;
}

static void free_paths(struct watched *paths, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(paths[i].path);
    free(paths);
}

void watch_mark(struct watch *watch)
{
    /* The clock that the kernel stamps files with. */
    clock_gettime(CLOCK_REALTIME_COARSE, &watch->marked_at);
    for (size_t i = 0; i < watch->count; i++)
        watch->paths[i].mark = look_at(watch->paths[i].path);
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* How `path` looked when it was read: as it was marked, or, when it is new here, as it looks now
 * unless it has changed since. */
static uint64_t mark_of(const struct watch *watch, const char *path, size_t likely)
{
    struct stat st;
    if (likely < watch->count && strcmp(watch->paths[likely].path, path) == 0)
        return watch->paths[likely].mark;
    for (size_t i = 0; i < watch->count; i++)
        if (strcmp(watch->paths[i].path, path) == 0)
            return watch->paths[i].mark;
    if (stat(path, &st) != 0)
        return 1;
    bool marked = watch->marked_at.tv_sec != 0;
    return marked && !is_before(&st.st_ctim, &watch->marked_at) ? 0 : look_of(&st);
}

void watch_set(struct watch *watch, const char *const *paths, size_t count)
{
    struct watched *fresh = must(calloc(count + 1, sizeof(*fresh)));
    watch->reported = hash_start;
    for (size_t i = 0; i < count; i++) {
        fresh[i].path = must_copy(paths[i]);
        fresh[i].mark = mark_of(watch, paths[i], i);
        watch->reported = mix(watch->reported, fresh[i].mark);
    }
    free_paths(watch->paths, watch->count);
    watch->paths = fresh;
    watch->count = count;
    ev_timer_stop(watch->loop, &watch->settle);
    watch_everything(watch);
    watch->seen = look_at_all(watch);
    if (watch->seen != watch->reported)
        ev_timer_again(watch->loop, &watch->settle);
}

void watch_free(struct watch *watch)
{
    if (watch == NULL)
        return;
    if (watch->fd >= 0) {
        ev_io_stop(watch->loop, &watch->notice);
        close(watch->fd);
    }
    ev_timer_stop(watch->loop, &watch->settle);
    ev_timer_stop(watch->loop, &watch->look);
    free_paths(watch->paths, watch->count);
    free(watch);
}
