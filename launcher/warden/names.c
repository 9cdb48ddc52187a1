#include "launcher/gitplace.h"
#include "launcher/warden/answers.h"
#include "launcher/warden/door.h"
#include "launcher/warden/held.h"
#include "launcher/warden/judge.h"
#include "launcher/warden/warden.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Whether a name can come to be at the spot, as far as the call itself will not tell. */
static int look_at_new(struct call *call, bool dir, const struct spot *spot)
{
    if (!call_waits(call))
        return -EINTR;
    if (spot_is_special(spot))
        return -EEXIST;
    /* Where it may be made the call itself tells that there is something. */
    if ((!judge_may_create(call, spot->path) || (spot->slash && !dir)) && spot_exists(spot))
        return -EEXIST;
    return spot->slash && !dir ? -ENOENT : 0;
}

static int new_spot(struct call *call, int dir_fd, uint64_t address, struct spot *spot)
{
    int result = spot_of(call, dir_fd, address, spot);
    return result == 0 ? look_at_new(call, false, spot) : result;
}

/* Who unpacks asks for each file to have its directory made, and nearly all are there. One look
 * tells that, and where something is, EEXIST is the kernel's answer whatever may be made there.
 * Looked at now, so there is nothing that could be out of date; a caller that is gone, whose number
 * another one has, gets no answer. Only what is held is believed: that was found as the caller
 * finds it, while this look may pass links of /proc that the caller may not. */
static bool is_held_dir(struct call *call, int dir_fd, const char *path)
{
    return call->ward->expects_dir && path[0] != '\0' && held_find(call, dir_fd, path) >= 0;
}

int64_t answer_make(struct call *call, const struct table_row *row, const uint64_t *args)
{
    bool dir = strcmp(row->operation, "mkdir") == 0;
    mode_t mode = (mode_t)args[2];
    char path[PATH_MAX];
    SPOT(spot);
    int result = call_read_string(call, args[1], path, sizeof(path));
    if (result == 0 && dir && is_held_dir(call, (int)args[0], path))
        return -EEXIST;
    if (result == 0)
        result = spot_of_path(call, (int)args[0], path, &spot);
    if (result == 0)
        result = look_at_new(call, dir, &spot);
    if (result != 0)
        return result;
    /* Made empty; a directory that is moved here could bring hooks along. */
    bool new_hooks = dir && fence_view(call->ward->law->fence, spot.path).fresh == PROTECT_HOOKS;
    if (!new_hooks && !judge_creation(call, row->operation, spot.path, dir ? S_IFDIR : S_IFREG))
        return -EROFS;
    call_use_umask(call);
    int made = dir ? mkdirat(spot.dir, spot.name, mode)
                   : mknodat(spot.dir, spot.name, mode, (dev_t)args[3]);
    call->ward->expects_dir = dir && made != 0 && errno == EEXIST;
    return judge_result(call, row->operation, &spot, errno_of(made));
}

/* As git makes one in a submodule's new git directory, to see whether there are links; it is called
 * `t` and six more (create_default_files() of git's init-db.c). Any other name there could be one
 * that protected names lie below, `info`, with others behind it. */
static bool is_trial(const struct spot *spot, const char *target)
{
    size_t dir_len = strlen(spot->path) - strlen(spot->name) - 1;
    return gitplace_of(spot->path, dir_len) == GITPLACE_MODULE && strlen(spot->name) == 7 &&
           spot->name[0] == 't' && strcmp(target, "testing") == 0;
}

int64_t answer_symlink(struct call *call, const struct table_row *row, const uint64_t *args)
{
    char target[PATH_MAX];
    SPOT(spot);
    int result = call_read_string(call, args[0], target, sizeof(target));
    if (result == 0)
        result = new_spot(call, (int)args[1], args[2], &spot);
    if (result != 0)
        return result;
    mode_t type = is_trial(&spot, target) ? S_IFREG : S_IFLNK;
    if (!judge_creation(call, row->operation, spot.path, type))
        return -EROFS;
    return judge_result(call, row->operation, &spot,
                        errno_of(symlinkat(target, spot.dir, spot.name)));
}

/* The object that is to get another name, as a descriptor: of the caller's (AT_EMPTY_PATH), or
 * where the path leads with or without its last link. */
static int64_t open_linked(struct call *call, int dir_fd, uint64_t address, uint64_t flags)
{
    char path[PATH_MAX];
    int result = call_read_string(call, address, path, sizeof(path));
    if (result != 0)
        return result;
    if (path[0] == '\0') {
        return (flags & AT_EMPTY_PATH) != 0 ? errno_of(call_open_descriptor(call, dir_fd, false))
                                            : -ENOENT;
    }
    int base;
    if (!spot_base(call, dir_fd, path, &base))
        return -errno;
    if ((flags & AT_SYMLINK_FOLLOW) != 0)
        return errno_of(spot_walk(call, base, path));
    SPOT(spot);
    result = spot_find(call, base, path, &spot);
    if (result != 0)
        return result;
    return errno_of(openat(spot.dir, spot_is_special(&spot) ? "." : spot.name,
                           O_PATH | O_NOFOLLOW | O_CLOEXEC));
}

int64_t answer_link(struct call *call, const struct table_row *row, const uint64_t *args)
{
    SPOT(spot);
    int64_t opened = open_linked(call, (int)args[0], args[1], args[4]);
    if (opened < 0)
        return opened;
    autoclose int object = (int)opened;
    int result = new_spot(call, (int)args[2], args[3], &spot);
    if (result != 0)
        return result;
    struct stat st;
    if (fstat(object, &st) != 0)
        return -errno;
    if (!judge_creation(call, row->operation, spot.path, st.st_mode))
        return -EROFS;
    char guarded[PATH_MAX];
    struct fence_view view;
    ward_path_of(call->ward, object, guarded, sizeof(guarded));
    if (!judge_socket(call, row->operation, st.st_mode, guarded, spot.path))
        return -EROFS;
    /* As the kernel says where a mount lies on the guarded file. */
    if (!judge_change(call->ward, object, guarded, &view))
        return -EXDEV;
    return judge_result(call, row->operation, &spot,
                        errno_of(linkat(call->ward->host_proc, ward_link_to(object).text, spot.dir,
                                        spot.name, AT_SYMLINK_FOLLOW)));
}

int64_t answer_rename(struct call *call, const struct table_row *row, const uint64_t *args)
{
    uint64_t flags = args[4];
    SPOT(from);
    SPOT(to);
    int result = spot_pair(call, args, &from, &to);
    if (result != 0)
        return result;
    if (!call_waits(call))
        return -EINTR;
    if (spot_is_special(&from) || spot_is_special(&to))
        return -EBUSY;
    if (flags == 0 && door_takes(call, &from, &to))
        return door_rename(call, &from, &to);
    bool exchange = (flags & RENAME_EXCHANGE) != 0;
    mode_t type = spot_type(&from), other = exchange ? spot_type(&to) : 0;
    if (!judge_creation(call, row->operation, to.path, type) ||
        (exchange && !judge_creation(call, row->operation, from.path, other)))
        return -EROFS;
    if (!judge_socket(call, row->operation, type, from.path, to.path) ||
        (exchange && !judge_socket(call, row->operation, other, to.path, from.path)))
        return -EROFS;
    /* Between two mounts the kernel says EXDEV, which lets mv copy instead. */
    struct fence_view source = fence_view(call->ward->law->fence, from.path);
    if (!source.writable && !judge_is_private(from.path) && spot_exists(&from) &&
        spot_same_mount(from.dir, to.dir)) {
        judge_report(call, row->operation, from.path, EROFS, source.write_setting);
        return spot_is_mount_point(&from) ? -EBUSY : -EROFS;
    }
    if (!judge_move(call, &from, type, to.path) ||
        (exchange && !judge_move(call, &to, other, from.path))) {
        judge_report(call, row->operation, to.path, EROFS, "protected: what the directory holds");
        return -EROFS;
    }
    /* A trailing slash asks for a directory; the kernel judges that by the name it is given. */
    char from_name[NAME_MAX + 2], to_name[NAME_MAX + 2];
    snprintf(from_name, sizeof(from_name), "%s%s", from.name, from.slash ? "/" : "");
    snprintf(to_name, sizeof(to_name), "%s%s", to.name, to.slash ? "/" : "");
    return judge_result(call, row->operation, &to,
                        errno_of((int)syscall(SYS_renameat2, from.dir, from_name, to.dir, to_name,
                                              (unsigned)flags)));
}

/* Only to know by which mask names are made from now on. */
int64_t answer_umask(struct call *call, const struct table_row *row, const uint64_t *args)
{
    (void)row, (void)args;
    call_umask_changes(call);
    return ANSWER_RUN_IT;
}
