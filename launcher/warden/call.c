#include "launcher/warden/call.h"

#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

bool call_set_rights(bool look_into_callers)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {0};
    if (look_into_callers)
        caps[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective = CAP_TO_MASK(CAP_SYS_PTRACE);
    caps[CAP_TO_INDEX(CAP_SYS_PTRACE)].permitted = CAP_TO_MASK(CAP_SYS_PTRACE);
    return syscall(SYS_capset, &header, caps) == 0;
}

int call_open_proc(const struct call *call, const char *name, int flags)
{
    char path[64];
    snprintf(path, sizeof(path), "%d/%s", (int)call->request->pid, name);
    return openat(call->ward->host_proc, path, flags | O_CLOEXEC);
}

bool call_waits(const struct call *call)
{
    return ioctl(call->ward->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &call->request->id) == 0;
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

/* Page by page, as the next one may not exist. */
int call_read_string(const struct call *call, uint64_t address, char *out, size_t size)
{
    size_t have = 0;
    while (have < size) {
        size_t page_left = 4096 - (address + have) % 4096;
        size_t want = page_left < size - have ? page_left : size - have;
        ssize_t n = read_some(call, address + have, out + have, want);
        if (n <= 0)
            return -EFAULT;
        if (memchr(out + have, '\0', (size_t)n) != NULL)
            return 0;
        have += (size_t)n;
    }
    return -ENAMETOOLONG;
}

void call_read_status(struct call *call)
{
    char text[4096];
    autoclose int fd = call_open_proc(call, "status", O_RDONLY);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (len <= 0)
        return;
    text[len] = '\0';
    const char *umask_line = strstr(text, "\nUmask:");
    const char *tgid_line = strstr(text, "\nNStgid:");
    const char *tid_line = strstr(text, "\nNSpid:");
    unsigned mask = 0;
    if (umask_line != NULL && sscanf(umask_line, "\nUmask: %o", &mask) == 1)
        call->umask = (mode_t)mask;
    /* The last number of the line is the one of the innermost namespace. */
    for (int i = 0; i < 2; i++) {
        const char *line = i == 0 ? tgid_line : tid_line;
        if (line == NULL)
            continue;
        size_t end = 1 + strcspn(line + 1, "\n");
        while (end > 0 && line[end - 1] != '\t' && line[end - 1] != ' ')
            end--;
        *(i == 0 ? &call->inner_pid : &call->inner_tid) = (pid_t)strtol(line + end, NULL, 10);
    }
}

int call_open_base(const struct call *call, int dir_fd, const char *path)
{
    if (path[0] == '/')
        return open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char name[32] = "cwd";
    if (dir_fd != AT_FDCWD)
        snprintf(name, sizeof(name), "fd/%d", dir_fd);
    int fd = call_open_proc(call, name, O_PATH | O_DIRECTORY);
    if (fd < 0 && errno == ENOENT)
        errno = dir_fd == AT_FDCWD ? ENOENT : EBADF;
    return fd;
}

struct ward_link ward_link_to(int fd)
{
    struct ward_link link;
    snprintf(link.text, sizeof(link.text), "self/fd/%d", fd);
    return link;
}

size_t ward_path_of(const struct ward *ward, int fd, char *path, size_t size)
{
    ssize_t len = readlinkat(ward->host_proc, ward_link_to(fd).text, path, size - 1);
    path[len > 0 ? len : 0] = '\0';
    return len > 0 ? (size_t)len : 0;
}
