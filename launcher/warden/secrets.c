#include "launcher/warden/secrets.h"

#include "launcher/warden/answers.h"
#include "launcher/warden/judge.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>

bool secrets_watch(const struct fence *fence)
{
    for (size_t i = 0; i < fence->count; i++) {
        const struct fence_rule *rule = &fence->rules[i];
        bool hides = rule->verb == FENCE_DENY_READ || rule->verb == FENCE_HIDE_SECRET;
        if (hides && rule->type != PATH_DIR)
            return true;
    }
    return false;
}

static bool is_readable(const struct call *call, const char *path)
{
    return judge_is_private(path) || fence_view(call->ward->law->fence, path).readable;
}

/* A file that has been replaced once more while it was held is told as "NAME (deleted)". */
static bool is_readable_without_mark(const struct call *call, char path[PATH_MAX])
{
    static const char mark[] = " (deleted)";
    size_t len = strlen(path), mark_len = sizeof(mark) - 1;
    if (len <= mark_len || strcmp(path + len - mark_len, mark) != 0)
        return true;
    path[len - mark_len] = '\0';
    if (!is_readable(call, path))
        return false;
    path[len - mark_len] = mark[0];
    return true;
}

/* A mount that hides shows an empty directory, or what nobody may open: that is left to it. */
static bool is_masked(const struct ward *ward, int fd)
{
    struct statx st;
    return statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) == 0 &&
           ward_is_mask(ward, st.stx_mnt_id);
}

bool secrets_judge(struct call *call, int fd, const struct stat *st, char path[PATH_MAX])
{
    if (ward_path_of(call->ward, fd, path, PATH_MAX) == 0)
        return false;
    if (path[0] != '/' ||
        (is_readable(call, path) && (st->st_nlink > 0 || is_readable_without_mark(call, path))) ||
        judge_is_stream(st) || is_masked(call->ward, fd))
        return true;
    judge_report(call, "read", path, EACCES, fence_view(call->ward->law->fence, path).read_setting);
    return false;
}

/* What it may read of itself in /proc it may even where nobody else may look into it, and some of
 * it anybody may, as `ps` does. */
static bool is_open_process(struct call *call, const char *path)
{
    static const char *const public[] = {"cgroup", "cmdline", "comm",  "limits", "mountinfo",
                                         "mounts", "stat",    "statm", "status"};
    char own[32];
    snprintf(own, sizeof(own), "/proc/%d", call_caller(call)->inner_pid);
    if (path_within(path, own))
        return true;
    const char *name = strrchr(path, '/') + 1;
    for (size_t i = 0; i < sizeof(public) / sizeof(public[0]); i++)
        if (strcmp(name, public[i]) == 0)
            return true;
    return false;
}

static bool is_plain(mode_t mode)
{
    return S_ISREG(mode) || S_ISDIR(mode);
}

static int64_t open_judged(struct call *call, int found, uint64_t flags)
{
    char path[PATH_MAX];
    struct stat st;
    if (fstat(found, &st) != 0)
        return -errno;
    if (S_ISLNK(st.st_mode))
        return -ELOOP;
    if (!secrets_judge(call, found, &st, path))
        return path[0] == '\0' ? -ENAMETOOLONG : -EACCES;
    if (!is_plain(st.st_mode) || (spot_on_proc(found) && !is_open_process(call, path)))
        return open_found(call, found, path, (int)flags, &st);
    autoclose int fd = openat(call->ward->host_proc, ward_link_to(found).text,
                              ((int)flags & ~O_NOFOLLOW) | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? -errno : call_give(call, fd, -1, flags);
}

/* File systems do not come and go in the sandbox, so one look at each is enough. */
static bool is_on_proc(struct ward *ward, int fd, dev_t dev)
{
    if (ward->plain_dev == dev && dev != 0)
        return false;
    bool on_proc = spot_on_proc(fd);
    if (!on_proc)
        ward->plain_dev = dev;
    return on_proc;
}

/* Files and directories, which is what most opens are of, in as few steps as can be. They are
 * looked at before, as to open a FIFO wakes whoever waits for it, and after, when nothing can
 * change. 0: it takes more than that. */
static int64_t open_at_once(struct call *call, int base, const char *path, uint64_t flags)
{
    const int settable = O_APPEND | O_ASYNC | O_DIRECT | O_NOATIME;
    int nofollow = (flags & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0;
    char place[PATH_MAX];
    struct stat st;
    if (fstatat(base, path, &st, nofollow) != 0 || !is_plain(st.st_mode))
        return 0;
    struct open_how how = {.flags = (flags & 0x7fffffff) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_MAGICLINKS};
    autoclose int fd = (int)syscall(SYS_openat2, base, path, &how, sizeof(how));
    if (fd < 0 || fstat(fd, &st) != 0 || !is_plain(st.st_mode) ||
        is_on_proc(call->ward, fd, st.st_dev))
        return 0;
    if (!secrets_judge(call, fd, &st, place))
        return place[0] == '\0' ? -ENAMETOOLONG : -EACCES;
    if ((flags & O_NONBLOCK) == 0 && fcntl(fd, F_SETFL, (int)flags & settable) != 0)
        return -errno;
    return call_give(call, fd, -1, flags);
}

int64_t secrets_open(struct call *call, int dir_fd, uint64_t address, uint64_t flags)
{
    char path[PATH_MAX];
    int result = call_read_string(call, address, path, sizeof(path));
    if (result != 0)
        return result;
    if (path[0] == '\0')
        return -ENOENT;
    int base;
    if (!spot_base(call, dir_fd, path, &base))
        return -errno;
    int64_t answer = open_at_once(call, base, path, flags);
    if (answer != 0) {
        call_close_base(call, base);
    } else {
        autoclose int found = spot_object(call, base, path, flags & O_NOFOLLOW);
        answer = found < 0 ? -errno : open_judged(call, found, flags);
    }
    /* What the mounts hide is told as where they alone decide. */
    if (answer < 0 && !call->reported)
        answer_reading(call, dir_fd, address, flags);
    return answer;
}
