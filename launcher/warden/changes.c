#include "launcher/warden/answers.h"
#include "launcher/warden/door.h"
#include "launcher/warden/held.h"
#include "launcher/warden/judge.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static bool may_change(const struct call *call, const char *path)
{
    if (judge_is_private(path))
        return true;
    struct fence_view view = fence_view(call->ward->law->fence, path);
    return view.writable || view.fresh != PROTECT_NO_PART;
}

/* Where a path stands the kernel would say EROFS by its mounts; and where none lies on it because
 * the file was replaced outside, we do. */
static int64_t judge_path(struct call *call, const struct table_row *row, const char *path)
{
    if (may_change(call, path))
        return ANSWER_RUN_IT;
    judge_report(call, row->operation, path, EROFS,
                 fence_view(call->ward->law->fence, path).write_setting);
    return -EROFS;
}

/* A device, a FIFO or a socket that is open is not of the tree. */
static int64_t change_descriptor(struct call *call, const struct table_row *row, int fd)
{
    char path[PATH_MAX];
    struct stat st;
    if (!call_path_of(call, fd, path) || may_change(call, path) || !call_stat_of(call, fd, &st) ||
        (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) || st.st_nlink == 0 || judge_is_stream(&st))
        return ANSWER_RUN_IT;
    return judge_path(call, row, path);
}

int64_t answer_change(struct call *call, const struct table_row *row, const uint64_t *args)
{
    uint64_t flags = row->aim > 0 ? args[row->aim] : 0;
    bool follow = row->aim >= 0 && (flags & AT_SYMLINK_NOFOLLOW) == 0;
    char first;
    if (row->aim == TABLE_DESCRIPTOR || args[1] == 0 ||
        ((flags & AT_EMPTY_PATH) != 0 && call_read_memory(call, args[1], &first, 1) == 0 &&
         first == '\0'))
        return change_descriptor(call, row, (int)args[0]);
    SPOT(spot);
    struct stat st;
    if (spot_of(call, (int)args[0], args[1], &spot) != 0 || spot_is_special(&spot) ||
        judge_is_private(spot.path) || (!follow && may_change(call, spot.path)) ||
        fstatat(spot.dir, spot.name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return ANSWER_RUN_IT;
    struct path_place place = {0};
    if (S_ISLNK(st.st_mode) && follow &&
        (path_resolve(spot.path, &place, NULL) != 0 || fstatat(spot.dir, spot.name, &st, 0) != 0))
        return ANSWER_RUN_IT;
    const char *path = place.path != NULL ? place.path : spot.path;
    /* A device or a FIFO is not changed by writing into it. */
    bool into = follow && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
    int64_t result = into ? ANSWER_RUN_IT : judge_path(call, row, path);
    path_place_free(&place);
    return result;
}

/* A mount that lies on the name itself keeps it; the kernel says so in this order. */
static int64_t refuse_to_remove(struct call *call, const struct table_row *row,
                                const struct spot *spot, const struct stat *st, bool dir)
{
    judge_path(call, row, spot->path);
    if (!spot_is_mount_point(spot))
        return -EROFS;
    if (S_ISDIR(st->st_mode) != dir)
        return dir ? -ENOTDIR : -EISDIR;
    return -EBUSY;
}

/* Done by us: were it left to the kernel, the path could lead to another name by the time it looks.
 * A guarded file that was replaced has no mount to keep it, and without its configuration a
 * repository is another one. */
int64_t answer_remove(struct call *call, const struct table_row *row, const uint64_t *args)
{
    uint64_t flags = row->number == SYS_unlinkat ? args[2] & 0xffffffff : 0;
    bool dir = strcmp(row->operation, "rmdir") == 0 || (flags & AT_REMOVEDIR) != 0;
    SPOT(spot);
    struct stat st;
    if ((flags & ~(uint64_t)AT_REMOVEDIR) != 0)
        return -EINVAL;
    int result = spot_of(call, (int)args[0], args[1], &spot);
    /* A directory whose path is too long to be told is found, and holds nothing that is guarded. */
    bool untold = result == -ENAMETOOLONG && spot.dir >= 0;
    if (result != 0 && !untold)
        return result;
    if (!call_waits(call))
        return -EINTR;
    if (spot.name[0] == '\0')
        return dir ? -EBUSY : -EISDIR; /* the root */
    bool special = spot_is_special(&spot);
    if (!special && !untold) {
        if (!dir && door_lets_out(call, &spot))
            return door_remove(call, &spot);
        bool refused = !may_change(call, spot.path);
        if ((refused || dir) && fstatat(spot.dir, spot.name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            return -errno;
        if (refused)
            return refuse_to_remove(call, row, &spot, &st, dir);
        if (dir) /* what is to go is not held */
            held_drop(call->ward, &st);
    }
    char name[NAME_MAX + 2];
    snprintf(name, sizeof(name), "%s%s", spot.name, spot.slash ? "/" : "");
    int removed = unlinkat(spot.dir, name, dir ? AT_REMOVEDIR : 0);
    return removed == 0 ? 0 : untold ? -errno : judge_result(call, row->operation, &spot, -errno);
}

/* The sandbox's user namespace knows one user and one group. Of others the kernel says EINVAL,
 * where outside it says that one may not, which tools that keep owners take as it is meant. */
static bool is_of_strangers(const struct ward *ward, const struct table_row *row,
                            const uint64_t *args)
{
    const uint64_t *ids = args + (row->aim == TABLE_DESCRIPTOR ? 1 : 2);
    uid_t uid = (uid_t)ids[0];
    gid_t gid = (gid_t)ids[1];
    return (uid != (uid_t)-1 && uid != ward->uid) || (gid != (gid_t)-1 && gid != ward->gid);
}

int64_t answer_chown(struct call *call, const struct table_row *row, const uint64_t *args)
{
    int64_t result = answer_change(call, row, args);
    if (result != ANSWER_RUN_IT || !is_of_strangers(call->ward, row, args))
        return result;
    struct stat st;
    if (row->aim == TABLE_DESCRIPTOR)
        return call_stat_of(call, (int)args[0], &st) ? -EPERM : ANSWER_RUN_IT;
    SPOT(spot);
    bool there = spot_of(call, (int)args[0], args[1], &spot) == 0 && !spot_is_special(&spot) &&
                 fstatat(spot.dir, spot.name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    return there && !judge_is_private(spot.path) ? -EPERM : ANSWER_RUN_IT;
}

int64_t answer_umask(struct call *call, const struct table_row *row, const uint64_t *args)
{
    (void)row, (void)args;
    call_umask_changes(call->ward);
    return ANSWER_RUN_IT;
}
