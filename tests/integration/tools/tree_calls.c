/*
 * Makes one system call that could change the tree, by its number, as a library never would.
 *
 *   tree_calls list
 *   tree_calls CALL WAY DIR NAME OWN    what is tried at DIR/NAME; OWN is a file of the caller's
 *
 * Prints the errno. WAY: relative, absolute, dots, fd (through /proc/self/fd), at (a directory
 * descriptor), inside (after chdir), thread (in another thread), apart (in a thread that alone
 * changed its directory). Built by the tests that use it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#define SYS_removexattrat 466
#endif
#ifndef SYS_file_setattr
#define SYS_file_setattr 469
#endif

struct where {
    int dir;
    const char *path;
    const char *own;
};

#define CALL(...) syscall(__VA_ARGS__) < 0 ? errno : 0
#define ROW(name, ...)                          \
    static int do_##name(const struct where *w) \
    {                                           \
        const char *p = w->path, *own = w->own; \
        (void)p, (void)own;                     \
        return CALL(__VA_ARGS__);               \
    }

static struct open_how how = {.flags = O_CREAT | O_WRONLY, .mode = 0644};
static struct timeval times[2];
static char again[64];
static char attributes[24]; /* struct file_attr, which sets nothing */

/* The file `own` as a link of the kernel's. */
static const char *linked(const char *own)
{
    snprintf(again, sizeof(again), "/proc/self/fd/%d", open(own, O_RDONLY));
    return again;
}

static int unnamed(const char *own)
{
    char dir[4096];
    snprintf(dir, sizeof(dir), "%s", own);
    *strrchr(dir, '/') = '\0';
    return open(dir, O_TMPFILE | O_WRONLY, 0644);
}

/* Those with a directory in front. */
ROW(openat, SYS_openat, w->dir, p, O_WRONLY)
ROW(openat_rdwr, SYS_openat, w->dir, p, O_RDWR | O_APPEND)
ROW(openat_trunc, SYS_openat, w->dir, p, O_RDONLY | O_TRUNC)
ROW(openat_new, SYS_openat, w->dir, p, O_CREAT | O_RDONLY, 0644)
ROW(openat_excl, SYS_openat, w->dir, p, O_CREAT | O_EXCL | O_WRONLY, 0644)
ROW(openat2_new, SYS_openat2, w->dir, p, &how, sizeof(how))
ROW(mkdirat_new, SYS_mkdirat, w->dir, p, 0755)
ROW(mknodat_new, SYS_mknodat, w->dir, p, S_IFIFO | 0644, 0)
ROW(symlinkat_new, SYS_symlinkat, "target", w->dir, p)
ROW(linkat_new, SYS_linkat, AT_FDCWD, own, w->dir, p, 0)
ROW(linkat_fd_new, SYS_linkat, AT_FDCWD, linked(own), w->dir, p, AT_SYMLINK_FOLLOW)
ROW(linkat_empty_new, SYS_linkat, open(own, O_PATH), "", w->dir, p, AT_EMPTY_PATH)
ROW(linkat_unnamed_new, SYS_linkat, AT_FDCWD,
    (snprintf(again, sizeof(again), "/proc/self/fd/%d", unnamed(own)), again), w->dir, p,
    AT_SYMLINK_FOLLOW)
ROW(renameat2_new, SYS_renameat2, AT_FDCWD, own, w->dir, p, 0)
ROW(renameat2_noreplace_new, SYS_renameat2, AT_FDCWD, own, w->dir, p, 1)
ROW(renameat2_exchange, SYS_renameat2, AT_FDCWD, own, w->dir, p, 2)
ROW(renameat2_whiteout_new, SYS_renameat2, AT_FDCWD, own, w->dir, p, 4)
ROW(unlinkat, SYS_unlinkat, w->dir, p, 0)
ROW(unlinkat_dir, SYS_unlinkat, w->dir, p, AT_REMOVEDIR)
ROW(fchmodat, SYS_fchmodat, w->dir, p, 0600)
ROW(fchmodat2, SYS_fchmodat2, w->dir, p, 0600, AT_SYMLINK_NOFOLLOW)
ROW(fchownat, SYS_fchownat, w->dir, p, getuid(), getgid(), 0)
ROW(fchownat_link, SYS_fchownat, w->dir, p, getuid(), getgid(), AT_SYMLINK_NOFOLLOW)
ROW(utimensat, SYS_utimensat, w->dir, p, NULL, 0)
ROW(utimensat_link, SYS_utimensat, w->dir, p, NULL, AT_SYMLINK_NOFOLLOW)
ROW(setxattrat, SYS_setxattrat, w->dir, p, 0, "user.x", &(unsigned long long[2]){0, 0}, 16)
ROW(removexattrat, SYS_removexattrat, w->dir, p, 0, "user.x")
ROW(file_setattr, SYS_file_setattr, w->dir, p, attributes, sizeof(attributes), 0)
#ifdef SYS_renameat
ROW(renameat_new, SYS_renameat, AT_FDCWD, own, w->dir, p)
#endif
#ifdef SYS_futimesat
ROW(futimesat, SYS_futimesat, w->dir, p, times)
#endif

/* Those with a path and nothing else. */
ROW(truncate, SYS_truncate, p, 0L)
ROW(setxattr, SYS_setxattr, p, "user.x", "1", 1, 0)
ROW(lsetxattr, SYS_lsetxattr, p, "user.x", "1", 1, 0)
ROW(removexattr, SYS_removexattr, p, "user.x")
ROW(lremovexattr, SYS_lremovexattr, p, "user.x")
#ifdef SYS_open
ROW(open, SYS_open, p, O_WRONLY)
ROW(open_new, SYS_open, p, O_CREAT | O_WRONLY, 0644)
ROW(creat, SYS_creat, p, 0644)
ROW(creat_new, SYS_creat, p, 0644)
ROW(mkdir_new, SYS_mkdir, p, 0755)
ROW(mknod_new, SYS_mknod, p, S_IFREG | 0644, 0)
ROW(symlink_new, SYS_symlink, "target", p)
ROW(link_new, SYS_link, own, p)
ROW(rename_new, SYS_rename, own, p)
ROW(unlink, SYS_unlink, p)
ROW(rmdir_dir, SYS_rmdir, p)
ROW(chmod, SYS_chmod, p, 0600)
ROW(chown, SYS_chown, p, getuid(), getgid())
ROW(lchown, SYS_lchown, p, getuid(), getgid())
ROW(utime, SYS_utime, p, NULL)
ROW(utimes, SYS_utimes, p, times)
#endif

/* Those with a descriptor that is open for reading. */
#define BY_DESCRIPTOR(name, ...)                          \
    static int do_##name(const struct where *w)           \
    {                                                     \
        int fd = openat(w->dir, w->path, O_RDONLY);       \
        return fd < 0 ? 1000 + errno : CALL(__VA_ARGS__); \
    }
BY_DESCRIPTOR(fchmod, SYS_fchmod, fd, 0600)
BY_DESCRIPTOR(fchown, SYS_fchown, fd, getuid(), getgid())
BY_DESCRIPTOR(futimens, SYS_utimensat, fd, NULL, NULL, 0)
BY_DESCRIPTOR(fsetxattr, SYS_fsetxattr, fd, "user.x", "1", 1, 0)
BY_DESCRIPTOR(fremovexattr, SYS_fremovexattr, fd, "user.x")
BY_DESCRIPTOR(setxattrat_empty, SYS_setxattrat, fd, "", AT_EMPTY_PATH, "user.x",
              &(unsigned long long[2]){0, 0}, 16)
BY_DESCRIPTOR(removexattrat_empty, SYS_removexattrat, fd, "", AT_EMPTY_PATH, "user.x")
BY_DESCRIPTOR(utimensat_empty, SYS_utimensat, fd, "", NULL, AT_EMPTY_PATH)
BY_DESCRIPTOR(fchownat_empty, SYS_fchownat, fd, "", getuid(), getgid(), AT_EMPTY_PATH)
BY_DESCRIPTOR(fchmodat2_empty, SYS_fchmodat2, fd, "", 0600, AT_EMPTY_PATH)
BY_DESCRIPTOR(reopen, SYS_openat, AT_FDCWD,
              (snprintf(again, sizeof(again), "/proc/self/fd/%d", fd), again), O_WRONLY)

enum kind { AT, PATH, DESCRIPTOR };

static const struct {
    const char *name, *operation;
    enum kind kind;
    int (*run)(const struct where *where);
} rows[] = {
#define A(name, operation) {#name, operation, AT, do_##name},
#define P(name, operation) {#name, operation, PATH, do_##name},
#define D(name, operation) {#name, operation, DESCRIPTOR, do_##name},
    A(openat, "write") A(openat_rdwr, "write") A(openat_trunc, "write") A(openat_new, "create") A(
        openat_excl, "create") A(openat2_new, "create") A(mkdirat_new, "mkdir")
        A(mknodat_new, "mknod") A(symlinkat_new, "symlink") A(linkat_new, "link") A(
            linkat_fd_new, "link") A(linkat_empty_new, "link") A(linkat_unnamed_new, "link")
            A(renameat2_whiteout_new, "rename") A(renameat2_new, "rename") A(
                renameat2_noreplace_new, "rename") A(renameat2_exchange, "rename")
                A(unlinkat, "unlink") A(unlinkat_dir, "unlink") A(fchmodat, "chmod") A(
                    fchmodat2, "chmod") A(fchownat, "chown") A(utimensat, "utimes")
                    A(fchownat_link, "chown") A(utimensat_link, "utimes") A(file_setattr, "setattr")
                        A(setxattrat, "setxattr") A(removexattrat, "removexattr")
#ifdef SYS_renameat
                            A(renameat_new, "rename")
#endif
#ifdef SYS_futimesat
                                A(futimesat, "utimes")
#endif
                                    P(truncate, "write") P(setxattr,
                                                           "setxattr") P(lsetxattr, "setxattr")
                                        P(removexattr, "removexattr") P(lremovexattr, "removexattr")
#ifdef SYS_open
                                            P(open, "write") P(open_new, "create") P(creat, "write")
                                                P(creat_new, "create") P(mkdir_new, "mkdir") P(
                                                    mknod_new, "mknod") P(symlink_new, "symlink")
                                                    P(link_new, "link") P(rename_new, "rename") P(
                                                        unlink, "unlink") P(chmod, "chmod")
                                                        P(chown, "chown") P(lchown, "chown") P(
                                                            utime, "utimes") P(utimes, "utimes")
#endif
                                                            D(fchmod, "chmod") D(fchown, "chown") D(
                                                                futimens, "utimes") D(fsetxattr,
                                                                                      "setxattr")
                                                                D(fremovexattr, "removexattr") D(
                                                                    fchownat_empty,
                                                                    "chown") D(setxattrat_empty,
                                                                               "setxattr")
                                                                    D(removexattrat_empty,
                                                                      "removexattr")
                                                                        D(utimensat_empty, "utimes")
                                                                            D(fchmodat2_empty,
                                                                              "chmod")
                                                                                D(reopen, "write")};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

struct job {
    int (*run)(const struct where *where);
    struct where where;
    const char *chdir; /* by this thread alone */
    int result;
};

static void *in_thread(void *argument)
{
    struct job *job = argument;
    if (job->chdir != NULL && (unshare(CLONE_FS) != 0 || chdir(job->chdir) != 0))
        return NULL;
    job->result = job->run(&job->where);
    return NULL;
}

static int try(int (*run)(const struct where *), const char *way, const char *dir, const char *name,
               const char *own)
{
    char path[4096];
    struct job job = {.run = run, .where = {.dir = AT_FDCWD, .path = path, .own = own}};
    if (strcmp(way, "relative") == 0)
        snprintf(path, sizeof(path), "../%s/%s", strrchr(dir, '/') + 1, name);
    else if (strcmp(way, "dots") == 0)
        snprintf(path, sizeof(path), "..//./%s/../%s/./%s", strrchr(dir, '/') + 1,
                 strrchr(dir, '/') + 1, name);
    else if (strcmp(way, "fd") == 0)
        snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", open(dir, O_PATH), name);
    else
        snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (strcmp(way, "at") == 0) {
        job.where.dir = open(dir, O_RDONLY | O_DIRECTORY);
        snprintf(path, sizeof(path), "%s", name);
    } else if (strcmp(way, "inside") == 0) {
        if (chdir(dir) != 0)
            return 1000 + errno;
        snprintf(path, sizeof(path), "%s", name);
    }
    if (strcmp(way, "apart") == 0) {
        job.chdir = dir;
        snprintf(path, sizeof(path), "%s", name);
    } else if (strcmp(way, "thread") != 0) {
        return run(&job.where);
    }
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, &job);
    pthread_join(thread, NULL);
    return job.result;
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"at", "path", "descriptor"};
    if (argc == 2)
        for (int i = 0; i < ROWS; i++)
            printf("%s %s %s\n", rows[i].name, rows[i].operation, kinds[rows[i].kind]);
    for (int i = 0; argc == 6 && i < ROWS; i++)
        if (strcmp(rows[i].name, argv[1]) == 0)
            printf("%s %s %d\n", argv[1], argv[2],
                   try(rows[i].run, argv[2], argv[3], argv[4], argv[5]));
    return 0;
}
