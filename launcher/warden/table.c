#include "launcher/warden/table.h"

#include "launcher/syscalls.h"
#include "launcher/warden/answers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/syscall.h>

#define ALWAYS TABLE_ALWAYS, 0
#define WRITES(argument) argument, 0
#define NAMED_SOCKETS TABLE_ALWAYS, SYSCALLS_NAMED_SOCKETS
#define NAMED_DATAGRAMS TABLE_ALWAYS, SYSCALLS_NAMED_DATAGRAMS

/* Looked through in this order. After a caller that fills the processor's caches each line of it is
 * a wait for memory, so what programs ask for most comes first. */
const struct table_row table_rows[] = {
    {SYS_openat, WRITES(2), TABLE_AS_IS, answer_open, "write", 0},
    {SYS_openat2, ALWAYS, TABLE_AS_IS, answer_openat2, "write", 0},
    {SYS_mkdirat, ALWAYS, TABLE_AS_IS, answer_make, "mkdir", 0},
    {SYS_mknodat, ALWAYS, TABLE_AS_IS, answer_make, "mknod", 0},
    {SYS_symlinkat, ALWAYS, TABLE_AS_IS, answer_symlink, "symlink", 0},
    {SYS_linkat, ALWAYS, TABLE_AS_IS, answer_link, "link", 0},
    {SYS_renameat2, ALWAYS, TABLE_AS_IS, answer_rename, "rename", 0},
    {SYS_unlinkat, ALWAYS, TABLE_AS_IS, answer_remove, "unlink", 0},
#ifdef SYS_open
    {SYS_open, WRITES(1), TABLE_CWD_FIRST, answer_open, "write", 0},
    {SYS_creat, ALWAYS, TABLE_CREAT, answer_open, "write", 0},
    {SYS_mkdir, ALWAYS, TABLE_CWD_FIRST, answer_make, "mkdir", 0},
    {SYS_mknod, ALWAYS, TABLE_CWD_FIRST, answer_make, "mknod", 0},
    {SYS_symlink, ALWAYS, TABLE_CWD_SECOND, answer_symlink, "symlink", 0},
    {SYS_link, ALWAYS, TABLE_CWD_BOTH, answer_link, "link", 0},
    {SYS_rename, ALWAYS, TABLE_CWD_BOTH, answer_rename, "rename", 0},
    {SYS_unlink, ALWAYS, TABLE_CWD_FIRST, answer_remove, "unlink", 0},
    {SYS_rmdir, ALWAYS, TABLE_CWD_FIRST, answer_remove, "rmdir", 0},
    {SYS_chmod, ALWAYS, TABLE_CWD_FIRST, answer_chmod, "chmod", TABLE_FOLLOWS},
    {SYS_chown, ALWAYS, TABLE_CWD_FIRST, answer_chown, "chown", TABLE_FOLLOWS},
    {SYS_lchown, ALWAYS, TABLE_CWD_FIRST, answer_chown, "chown", TABLE_LINK},
    {SYS_utime, ALWAYS, TABLE_CWD_FIRST, answer_utimes, "utimes", TABLE_FOLLOWS},
    {SYS_utimes, ALWAYS, TABLE_CWD_FIRST, answer_utimes, "utimes", TABLE_FOLLOWS},
    {SYS_futimesat, ALWAYS, TABLE_AS_IS, answer_utimes, "utimes", TABLE_FOLLOWS},
#endif
    {SYS_truncate, ALWAYS, TABLE_CWD_FIRST, answer_truncate, "truncate", 0},
    {SYS_fchmodat, ALWAYS, TABLE_AS_IS, answer_chmod, "chmod", TABLE_FOLLOWS},
    {SYS_fchmodat2, ALWAYS, TABLE_AS_IS, answer_chmod, "chmod", 3},
    {SYS_fchmod, ALWAYS, TABLE_AS_IS, answer_chmod, "chmod", TABLE_DESCRIPTOR},
    {SYS_fchownat, ALWAYS, TABLE_AS_IS, answer_chown, "chown", 4},
    {SYS_fchown, ALWAYS, TABLE_AS_IS, answer_chown, "chown", TABLE_DESCRIPTOR},
    {SYS_utimensat, ALWAYS, TABLE_AS_IS, answer_utimes, "utimes", 3},
    {SYS_setxattr, ALWAYS, TABLE_CWD_FIRST, answer_setxattr, "setxattr", TABLE_FOLLOWS},
    {SYS_lsetxattr, ALWAYS, TABLE_CWD_FIRST, answer_setxattr, "setxattr", TABLE_LINK},
    {SYS_fsetxattr, ALWAYS, TABLE_AS_IS, answer_setxattr, "setxattr", TABLE_DESCRIPTOR},
    {SYS_setxattrat, ALWAYS, TABLE_AS_IS, answer_setxattr, "setxattr", 2},
    {SYS_removexattr, ALWAYS, TABLE_CWD_FIRST, answer_removexattr, "removexattr", TABLE_FOLLOWS},
    {SYS_lremovexattr, ALWAYS, TABLE_CWD_FIRST, answer_removexattr, "removexattr", TABLE_LINK},
    {SYS_fremovexattr, ALWAYS, TABLE_AS_IS, answer_removexattr, "removexattr", TABLE_DESCRIPTOR},
    {SYS_removexattrat, ALWAYS, TABLE_AS_IS, answer_removexattr, "removexattr", 2},
    {SYS_file_setattr, ALWAYS, TABLE_AS_IS, answer_setattr, "setattr", 4},
    {SYS_ioctl, TABLE_FLAGS_OF_FILES, 0, TABLE_AS_IS, answer_ioctl, "setattr", TABLE_DESCRIPTOR},
    {SYS_close, TABLE_NUMBERS_OF_DOOR, 0, TABLE_AS_IS, answer_close, "create", 0},
    {SYS_umask, ALWAYS, TABLE_AS_IS, answer_umask, "umask", 0},
    {SYS_connect, NAMED_SOCKETS, TABLE_AS_IS, answer_connect, "connect", 0},
    {SYS_sendto, TABLE_WITH_RECEIVER, SYSCALLS_NAMED_DATAGRAMS, TABLE_AS_IS, answer_sendto,
     "sendto", 0},
    {SYS_sendmsg, NAMED_DATAGRAMS, TABLE_AS_IS, answer_sendmsg, "sendmsg", 0},
    {SYS_sendmmsg, NAMED_DATAGRAMS, TABLE_AS_IS, answer_sendmmsg, "sendmmsg", 0},
    {SYS_bind, ALWAYS, TABLE_AS_IS, answer_bind, "bind", 0},
#ifdef SYS_renameat
    {SYS_renameat, ALWAYS, TABLE_NO_FLAGS, answer_rename, "rename", 0},
#endif
};
const size_t table_row_count = sizeof(table_rows) / sizeof(table_rows[0]);

const uint32_t table_flag_requests[TABLE_FLAG_REQUESTS] = {FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR};

enum { ARGS = 6 };

static const uint64_t here = (uint64_t)(int64_t)AT_FDCWD;

static void shape_args(enum table_shape shape, const uint64_t *a, uint64_t out[ARGS])
{
    switch (shape) {
    case TABLE_AS_IS:
        memcpy(out, a, ARGS * sizeof(*a));
        return;
    case TABLE_CWD_FIRST:
        out[0] = here;
        memcpy(out + 1, a, (ARGS - 1) * sizeof(*a));
        return;
    case TABLE_CWD_SECOND:
        memcpy(out, (const uint64_t[ARGS]){a[0], here, a[1]}, ARGS * sizeof(*a));
        return;
    case TABLE_CWD_BOTH:
        memcpy(out, (const uint64_t[ARGS]){here, a[0], here, a[1]}, ARGS * sizeof(*a));
        return;
    case TABLE_CREAT:
        memcpy(out, (const uint64_t[ARGS]){here, a[0], O_CREAT | O_WRONLY | O_TRUNC, a[1]},
               ARGS * sizeof(*a));
        return;
    case TABLE_NO_FLAGS:
        memcpy(out, (const uint64_t[ARGS]){a[0], a[1], a[2], a[3]}, ARGS * sizeof(*a));
        return;
    }
}

int64_t table_answer(struct call *call)
{
    for (size_t i = 0; i < table_row_count; i++) {
        const struct table_row *row = &table_rows[i];
        if (row->number != call->request->data.nr)
            continue;
        uint64_t args[ARGS];
        shape_args(row->shape, (const uint64_t *)call->request->data.args, args);
        return row->answer(call, row, args);
    }
    return answer_refused(call);
}
