#include "control/confine.h"

#include "srt/sanitized.h"

#include <errno.h>
#include <seccomp.h>
#include <string.h>

/* By name, since not every architecture has each. */
static const char *const refused[] = {
    /* other programs and processes (a copy of itself is no use without them) */
    "execve",
    "execveat",
    "process_vm_readv",
    "process_vm_writev",
    "pidfd_getfd",
    "kcmp",
    "process_madvise",
    /* another view of the system */
    "mount",
    "umount",
    "umount2",
    "pivot_root",
    "chroot",
    "setns",
    "unshare",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "open_by_handle_at",
    "name_to_handle_at",
    /* other identities */
    "setuid",
    "setgid",
    "setreuid",
    "setregid",
    "setresuid",
    "setresgid",
    "setgroups",
    "setfsuid",
    "setfsgid",
    "capset",
    "personality",
    /* the kernel's wide doors */
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "keyctl",
    "add_key",
    "request_key",
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "kexec_file_load",
    "reboot",
    "swapon",
    "swapoff",
    "acct",
    "quotactl",
    "quotactl_fd",
    "syslog",
    "settimeofday",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    "sethostname",
    "setdomainname",
    "iopl",
    "ioperm",
    "vhangup",
    "lookup_dcookie",
    "nfsservctl",
    "vmsplice",
};

static int add_rules(scmp_filter_ctx filter)
{
    /* LeakSanitizer stops the process with ptrace at its end. */
    int failed =
        SRT_SANITIZED ? 0 : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ptrace), 0);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]) && failed == 0; i++) {
        int number = seccomp_syscall_resolve_name(refused[i]);
        if (number >= 0) /* negative: not on this architecture */
            failed = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 0);
    }
    return failed;
}

/* Calls of a foreign ABI (i386, x32) have their own numbers; libseccomp kills who uses them.
 * Loading sets no_new_privs, too. */
int confine_process(struct srt_err *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int failed = filter != NULL ? add_rules(filter) : -ENOMEM;
    if (failed == 0)
        failed = seccomp_load(filter);
    if (filter != NULL)
        seccomp_release(filter);
    if (failed != 0)
        return srt_err_set(err, "the system call filter cannot be installed: %s",
                           strerror(-failed));
    return 0;
}
