#include "launcher/syscalls.h"
#include "launcher/warden/answers.h"
#include "launcher/warden/judge.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The file whose mapping an address lies in, "" where there is none. */
static void mapping_of(FILE *maps, uint64_t address, char file[PATH_MAX])
{
    char line[PATH_MAX + 128];
    rewind(maps);
    file[0] = '\0';
    while (fgets(line, sizeof(line), maps) != NULL) {
        unsigned long start, end;
        int name_at = 0;
        if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &start, &end, &name_at) == 2 &&
            address >= start && address < end && name_at > 0) {
            snprintf(file, PATH_MAX, "%s", line + name_at);
            return;
        }
    }
}

/* Whether the C library itself made the call, and not whoever uses it: then what called the
 * function with the instruction lies in the library, too. Only the kernel's word for the stack
 * tells, and only where a call leaves its return address there. */
static bool is_library_itself(struct call *call)
{
    char text[256], here[PATH_MAX], caller[PATH_MAX];
    unsigned long stack, instruction;
    uint64_t back = 0;
    autoclose int fd = call_open_proc(call, "syscall", O_RDONLY);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    text[len > 0 ? len : 0] = '\0';
    if (sscanf(text, "%*s %*s %*s %*s %*s %*s %*s %lx %lx", &stack, &instruction) != 2 ||
        call_read_memory(call, stack, &back, sizeof(back)) != 0)
        return false;
    int maps_fd = call_open_proc(call, "maps", O_RDONLY);
    autofclose FILE *maps = maps_fd < 0 ? NULL : fdopen(maps_fd, "r");
    if (maps == NULL)
        return false;
    mapping_of(maps, instruction, here);
    mapping_of(maps, back, caller);
    return strstr(here, "/libc.so") != NULL && strcmp(here, caller) == 0;
}

/* glibc asks nscd, which hardly anybody runs, whenever a program looks up a user or a host; it does
 * without an answer, and nobody wants to read about it each time. */
static bool is_question_to_nscd(struct call *call)
{
    const struct seccomp_data *data = &call->request->data;
    const uint64_t nscd_type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    if (data->nr != SYS_socket || data->args[0] != AF_UNIX || data->args[1] != nscd_type)
        return false;
#ifdef __x86_64__
    return is_library_itself(call);
#else
    return true;
#endif
}

/* Never anything but an error: what no row speaks of has no business here. */
int64_t answer_refused(struct call *call)
{
    struct syscalls_refusal refusal;
    if (!syscalls_find_refusal(call->ward->law->syscalls, call->request->data.nr,
                               (const uint64_t *)call->request->data.args, &refusal))
        return -ENOSYS;
    if (call->reported || is_question_to_nscd(call))
        return -refusal.error;
    struct warden_report message = {
        .kind = WARDEN_SYSCALL, .error = refusal.error, .unless = refusal.unless};
    snprintf(message.operation, sizeof(message.operation), "%s", refusal.name);
    snprintf(message.setting, sizeof(message.setting), "%s", refusal.reason);
    snprintf(message.path, sizeof(message.path), "%s", refusal.detail);
    judge_report_as(call, &message);
    return -refusal.error;
}
