#include "launcher/warden/judge.h"

#include "launcher/tree.h"
#include "launcher/warden/sockets.h"
#include "launcher/warden/warden.h"
#include "srt/cleanup.h"
#include "srt/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

enum {
    MOVE_SEARCH_MS = 2000, /* for a directory that gets a name which begins a protected one */
    SLOW_MS = 2000,        /* for the launcher to take a report */
    SLOW_AGAIN_MS = 10000,
};

/* What a process says of itself, as one printable line. */
static void read_words(struct call *call, const char *name, char *out, size_t size)
{
    autoclose int fd = call_open_proc(call, name, O_RDONLY);
    ssize_t len = fd < 0 ? 0 : read(fd, out, size - 1);
    while (len > 0 && (out[len - 1] == '\0' || out[len - 1] == '\n'))
        len--;
    out[len > 0 ? len : 0] = '\0';
    for (ssize_t i = 0; i < len; i++)
        if (out[i] < ' ' || out[i] > '~')
            out[i] = out[i] == '\0' ? ' ' : '?';
}

/* Waits a moment for a launcher that is behind, so that nothing is lost in a flood; not again soon
 * for one that has stopped reading. */
static void send_report(struct ward *ward, const struct warden_report *message)
{
    size_t size = offsetof(struct warden_report, path) + strlen(message->path) + 1;
    struct pollfd wake = {.fd = ward->reports, .events = POLLOUT};
    do {
        if (send(ward->reports, message, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size)
            return;
    } while (errno == EAGAIN && clock_ms() - ward->slow_ms > SLOW_AGAIN_MS &&
             poll(&wake, 1, SLOW_MS) > 0);
    if (errno == EAGAIN && clock_ms() - ward->slow_ms > SLOW_AGAIN_MS)
        ward->slow_ms = clock_ms();
    __atomic_fetch_add(ward->missed, 1, __ATOMIC_RELAXED);
}

void judge_report_as(struct call *call, struct warden_report *message)
{
    if (call->reported)
        return;
    call->reported = true;
    message->pid = call_caller(call)->inner_pid;
    read_words(call, "comm", message->comm, sizeof(message->comm));
    read_words(call, "cmdline", message->command, sizeof(message->command));
    send_report(call->ward, message);
}

void judge_report(struct call *call, const char *operation, const char *path, int error,
                  const char *setting)
{
    struct warden_report message = {.kind = WARDEN_FILE, .error = error};
    snprintf(message.operation, sizeof(message.operation), "%s", operation);
    snprintf(message.setting, sizeof(message.setting), "%s", setting);
    snprintf(message.path, sizeof(message.path), "%s", path);
    judge_report_as(call, &message);
}

bool judge_is_private(const char *path)
{
    return path_within(path, "/dev") || path_within(path, "/proc");
}

bool judge_creation(struct call *call, const char *operation, const char *path, mode_t type)
{
    if (judge_is_private(path))
        return true;
    const struct fence *fence = call->ward->law->fence;
    struct fence_view view = fence_view(fence, path);
    const char *lead = S_ISDIR(type) ? NULL : protect_lead(&fence->protect, path, S_ISLNK(type));
    if (view.writable && lead == NULL)
        return true;
    judge_report(call, operation, path, EROFS, view.writable ? lead : view.write_setting);
    return false;
}

bool judge_may_create(const struct call *call, const char *path)
{
    const struct fence *fence = call->ward->law->fence;
    return !judge_is_private(path) && fence_view(fence, path).writable &&
           protect_lead(&fence->protect, path, false) == NULL;
}

bool judge_may_change(const struct call *call, const char *path)
{
    if (judge_is_private(path))
        return true;
    struct fence_view view = fence_view(call->ward->law->fence, path);
    return view.writable || view.fresh != PROTECT_NO_PART;
}

int64_t judge_result(struct call *call, const char *operation, const struct spot *spot,
                     int64_t result)
{
    if (result == -EROFS && !judge_is_private(spot->path))
        judge_report(call, operation, spot->path, EROFS,
                     fence_view(call->ward->law->fence, spot->path).write_setting);
    return result;
}

/* A name that the settings allow connections to is for what listens there, not for whatever socket
 * is moved to it. */
static bool brings_socket(const struct ward *ward, const char *from, const char *to)
{
    return socket_is_named(ward, to) && !socket_is_named(ward, from);
}

bool judge_socket(struct call *call, const char *operation, mode_t type, const char *from,
                  const char *to)
{
    if (!S_ISSOCK(type) || !brings_socket(call->ward, from, to))
        return true;
    judge_report(call, operation, to, EROFS, "network.allowUnixSockets");
    return false;
}

struct moved {
    const struct ward *ward;
    const struct fence *fence;
    const char *to;
    bool allowed;
};

static bool is_socket(const struct tree_entry *entry)
{
    struct stat st;
    return entry->type == PATH_FILE && lstat(entry->path, &st) == 0 && S_ISSOCK(st.st_mode);
}

static bool on_moved(void *context, const struct tree_entry *entry)
{
    struct moved *moved = context;
    /* What cannot be listed now can be after the move. */
    if (entry->type == PATH_UNREADABLE)
        return moved->allowed = false;
    autofree char *path = path_join(moved->to, entry->relative);
    const struct fence_view before = fence_view(moved->fence, entry->path);
    const struct fence_view after = fence_view(moved->fence, path);
    /* Neither does something become what nobody outside has made, nor is free what somebody has:
     * the directories above a mount do not move, but on what has come since the start lies none. */
    if (before.writable != after.writable || (!before.readable && after.readable))
        moved->allowed = false;
    if (entry->type == PATH_SYMLINK && protect_lead(&moved->fence->protect, path, true) != NULL)
        moved->allowed = false;
    if (is_socket(entry) && brings_socket(moved->ward, entry->path, path))
        moved->allowed = false;
    return moved->allowed && entry->type == PATH_DIR;
}

bool judge_move(struct call *call, const struct spot *from, mode_t type, const char *to)
{
    if (!S_ISDIR(type))
        return true;
    const struct fence *fence = call->ward->law->fence;
    if (protect_lead(&fence->protect, to, true) == NULL && !fence_differs_below(fence, to) &&
        !fence_differs_below(fence, from->path) && !socket_names_below(call->ward, to))
        return true;
    struct moved moved = {.ward = call->ward, .fence = fence, .to = to, .allowed = true};
    return tree_walk(from->path, clock_ms() + MOVE_SEARCH_MS, on_moved, &moved, NULL) == 0 &&
           moved.allowed;
}

bool judge_is_stream(const struct stat *st)
{
    struct stat stream;
    for (int i = 0; i < 3; i++)
        if (fstat(i, &stream) == 0 && stream.st_dev == st->st_dev && stream.st_ino == st->st_ino)
            return true;
    return false;
}

bool judge_change(const struct ward *ward, int fd, char path[PATH_MAX], struct fence_view *view)
{
    struct stat st;
    *view = (struct fence_view){.writable = true};
    if (fstat(fd, &st) != 0)
        return true;
    bool named = S_ISREG(st.st_mode) && st.st_nlink > 0;
    if ((!named && !S_ISFIFO(st.st_mode)) || judge_is_stream(&st))
        return true;
    /* A name that is too long to be told may be a guarded one, and shorter when it is moved. */
    if (ward_path_of(ward, fd, path, PATH_MAX) == 0) {
        *view = (struct fence_view){.write_setting = "a path that is too long"};
        return false;
    }
    if (path[0] != '/' || judge_is_private(path))
        return true;
    *view = fence_view(ward->law->fence, path);
    const char *lead = protect_lead(&ward->law->fence->protect, path, false);
    if (view->writable && lead != NULL) {
        view->writable = false;
        view->write_setting = lead;
    }
    return view->writable;
}
