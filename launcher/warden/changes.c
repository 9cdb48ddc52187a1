#include "launcher/warden/answers.h"
#include "launcher/warden/judge.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* unlink and rmdir mean a link itself, the others what it leads to. */
static bool follows(const struct table_row *row)
{
    return strcmp(row->operation, "unlink") != 0 && strcmp(row->operation, "rmdir") != 0;
}

int64_t answer_change(struct call *call, const struct table_row *row, const uint64_t *args)
{
    bool follow = follows(row);
    autospot struct spot spot = SPOT_NONE;
    struct stat st;
    if (args[1] == 0 || spot_of(call, (int)args[0], args[1], &spot) != 0 ||
        spot_is_special(&spot) || judge_is_private(spot.path) ||
        fstatat(spot.dir, spot.name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return ANSWER_RUN_IT;
    struct path_place place = {0};
    if (S_ISLNK(st.st_mode) && follow &&
        (path_resolve(spot.path, &place, NULL) != 0 || fstatat(spot.dir, spot.name, &st, 0) != 0))
        return ANSWER_RUN_IT;
    const char *path = place.path != NULL ? place.path : spot.path;
    /* A device or a FIFO is not changed by writing into it. */
    bool into = follow && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
    int64_t result = ANSWER_RUN_IT;
    if (!into && !judge_is_private(path)) {
        struct fence_view view = fence_view(call->ward->fence, path);
        if (!view.writable && view.fresh == PROTECT_NO_PART) {
            judge_report(call, row->operation, path, EROFS, view.write_setting);
            /* Where a mount stands the kernel knows the better error. */
            result = !follow && spot_is_mount_point(&spot) ? ANSWER_RUN_IT : -EROFS;
        }
    }
    path_place_free(&place);
    return result;
}

int64_t answer_umask(struct call *call, const struct table_row *row, const uint64_t *args)
{
    (void)row, (void)args;
    call_umask_changes(call->ward);
    return ANSWER_RUN_IT;
}
