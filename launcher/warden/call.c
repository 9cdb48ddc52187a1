#include "launcher/warden/call.h"

#include "launcher/warden/answers.h"
#include "launcher/warden/held.h"
#include "srt/cleanup.h"
#include "srt/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { UMASK_MS = 200, UMASK_BY_MANY = -1, SHORT_PATH = 256 };

bool call_set_rights(bool look_into_callers)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {0};
    if (look_into_callers)
        caps[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective = CAP_TO_MASK(CAP_SYS_PTRACE);
    caps[CAP_TO_INDEX(CAP_SYS_PTRACE)].permitted = CAP_TO_MASK(CAP_SYS_PTRACE);
    return syscall(SYS_capset, &header, caps) == 0;
}

static void caller_forget(struct caller *caller)
{
    if (caller->tid != 0)
        close(caller->dir);
    *caller = (struct caller){.tid = 0};
}

static struct caller *slot_of(const struct call *call)
{
    return &call->ward->callers[call->request->pid % CALLERS];
}

static bool caller_open(const struct call *call, struct caller *caller)
{
    caller_forget(caller);
    char name[16];
    snprintf(name, sizeof(name), "%d", (int)call->request->pid);
    int dir = openat(call->ward->host_proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0)
        *caller = (struct caller){.tid = (pid_t)call->request->pid, .dir = dir};
    return dir >= 0;
}

/* The slot of whoever waits. Signal 0 tells whether a task still lives that had this number when
 * the directory was opened. */
static struct caller *find_caller(struct call *call)
{
    struct caller *caller = slot_of(call);
    if (call->caller != NULL)
        return caller;
    bool alive = caller->tid == (pid_t)call->request->pid &&
                 syscall(SYS_pidfd_send_signal, caller->dir, 0, NULL, 0) == 0;
    if (!alive && !caller_open(call, caller))
        return NULL;
    return call->caller = caller;
}

int call_open_proc(struct call *call, const char *name, int flags)
{
    /* What can be opened in the directory of a task shows that the task lives. */
    struct caller *caller = slot_of(call);
    int fd = -1;
    if (caller->tid == (pid_t)call->request->pid)
        fd = openat(caller->dir, name, flags | O_CLOEXEC);
    if (fd >= 0) {
        call->caller = caller;
        return fd;
    }
    caller = find_caller(call);
    return caller == NULL ? -1 : openat(caller->dir, name, flags | O_CLOEXEC);
}

bool call_waits(const struct call *call)
{
    return ioctl(call->ward->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &call->request->id) == 0;
}

void call_answer(const struct call *call, int64_t result)
{
    struct seccomp_notif_resp response = {.id = call->request->id};
    if (result == ANSWER_SENT)
        return;
    if (result == ANSWER_RUN_IT)
        response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else if (result < 0)
        response.error = (int)result;
    ioctl(call->ward->listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

static int add_descriptor(const struct call *call, int fd, int number, uint64_t flags, unsigned how)
{
    struct seccomp_notif_addfd gift = {.id = call->request->id,
                                       .flags = how,
                                       .srcfd = (uint32_t)fd,
                                       .newfd = (uint32_t)number,
                                       .newfd_flags = (flags & O_CLOEXEC) != 0 ? O_CLOEXEC : 0};
    int given = ioctl(call->ward->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &gift);
    return given < 0 ? -errno : given;
}

int64_t call_give(const struct call *call, int fd, int number, uint64_t flags)
{
    int given = number < 0 ? add_descriptor(call, fd, 0, flags, SECCOMP_ADDFD_FLAG_SEND)
                           : add_descriptor(call, fd, number, flags,
                                            SECCOMP_ADDFD_FLAG_SEND | SECCOMP_ADDFD_FLAG_SETFD);
    return given < 0 ? given : ANSWER_SENT;
}

int call_add_descriptor(const struct call *call, int fd, uint64_t flags)
{
    return add_descriptor(call, fd, 0, flags, 0);
}

void call_return(const struct call *call, int64_t value)
{
    struct seccomp_notif_resp response = {.id = call->request->id, .val = value};
    ioctl(call->ward->listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

void call_end(const struct call *call)
{
    struct caller *caller = slot_of(call);
    if (caller->tid != 0 && caller->dir >= call->ward->kept_below)
        caller_forget(caller);
}

static ssize_t read_some(const struct call *call, uint64_t address, void *out, size_t len)
{
    struct iovec local = {.iov_base = out, .iov_len = len};
    struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = len};
    return process_vm_readv((pid_t)call->request->pid, &local, 1, &remote, 1, 0);
}

int call_read_memory(const struct call *call, uint64_t address, void *out, size_t len)
{
    return len == 0 || read_some(call, address, out, len) == (ssize_t)len ? 0 : -EFAULT;
}

int call_write_memory(const struct call *call, uint64_t address, const void *bytes, size_t len)
{
    struct iovec local = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = len};
    return process_vm_writev((pid_t)call->request->pid, &local, 1, &remote, 1, 0) == (ssize_t)len
               ? 0
               : -EFAULT;
}

/* Never beyond a page at once, as the next one may not exist. */
static size_t page_left(uint64_t address, size_t most)
{
    size_t left = 4096 - address % 4096;
    return left < most ? left : most;
}

/* Little at first, as most paths are short. */
int call_read_string(const struct call *call, uint64_t address, char *out, size_t size)
{
    size_t have = 0;
    while (have < size) {
        size_t want = page_left(address + have, have == 0 ? SHORT_PATH : size - have);
        ssize_t n = read_some(call, address + have, out + have, want);
        if (n <= 0)
            return -EFAULT;
        if (memchr(out + have, '\0', (size_t)n) != NULL)
            return 0;
        have += (size_t)n;
    }
    return -ENAMETOOLONG;
}

int call_read_strings(const struct call *call, const uint64_t addresses[2], char *const outs[2])
{
    struct iovec local[2], remote[2];
    for (int i = 0; i < 2; i++) {
        size_t len = page_left(addresses[i], SHORT_PATH);
        local[i] = (struct iovec){.iov_base = outs[i], .iov_len = len};
        remote[i] = (struct iovec){.iov_base = (void *)(uintptr_t)addresses[i], .iov_len = len};
    }
    ssize_t n = process_vm_readv((pid_t)call->request->pid, local, 2, remote, 2, 0);
    if (n == (ssize_t)(local[0].iov_len + local[1].iov_len) &&
        memchr(outs[0], '\0', local[0].iov_len) != NULL &&
        memchr(outs[1], '\0', local[1].iov_len) != NULL)
        return 0;
    /* Not short: read anew, and what has been read is forgotten. */
    int result = call_read_string(call, addresses[0], outs[0], PATH_MAX);
    return result == 0 ? call_read_string(call, addresses[1], outs[1], PATH_MAX) : result;
}

/* The last number of a line, which is the one of the innermost namespace. */
static pid_t last_number(const char *text, const char *name)
{
    const char *line = strstr(text, name);
    if (line == NULL)
        return 0;
    size_t end = 1 + strcspn(line + 1, "\n");
    while (end > 0 && line[end - 1] != '\t' && line[end - 1] != ' ')
        end--;
    return (pid_t)strtol(line + end, NULL, 10);
}

enum { STATUS_SIZE = 4096 };

/* "" where it cannot be read. */
static void read_status_text(struct call *call, char text[STATUS_SIZE])
{
    autoclose int fd = call_open_proc(call, "status", O_RDONLY);
    ssize_t len = fd < 0 ? -1 : read(fd, text, STATUS_SIZE - 1);
    text[len > 0 ? len : 0] = '\0';
}

static void read_status(struct call *call, struct caller *caller)
{
    char text[STATUS_SIZE];
    read_status_text(call, text);
    const char *line = strstr(text, "\nUmask:");
    unsigned mask = 0;
    if (line != NULL && sscanf(line, "\nUmask: %o", &mask) == 1)
        caller->umask = (mode_t)mask;
    caller->inner_pid = last_number(text, "\nNStgid:");
    caller->inner_tid = last_number(text, "\nNSpid:");
}

/* A umask changes after our answer, and the threads of a process share it. Whoever was answered has
 * changed it when it calls again; what was read before then is not believed, nor is anything while
 * others wait for that, UMASK_MS at most. */
static void settle_umask(const struct call *call)
{
    struct ward *ward = call->ward;
    if (ward->umask_by == 0 ||
        ((pid_t)call->request->pid != ward->umask_by && clock_ms() - ward->umask_ms <= UMASK_MS))
        return;
    ward->umask_by = 0;
    ward->umask_serial = call->serial;
}

static bool is_fresh(const struct call *call, const struct caller *caller)
{
    settle_umask(call);
    return call->ward->umask_by == 0 && caller->read_serial >= call->ward->umask_serial &&
           clock_ms() - caller->read_ms < UMASK_MS;
}

const struct caller *call_caller(struct call *call)
{
    static const struct caller nobody = {.umask = 077};
    struct caller *caller = find_caller(call);
    if (caller == NULL)
        return &nobody;
    if (is_fresh(call, caller))
        return caller;
    int64_t now = clock_ms(); /* before, as it may change while it is read */
    read_status(call, caller);
    caller->read_ms = now;
    caller->read_serial = call->serial;
    return caller;
}

void call_umask_changes(const struct call *call)
{
    struct ward *ward = call->ward;
    settle_umask(call);
    ward->umask_by = ward->umask_by == 0 ? (pid_t)call->request->pid : UMASK_BY_MANY;
    ward->umask_ms = clock_ms();
}

void call_use_umask(struct call *call)
{
    /* Whether it is still the same task that has this number is not asked for the mask alone: in
     * UMASK_MS numbers do not come round, and then the mask was another task's of this sandbox. */
    const struct caller *caller = slot_of(call);
    if (caller->tid != (pid_t)call->request->pid || !is_fresh(call, caller))
        caller = call_caller(call);
    mode_t mask = caller->umask;
    if (call->ward->umask != mask)
        umask(mask);
    call->ward->umask = mask;
}

static void descriptor_name(int fd, char name[32])
{
    if (fd == AT_FDCWD)
        memcpy(name, "cwd", sizeof("cwd"));
    else
        snprintf(name, 32, "fd/%d", fd);
}

bool call_look(struct call *call, int dir_fd, const char *path, int at_flags, struct statx *st)
{
    const unsigned mask = STATX_TYPE | STATX_INO | STATX_MNT_ID;
    const int flags = at_flags | AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT;
    if (path[0] == '/')
        return statx(AT_FDCWD, path, flags, mask, st) == 0;
    char whole[PATH_MAX];
    descriptor_name(dir_fd, whole);
    size_t start = strlen(whole), len = strlen(path);
    if (start + 1 + len >= sizeof(whole))
        return false;
    whole[start] = '/';
    memcpy(whole + start + 1, path, len + 1);
    if (len == 0)
        whole[start] = '\0';
    /* What is found in the directory of a task shows that the task lives; what is not may be of one
     * that had the same number. */
    struct caller *caller = slot_of(call);
    if (caller->tid != (pid_t)call->request->pid)
        caller = find_caller(call);
    if (caller == NULL || statx(caller->dir, whole, flags, mask, st) != 0)
        return false;
    call->caller = caller;
    return true;
}

int call_open_base(struct call *call, int dir_fd)
{
    int fd = held_find(call, dir_fd, "");
    if (fd >= 0)
        return fd;
    char name[32];
    descriptor_name(dir_fd, name);
    fd = call_open_proc(call, name, O_PATH | O_DIRECTORY);
    if (fd >= 0)
        held_keep(call, fd);
    else if (dir_fd != AT_FDCWD && errno == ENOENT)
        errno = EBADF;
    return fd;
}

void call_close_base(const struct call *call, int base)
{
    if (base >= 0 && !held_has(call->ward, base))
        close(base);
}

int call_own_base(const struct call *call, int base)
{
    return held_has(call->ward, base) ? fcntl(base, F_DUPFD_CLOEXEC, 0) : base;
}

/* The link to a descriptor has the permissions with which that was opened. */
static bool is_place_only(const struct call *call, const char *name)
{
    struct stat link;
    return fstatat(call->caller->dir, name, &link, AT_SYMLINK_NOFOLLOW) == 0 &&
           (link.st_mode & (S_IRUSR | S_IWUSR)) == 0;
}

int call_open_descriptor(struct call *call, int fd, bool as_file)
{
    char name[32];
    if (as_file && fd < 0)
        return errno = EBADF, -1;
    descriptor_name(fd, name);
    autoclose int object = call_open_proc(call, name, O_PATH);
    if ((object < 0 && errno == ENOENT) || (object >= 0 && as_file && is_place_only(call, name)))
        return errno = EBADF, -1;
    return steal_fd(&object);
}

static pid_t leader_of(struct call *call)
{
    char text[STATUS_SIZE];
    int leader = 0;
    read_status_text(call, text);
    const char *line = strstr(text, "\nTgid:");
    return line != NULL && sscanf(line, "\nTgid: %d", &leader) == 1 ? leader : -1;
}

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL /* since Linux 6.9 */
#endif

int call_process(struct call *call)
{
    int fd = (int)syscall(SYS_pidfd_open, call->request->pid, PIDFD_THREAD);
    if (fd < 0 && errno == EINVAL)
        fd = (int)syscall(SYS_pidfd_open, leader_of(call), 0);
    return fd < 0 ? -EINTR : fd;
}

int call_take(struct call *call, int fd)
{
    autoclose int process = call_process(call);
    if (process < 0)
        return process;
    int taken = (int)syscall(SYS_pidfd_getfd, process, fd, 0);
    return taken < 0 ? -errno : taken;
}

struct ward_link ward_link_to(int fd)
{
    struct ward_link link;
    snprintf(link.text, sizeof(link.text), "self/fd/%d", fd);
    return link;
}

bool ward_is_mask(const struct ward *ward, uint64_t mount)
{
    for (size_t i = 0; i < ward->mask_count; i++)
        if (ward->masks[i] == mount)
            return true;
    return false;
}

size_t ward_path_of(const struct ward *ward, int fd, char *path, size_t size)
{
    char name[16];
    snprintf(name, sizeof(name), "%d", fd);
    ssize_t len = readlinkat(ward->own_fds, name, path, size - 1);
    path[len > 0 ? len : 0] = '\0';
    return len > 0 ? (size_t)len : 0;
}
