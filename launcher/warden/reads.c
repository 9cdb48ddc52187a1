#include "launcher/warden/answers.h"
#include "launcher/warden/judge.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>

enum { UPWARDS_MAX = 64 };

/* Whether what is open lies on a mount that hides something, and the path of that place. */
static bool is_hidden(const struct ward *ward, int fd, char path[PATH_MAX])
{
    struct statx st;
    return statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) == 0 &&
           ward_is_mask(ward, st.stx_mnt_id) && ward_path_of(ward, fd, path, PATH_MAX) > 0;
}

/* What most opens are: of something that is there, or that is missing in a directory that is, with
 * nothing hidden in the way. One look or two tell, and nothing has to be opened. */
static bool is_plain(struct call *call, int dir_fd, const char *path, uint64_t flags)
{
    struct statx st;
    int nofollow = (flags & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0;
    if (path[0] == '\0')
        return true;
    if (call_look(call, dir_fd, path, nofollow, &st))
        return !ward_is_mask(call->ward, st.stx_mnt_id);
    char parent[PATH_MAX];
    const char *slash = errno == ENOENT ? strrchr(path, '/') : NULL;
    if (slash == NULL || slash == path || slash[1] == '\0')
        return false;
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = '\0';
    return call_look(call, dir_fd, parent, 0, &st) && S_ISDIR(st.stx_mode) &&
           !ward_is_mask(call->ward, st.stx_mnt_id);
}

static int look(int base, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | (flags & O_NOFOLLOW),
                           .resolve = RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, base, path, &how, sizeof(how));
}

/* What is asked for in a hidden directory is not there: then the nearest directory above that is
 * there tells. Cuts `path` to that one; `rest` is what was cut off. */
static int look_above(int base, char *path, const char **rest)
{
    for (unsigned i = 0; i < UPWARDS_MAX; i++) {
        char *slash = strrchr(path, '/');
        if (slash == path)
            return -1;
        if (slash == NULL) {
            *rest = path;
            return look(base, ".", 0);
        }
        *slash = '\0';
        *rest = slash + 1;
        int fd = look(base, path, 0);
        if (fd >= 0 || errno != ENOENT)
            return fd;
    }
    return -1;
}

/* Mounts hide; this only tells. So the kernel runs the call whatever is found, and a path that
 * changes meanwhile costs a report and nothing else. */
int64_t answer_reading(struct call *call, int dir_fd, uint64_t address, uint64_t flags)
{
    char path[PATH_MAX], asked[PATH_MAX], place[PATH_MAX];
    int base; /* given back below, not closed: it may be kept for the next call */
    if (call->ward->mask_count == 0 || call_read_string(call, address, path, sizeof(path)) != 0 ||
        is_plain(call, dir_fd, path, flags) || !spot_base(call, dir_fd, path, &base))
        return ANSWER_RUN_IT;
    memcpy(asked, path, strlen(path) + 1);
    const char *rest = "";
    autoclose int fd = look(base, path, flags);
    int error = fd < 0 ? ENOENT : 0;
    if (fd < 0 && errno == ENOENT)
        fd = look_above(base, path, &rest);
    call_close_base(call, base);
    struct stat st;
    if (fd < 0 || !is_hidden(call->ward, fd, place) || fstat(fd, &st) != 0)
        return ANSWER_RUN_IT;
    if (error == 0 && !S_ISDIR(st.st_mode))
        error = EACCES;
    /* The name that was cut off is still there in the copy. */
    rest = error == ENOENT ? asked + (rest - path) : "";
    autofree char *whole = rest[0] == '\0' ? must_copy(place) : path_join(place, rest);
    judge_report(call, "read", whole, error,
                 fence_view(call->ward->law->fence, whole).read_setting);
    return ANSWER_RUN_IT;
}
