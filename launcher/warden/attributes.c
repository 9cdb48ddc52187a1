#include "launcher/warden/answers.h"
#include "launcher/warden/held.h"
#include "launcher/warden/judge.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

enum { SETATTR_MAX = 4096 }; /* the kernel takes no more for the argument of file_setattr() */

/* ---- what is to be changed ---- */

/* Whether the call is of a descriptor that has to be open as a file, and not only for a place. */
static bool is_of_file(const struct table_row *row, const uint64_t *args)
{
    bool no_path = strcmp(row->operation, "utimes") == 0 && args[1] == 0;
    return row->aim == TABLE_DESCRIPTOR || (no_path && (int)args[0] != AT_FDCWD);
}

/* As an O_PATH descriptor; -1 with errno. `*own`: it is one of the caller's descriptors. */
static int open_object(struct call *call, const struct table_row *row, const uint64_t *args,
                       bool *own)
{
    char path[PATH_MAX] = "";
    int fd = (int)args[0], base;
    unsigned flags = row->aim > 0 ? (unsigned)args[row->aim] : 0;
    *own = true;
    if ((flags & ~(unsigned)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) != 0)
        return errno = EINVAL, -1;
    if (is_of_file(row, args))
        return call_open_descriptor(call, fd, true);
    /* The youngest calls do without the empty path, too. */
    bool none = args[1] == 0 && (flags & AT_EMPTY_PATH) != 0 && row->number >= SYS_setxattrat;
    int result = none ? 0 : call_read_string(call, args[1], path, sizeof(path));
    if (result == 0 && path[0] == '\0' && (flags & AT_EMPTY_PATH) != 0)
        return call_open_descriptor(call, fd, false);
    if (result == 0 && path[0] == '\0')
        result = -ENOENT;
    if (result != 0)
        return errno = -result, -1;
    *own = false;
    if (!spot_base(call, fd, path, &base))
        return -1;
    bool follow = row->aim >= 0 && (flags & AT_SYMLINK_NOFOLLOW) == 0;
    return spot_object(call, base, path, follow ? 0 : O_NOFOLLOW);
}

static void report(struct call *call, const struct table_row *row, const char *path)
{
    judge_report(call, row->operation, path, EROFS,
                 fence_view(call->ward->law->fence, path).write_setting);
}

/* A mount that lies on a guarded place makes the kernel say EROFS; where none does because the file
 * was replaced outside, we do. A device, a FIFO or a socket is not of the tree, nor is what was
 * given as a stream when it is named by its descriptor. */
static int judge_object(struct call *call, const struct table_row *row, int object, bool own)
{
    char path[PATH_MAX];
    struct stat st;
    if (ward_path_of(call->ward, object, path, sizeof(path)) == 0 || path[0] != '/' ||
        judge_may_change(call, path))
        return 0;
    if (fstat(object, &st) != 0)
        return -errno;
    bool of_tree = (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode)) &&
                   st.st_nlink > 0 && !(own && judge_is_stream(&st));
    if (!of_tree)
        return 0;
    report(call, row, path);
    return -EROFS;
}

/* Finds and judges it. The same object is then changed, whatever becomes of the string, the links
 * or the descriptor that led to it. */
static int take(struct call *call, const struct table_row *row, const uint64_t *args, int *object)
{
    bool own;
    *object = open_object(call, row, args, &own);
    if (*object < 0)
        return -errno;
    int result = judge_object(call, row, *object, own);
    return result == 0 && !call_waits(call) ? -EINTR : result;
}

/* What follows the descriptor and the path. */
static const uint64_t *rest_of(const struct table_row *row, const uint64_t *args)
{
    return args + (row->aim == TABLE_DESCRIPTOR ? 1 : 2);
}

/* Ends each answer: failures of a call that was let through tell of the walls, too. */
static int64_t done(struct call *call, const struct table_row *row, int object, int result)
{
    char path[PATH_MAX];
    int error = result < 0 ? errno : 0;
    if (error == EROFS && ward_path_of(call->ward, object, path, sizeof(path)) > 0 &&
        path[0] == '/' && !judge_is_private(path))
        report(call, row, path);
    return -error;
}

/* ---- modes, owners and times ---- */

int64_t answer_chmod(struct call *call, const struct table_row *row, const uint64_t *args)
{
    autoclose int object = -1;
    int result = take(call, row, args, &object);
    if (result != 0)
        return result;
    mode_t mode = (mode_t)rest_of(row, args)[0];
    return done(call, row, object,
                fchmodat(call->ward->host_proc, ward_link_to(object).text, mode, 0));
}

/* The sandbox's user namespace knows one user and one group. Of others the kernel says EINVAL,
 * where outside it says that one may not, which tools that keep owners take as it is meant. */
static bool is_of_strangers(const struct ward *ward, uid_t uid, gid_t gid)
{
    return (uid != (uid_t)-1 && uid != ward->uid) || (gid != (gid_t)-1 && gid != ward->gid);
}

int64_t answer_chown(struct call *call, const struct table_row *row, const uint64_t *args)
{
    autoclose int object = -1;
    int result = take(call, row, args, &object);
    if (result != 0)
        return result;
    uid_t uid = (uid_t)rest_of(row, args)[0];
    gid_t gid = (gid_t)rest_of(row, args)[1];
    if (is_of_strangers(call->ward, uid, gid))
        return -EPERM;
    return done(call, row, object, fchownat(object, "", uid, gid, AT_EMPTY_PATH));
}

/* utime() has seconds, utimes() and futimesat() have microseconds. */
static int read_times(const struct call *call, const struct table_row *row, uint64_t address,
                      struct timespec times[2])
{
    if (row->number == SYS_utimensat)
        return call_read_memory(call, address, times, 2 * sizeof(*times));
#ifdef SYS_utime
    if (row->number == SYS_utime) {
        time_t seconds[2];
        if (call_read_memory(call, address, seconds, sizeof(seconds)) != 0)
            return -EFAULT;
        for (int i = 0; i < 2; i++)
            times[i] = (struct timespec){.tv_sec = seconds[i]};
        return 0;
    }
#endif
    enum { PER_SECOND = 1000000 };
    struct timeval values[2];
    if (call_read_memory(call, address, values, sizeof(values)) != 0)
        return -EFAULT;
    for (int i = 0; i < 2; i++) {
        if (values[i].tv_usec < 0 || values[i].tv_usec >= PER_SECOND)
            return -EINVAL;
        times[i] = (struct timespec){values[i].tv_sec, values[i].tv_usec * 1000};
    }
    return 0;
}

int64_t answer_utimes(struct call *call, const struct table_row *row, const uint64_t *args)
{
    autoclose int object = -1;
    struct timespec times[2];
    uint64_t address = args[2];
    int result = address == 0 ? 0 : read_times(call, row, address, times);
    if (result == 0 && address != 0 && times[0].tv_nsec == UTIME_OMIT &&
        times[1].tv_nsec == UTIME_OMIT)
        return 0; /* wherever it leads */
    if (result == 0)
        result = take(call, row, args, &object);
    if (result != 0)
        return result;
    return done(call, row, object,
                utimensat(object, "", address == 0 ? NULL : times, AT_EMPTY_PATH));
}

/* ---- extended attributes ---- */

/* These calls take no directory to start from. */
static const char *go_to(struct call *call, int object, struct ward_link *link)
{
    *link = ward_link_to(object);
    return held_go(call->ward, call->ward->host_proc) ? link->text : "";
}

static int read_attribute_name(const struct call *call, uint64_t address,
                               char name[XATTR_NAME_MAX + 1])
{
    int result = call_read_string(call, address, name, XATTR_NAME_MAX + 1);
    return result == -ENAMETOOLONG || (result == 0 && name[0] == '\0') ? -ERANGE : result;
}

/* setxattrat() has them in memory, in this form. */
struct new_value {
    uint64_t address;
    uint32_t size, flags;
};

static int read_new_value(const struct call *call, const struct table_row *row,
                          const uint64_t *args, struct new_value *value)
{
    if (row->number == SYS_setxattrat)
        return args[5] < sizeof(*value) ? -EINVAL
                                        : call_read_memory(call, args[4], value, sizeof(*value));
    const uint64_t *rest = rest_of(row, args);
    *value = (struct new_value){rest[1],
                                rest[2] > XATTR_SIZE_MAX ? XATTR_SIZE_MAX + 1 : (uint32_t)rest[2],
                                (uint32_t)rest[3]};
    return 0;
}

int64_t answer_setxattr(struct call *call, const struct table_row *row, const uint64_t *args)
{
    autoclose int object = -1;
    char name[XATTR_NAME_MAX + 1];
    struct new_value value;
    struct ward_link link;
    uint64_t name_at = row->number == SYS_setxattrat ? args[3] : rest_of(row, args)[0];
    int result = read_attribute_name(call, name_at, name);
    if (result == 0)
        result = read_new_value(call, row, args, &value);
    if (result == 0 && value.size > XATTR_SIZE_MAX)
        result = -E2BIG;
    if (result != 0)
        return result;
    autofree void *bytes = malloc(value.size + 1);
    if (bytes == NULL)
        return -ENOMEM;
    result = call_read_memory(call, value.address, bytes, value.size);
    if (result == 0)
        result = take(call, row, args, &object);
    if (result != 0)
        return result;
    return done(call, row, object,
                setxattr(go_to(call, object, &link), name, bytes, value.size, (int)value.flags));
}

int64_t answer_removexattr(struct call *call, const struct table_row *row, const uint64_t *args)
{
    autoclose int object = -1;
    char name[XATTR_NAME_MAX + 1];
    struct ward_link link;
    uint64_t name_at = row->number == SYS_removexattrat ? args[3] : rest_of(row, args)[0];
    int result = read_attribute_name(call, name_at, name);
    if (result == 0)
        result = take(call, row, args, &object);
    if (result != 0)
        return result;
    return done(call, row, object, removexattr(go_to(call, object, &link), name));
}

int64_t answer_setattr(struct call *call, const struct table_row *row, const uint64_t *args)
{
    autoclose int object = -1;
    uint64_t attr[SETATTR_MAX / sizeof(uint64_t)];
    struct ward_link link;
    size_t size = args[3];
    int result = size > sizeof(attr) ? -E2BIG : call_read_memory(call, args[2], attr, size);
    if (result == 0)
        result = take(call, row, args, &object);
    if (result != 0)
        return result;
    /* By a name, since with none it does not take a descriptor that only stands for a place. */
    return done(
        call, row, object,
        (int)syscall(SYS_file_setattr, AT_FDCWD, go_to(call, object, &link), attr, size, 0));
}

/* ---- flags ---- */

/* What a request takes from memory, 0 where it is no such request. The kernel takes an int for
 * FS_IOC_SETFLAGS, whatever its number says. */
static size_t size_of_flags(uint32_t request)
{
    switch (request) {
    case FS_IOC_SETFLAGS:
        return sizeof(int);
    case FS_IOC_FSSETXATTR:
        return sizeof(struct fsxattr);
    default:
        return 0;
    }
}

/* A file that is open for reading is enough for these. */
int64_t answer_ioctl(struct call *call, const struct table_row *row, const uint64_t *args)
{
    const uint32_t request = (uint32_t)args[1];
    const size_t size = size_of_flags(request);
    struct fsxattr value = {0}; /* the longer one */
    if (size == 0)
        return answer_refused(call);
    autoclose int file = call_take(call, (int)args[0]);
    if (file < 0)
        return file;
    int result = call_read_memory(call, args[2], &value, size);
    if (result == 0)
        result = judge_object(call, row, file, true);
    if (result == 0 && !call_waits(call))
        result = -EINTR;
    return result != 0 ? result : done(call, row, file, ioctl(file, request, &value));
}
