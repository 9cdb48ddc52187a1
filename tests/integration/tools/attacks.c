/*
 * Attacks on the fence by raw system calls, each with a name of its own.
 *
 *   attacks list         NAME<tab>WHO<tab>WHAT, a line for each
 *   attacks run NAME     prints `reached`, or why not
 *   attacks serve        reads names, answers each like `run`
 *
 * An attack is reached when it has got what it wanted, never because a call came back without an
 * error that proves nothing. So that a refusal means something, every attack has to be reached
 * where there is no fence: WHO is `anyone`, `root` or, where a kernel may have been built without
 * what it needs, `kernel`.
 *
 * It runs in a directory that may be written to, in which `.bashrc`, `.git/hooks`, `.git/config`
 * and `locked/file` are guarded, `scratch` is free and `key` is hidden; beside it lie `outside`
 * with a `victim`, and `hidden` with a `secret`. In `locked` and `outside` there is a `fifo`. What
 * is hidden contains the word "secret".
 *
 * In the environment: TARGET, a process to attack (none: a child of ours); ABSTRACT, a name; PORT
 * of 127.0.0.1; SHM, a name in /dev/shm; QUEUE; SEGMENT, a key: all of the host's. Built by the
 * test that uses it.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/keyctl.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* <sys/mount.h> of the C library and <linux/mount.h> exclude each other. */
int umount2(const char *target, int flags);
enum { DETACH = 2 };

/* The same everywhere since Linux 5.1; younger than some headers. */
enum {
    NR_mount_setattr = 442,
    NR_quotactl_fd = 443,
    NR_fchmodat2 = 452,
    NR_open_tree_attr = 467,
    NR_file_setattr = 469
};

enum { REACHED = 0, NOTHING = 255 }; /* NOTHING: calls came back, and it was not got */

static pid_t target;

/* ---- what counts as got ---- */

static int reached_if(bool got)
{
    return got ? REACHED : errno != 0 ? errno : NOTHING;
}

static int by_writing(int fd)
{
    return reached_if(fd >= 0 && write(fd, "x", 1) == 1);
}

static int by_secret(int fd)
{
    char text[4096] = "";
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    return reached_if(len > 0 && memmem(text, (size_t)len, "secret", 6) != NULL);
}

static int by_name(const char *path)
{
    struct stat st;
    int error = errno;
    bool there = lstat(path, &st) == 0;
    errno = there ? 0 : error;
    return reached_if(there);
}

/* The kernel has looked at the arguments, which are wrong. */
static int by_look(long result)
{
    return reached_if(result >= 0 || (errno != EPERM && errno != EACCES && errno != ENOSYS &&
                                      errno != EAFNOSUPPORT && errno != EPROTONOSUPPORT));
}

static int by_result(long result)
{
    return reached_if(result >= 0);
}

static int own_file(const char *path)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0755);
    if (fd < 0 || write(fd, "#!/bin/sh\n", 10) != 10)
        exit(EBADFD);
    return fd;
}

/* As good a descriptor as there is to be had. */
static int best(const char *path)
{
    int fd = open(path, O_RDWR);
    return fd >= 0 ? fd : open(path, O_RDONLY);
}

/* ---- writing to what may not be written to: the argument is the file ---- */

static int write_open(const char *path)
{
    return by_writing(open(path, O_WRONLY));
}

static int write_append(const char *path)
{
    return by_writing(open(path, O_WRONLY | O_APPEND | O_NOATIME));
}

static int write_openat2(const char *path, uint64_t resolve)
{
    struct open_how how = {.flags = O_WRONLY, .resolve = resolve};
    return by_writing((int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)));
}

#define OPENAT2(flag)                               \
    static int write_##flag(const char *path)       \
    {                                               \
        return write_openat2(path, RESOLVE_##flag); \
    }
OPENAT2(NO_XDEV)
OPENAT2(NO_MAGICLINKS)
OPENAT2(NO_SYMLINKS)
OPENAT2(BENEATH)
OPENAT2(CACHED)

static int write_IN_ROOT(const char *path)
{
    struct open_how how = {.flags = O_WRONLY, .resolve = RESOLVE_IN_ROOT};
    int here = open(".", O_PATH);
    return by_writing((int)syscall(SYS_openat2, here, path, &how, sizeof(how)));
}

static int write_truncate(const char *path)
{
    return by_result(truncate(path, 0));
}

/* Access mode 3 is neither reading nor writing, and cuts all the same. */
static int write_mode_3(const char *path)
{
    return by_result(open(path, 3 | O_TRUNC));
}

static int write_reading_and_cut(const char *path)
{
    return by_result(open(path, O_RDONLY | O_TRUNC));
}

static int write_reopened(const char *path, const char *format)
{
    char name[64];
    snprintf(name, sizeof(name), format, open(path, O_RDONLY));
    return by_writing(open(name, O_RDWR));
}

static int write_proc_fd(const char *path)
{
    return write_reopened(path, "/proc/self/fd/%d");
}

static int write_thread_fd(const char *path)
{
    return write_reopened(path, "/proc/thread-self/fd/%d");
}

static int write_dev_fd(const char *path)
{
    return write_reopened(path, "/dev/fd/%d");
}

static int write_opath(const char *path)
{
    char name[64];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", open(path, O_PATH));
    return by_writing(open(name, O_WRONLY | O_TRUNC));
}

static int write_map_files(const char *path)
{
    char name[96];
    void *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, open(path, O_RDONLY), 0);
    snprintf(name, sizeof(name), "/proc/self/map_files/%lx-%lx", (long)at, (long)at + 4096);
    return by_writing(open(name, O_WRONLY));
}

static int write_mapped(const char *path)
{
    int fd = best(path);
    char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return errno;
    at[0] = 'x';
    return REACHED;
}

static int write_mapped_later(const char *path)
{
    char *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, best(path), 0);
    if (at == MAP_FAILED || mprotect(at, 4096, PROT_READ | PROT_WRITE) != 0)
        return errno;
    at[0] = 'x';
    return REACHED;
}

static int write_pwritev2(const char *path)
{
    struct iovec x = {"x", 1};
    return by_result(pwritev2(best(path), &x, 1, 0, RWF_APPEND));
}

static int write_copy_file_range(const char *path)
{
    int from = own_file("scratch/from");
    lseek(from, 0, SEEK_SET);
    return by_result(copy_file_range(from, NULL, best(path), NULL, 4, 0));
}

static int write_sendfile(const char *path)
{
    int from = own_file("scratch/from");
    return by_result(sendfile(best(path), from, &(off_t){0}, 4));
}

static int write_splice(const char *path)
{
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], "xxxx", 4) != 4)
        return errno;
    return by_result(splice(ends[0], NULL, best(path), NULL, 4, 0));
}

static int write_vmsplice_tee(const char *path)
{
    int ends[2];
    struct iovec x = {"xxxx", 4};
    if (pipe(ends) != 0 || vmsplice(ends[1], &x, 1, SPLICE_F_GIFT) != 4)
        return errno;
    return by_result(splice(ends[0], NULL, best(path), &(loff_t){0}, 4, SPLICE_F_MOVE));
}

/* Pages of the page cache in a pipe that forgets to say that it may not be merged into. */
static int write_dirty_pipe(const char *path)
{
    int ends[2], fd = best(path);
    char buffer[4096] = {0}, before = 0, after = 0;
    if (pipe(ends) != 0)
        return errno;
    write(ends[1], buffer, 4096);
    read(ends[0], buffer, 4096);
    pread(fd, &before, 1, 1);
    splice(fd, &(loff_t){0}, ends[1], NULL, 1, 0);
    write(ends[1], "Z", 1);
    if (pwrite(fd, "Z", 1, 1) == 1) /* without a fence it is no trick */
        return REACHED;
    int error = errno;
    pread(fd, &after, 1, 1);
    return before != after ? REACHED : error;
}

static int write_fallocate(const char *path)
{
    return by_result(fallocate(best(path), 0, 0, 100000));
}

static int write_ftruncate(const char *path)
{
    return by_result(ftruncate(best(path), 1));
}

static int write_clone(const char *path)
{
    int from = own_file("scratch/from");
    return by_result(ioctl(best(path), FICLONE, from));
}

static int write_aio(const char *path)
{
    aio_context_t context = 0;
    if (syscall(SYS_io_setup, 1, &context) != 0)
        return errno;
    struct iocb block = {.aio_lio_opcode = IOCB_CMD_PWRITE,
                         .aio_fildes = (uint32_t)best(path),
                         .aio_buf = (uint64_t)(uintptr_t) "x",
                         .aio_nbytes = 1};
    struct iocb *blocks[] = {&block};
    struct io_event event = {.res = -1};
    if (syscall(SYS_io_submit, context, 1, blocks) != 1)
        return errno;
    syscall(SYS_io_getevents, context, 1, 1, &event, NULL);
    return reached_if(event.res == 1);
}

static int write_memfd_program(const char *path)
{
    int program = memfd_create("program", MFD_CLOEXEC);
    int self = open("/proc/self/exe", O_RDONLY);
    struct stat st;
    fstat(self, &st);
    if (sendfile(program, self, NULL, (size_t)st.st_size) != st.st_size)
        return errno;
    pid_t pid = fork();
    if (pid == 0) {
        char *args[] = {"attacks", "run", (char *)"write_victim", NULL}, *env[] = {NULL};
        (void)path;
        dup2(open("/dev/null", O_WRONLY), 1);
        syscall(SYS_execveat, program, "", args, env, AT_EMPTY_PATH);
        _exit(errno);
    }
    int status;
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

static int write_landlocked(const char *path)
{
    struct landlock_ruleset_attr attr = {.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE};
    int rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    struct landlock_path_beneath_attr all = {.allowed_access = LANDLOCK_ACCESS_FS_WRITE_FILE,
                                             .parent_fd = open("/", O_PATH)};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &all, 0) != 0 ||
        syscall(SYS_landlock_restrict_self, rules, 0) != 0)
        return errno;
    return write_open(path);
}

static int write_hard_link(const char *path)
{
    if (link(path, "scratch/alias") != 0)
        return errno;
    return by_writing(open("scratch/alias", O_WRONLY));
}

static int write_link_of_descriptor(const char *path)
{
    char name[64];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", open(path, O_RDONLY));
    if (linkat(AT_FDCWD, name, AT_FDCWD, "scratch/alias", AT_SYMLINK_FOLLOW) != 0)
        return errno;
    return by_writing(open("scratch/alias", O_WRONLY));
}

static int write_symlink(const char *path)
{
    char full[4096];
    if (realpath(path, full) == NULL || symlink(full, "scratch/to") != 0)
        return errno;
    return by_writing(open("scratch/to", O_WRONLY));
}

static int write_handle(const char *path)
{
    struct {
        struct file_handle head;
        unsigned char rest[MAX_HANDLE_SZ];
    } handle = {.head.handle_bytes = MAX_HANDLE_SZ};
    int mount_id;
    if (name_to_handle_at(AT_FDCWD, path, &handle.head, &mount_id, 0) != 0)
        return errno;
    return by_writing(open_by_handle_at(open(".", O_RDONLY), &handle.head, O_WRONLY));
}

/* ---- FIFOs ---- */

/* There is somebody who reads: nobody has to be waited for. */
static int fifo_reader(const char *path)
{
    return open(path, O_RDONLY | O_NONBLOCK);
}

static int fifo_write(const char *path)
{
    fifo_reader(path);
    return by_writing(open(path, O_WRONLY));
}

static int fifo_at_once(const char *path)
{
    fifo_reader(path);
    return by_writing(open(path, O_WRONLY | O_NONBLOCK));
}

static int fifo_both(const char *path)
{
    return by_writing(open(path, O_RDWR));
}

static int fifo_created(const char *path)
{
    return by_writing(open(path, O_RDWR | O_CREAT | O_TRUNC, 0600));
}

static int fifo_reopened(const char *path)
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fifo_reader(path));
    return by_writing(open(link, O_WRONLY));
}

static int fifo_opath(const char *path)
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", open(path, O_PATH));
    return by_writing(open(link, O_RDWR | O_NONBLOCK));
}

static int fifo_symlink(const char *path)
{
    char target[4096];
    if (realpath(path, target) == NULL || symlink(target, "scratch/way") != 0)
        return errno;
    return fifo_both("scratch/way");
}

static int fifo_hard_link(const char *path)
{
    if (link(path, "scratch/other") != 0)
        return errno;
    return fifo_both("scratch/other");
}

/* ---- attributes ---- */

static int attr_chmod(const char *path)
{
    return by_result(chmod(path, 0777));
}

static int attr_fchmod(const char *path)
{
    return by_result(fchmod(open(path, O_RDONLY), 0777));
}

static int attr_fchmod_opath(const char *path)
{
    char name[64];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", open(path, O_PATH));
    return by_result(chmod(name, 0777));
}

static int attr_fchmodat2(const char *path)
{
    return by_result(syscall(NR_fchmodat2, open(path, O_PATH), "", 0777, AT_EMPTY_PATH));
}

static int attr_fchown(const char *path)
{
    return by_result(fchown(open(path, O_RDONLY), getuid(), getgid()));
}

static int attr_fchownat_empty(const char *path)
{
    return by_result(fchownat(open(path, O_PATH), "", getuid(), getgid(), AT_EMPTY_PATH));
}

static int attr_futimens(const char *path)
{
    return by_result(futimens(open(path, O_RDONLY), (struct timespec[2]){{1, 0}, {1, 0}}));
}

static int attr_utimensat(const char *path)
{
    return by_result(utimensat(AT_FDCWD, path, NULL, 0));
}

static int attr_user_xattr(const char *path)
{
    return by_result(fsetxattr(open(path, O_RDONLY), "user.x", "x", 1, 0));
}

static int attr_acl(const char *path)
{
    /* Version 2: user::rw-, group::rw-, other::rw-. */
    static const unsigned char acl[] = {2,    0,    0, 0, 1,    0,    6,    0,    0xff, 0xff,
                                        0xff, 0xff, 4, 0, 6,    0,    0xff, 0xff, 0xff, 0xff,
                                        32,   0,    6, 0, 0xff, 0xff, 0xff, 0xff};
    return by_result(setxattr(path, "system.posix_acl_access", acl, sizeof(acl), 0));
}

static int attr_flags(const char *path)
{
    int flags = 0, fd = open(path, O_RDONLY);
    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) != 0)
        return errno;
    flags ^= FS_NODUMP_FL;
    return by_result(ioctl(fd, FS_IOC_SETFLAGS, &flags));
}

static int attr_fsxattr(const char *path)
{
    struct fsxattr attr;
    int fd = open(path, O_RDONLY);
    if (ioctl(fd, FS_IOC_FSGETXATTR, &attr) != 0)
        return errno;
    attr.fsx_xflags ^= FS_XFLAG_NODUMP;
    return by_result(ioctl(fd, FS_IOC_FSSETXATTR, &attr));
}

static int attr_file_setattr(const char *path)
{
    uint64_t attr[3] = {FS_XFLAG_NODUMP, 0, 0};
    return by_result(syscall(NR_file_setattr, AT_FDCWD, path, attr, sizeof(attr), 0));
}

/* ---- taking away and moving: the argument goes away ---- */

static int gone_unlink(const char *path)
{
    return by_result(unlink(path));
}

static int gone_rename(const char *path)
{
    return by_result(rename(path, "scratch/taken"));
}

static int gone_rename_beside(const char *path)
{
    char beside[64];
    snprintf(beside, sizeof(beside), "%s.old", path);
    return by_result(rename(path, beside));
}

static int gone_replaced(const char *path)
{
    own_file("scratch/mine");
    return by_result(rename("scratch/mine", path));
}

static int gone_exchanged(const char *path)
{
    own_file("scratch/mine");
    return by_result(
        syscall(SYS_renameat2, AT_FDCWD, "scratch/mine", AT_FDCWD, path, RENAME_EXCHANGE));
}

static int gone_exchanged_directory(const char *path)
{
    mkdir("scratch/mine", 0755);
    return by_result(
        syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, "scratch/mine", RENAME_EXCHANGE));
}

static int gone_whiteout(const char *path)
{
    return by_result(
        syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, "scratch/taken", RENAME_WHITEOUT));
}

static int gone_unlinkat(const char *path)
{
    char dir[256];
    snprintf(dir, sizeof(dir), "./%s", path);
    char *slash = strrchr(dir, '/');
    *slash = '\0';
    return by_result(unlinkat(open(dir, O_PATH), slash + 1, 0));
}

/* ---- new names: the argument must not come to be ---- */

static int new_open(const char *path)
{
    close(open(path, O_CREAT | O_WRONLY, 0755));
    return by_name(path);
}

static int new_creat(const char *path)
{
    close(creat(path, 0755));
    return by_name(path);
}

static int new_openat2(const char *path)
{
    static const uint64_t resolves[] = {0,
                                        RESOLVE_NO_XDEV,
                                        RESOLVE_NO_MAGICLINKS,
                                        RESOLVE_NO_SYMLINKS,
                                        RESOLVE_BENEATH,
                                        RESOLVE_IN_ROOT,
                                        RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    for (size_t i = 0; i < sizeof(resolves) / sizeof(resolves[0]); i++) {
        struct {
            struct open_how how;
            uint64_t more[8];
        } how = {.how = {.flags = O_CREAT | O_WRONLY, .mode = 0755, .resolve = resolves[i]}};
        close((int)syscall(SYS_openat2, open(".", O_PATH), path, &how, sizeof(how.how)));
        close((int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)));
    }
    return by_name(path);
}

static int new_directory_flag(const char *path)
{
    /* Before Linux 6.4 this made a file. */
    close(open(path, O_CREAT | O_DIRECTORY, 0755));
    close(open(path, O_CREAT | O_EXCL | O_RDWR, 0755));
    return by_name(path);
}

static int new_mode_3(const char *path)
{
    close(open(path, O_CREAT | 3, 0755));
    return by_name(path);
}

static int new_reading(const char *path)
{
    close(open(path, O_CREAT | O_RDONLY, 0755));
    return by_name(path);
}

static int new_mknod(const char *path)
{
    mknod(path, S_IFREG | 0755, 0);
    return by_name(path);
}

static int new_fifo(const char *path)
{
    mknod(path, S_IFIFO | 0755, 0);
    return by_name(path);
}

static int new_socket_node(const char *path)
{
    mknod(path, S_IFSOCK | 0755, 0);
    return by_name(path);
}

static int new_whiteout_node(const char *path)
{
    mknod(path, S_IFCHR | 0755, 0);
    return by_name(path);
}

static int new_bound_socket(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    int sock = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(sock, (struct sockaddr *)&at, sizeof(at)) == 0)
        errno = 0;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0)
        bind(pair[0], (struct sockaddr *)&at, sizeof(at));
    return by_name(path);
}

static int new_mkdir(const char *path)
{
    mkdir(path, 0755);
    return by_name(path);
}

static int new_symlink(const char *path)
{
    symlink("scratch/x", path);
    return by_name(path);
}

static int new_link(const char *path)
{
    own_file("scratch/mine");
    link("scratch/mine", path);
    return by_name(path);
}

static int new_unnamed(const char *path)
{
    int fd = open("scratch", O_TMPFILE | O_RDWR, 0755);
    char name[64];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    linkat(AT_FDCWD, name, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
    return by_name(path);
}

static int new_unnamed_empty_path(const char *path)
{
    linkat(open("scratch", O_TMPFILE | O_RDWR, 0755), "", AT_FDCWD, path, AT_EMPTY_PATH);
    return by_name(path);
}

static int new_unnamed_there(const char *path)
{
    char name[64];
    snprintf(name, sizeof(name), "/proc/thread-self/fd/%d", open(".", O_TMPFILE | O_WRONLY, 0755));
    linkat(AT_FDCWD, name, open(".", O_PATH), path, AT_SYMLINK_FOLLOW);
    return by_name(path);
}

static int new_rename(const char *path)
{
    own_file("scratch/mine");
    rename("scratch/mine", path);
    return by_name(path);
}

static int new_rename_noreplace(const char *path)
{
    own_file("scratch/mine");
    syscall(SYS_renameat2, AT_FDCWD, "scratch/mine", AT_FDCWD, path, RENAME_NOREPLACE);
    return by_name(path);
}

static int new_rename_whiteout(const char *path)
{
    own_file("scratch/mine");
    syscall(SYS_renameat2, AT_FDCWD, "scratch/mine", AT_FDCWD, path, RENAME_WHITEOUT);
    return by_name(path);
}

static int new_rename_directory(const char *path)
{
    mkdir("scratch/d", 0755);
    own_file("scratch/d/tasks.json");
    rename("scratch/d", path);
    return by_name(path);
}

static int new_behind_link(const char *path)
{
    char to[256];
    snprintf(to, sizeof(to), "../%s", path);
    symlink(to, "scratch/to");
    close(open("scratch/to", O_CREAT | O_WRONLY, 0755));
    return by_name(path);
}

static int new_behind_links(const char *path)
{
    char to[256];
    symlink("..", "scratch/up");
    symlink("up", "scratch/up2");
    snprintf(to, sizeof(to), "scratch/up2/./scratch/../scratch/up//%s", path);
    close(open(to, O_CREAT | O_WRONLY, 0755));
    return by_name(path);
}

static int new_behind_slash(const char *path)
{
    char to[256];
    snprintf(to, sizeof(to), "../%s", path);
    symlink(to, "scratch/to");
    mkdir("scratch/to/", 0755);
    mkdir("scratch/to", 0755);
    snprintf(to, sizeof(to), "%s///", path);
    mkdir(to, 0755);
    return by_name(path);
}

static int new_by_proc_cwd(const char *path)
{
    char to[256];
    snprintf(to, sizeof(to), "/proc/self/cwd/%s", path);
    close(open(to, O_CREAT | O_WRONLY, 0755));
    return by_name(path);
}

static int new_by_parents_cwd(const char *path)
{
    char to[256];
    snprintf(to, sizeof(to), "/proc/%d/cwd/%s", getppid(), path);
    close(open(to, O_CREAT | O_WRONLY, 0755));
    return by_name(path);
}

static int new_by_link_to_proc(const char *path)
{
    char to[256];
    snprintf(to, sizeof(to), "/proc/thread-self/cwd/%s", path);
    symlink(to, "scratch/to");
    close(open("scratch/to", O_CREAT | O_WRONLY, 0755));
    return by_name(path);
}

static int new_by_proc_fd(const char *path)
{
    char to[256];
    snprintf(to, sizeof(to), "/proc/self/fd/%d/%s", open(".", O_PATH), path);
    close(open(to, O_CREAT | O_WRONLY, 0755));
    snprintf(to, sizeof(to), "/dev/fd/%d/%s", open(".", O_PATH), path);
    close(open(to, O_CREAT | O_WRONLY, 0755));
    return by_name(path);
}

static int new_by_proc_root(const char *path)
{
    char here[2048], to[4096];
    getcwd(here, sizeof(here));
    snprintf(to, sizeof(to), "/proc/self/root%s/%s", here, path);
    close(open(to, O_CREAT | O_WRONLY, 0755));
    return by_name(path);
}

static int new_from_below(const char *path)
{
    char to[256];
    mkdir("scratch/a", 0755);
    mkdir("scratch/a/b", 0755);
    if (chdir("scratch/a/b") != 0 || rename("../../../scratch/a/b", "../../../scratch/b") != 0)
        return errno;
    snprintf(to, sizeof(to), "../../%s", path);
    close(open(to, O_CREAT | O_WRONLY, 0755));
    return by_name(to);
}

static int new_by_long_path(const char *path)
{
    char to[4096];
    size_t room = sizeof(to) - 1 - strlen(path);
    for (size_t i = 0; i < room; i++)
        to[i] = i % 2 == 0 ? '.' : '/';
    if (room % 2 != 0)
        to[room - 1] = '/';
    strcpy(to + room, path);
    close(open(to, O_CREAT | O_WRONLY, 0755));
    return by_name(path);
}

/* A working directory whose path is longer than the kernel tells. */
static int new_in_the_deep(const char *path)
{
    char name[201];
    memset(name, 'd', 200);
    name[200] = '\0';
    if (chdir("scratch") != 0)
        return errno;
    for (int i = 0; i < 25; i++)
        if (mkdir(name, 0755) != 0 || chdir(name) != 0)
            return errno;
    close(open(path, O_CREAT | O_WRONLY, 0755));
    return by_name(path);
}

static int new_by_descriptor(const char *path)
{
    char dir[256];
    snprintf(dir, sizeof(dir), "./%s", path);
    char *slash = strrchr(dir, '/');
    *slash = '\0';
    close(openat(open(dir, O_PATH), slash + 1, O_CREAT | O_WRONLY, 0755));
    return by_name(path);
}

static int new_by_fchdir(const char *path)
{
    char dir[256];
    snprintf(dir, sizeof(dir), "./%s", path);
    char *slash = strrchr(dir, '/');
    *slash = '\0';
    if (fchdir(open(dir, O_PATH)) != 0)
        return errno;
    close(open(slash + 1, O_CREAT | O_WRONLY, 0755));
    return by_name(slash + 1);
}

static int new_by_passed_descriptor(const char *path)
{
    int pair[2], fd = open("..", O_RDONLY | O_DIRECTORY);
    char room[CMSG_SPACE(sizeof(int))], byte = 'x';
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return errno;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    if (sendmsg(pair[0], &message, 0) < 0 || recvmsg(pair[1], &message, 0) < 0)
        return errno;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    close(openat(fd, path, O_CREAT | O_WRONLY, 0755));
    struct stat st;
    return reached_if(fstatat(fd, path, &st, 0) == 0);
}

/* The directory and the descriptors are those of the thread that calls, not those of its process.
 */
static void *thread_elsewhere(void *path)
{
    if (unshare(CLONE_FS) != 0 || chdir("scratch/d") != 0)
        return NULL;
    close(open(path, O_CREAT | O_WRONLY, 0755));
    return NULL;
}

static int new_from_another_directory(const char *path)
{
    char to[256];
    pthread_t thread;
    mkdir("scratch/d", 0755);
    pthread_create(&thread, NULL, thread_elsewhere, (void *)(uintptr_t)path);
    pthread_join(thread, NULL);
    snprintf(to, sizeof(to), "scratch/d/%s", path);
    return by_name(to);
}

enum { SWAPPED = 100 };

static void *thread_with_own_files(void *path)
{
    if (unshare(CLONE_FILES) != 0 || dup2(open(".", O_PATH), SWAPPED) < 0)
        return NULL;
    close(openat(SWAPPED, path, O_CREAT | O_WRONLY, 0755));
    return NULL;
}

static int new_from_own_descriptors(const char *path)
{
    pthread_t thread;
    dup2(open("/dev", O_PATH), SWAPPED);
    pthread_create(&thread, NULL, thread_with_own_files, (void *)(uintptr_t)path);
    pthread_join(thread, NULL);
    return by_name(path);
}

static int new_by_vfork(const char *path)
{
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_VFORK | SIGCHLD,
                               0, 0, 0, 0);
    if (pid == 0) {
        syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY, 0755));
        syscall(SYS_exit, 0);
    }
    return by_name(path);
}

#ifdef __x86_64__
static long int80(long number, long a, long b, long c)
{
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(a), "c"(b), "d"(c)
                     : "memory", "r8", "r9", "r10", "r11");
    if (result < 0) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

static int new_by_int80(const char *path)
{
    char *low =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    strcpy(low, path);
    int80(5, (long)low, O_CREAT | O_WRONLY, 0755);
    return by_name(path);
}

static int new_by_x32(const char *path)
{
    syscall(0x40000000 | SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY, 0755);
    return by_name(path);
}

/* The number of the call has rubbish in its upper half, of which the kernel looks at 32 bits. */
static int new_by_high_number(const char *path)
{
    long result;
    register long mode __asm__("r10") = 0755;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_openat | 0x100000000), "D"((long)AT_FDCWD), "S"(path),
                       "d"((long)(O_CREAT | O_WRONLY)), "r"(mode)
                     : "rcx", "r11", "memory");
    errno = result < 0 ? (int)-result : 0;
    return by_name(path);
}

/* A tracer changes what its child calls, before the filter looks and after it has asked. */
static int traced(const char *path, bool filter)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct sock_filter code[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsid, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {4, code};
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
            _exit(errno);
        raise(SIGSTOP);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (filter && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
            _exit(errno);
        syscall(SYS_getsid, AT_FDCWD, path, O_CREAT | O_WRONLY, 0755);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    ptrace(PTRACE_SETOPTIONS, pid, 0,
           PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
    for (int i = 0; i < 100 && !WIFEXITED(status); i++) {
        struct user_regs_struct regs;
        if (WIFSTOPPED(status) && ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0 &&
            regs.orig_rax == SYS_getsid) {
            regs.orig_rax = SYS_openat;
            ptrace(PTRACE_SETREGS, pid, 0, &regs);
        }
        if (ptrace(filter ? PTRACE_CONT : PTRACE_SYSCALL, pid, 0, 0) != 0 ||
            waitpid(pid, &status, 0) != pid)
            break;
    }
    kill(pid, SIGKILL);
    errno = 0;
    return by_name(path);
}

static int new_by_traced_entry(const char *path)
{
    return traced(path, false);
}

static int new_by_traced_filter(const char *path)
{
    return traced(path, true);
}
#endif

static int new_by_core(const char *path)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit most;
        getrlimit(RLIMIT_CORE, &most);
        most.rlim_cur = most.rlim_max;
        setrlimit(RLIMIT_CORE, &most);
        if (chdir(path) != 0)
            _exit(1);
        raise(SIGSEGV);
        _exit(1);
    }
    int status;
    waitpid(pid, &status, 0);
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        if (strstr(entry->d_name, "core") == entry->d_name)
            return REACHED;
    return NOTHING;
}

static int new_repository(const char *path)
{
    mkdir("scratch/r", 0755);
    mkdir("scratch/r/g", 0755);
    mkdir("scratch/r/g/hooks", 0755);
    own_file("scratch/r/g/hooks/pre-commit");
    rename("scratch/r/g", path);
    return by_name(path);
}

/* ---- reading what is hidden: the argument is a path to it ---- */

static int read_open(const char *path)
{
    return by_secret(open(path, O_RDONLY));
}

static int read_flags(const char *path)
{
    int fd = open(path, O_RDONLY | O_CREAT, 0);
    return by_secret(fd >= 0 ? fd : open(path, O_RDONLY | O_NOATIME | O_NONBLOCK | O_NOFOLLOW));
}

static int read_opath(const char *path)
{
    char name[64];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", open(path, O_PATH));
    return by_secret(open(name, O_RDONLY));
}

static int read_openat2(const char *path)
{
    struct open_how how = {.flags = O_RDONLY};
    return by_secret((int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)));
}

static int read_link(const char *path)
{
    if (link(path, "scratch/alias") != 0)
        return errno;
    return read_open("scratch/alias");
}

static int read_renamed(const char *path)
{
    if (rename(path, "scratch/taken") != 0)
        return errno;
    return read_open("scratch/taken");
}

static int read_chmod(const char *path)
{
    chmod(path, 0777);
    return read_open(path);
}

static int read_handle(const char *path)
{
    struct {
        struct file_handle head;
        unsigned char rest[MAX_HANDLE_SZ];
    } handle = {.head.handle_bytes = MAX_HANDLE_SZ};
    int mount_id;
    if (name_to_handle_at(AT_FDCWD, path, &handle.head, &mount_id, 0) != 0)
        return errno;
    return by_secret(open_by_handle_at(open(".", O_RDONLY), &handle.head, O_RDONLY));
}

/* A handle that is made up: of the same file system, with the number of the file's inode. */
static int read_guessed_handle(const char *path)
{
    struct {
        struct file_handle head;
        unsigned char rest[MAX_HANDLE_SZ];
    } handle = {.head.handle_bytes = MAX_HANDLE_SZ};
    int mount_id;
    if (name_to_handle_at(AT_FDCWD, ".", &handle.head, &mount_id, 0) != 0)
        return errno;
    (void)path;
    return by_look(open_by_handle_at(open(".", O_RDONLY), &handle.head, O_RDONLY | O_DIRECTORY));
}

static int read_unmounted(const char *path)
{
    umount2(path, DETACH);
    umount2("../hidden", DETACH);
    return read_open(path);
}

static int read_as_root(const char *path)
{
    return by_secret(open(path, O_RDONLY));
}

static int open_of_target(const char *format)
{
    char path[512];
    snprintf(path, sizeof(path), format, target);
    return by_result(open(path, O_RDONLY));
}

static int read_of_target(const char *format)
{
    char path[512], byte;
    snprintf(path, sizeof(path), format, target);
    return by_result(read(open(path, O_RDONLY), &byte, 1));
}

static int write_of_target(const char *format)
{
    char path[512];
    snprintf(path, sizeof(path), format, target);
    return by_result(open(path, O_RDWR));
}

/* What any process that can be seen has as its root, directory or descriptor. */
static int read_every_process(const char *path)
{
    char name[1024];
    static const char *const ways[] = {"root", "cwd/../../..", "cwd", "fd/3", "fd/0"};
    DIR *proc = opendir("/proc");
    for (const struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
            continue;
        for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
            snprintf(name, sizeof(name), "/proc/%s/%s/%s", entry->d_name, ways[i], path);
            if (by_secret(open(name, O_RDONLY)) == REACHED)
                return REACHED;
        }
    }
    return errno;
}

static int read_watched(const char *path)
{
    return by_result(syscall(SYS_inotify_add_watch, syscall(SYS_inotify_init1, 0), path, 0xfff));
}

/* ---- namespaces and mounts ---- */

static int ns_unshare(const char *flag)
{
    return by_result(unshare((int)strtoul(flag, NULL, 0)));
}

static int ns_clone(const char *flag)
{
    long pid = syscall(SYS_clone, strtoul(flag, NULL, 0) | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    return by_result(pid);
}

/* What the kernel takes as 32 bits, with rubbish above. */
static int ns_clone_high(const char *flag)
{
    long pid = syscall(SYS_clone, strtoul(flag, NULL, 0) | SIGCHLD | 0xabcd00000000, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    return by_result(pid);
}

static int ns_clone3(const char *flag)
{
    struct clone_args args = {.flags = strtoul(flag, NULL, 0), .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0)
        _exit(0);
    return by_result(pid);
}

static int ns_setns(const char *format)
{
    char path[64];
    snprintf(path, sizeof(path), format, getpid());
    return by_result(setns(open(path, O_RDONLY), 0));
}

static int ns_setns_pidfd(const char *unused)
{
    (void)unused;
    return by_result(setns((int)syscall(SYS_pidfd_open, target, 0), CLONE_NEWUTS));
}

static int mount_bind(const char *path)
{
    return by_result(syscall(SYS_mount, "scratch", path, NULL, MS_BIND, NULL));
}

static int mount_remount(const char *path)
{
    return by_look(syscall(SYS_mount, NULL, path, NULL, MS_REMOUNT | MS_BIND, NULL));
}

static int mount_new(const char *kind)
{
    return by_result(syscall(SYS_mount, "x", "scratch", kind, 0, NULL));
}

static int mount_move(const char *path)
{
    return by_look(syscall(SYS_mount, path, "scratch", NULL, MS_MOVE, NULL));
}

static int mount_off(const char *path)
{
    return by_look(umount2(path, DETACH));
}

static int mount_pivot(const char *path)
{
    return by_look(syscall(SYS_pivot_root, path, path));
}

static int mount_chroot(const char *path)
{
    return by_result(chroot(path));
}

static int mount_open_tree(const char *path)
{
    return by_result(syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | AT_RECURSIVE));
}

/* Without a clone it is an open that no mount is taken from. */
static int mount_open_tree_plain(const char *path)
{
    return by_result(syscall(SYS_open_tree, AT_FDCWD, path, 0));
}

static int mount_move_mount(const char *path)
{
    return by_look(syscall(SYS_move_mount, AT_FDCWD, path, AT_FDCWD, "scratch", 0));
}

static int mount_fsopen(const char *kind)
{
    return by_result(syscall(SYS_fsopen, kind, 0));
}

static int mount_fsmount(const char *unused)
{
    (void)unused;
    return by_look(syscall(SYS_fsmount, -1, 0, 0));
}

static int mount_fsconfig(const char *unused)
{
    (void)unused;
    return by_look(syscall(SYS_fsconfig, -1, FSCONFIG_CMD_CREATE, NULL, NULL, 0));
}

static int mount_fspick(const char *path)
{
    return by_result(syscall(SYS_fspick, AT_FDCWD, path, 0));
}

static int mount_attr(const char *path)
{
    struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};
    return by_look(syscall(NR_mount_setattr, AT_FDCWD, path, AT_RECURSIVE, &attr, sizeof(attr)));
}

static int mount_open_tree_attr(const char *path)
{
    struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};
    return by_result(
        syscall(NR_open_tree_attr, AT_FDCWD, path, OPEN_TREE_CLONE, &attr, sizeof(attr)));
}

/* ---- other processes ---- */

static int process_trace(const char *unused)
{
    (void)unused;
    return by_result(ptrace(PTRACE_ATTACH, target, 0, 0));
}

static int process_seize(const char *unused)
{
    (void)unused;
    return by_result(ptrace(PTRACE_SEIZE, target, 0, 0));
}

static char page[64];

static int process_read(const char *unused)
{
    (void)unused;
    struct iovec own = {page, 1}, theirs = {page, 1};
    return by_result(process_vm_readv(target, &own, 1, &theirs, 1, 0));
}

static int process_write(const char *unused)
{
    (void)unused;
    struct iovec own = {page, 1}, theirs = {page, 1};
    return by_result(process_vm_writev(target, &own, 1, &theirs, 1, 0));
}

static int process_descriptor(const char *unused)
{
    (void)unused;
    return by_result(syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, target, 0), 0, 0));
}

static int process_compare(const char *unused)
{
    (void)unused;
    return by_result(syscall(SYS_kcmp, target, getpid(), 2, 0, 0));
}

static int process_advise(const char *unused)
{
    (void)unused;
    struct iovec theirs = {NULL, 0};
    return by_result(
        syscall(SYS_process_madvise, syscall(SYS_pidfd_open, target, 0), &theirs, 1, MADV_COLD, 0));
}

static int process_limits(const char *unused)
{
    (void)unused;
    struct rlimit limit;
    if (prlimit(target, RLIMIT_NOFILE, NULL, &limit) != 0)
        return errno;
    return by_result(prlimit(target, RLIMIT_NOFILE, &limit, NULL));
}

/* ---- sockets ---- */

static int socket_any(const char *text)
{
    int family, kind, protocol;
    if (sscanf(text, "%i %i %i", &family, &kind, &protocol) != 3)
        return EINVAL;
    return by_result(socket(family, kind, protocol));
}

static int socket_high(const char *text)
{
    long family, kind, protocol;
    if (sscanf(text, "%li %li %li", &family, &kind, &protocol) != 3)
        return EINVAL;
    return by_result(syscall(SYS_socket, family | 0x100000000, kind, protocol));
}

static int socket_to(const struct sockaddr *at, socklen_t len)
{
    return by_result(connect(socket(at->sa_family, SOCK_STREAM, 0), at, len));
}

static int socket_path(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    return socket_to((struct sockaddr *)&at, sizeof(at));
}

static int socket_abstract(const char *unused)
{
    (void)unused;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    size_t len =
        (size_t)snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "%s", getenv("ABSTRACT"));
    return socket_to((struct sockaddr *)&at,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len));
}

static int socket_datagram_pair(const char *path)
{
    int pair[2];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0)
        return errno;
    return by_result(sendto(pair[0], "x", 1, 0, (struct sockaddr *)&at, sizeof(at)));
}

/* A pair that is no longer one. */
static int socket_reconnected_pair(const char *path)
{
    int pair[2];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0)
        return errno;
    connect(pair[0], &(struct sockaddr){.sa_family = AF_UNSPEC}, sizeof(struct sockaddr));
    return by_result(connect(pair[0], (struct sockaddr *)&at, sizeof(at)));
}

static int socket_port(const char *address)
{
    const char *port = getenv("PORT");
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    inet_pton(AF_INET, address, &at.sin_addr);
    return socket_to((struct sockaddr *)&at, sizeof(at));
}

static int socket_fast_open(const char *address)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(getenv("PORT")))};
    inet_pton(AF_INET, address, &at.sin_addr);
    return by_result(sendto(socket(AF_INET, SOCK_STREAM, 0), "x", 1, MSG_FASTOPEN,
                            (struct sockaddr *)&at, sizeof(at)));
}

/* ---- what belongs to the machine ---- */

#define LOOK(name, ...)                           \
    static int machine_##name(const char *unused) \
    {                                             \
        (void)unused;                             \
        return by_look(syscall(__VA_ARGS__));     \
    }
LOOK(io_uring, SYS_io_uring_setup, 1, NULL)
LOOK(userfaultfd, SYS_userfaultfd, -1)
LOOK(bpf, SYS_bpf, -1, NULL, 0)
LOOK(perf, SYS_perf_event_open, NULL, 0, -1, -1, 0)
LOOK(add_key, SYS_add_key, "user", "x", "x", 1, -3)
LOOK(request_key, SYS_request_key, "user", "x", NULL, 0)
LOOK(keyctl, SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1)
LOOK(reboot, SYS_reboot, 1, 2, 3, NULL)
LOOK(kexec_load, SYS_kexec_load, 0, 1000, NULL, -1)
LOOK(kexec_file_load, SYS_kexec_file_load, -1, -1, 0, NULL, ~0UL)
LOOK(init_module, SYS_init_module, NULL, 0, "")
LOOK(finit_module, SYS_finit_module, -1, "", 0)
LOOK(delete_module, SYS_delete_module, "no-such-module", O_NONBLOCK)
LOOK(swapon, SYS_swapon, "/nowhere", 0)
LOOK(swapoff, SYS_swapoff, "/nowhere")
LOOK(acct, SYS_acct, "/nowhere")
LOOK(quotactl, SYS_quotactl, 0x800007 << 8, "/nowhere", 0, NULL)
LOOK(quotactl_fd, NR_quotactl_fd, -1, 0, 0, NULL)
LOOK(settimeofday, SYS_settimeofday, &(struct timeval){0, -1}, NULL)
LOOK(clock_settime, SYS_clock_settime, CLOCK_REALTIME, &(struct timespec){0, -1})
LOOK(syslog, SYS_syslog, 10, NULL, 0)
LOOK(vhangup, SYS_vhangup)
LOOK(fanotify, SYS_fanotify_init, 0, 0)
#ifdef __x86_64__
LOOK(iopl, SYS_iopl, 4)
LOOK(ioperm, SYS_ioperm, 0x80, 1, 1)
LOOK(modify_ldt, SYS_modify_ldt, 2, NULL, 0)
#endif

/* Only one listener is possible; whoever had a second could answer for the warden. */
static int machine_second_listener(const char *unused)
{
    (void)unused;
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return by_result(
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
}

static int machine_hostname(const char *unused)
{
    (void)unused;
    return by_result(sethostname("attacked", 8));
}

static int machine_domainname(const char *unused)
{
    (void)unused;
    return by_result(setdomainname("attacked", 8));
}

static int machine_personality(const char *bits)
{
    return by_result(personality(strtoul(bits, NULL, 0)));
}

static int machine_knob(const char *path)
{
    return by_result(open(path, O_WRONLY));
}

static int machine_time_slew(const char *unused)
{
    (void)unused;
    long timex[64] = {0}; /* struct timex, and nothing to set but the mode */
    timex[0] = 0x2000;    /* ADJ_SETOFFSET without an offset that would matter */
    timex[9] = 0;
    return by_result(syscall(SYS_adjtimex, timex));
}

static int machine_scheduler(const char *unused)
{
    (void)unused;
    return by_result(sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){1}));
}

static int machine_hard_limit(const char *unused)
{
    (void)unused;
    struct rlimit limit;
    getrlimit(RLIMIT_RTPRIO, &limit);
    limit.rlim_max = limit.rlim_max == RLIM_INFINITY ? limit.rlim_max : limit.rlim_max + 1;
    return by_result(setrlimit(RLIMIT_RTPRIO, &limit));
}

static int machine_device(const char *text)
{
    unsigned major, minor;
    char kind;
    if (sscanf(text, "%c %u %u", &kind, &major, &minor) != 3)
        return EINVAL;
    if (mknod("scratch/device", (kind == 'b' ? S_IFBLK : S_IFCHR) | 0666,
              (dev_t)(major << 8 | minor)) != 0)
        return errno;
    return by_look(open("scratch/device", O_RDONLY | O_NONBLOCK));
}

static int machine_capability(const char *unused)
{
    (void)unused;
    own_file("scratch/mine");
    static const uint32_t all[] = {0x02000001, ~0u, 0, ~0u, 0};
    return by_result(setxattr("scratch/mine", "security.capability", all, sizeof(all), 0));
}

static int machine_owner(const char *unused)
{
    (void)unused;
    own_file("scratch/mine");
    return by_result(chown("scratch/mine", 1, 1));
}

static int machine_identity(const char *unused)
{
    (void)unused;
    return by_result(syscall(SYS_setresuid, 1, 1, 1));
}

static int machine_groups(const char *unused)
{
    (void)unused;
    return by_result(syscall(SYS_setgroups, 0, NULL));
}

static int machine_segment(const char *unused)
{
    (void)unused;
    int id = shmget((key_t)atoi(getenv("SEGMENT")), 0, 0);
    const char *at = id < 0 ? (void *)-1 : shmat(id, NULL, SHM_RDONLY);
    return reached_if(at != (void *)-1 && memcmp(at, "secret", 6) == 0);
}

static int machine_shm(const char *unused)
{
    (void)unused;
    char path[128];
    snprintf(path, sizeof(path), "/dev/shm/%s", getenv("SHM"));
    return by_secret(open(path, O_RDONLY));
}

static int machine_queue(const char *unused)
{
    (void)unused;
    return by_result(mq_open(getenv("QUEUE"), O_RDONLY));
}

/* Who opens the file for writing, or for anything, has to wait until it is given back. */
static int machine_lease(const char *kind)
{
    int fd = open("../outside/victim", O_RDONLY);
    return by_result(syscall(SYS_fcntl, fd, F_SETLEASE, atoi(kind)));
}

static int machine_lease_high(const char *kind)
{
    int fd = open("../outside/victim", O_RDONLY);
    return by_result(syscall(SYS_fcntl, fd, F_SETLEASE | 0x700000000, atoi(kind)));
}

static int machine_delegation(const char *unused)
{
    (void)unused;
    struct {
        unsigned flags;
        unsigned short type, pad;
    } delegation = {.type = F_RDLCK};
    int fd = open("../outside", O_RDONLY | O_DIRECTORY);
    return by_look(syscall(SYS_fcntl, fd, 1024 + 16, &delegation));
}

/* Calls of file systems that this directory need not be on. */
static int gone_by_ioctl(const char *number)
{
    char argument[8192] = "";
    int fd = open(".", O_RDONLY | O_DIRECTORY);
    return by_look(syscall(SYS_ioctl, fd, strtoul(number, NULL, 0), argument));
}

/* A terminal of our own, and a byte typed into it by whoever holds it. */
static int type_into_terminal(unsigned long command, void *argument)
{
    int ours = posix_openpt(O_RDWR | O_NOCTTY);
    grantpt(ours);
    unlockpt(ours);
    setsid();
    int theirs = open(ptsname(ours), O_RDWR);
    ioctl(theirs, TIOCSCTTY, 0);
    return by_result(syscall(SYS_ioctl, theirs, command, argument));
}

static int terminal_types(const char *unused)
{
    (void)unused;
    return type_into_terminal(TIOCSTI, "x");
}

static int terminal_types_high(const char *unused)
{
    (void)unused;
    return type_into_terminal(TIOCSTI | 0x8100000000, "x");
}

static int terminal_pastes(const char *unused)
{
    (void)unused;
    char paste = 3;
    int result = type_into_terminal(TIOCLINUX, &paste);
    return result == ENOTTY ? REACHED : result; /* it is looked at, and only a console pastes */
}

static int terminal_pastes_high(const char *unused)
{
    (void)unused;
    char paste = 3;
    int result = type_into_terminal(TIOCLINUX | 0x100000000, &paste);
    return result == ENOTTY ? REACHED : result;
}

static int terminal_exclusive(const char *unused)
{
    (void)unused;
    return type_into_terminal(TIOCEXCL, NULL);
}

static int terminal_discipline(const char *unused)
{
    (void)unused;
    int usual = 0;
    return type_into_terminal(TIOCSETD, &usual);
}

/* ---- the table ---- */

struct attack {
    const char *name, *who, *what;
    int (*run)(const char *argument);
    const char *argument;
};

/* Each way of writing is tried at a file outside, at a guarded one, and at one that is denied. */
#define WRITES(way, who, what)                                                  \
    {#way "_victim", who, what " a file outside", way, "../outside/victim"},    \
        {#way "_bashrc", who, what " a protected file", way, ".bashrc"},        \
        {#way "_config", who, what " git's configuration", way, ".git/config"}, \
    {                                                                           \
#way "_locked", who, what " a denied file", way, "locked/file"          \
    }
#define INSIDE_WRITES(way, who, what)                                  \
    {#way "_bashrc", who, what " a protected file", way, ".bashrc"},   \
    {                                                                  \
#way "_locked", who, what " a denied file", way, "locked/file" \
    }
#define FIFOS(way, what)                                                         \
    {#way "_outside", "anyone", what " a FIFO outside", way, "../outside/fifo"}, \
    {                                                                            \
#way "_locked", "anyone", what " a denied FIFO", way, "locked/fifo"      \
    }
#define NEW(way, who, what)                                       \
    {                                                             \
#way, who, "makes a protected name: " what, way, ".zshrc" \
    }
#define NEWS(way, who, what)                                                       \
    {#way, who, "makes a protected name: " what, way, ".zshrc"},                   \
        {#way "_hook", who, "makes a hook: " what, way, ".git/hooks/pre-commit"},  \
    {                                                                              \
#way "_outside", who, "makes a name outside: " what, way, "../outside/new" \
    }
#define READS(way, who, what)                                                             \
    {#way "_key", who, "reads a hidden file " what, way, "key"},                          \
    {                                                                                     \
#way "_secret", who, "reads in a hidden directory " what, way, "../hidden/secret" \
    }
#define KINDS(way, who, what)                                                \
    {#way "_user", who, what " user namespace", way, "0x10000000"},          \
        {#way "_mount", "root", what " mount namespace", way, "0x20000"},    \
        {#way "_net", "root", what " network namespace", way, "0x40000000"}, \
        {#way "_pid", "root", what " process namespace", way, "0x20000000"}, \
        {#way "_ipc", "root", what " ipc namespace", way, "0x8000000"},      \
        {#way "_uts", "root", what " uts namespace", way, "0x4000000"},      \
    {                                                                        \
#way "_cgroup", "root", what " cgroup namespace", way, "0x2000000"   \
    }

static const struct attack attacks[] = {
    {"write_victim", "anyone", "opens for writing a file outside", write_open, "../outside/victim"},
    {"write_bashrc", "anyone", "opens for writing a protected file", write_open, ".bashrc"},
    {"write_config", "anyone", "opens for writing git's configuration", write_open, ".git/config"},
    {"write_locked", "anyone", "opens for writing a denied file", write_open, "locked/file"},
    WRITES(write_append, "anyone", "appends to"),
    WRITES(write_NO_XDEV, "anyone", "openat2(RESOLVE_NO_XDEV) for writing"),
    WRITES(write_NO_MAGICLINKS, "anyone", "openat2(RESOLVE_NO_MAGICLINKS) for writing"),
    WRITES(write_NO_SYMLINKS, "anyone", "openat2(RESOLVE_NO_SYMLINKS) for writing"),
    WRITES(write_CACHED, "anyone", "openat2(RESOLVE_CACHED) for writing"),
    INSIDE_WRITES(write_BENEATH, "anyone", "openat2(RESOLVE_BENEATH) for writing"),
    INSIDE_WRITES(write_IN_ROOT, "anyone", "openat2(RESOLVE_IN_ROOT) for writing"),
    WRITES(write_truncate, "anyone", "cuts by its path"),
    WRITES(write_mode_3, "anyone", "cuts by an open that neither reads nor writes"),
    WRITES(write_reading_and_cut, "anyone", "cuts by an open for reading"),
    WRITES(write_proc_fd, "anyone", "opens again by /proc/self/fd"),
    WRITES(write_thread_fd, "anyone", "opens again by /proc/thread-self/fd"),
    WRITES(write_dev_fd, "anyone", "opens again by /dev/fd"),
    WRITES(write_opath, "anyone", "opens again what was opened as a path"),
    WRITES(write_map_files, "root", "opens again by /proc/self/map_files"),
    WRITES(write_mapped, "anyone", "maps, shared and writable,"),
    WRITES(write_mapped_later, "anyone", "maps, and makes writable later,"),
    WRITES(write_pwritev2, "anyone", "writes at the end of"),
    WRITES(write_copy_file_range, "anyone", "copy_file_range to"),
    WRITES(write_sendfile, "anyone", "sendfile to"),
    WRITES(write_splice, "anyone", "splice to"),
    WRITES(write_vmsplice_tee, "anyone", "splices pages of its own to"),
    WRITES(write_dirty_pipe, "anyone", "merges into a page in a pipe of"),
    WRITES(write_fallocate, "anyone", "fallocate on"),
    WRITES(write_ftruncate, "anyone", "ftruncate on"),
    WRITES(write_clone, "kernel", "FICLONE to"),
    WRITES(write_aio, "anyone", "asynchronous I/O to"),
    WRITES(write_landlocked, "anyone", "has a Landlock of its own that allows writing to"),
    WRITES(write_hard_link, "anyone", "gives another name to"),
    WRITES(write_link_of_descriptor, "anyone", "gives another name, by a descriptor, to"),
    WRITES(write_symlink, "anyone", "leads a symbolic link to"),
    WRITES(write_handle, "root", "opens by handle"),
    {"write_memfd_program", "anyone", "runs a program in memory that writes to a file outside",
     write_memfd_program, ""},

    FIFOS(fifo_write, "writes into"),
    FIFOS(fifo_at_once, "writes without waiting into"),
    FIFOS(fifo_both, "opens for both"),
    FIFOS(fifo_created, "opens as if it were to be made"),
    FIFOS(fifo_reopened, "opens again by /proc/self/fd"),
    FIFOS(fifo_opath, "opens again what was opened as a path,"),
    FIFOS(fifo_symlink, "leads a symbolic link to"),
    FIFOS(fifo_hard_link, "gives another name to"),

    WRITES(attr_chmod, "anyone", "chmod of"),
    WRITES(attr_fchmod, "anyone", "fchmod of"),
    WRITES(attr_fchmod_opath, "anyone", "chmod by /proc/self/fd of"),
    WRITES(attr_fchmodat2, "kernel", "fchmodat2 with an empty path of"),
    WRITES(attr_fchown, "anyone", "fchown of"),
    WRITES(attr_fchownat_empty, "anyone", "fchownat with an empty path of"),
    WRITES(attr_futimens, "anyone", "futimens of"),
    WRITES(attr_utimensat, "anyone", "utimensat of"),
    WRITES(attr_user_xattr, "kernel", "fsetxattr of"),
    WRITES(attr_acl, "kernel", "an access list of"),
    WRITES(attr_flags, "kernel", "FS_IOC_SETFLAGS of"),
    WRITES(attr_fsxattr, "kernel", "FS_IOC_FSSETXATTR of"),
    WRITES(attr_file_setattr, "kernel", "file_setattr of"),

    WRITES(gone_unlink, "anyone", "unlinks"),
    WRITES(gone_unlinkat, "anyone", "unlinks in an open directory"),
    WRITES(gone_rename, "anyone", "renames"),
    WRITES(gone_replaced, "anyone", "renames something to"),
    WRITES(gone_exchanged, "anyone", "exchanges"),
    WRITES(gone_whiteout, "kernel", "renames, leaving a whiteout,"),
    {"gone_move_git", "anyone", "renames the directory above hooks", gone_rename_beside, ".git"},
    {"gone_move_hooks", "anyone", "renames the directory of hooks", gone_rename_beside,
     ".git/hooks"},
    {"gone_move_locked", "anyone", "renames a denied directory", gone_rename_beside, "locked"},
    {"gone_move_outside", "anyone", "renames a directory outside", gone_rename_beside,
     "../outside"},
    {"gone_exchange_git", "anyone", "exchanges a repository", gone_exchanged_directory, ".git"},
    {"gone_exchange_hooks", "anyone", "exchanges the directory of hooks", gone_exchanged_directory,
     ".git/hooks"},
    {"gone_exchange_outside", "anyone", "exchanges a directory outside", gone_exchanged_directory,
     "../outside"},

    NEWS(new_open, "anyone", "open"),
    NEWS(new_creat, "anyone", "creat"),
    NEW(new_openat2, "anyone", "openat2 with every kind of resolution"),
    NEW(new_directory_flag, "anyone", "open(O_CREAT | O_DIRECTORY)"),
    NEWS(new_mode_3, "anyone", "open in access mode 3"),
    NEWS(new_reading, "anyone", "open for reading"),
    NEWS(new_mknod, "anyone", "mknod of a file"),
    NEWS(new_fifo, "anyone", "mknod of a FIFO"),
    NEWS(new_socket_node, "anyone", "mknod of a socket"),
    NEWS(new_whiteout_node, "anyone", "mknod of a whiteout"),
    NEWS(new_bound_socket, "anyone", "bind of a socket"),
    NEWS(new_symlink, "anyone", "symlink"),
    NEWS(new_link, "anyone", "link"),
    NEWS(new_unnamed, "anyone", "a name for an unnamed file, by /proc/self/fd"),
    NEWS(new_unnamed_empty_path, "kernel", "a name for an unnamed file, by an empty path"),
    NEWS(new_unnamed_there, "anyone", "a name for an unnamed file of the same directory"),
    NEWS(new_rename, "anyone", "rename"),
    NEWS(new_rename_noreplace, "anyone", "renameat2(RENAME_NOREPLACE)"),
    NEWS(new_rename_whiteout, "kernel", "renameat2(RENAME_WHITEOUT)"),
    NEWS(new_behind_link, "anyone", "by a link that leads nowhere yet"),
    NEWS(new_behind_links, "anyone", "by links and dots"),
    NEWS(new_by_proc_cwd, "anyone", "by /proc/self/cwd"),
    NEWS(new_by_parents_cwd, "anyone", "by the directory of another process"),
    NEWS(new_by_link_to_proc, "anyone", "by a link to /proc/thread-self/cwd"),
    NEWS(new_by_proc_fd, "anyone", "by /proc/self/fd and /dev/fd"),
    NEWS(new_by_proc_root, "anyone", "by /proc/self/root"),
    NEWS(new_from_below, "anyone", "from a directory that has been moved"),
    NEW(new_by_long_path, "anyone", "by a path of 4095 bytes"),
    NEW(new_in_the_deep, "anyone", "in a directory whose path is too long to be told"),
    NEWS(new_by_descriptor, "anyone", "in an open directory"),
    NEWS(new_by_fchdir, "anyone", "after fchdir"),
    {"new_by_passed_descriptor", "anyone", "makes a name outside in a directory that was passed on",
     new_by_passed_descriptor, "new"},
    NEW(new_from_another_directory, "anyone", "in a thread that has its own directory"),
    NEW(new_from_own_descriptors, "anyone", "in a thread that has its own descriptors"),
    NEW(new_by_vfork, "anyone", "in a process that shares its memory"),
#ifdef __x86_64__
    NEW(new_by_int80, "kernel", "by the 32-bit entry"),
    NEW(new_by_x32, "kernel", "by an x32 call"),
    NEW(new_by_high_number, "anyone", "by a number with rubbish above"),
    NEW(new_by_traced_entry, "anyone", "by a child whose call is changed at its entry"),
    NEW(new_by_traced_filter, "anyone", "by a child whose call is changed after a filter"),
#endif
    {"new_directory", "anyone", "makes a protected directory", new_mkdir, ".vscode"},
    {"new_directory_below", "anyone", "makes a protected directory below", new_mkdir,
     "scratch/.vscode"},
    {"new_directory_outside", "anyone", "makes a directory outside", new_mkdir, "../outside/d"},
    {"new_directory_behind_slash", "anyone", "makes a protected directory by a link with a slash",
     new_behind_slash, ".vscode"},
    {"new_directory_renamed", "anyone", "renames a directory to a protected one",
     new_rename_directory, ".vscode"},
    {"new_repository", "anyone", "renames a directory to a repository with hooks", new_repository,
     "scratch/r/.git"},
    {"new_core", "kernel", "leaves a core among the hooks", new_by_core, ".git/hooks"},
    {"new_core_outside", "kernel", "leaves a core outside", new_by_core, "../outside"},

    READS(read_open, "anyone", "as it is"),
    READS(read_flags, "anyone", "with all flags"),
    READS(read_opath, "anyone", "opened as a path first"),
    READS(read_openat2, "anyone", "by openat2"),
    READS(read_link, "anyone", "by another name"),
    READS(read_renamed, "anyone", "that was renamed"),
    READS(read_chmod, "anyone", "after chmod"),
    READS(read_handle, "root", "by handle"),
    READS(read_unmounted, "anyone", "after umount"),
    READS(write_append, "anyone", "for writing"),
    {"read_by_proc_root", "anyone", "reads in a hidden directory by /proc/self/root", read_open,
     "/proc/self/root/proc/self/cwd/../hidden/secret"},
    {"read_by_proc_cwd", "anyone", "reads in a hidden directory by /proc/self/cwd", read_open,
     "/proc/self/cwd/../hidden/secret"},
    {"read_by_tasks", "anyone", "reads in a hidden directory by /proc/self/task", read_open,
     "/proc/thread-self/root/proc/thread-self/cwd/../hidden/secret"},
    {"read_guessed_handle", "root", "opens by a handle of its own", read_guessed_handle, ""},
    {"read_foreign", "root", "reads a file of somebody else's", read_as_root, "../outside/foreign"},
    {"read_every_process", "anyone", "reads in a hidden directory by any process there is",
     read_every_process, "../hidden/secret"},
    {"read_watched", "anyone", "watches a hidden file", read_watched, "../hidden/secret"},
    {"target_root", "anyone", "goes by the root of another process", open_of_target,
     "/proc/%d/root/etc"},
    {"target_cwd", "anyone", "goes by the directory of another process", open_of_target,
     "/proc/%d/cwd/."},
    {"target_descriptor", "anyone", "opens a descriptor of another process", open_of_target,
     "/proc/%d/fd/0"},
    {"target_environment", "anyone", "reads the environment of another process", open_of_target,
     "/proc/%d/environ"},
    {"target_maps", "anyone", "reads the map of another process", open_of_target, "/proc/%d/maps"},
    {"target_memory", "anyone", "opens the memory of another process", write_of_target,
     "/proc/%d/mem"},
    {"target_program", "anyone", "opens the program of another process", open_of_target,
     "/proc/%d/exe"},
    {"target_stack", "root", "reads the stack of another process", read_of_target,
     "/proc/%d/stack"},
    {"target_namespace", "anyone", "opens a namespace of another process", open_of_target,
     "/proc/%d/ns/mnt"},

    KINDS(ns_unshare, "anyone", "unshare of the"),
    {"ns_unshare_time", "root", "unshare of the time namespace", ns_unshare, "0x80"},
    KINDS(ns_clone, "anyone", "clone with a new"),
    {"ns_clone_high", "anyone", "clone with a new user namespace and rubbish above", ns_clone_high,
     "0x10000000"},
    KINDS(ns_clone3, "anyone", "clone3 with a new"),
    {"ns_clone3_time", "root", "clone3 with a new time namespace", ns_clone3, "0x80"},
    {"ns_setns_mount", "root", "joins a mount namespace", ns_setns, "/proc/%d/ns/mnt"},
    {"ns_setns_net", "root", "joins a network namespace", ns_setns, "/proc/%d/ns/net"},
    {"ns_setns_pid", "root", "joins a process namespace", ns_setns, "/proc/%d/ns/pid"},
    {"ns_setns_pidfd", "root", "joins namespaces of another process", ns_setns_pidfd, ""},
    {"mount_bind_over", "root", "binds over what is outside", mount_bind, "../outside"},
    {"mount_bind_hooks", "root", "binds over the hooks", mount_bind, ".git/hooks"},
    {"mount_remount", "root", "makes a mount writable", mount_remount, "../outside"},
    {"mount_tmpfs", "root", "mounts a tmpfs", mount_new, "tmpfs"},
    {"mount_proc", "root", "mounts another /proc", mount_new, "proc"},
    {"mount_move", "root", "moves a mount", mount_move, "../hidden"},
    {"mount_off_hidden", "root", "takes a mount away", mount_off, "../hidden"},
    {"mount_off_key", "root", "takes the mount of a file away", mount_off, "key"},
    {"mount_off_root", "root", "takes a mount away again", mount_off, "/nowhere"},
    {"mount_pivot", "root", "pivot_root", mount_pivot, "."},
    {"mount_chroot", "root", "chroot", mount_chroot, "scratch"},
    {"mount_open_tree", "root", "open_tree of what is hidden", mount_open_tree, "../hidden"},
    {"mount_open_tree_plain", "anyone", "open_tree without a clone", mount_open_tree_plain,
     "../hidden"},
    {"mount_move_mount", "root", "move_mount", mount_move_mount, "../hidden"},
    {"mount_fsopen", "root", "fsopen", mount_fsopen, "tmpfs"},
    {"mount_fsmount", "root", "fsmount", mount_fsmount, ""},
    {"mount_fsconfig", "root", "fsconfig", mount_fsconfig, ""},
    {"mount_fspick", "root", "fspick", mount_fspick, "/"},
    {"mount_attr", "root", "mount_setattr", mount_attr, "../outside"},
    {"mount_open_tree_attr", "kernel", "open_tree_attr", mount_open_tree_attr, "../outside"},

    {"process_trace", "anyone", "PTRACE_ATTACH to another process", process_trace, ""},
    {"process_seize", "anyone", "PTRACE_SEIZE of another process", process_seize, ""},
    {"process_read", "anyone", "process_vm_readv of another process", process_read, ""},
    {"process_write", "anyone", "process_vm_writev of another process", process_write, ""},
    {"process_descriptor", "anyone", "pidfd_getfd of another process", process_descriptor, ""},
    {"process_compare", "kernel", "kcmp with another process", process_compare, ""},
    {"process_advise", "kernel", "process_madvise of another process", process_advise, ""},
    {"process_limits", "anyone", "prlimit of another process", process_limits, ""},

    {"socket_unix", "anyone", "a Unix socket", socket_any, "1 1 0"},
    {"socket_unix_high", "anyone", "a Unix socket with rubbish above", socket_high, "1 1 0"},
    {"socket_unix_datagram", "anyone", "a Unix datagram socket", socket_any, "1 2 0"},
    {"socket_unix_sequence", "anyone", "a Unix socket of packets", socket_any, "1 5 0"},
    {"socket_path", "anyone", "connects to a socket of the host", socket_path, "../outside/sock"},
    {"socket_abstract", "anyone", "connects to an abstract socket of the host", socket_abstract,
     ""},
    {"socket_datagram_pair", "anyone", "sends from a pair to a socket of the host",
     socket_datagram_pair, "../outside/datagrams"},
    {"socket_reconnected_pair", "anyone", "connects a pair to a socket of the host",
     socket_reconnected_pair, "../outside/datagrams"},
    {"socket_port", "anyone", "connects to a port of the host", socket_port, "127.0.0.1"},
    {"socket_port_zero", "anyone", "connects to a port of the host by 0.0.0.0", socket_port,
     "0.0.0.0"},
    {"socket_port_other", "anyone", "connects to a port of the host by 127.1.2.3", socket_port,
     "127.1.2.3"},
    {"socket_fast_open", "kernel", "sends to a port of the host without connecting",
     socket_fast_open, "127.0.0.1"},
    {"socket_vsock", "kernel", "a socket to the hypervisor", socket_any, "40 1 0"},
    {"socket_alg", "kernel", "a socket to the kernel's ciphers", socket_any, "38 5 0"},
    {"socket_packet", "root", "a packet socket", socket_any, "17 3 0x300"},
    {"socket_raw", "root", "a raw socket", socket_any, "2 3 1"},
    {"socket_raw_6", "kernel", "a raw IPv6 socket", socket_any, "10 3 58"},
    {"socket_ping", "kernel", "a socket for pings", socket_any, "2 3 255"},
    {"socket_old_packet", "root", "an old packet socket", socket_any, "2 10 0x300"},
    {"socket_xdp", "kernel", "an XDP socket", socket_any, "44 3 0"},
    {"socket_key", "kernel", "a socket of IPsec keys", socket_any, "15 3 2"},
    {"socket_tipc", "kernel", "a TIPC socket", socket_any, "30 1 0"},
    {"socket_can", "kernel", "a CAN socket", socket_any, "29 3 1"},
    {"socket_bluetooth", "kernel", "a Bluetooth socket", socket_any, "31 3 1"},
    {"socket_qipcrtr", "kernel", "a socket to other processors", socket_any, "42 2 0"},
    {"socket_smc", "kernel", "an SMC socket", socket_any, "43 1 0"},
    {"socket_netlink_audit", "kernel", "netlink to the auditors", socket_any, "16 3 9"},
    {"socket_netlink_netfilter", "kernel", "netlink to the packet filter", socket_any, "16 3 12"},
    {"socket_netlink_uevents", "anyone", "netlink of devices", socket_any, "16 3 15"},
    {"socket_netlink_generic", "anyone", "generic netlink", socket_any, "16 3 16"},
    {"socket_netlink_diagnoses", "kernel", "netlink that lists sockets", socket_any, "16 3 4"},
    {"socket_netlink_xfrm", "kernel", "netlink of IPsec", socket_any, "16 3 6"},

    {"machine_io_uring", "kernel", "io_uring", machine_io_uring, ""},
    {"machine_userfaultfd", "kernel", "userfaultfd", machine_userfaultfd, ""},
    {"machine_bpf", "root", "bpf", machine_bpf, ""},
    {"machine_perf", "kernel", "perf_event_open", machine_perf, ""},
    {"machine_add_key", "kernel", "add_key", machine_add_key, ""},
    {"machine_request_key", "kernel", "request_key", machine_request_key, ""},
    {"machine_keyctl", "kernel", "keyctl", machine_keyctl, ""},
    {"machine_reboot", "root", "reboot", machine_reboot, ""},
    {"machine_kexec_load", "kernel", "kexec_load", machine_kexec_load, ""},
    {"machine_kexec_file_load", "kernel", "kexec_file_load", machine_kexec_file_load, ""},
    {"machine_init_module", "kernel", "init_module", machine_init_module, ""},
    {"machine_finit_module", "kernel", "finit_module", machine_finit_module, ""},
    {"machine_delete_module", "kernel", "delete_module", machine_delete_module, ""},
    {"machine_swapon", "kernel", "swapon", machine_swapon, ""},
    {"machine_swapoff", "kernel", "swapoff", machine_swapoff, ""},
    {"machine_acct", "kernel", "acct", machine_acct, ""},
    {"machine_quotactl", "kernel", "quotactl", machine_quotactl, ""},
    {"machine_quotactl_fd", "kernel", "quotactl_fd", machine_quotactl_fd, ""},
    {"machine_settimeofday", "anyone", "settimeofday", machine_settimeofday, ""},
    {"machine_clock_settime", "anyone", "clock_settime", machine_clock_settime, ""},
    {"machine_time_slew", "root", "adjtimex", machine_time_slew, ""},
    {"machine_syslog", "root", "syslog", machine_syslog, ""},
    {"machine_vhangup", "root", "vhangup", machine_vhangup, ""},
    {"machine_fanotify", "kernel", "fanotify of everything", machine_fanotify, ""},
    {"machine_second_listener", "anyone", "a filter of its own that answers calls",
     machine_second_listener, ""},
#ifdef __x86_64__
    {"machine_iopl", "kernel", "iopl", machine_iopl, ""},
    {"machine_ioperm", "kernel", "ioperm", machine_ioperm, ""},
    {"machine_modify_ldt", "kernel", "modify_ldt", machine_modify_ldt, ""},
#endif
    {"machine_hostname", "root", "sethostname", machine_hostname, ""},
    {"machine_domainname", "root", "setdomainname", machine_domainname, ""},
    {"machine_executable_pages", "anyone", "personality: all pages executable", machine_personality,
     "0x0400000"},
    {"machine_page_zero", "anyone", "personality: page zero", machine_personality, "0x0100000"},
    {"machine_old_layout", "anyone", "personality: old addresses", machine_personality,
     "0x0200000"},
    {"machine_core_pattern", "root", "opens core_pattern", machine_knob,
     "/proc/sys/kernel/core_pattern"},
    {"machine_modprobe", "kernel", "opens modprobe", machine_knob, "/proc/sys/kernel/modprobe"},
    {"machine_sysrq", "kernel", "opens sysrq-trigger", machine_knob, "/proc/sysrq-trigger"},
    {"machine_drop_caches", "root", "opens drop_caches", machine_knob, "/proc/sys/vm/drop_caches"},
    {"machine_irq", "kernel", "opens an interrupt's processors", machine_knob,
     "/proc/irq/default_smp_affinity"},
    {"machine_huge_pages", "kernel", "opens a knob in /sys", machine_knob,
     "/sys/kernel/mm/transparent_hugepage/enabled"},
    {"machine_uevent_helper", "kernel", "opens the helper of devices", machine_knob,
     "/sys/kernel/uevent_helper"},
    {"machine_cgroup", "kernel", "opens the processes of a cgroup", machine_knob,
     "/sys/fs/cgroup/cgroup.procs"},
    {"machine_kmsg", "root", "opens the kernel's log", machine_knob, "/dev/kmsg"},
    {"machine_memory", "kernel", "opens memory", machine_knob, "/dev/mem"},
    {"machine_fuse", "kernel", "opens fuse", machine_knob, "/dev/fuse"},
    {"machine_tun", "kernel", "opens a network device", machine_knob, "/dev/net/tun"},
    {"machine_kvm", "kernel", "opens kvm", machine_knob, "/dev/kvm"},
    {"machine_binfmt", "kernel", "opens the table of interpreters", machine_knob,
     "/proc/sys/fs/binfmt_misc/register"},
    {"machine_scheduler", "root", "a real-time schedule", machine_scheduler, ""},
    {"machine_hard_limit", "kernel", "a higher limit", machine_hard_limit, ""},
    {"machine_device_memory", "root", "makes /dev/mem", machine_device, "c 1 1"},
    {"machine_device_disk", "kernel", "makes a disk", machine_device, "b 254 0"},
    {"machine_device_null", "root", "makes a harmless device", machine_device, "c 1 3"},
    {"machine_capability", "root", "gives a file capabilities", machine_capability, ""},
    {"machine_owner", "root", "gives a file away", machine_owner, ""},
    {"machine_identity", "root", "becomes somebody else", machine_identity, ""},
    {"machine_groups", "root", "leaves its groups", machine_groups, ""},
    {"machine_segment", "anyone", "shared memory of the host", machine_segment, ""},
    {"machine_shm", "anyone", "a file in the host's /dev/shm", machine_shm, ""},
    {"machine_queue", "kernel", "a message queue of the host", machine_queue, ""},
    {"machine_lease_read", "anyone", "a lease for reading a file outside", machine_lease, "0"},
    {"machine_lease_write", "anyone", "a lease for writing a file outside", machine_lease, "1"},
    {"machine_lease_high", "anyone", "a lease, with rubbish above", machine_lease_high, "1"},
    {"machine_delegation", "kernel", "a delegation of a directory outside", machine_delegation, ""},
    {"gone_btrfs", "kernel", "removes a subvolume of btrfs", gone_by_ioctl, "0x5000940f"},
    {"gone_btrfs_2", "kernel", "removes a subvolume of btrfs by number", gone_by_ioctl,
     "0x5000943f"},
    {"gone_bcachefs", "kernel", "removes a subvolume of bcachefs", gone_by_ioctl, "0x4020bc11"},
    {"terminal_exclusive", "anyone", "keeps others from a terminal", terminal_exclusive, ""},
    {"terminal_discipline", "anyone", "changes what a terminal is", terminal_discipline, ""},
    {"terminal_types", "root", "types into a terminal", terminal_types, ""},
    {"terminal_types_high", "root", "types into a terminal, with rubbish above",
     terminal_types_high, ""},
    {"terminal_pastes", "anyone", "pastes into a console", terminal_pastes, ""},
    {"terminal_pastes_high", "anyone", "pastes into a console, with rubbish above",
     terminal_pastes_high, ""},
};
enum { COUNT = sizeof(attacks) / sizeof(attacks[0]), PATIENCE_S = 20 };

static int attack(const struct attack *row)
{
    pid_t pid = fork();
    if (pid == 0) {
        alarm(PATIENCE_S);
        errno = 0;
        int result = row->run(row->argument);
        _exit(result);
    }
    int status;
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
        printf("killed by %s\n", strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == REACHED)
        printf("reached\n");
    else
        printf("%s\n",
               WEXITSTATUS(status) == NOTHING ? "nothing" : strerrorname_np(WEXITSTATUS(status)));
    fflush(stdout);
    return WIFEXITED(status) ? WEXITSTATUS(status) : NOTHING;
}

static const struct attack *find(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(attacks[i].name, name) == 0)
            return &attacks[i];
    fprintf(stderr, "no attack %s\n", name);
    exit(64);
}

/* Somebody of the same user who lets everybody look into him. */
static void find_target(void)
{
    const char *given = getenv("TARGET");
    if (given != NULL) {
        target = atoi(given);
        return;
    }
    int ready[2];
    char byte;
    if (pipe(ready) != 0 || (target = fork()) < 0)
        exit(71);
    if (target == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        write(ready[1], "x", 1);
        for (;;)
            pause();
    }
    read(ready[0], &byte, 1);
}

int main(int argc, char **argv)
{
    char name[128];
    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        for (size_t i = 0; i < COUNT; i++)
            printf("%s\t%s\t%s\n", attacks[i].name, attacks[i].who, attacks[i].what);
        return 0;
    }
    find_target();
    if (argc == 3 && strcmp(argv[1], "run") == 0)
        return attack(find(argv[2]));
    while (argc == 2 && strcmp(argv[1], "serve") == 0 && scanf("%127s", name) == 1)
        attack(find(name));
    return 0;
}
