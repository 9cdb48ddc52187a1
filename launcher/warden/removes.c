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

/* A mount that lies on the name itself keeps it; the kernel says so in this order. */
static int64_t refuse_to_remove(struct call *call, const struct table_row *row,
                                const struct spot *spot, const struct stat *st, bool dir)
{
    judge_report(call, row->operation, spot->path, EROFS,
                 fence_view(call->ward->law->fence, spot->path).write_setting);
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
        bool refused = !judge_may_change(call, spot.path);
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
