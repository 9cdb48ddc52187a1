#include "launcher/warden/judge.h"

#include "launcher/clock.h"
#include "launcher/tree.h"
#include "launcher/warden/warden.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

enum { MOVE_SEARCH_MS = 2000 }; /* for a directory that gets a name which begins a protected one */

void judge_report(struct call *call, const char *operation, const char *path, int error,
                  const char *setting)
{
    struct ward *ward = call->ward;
    if (call->reported)
        return;
    call->reported = true;
    struct warden_report message = {.error = error, .missed = ward->missed};
    message.pid = call_caller(call)->inner_pid;
    autoclose int fd = call_open_proc(call, "comm", O_RDONLY);
    ssize_t len = fd < 0 ? 0 : read(fd, message.comm, sizeof(message.comm) - 1);
    if (len > 0 && message.comm[len - 1] == '\n')
        message.comm[len - 1] = '\0';
    snprintf(message.operation, sizeof(message.operation), "%s", operation);
    snprintf(message.setting, sizeof(message.setting), "%s", setting);
    snprintf(message.path, sizeof(message.path), "%s", path);
    size_t size = offsetof(struct warden_report, path) + strlen(message.path) + 1;
    if (send(ward->reports, &message, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size)
        ward->missed = 0;
    else
        ward->missed++;
}

bool judge_is_private(const char *path)
{
    return path_within(path, "/dev") || path_within(path, "/proc");
}

bool judge_creation(struct call *call, const char *operation, const char *path, mode_t type)
{
    if (judge_is_private(path))
        return true;
    const struct fence *fence = call->ward->fence;
    struct fence_view view = fence_view(fence, path);
    const char *lead = S_ISDIR(type) ? NULL : protect_lead(&fence->protect, path, S_ISLNK(type));
    if (view.writable && lead == NULL)
        return true;
    judge_report(call, operation, path, EROFS, view.writable ? lead : view.write_setting);
    return false;
}

int64_t judge_result(struct call *call, const char *operation, const struct spot *spot,
                     int64_t result)
{
    if (result == -EROFS && !judge_is_private(spot->path))
        judge_report(call, operation, spot->path, EROFS,
                     fence_view(call->ward->fence, spot->path).write_setting);
    return result;
}

struct moved {
    const struct fence *fence;
    const char *to;
    bool allowed;
};

static bool on_moved(void *context, const struct tree_entry *entry)
{
    struct moved *moved = context;
    autofree char *path = path_join(moved->to, entry->relative);
    /* What could not be written before the move is guarded by mounts that do not move. */
    if (fence_view(moved->fence, entry->path).writable && !fence_view(moved->fence, path).writable)
        moved->allowed = false;
    if (entry->type == PATH_SYMLINK && protect_lead(&moved->fence->protect, path, true) != NULL)
        moved->allowed = false;
    return moved->allowed && entry->type == PATH_DIR;
}

bool judge_move(struct call *call, const struct spot *from, const char *to)
{
    struct stat st;
    if (fstatat(from->dir, from->name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode))
        return true;
    if (protect_lead(&call->ward->fence->protect, to, true) == NULL &&
        !fence_differs_below(call->ward->fence, to))
        return true;
    struct moved moved = {.fence = call->ward->fence, .to = to, .allowed = true};
    return tree_walk(from->path, clock_ms() + MOVE_SEARCH_MS, on_moved, &moved, NULL) == 0 &&
           moved.allowed;
}

bool judge_change(const struct ward *ward, int fd, char path[PATH_MAX], struct fence_view *view)
{
    struct stat st, stream;
    *view = (struct fence_view){.writable = true};
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink == 0)
        return true;
    for (int i = 0; i < 3; i++)
        if (fstat(i, &stream) == 0 && stream.st_dev == st.st_dev && stream.st_ino == st.st_ino)
            return true;
    ward_path_of(ward, fd, path, PATH_MAX);
    if (path[0] != '/' || judge_is_private(path))
        return true;
    *view = fence_view(ward->fence, path);
    return view->writable;
}
