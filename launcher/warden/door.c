#include "launcher/warden/door.h"

#include "launcher/warden/answers.h"
#include "srt/cleanup.h"
#include "srt/str.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { OPEN_MAX_DOORS = 16, REPLACE_MS = 5000 };

/* A file that is being written. Told apart by the file in memory, whoever closes it. */
struct door {
    int file, dir; /* file -1 = free */
    struct stat st;
    mode_t mode;
    char name[NAME_MAX + 1];
};

/* Shared by the threads that answer. A file that its writer never closes keeps its place until
 * others have gone round: then it is as if it had not been opened. */
static struct {
    pthread_mutex_t lock;
    unsigned next;
    bool used[OPEN_MAX_DOORS];
    struct door doors[OPEN_MAX_DOORS];
} hall = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void door_drop(struct door *door)
{
    close(door->file);
    close(door->dir);
}

static void hall_add(const struct door *door)
{
    pthread_mutex_lock(&hall.lock);
    unsigned at = hall.next++ % OPEN_MAX_DOORS;
    if (hall.used[at])
        door_drop(&hall.doors[at]);
    hall.doors[at] = *door;
    hall.used[at] = true;
    pthread_mutex_unlock(&hall.lock);
}

/* Takes the one whose file this is, when something has been written. */
static bool hall_take(const struct stat *file, struct door *door)
{
    bool found = false;
    pthread_mutex_lock(&hall.lock);
    for (size_t i = 0; i < OPEN_MAX_DOORS && !found; i++) {
        const struct door *at = &hall.doors[i];
        if (!hall.used[i] || at->st.st_ino != file->st_ino || at->st.st_dev != file->st_dev)
            continue;
        *door = *at;
        hall.used[i] = false;
        found = true;
    }
    pthread_mutex_unlock(&hall.lock);
    return found;
}

static bool calls_itself(struct call *call, struct str name)
{
    char comm[20];
    autoclose int fd = call_open_proc(call, "comm", O_RDONLY);
    ssize_t len = fd < 0 ? 0 : read(fd, comm, sizeof(comm));
    return len > 0 && str_eq((struct str){comm, (size_t)len - 1}, name);
}

static bool is_git(struct call *call)
{
    return calls_itself(call, STR("git"));
}

/* The file that is there, or none; not where something else has the name. */
static bool is_replaceable(const struct spot *spot, int flags)
{
    struct stat st;
    if (fstatat(spot->dir, spot->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT;
    return S_ISREG(st.st_mode) && (flags & (O_EXCL | O_TRUNC)) == O_TRUNC;
}

bool door_leads_to(struct call *call, const struct spot *spot, int flags)
{
    return (flags & O_CREAT) != 0 && (flags & O_ACCMODE) != O_RDONLY &&
           (flags & (O_EXCL | O_TRUNC)) != 0 &&
           vet_is_written_in_place(vet_kind(call->ward->law->fence, spot->path)) &&
           is_replaceable(spot, flags) && is_git(call);
}

bool door_makes_empty(struct call *call, const struct spot *spot)
{
    enum vet_kind kind = vet_kind(call->ward->law->fence, spot->path);
    return (kind == VET_CONFIG || kind == VET_MODULE_CONFIG) && calls_itself(call, STR("cargo"));
}

/* A number that the caller does not use. Where another of its threads takes it at this very moment,
 * that one loses its file, which harms nobody else. */
static int free_number(struct call *call)
{
    for (int i = 0; i < DOOR_COUNT; i++) {
        char name[32];
        snprintf(name, sizeof(name), "fd/%d", DOOR_FIRST + i);
        autoclose int fd = call_open_proc(call, name, O_PATH);
        if (fd < 0 && errno == ENOENT)
            return DOOR_FIRST + i;
    }
    return -1;
}

static void refuse(struct call *call, const char *operation, const char *path, const char *why)
{
    char text[sizeof((struct warden_report){0}.setting)];
    snprintf(text, sizeof(text), "protected: git configuration%s%.90s", why[0] != '\0' ? ": " : "",
             why);
    judge_report(call, operation, path, EROFS, text);
}

int64_t door_open(struct call *call, const struct spot *spot, int flags, mode_t mode)
{
    int number = free_number(call);
    struct door door = {.mode = mode & 0777 & ~call_caller(call)->umask};
    autoclose int file = memfd_create("srt-git", MFD_CLOEXEC);
    autoclose int dir = fcntl(spot->dir, F_DUPFD_CLOEXEC, 0);
    if (number < 0 || file < 0 || dir < 0 || fstat(file, &door.st) != 0)
        return -EMFILE;
    memcpy(door.name, spot->name, sizeof(door.name));
    door.file = fcntl(file, F_DUPFD_CLOEXEC, 0);
    door.dir = steal_fd(&dir);
    hall_add(&door);
    int64_t given = call_give(call, file, number, (uint64_t)flags);
    if (given < 0) {
        struct door taken;
        if (hall_take(&door.st, &taken))
            door_drop(&taken);
        refuse(call, "create", spot->path, "descriptors up to 1023 have to be allowed");
        return -EROFS;
    }
    return given;
}

/* srt-launch stands outside, where the name is no mount point. Without `from` it is removed. */
static int replace_outside(void *context, int dir, const char *from, const char *to)
{
    const struct ward *ward = context;
    struct warden_report message = {.kind = WARDEN_REPLACE};
    int pair[2];
    int32_t error = EBUSY;
    snprintf(message.setting, sizeof(message.setting), "%s", from);
    snprintf(message.path, sizeof(message.path), "%s", to);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return -errno;
    autoclose int ours = pair[0], theirs = pair[1];
    struct pollfd room = {.fd = ward->reports, .events = POLLOUT};
    struct pollfd reply = {.fd = ours, .events = POLLIN};
    size_t size = offsetof(struct warden_report, path) + strlen(to) + 1;
    bool sent = poll(&room, 1, REPLACE_MS) > 0 &&
                fds_send(ward->reports, &message, size, (const int[]){dir, theirs}, 2);
    close(steal_fd(&theirs));
    if (!sent || poll(&reply, 1, REPLACE_MS) <= 0 ||
        read(ours, &error, sizeof(error)) != (ssize_t)sizeof(error))
        return -EBUSY;
    return -error;
}

bool door_lets_out(struct call *call, const struct spot *spot)
{
    return vet_kind(call->ward->law->fence, spot->path) == VET_MODULES &&
           S_ISREG(spot_type(spot)) && !spot->slash && is_git(call);
}

int64_t door_remove(struct call *call, const struct spot *spot)
{
    if (!call_waits(call))
        return -EINTR;
    if (unlinkat(spot->dir, spot->name, 0) == 0)
        return 0;
    return errno == EBUSY ? replace_outside(call->ward, spot->dir, "", spot->name) : -errno;
}

static struct vet_place place_at(const struct call *call, int dir, const char *name,
                                 const char *path)
{
    const struct fence *fence = call->ward->law->fence;
    return (struct vet_place){.fence = fence,
                              .kind = vet_kind(fence, path),
                              .dir = dir,
                              .name = name,
                              .path = path,
                              .replace = replace_outside,
                              .context = call->ward};
}

/* The directory may have been moved since the file was opened. */
static int64_t door_close(struct call *call, const struct door *door)
{
    char path[PATH_MAX + NAME_MAX + 2], why[VET_WHY_SIZE] = "";
    size_t len = ward_path_of(call->ward, door->dir, path, PATH_MAX);
    snprintf(path + len, sizeof(path) - len, "/%s", door->name);
    struct vet_place place = place_at(call, door->dir, door->name, path);
    if (len == 0 || !vet_is_written_in_place(place.kind))
        return -EROFS;
    int result = vet_put(&place, door->file, door->mode, why);
    if (result == -EROFS)
        refuse(call, "create", path, why);
    return result;
}

int64_t answer_close(struct call *call, const struct table_row *row, const uint64_t *args)
{
    (void)row;
    char name[32];
    struct stat st;
    struct door door;
    snprintf(name, sizeof(name), "fd/%u", (unsigned)args[0]);
    autoclose int file = call_open_proc(call, name, O_PATH);
    if (file < 0 || fstat(file, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0 ||
        !call_waits(call) || !hall_take(&st, &door))
        return ANSWER_RUN_IT;
    int64_t result = door_close(call, &door);
    door_drop(&door);
    return result == 0 ? ANSWER_RUN_IT : result;
}

/* What was allowed before there was a door is allowed to everybody. */
bool door_takes(struct call *call, const struct spot *from, const struct spot *to)
{
    enum vet_kind kind = vet_kind(call->ward->law->fence, to->path);
    if (kind == VET_NOTHING || from->slash || to->slash)
        return false;
    if (kind == VET_CONFIG || kind == VET_MODULE_CONFIG)
        return true;
    return (kind == VET_CHANGES || kind == VET_MODULE_CHANGES || kind == VET_MODULES) &&
           is_git(call);
}

int64_t door_rename(struct call *call, const struct spot *from, const struct spot *to)
{
    char why[VET_WHY_SIZE] = "";
    struct vet_place place = place_at(call, to->dir, to->name, to->path);
    int result = fence_view(call->ward->law->fence, from->path).writable
                     ? vet_rename(&place, from->dir, from->name, why)
                     : -EROFS;
    if (result == -EROFS)
        refuse(call, "rename", to->path, why);
    return result;
}
