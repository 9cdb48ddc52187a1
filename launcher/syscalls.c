#include "launcher/syscalls.h"

#include "launcher/remedy.h"
#include "launcher/syscalls_rows.h"

#include <asm/termbits.h>

#include <assert.h>
#include <errno.h>
#include <linux/btrfs.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/fscrypt.h>
#include <linux/fsverity.h>
#include <linux/kd.h>
#include <linux/msdos_fs.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/vt.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <asm/ioctls.h>

/* From headers that are not exported: a struct of three 64-bit numbers, and one of 32 bytes. */
#define OCFS2_IOC_REFLINK _IOC(_IOC_WRITE, 'o', 4, 24)
#define BCH_IOCTL_SUBVOLUME_CREATE _IOC(_IOC_WRITE, 0xbc, 16, 32)
#define BCH_IOCTL_SUBVOLUME_DESTROY _IOC(_IOC_WRITE, 0xbc, 17, 32)
#define EXT4_IOC_SETVERSION _IOW('f', 4, long)
#define KDSKBMUTE 0x4b51
#ifndef IPPROTO_L2TP
#define IPPROTO_L2TP 115 /* <linux/in.h>, which <netinet/in.h> excludes */
#endif
#ifndef IPPROTO_SMC
#define IPPROTO_SMC 256 /* since Linux 6.11 */
#endif
#ifndef F_SETDELEG
#define F_SETDELEG (F_LINUX_SPECIFIC_BASE + 16) /* since Linux 6.19 */
#endif

#define LOW32 0xffffffffu
#define CALL(call, code, without, why)                                        \
    {                                                                         \
        .name = (call), .error = (code), .unless = (without), .reason = (why) \
    }
#define NEW_CALL(call, nr, code, without, why)                                                \
    {                                                                                         \
        .name = (call), .number = (nr), .error = (code), .unless = (without), .reason = (why) \
    }
#define ARG_BITS(call, arg, bits, equal, code, without, why)                                    \
    {                                                                                           \
        .name = (call), .compare = SYSCALLS_BITS, .argument = (arg), .value = (equal),          \
        .mask = (bits), .error = (code), .unless = (without), .reason = (why), .detail = #equal \
    }
#define FLAG(call, arg, flag, why)                                                         \
    {                                                                                      \
        .name = (call), .compare = SYSCALLS_BITS, .argument = (arg), .value = (flag),      \
        .mask = (flag), .error = EPERM, .unless = SYSCALLS_NESTED_USERNS, .reason = (why), \
        .detail = #flag                                                                    \
    }

const struct syscalls_row syscalls_rows[] = {
    /* Namespaces and mounts: the fence stands on them. */
    FLAG("unshare", 0, CLONE_NEWUSER,
         "a new user namespace gives capabilities over new namespaces"),
    FLAG("unshare", 0, CLONE_NEWNS, "mounts are the fence"),
    FLAG("unshare", 0, CLONE_NEWNET, "there is one way out"),
    FLAG("unshare", 0, CLONE_NEWPID, "pid 1 watches over every process"),
    FLAG("unshare", 0, CLONE_NEWIPC, "namespaces are not for the sandbox to make"),
    FLAG("unshare", 0, CLONE_NEWUTS, "namespaces are not for the sandbox to make"),
    FLAG("unshare", 0, CLONE_NEWCGROUP, "namespaces are not for the sandbox to make"),
    FLAG("unshare", 0, CLONE_NEWTIME, "namespaces are not for the sandbox to make"),
    FLAG("clone", 0, CLONE_NEWUSER, "a new user namespace gives capabilities over new namespaces"),
    FLAG("clone", 0, CLONE_NEWNS, "mounts are the fence"),
    FLAG("clone", 0, CLONE_NEWNET, "there is one way out"),
    FLAG("clone", 0, CLONE_NEWPID, "pid 1 watches over every process"),
    FLAG("clone", 0, CLONE_NEWIPC, "namespaces are not for the sandbox to make"),
    FLAG("clone", 0, CLONE_NEWUTS, "namespaces are not for the sandbox to make"),
    FLAG("clone", 0, CLONE_NEWCGROUP, "namespaces are not for the sandbox to make"),
    /* ENOSYS: every C library then falls back to clone(), whose flags can be looked at. */
    CALL("clone3", ENOSYS, SYSCALLS_NESTED_USERNS, "its flags lie in memory that can change"),
    CALL("setns", EPERM, SYSCALLS_NESTED_USERNS, "no namespace but its own"),
    CALL("mount", EPERM, SYSCALLS_NESTED_USERNS, "mounts are the fence"),
    CALL("umount2", EPERM, SYSCALLS_NESTED_USERNS, "mounts are the fence"),
    CALL("pivot_root", EPERM, SYSCALLS_NESTED_USERNS, "mounts are the fence"),
    CALL("chroot", EPERM, SYSCALLS_NESTED_USERNS, "mounts are the fence"),
    CALL("open_tree", EPERM, SYSCALLS_NESTED_USERNS, "mounts are the fence"),
    CALL("move_mount", EPERM, SYSCALLS_NESTED_USERNS, "mounts are the fence"),
    CALL("fsopen", EPERM, SYSCALLS_NESTED_USERNS, "mounts are the fence"),
    CALL("fsconfig", EPERM, SYSCALLS_NESTED_USERNS, "mounts are the fence"),
    CALL("fsmount", EPERM, SYSCALLS_NESTED_USERNS, "mounts are the fence"),
    CALL("fspick", EPERM, SYSCALLS_NESTED_USERNS, "mounts are the fence"),
    NEW_CALL("mount_setattr", 442, EPERM, SYSCALLS_NESTED_USERNS, "mounts are the fence"),
    NEW_CALL("open_tree_attr", 467, EPERM, SYSCALLS_NESTED_USERNS, "mounts are the fence"),

    /* The terminal belongs to whoever started us. The kernel looks at 32 bits of the command. */
    ARG_BITS("ioctl", 1, LOW32, TIOCSTI, EPERM, 0, "types into the terminal outside"),
    ARG_BITS("ioctl", 1, LOW32, TIOCLINUX, EPERM, 0, "pastes into the console outside"),
    ARG_BITS("ioctl", 1, LOW32, TIOCEXCL, EPERM, 0, "nobody outside could open the terminal again"),
    ARG_BITS("ioctl", 1, LOW32, TIOCSETD, EPERM, 0, "the terminal would stay another one outside"),
    ARG_BITS("ioctl", 1, LOW32, KDSETMODE, EPERM, 0, "the console would stay dark outside"),
    ARG_BITS("ioctl", 1, LOW32, KDSKBMODE, EPERM, 0, "the keyboard would stay another one outside"),
    ARG_BITS("ioctl", 1, LOW32, KDSKBMUTE, EPERM, 0, "the keyboard would stay another one outside"),
    ARG_BITS("ioctl", 1, LOW32, VT_SETMODE, EPERM, 0, "nobody could leave the console outside"),

    /* Calls of file systems that make or remove names, which the warden does not see. */
    ARG_BITS("ioctl", 1, LOW32, BTRFS_IOC_SUBVOL_CREATE, EPERM, 0, "makes names unseen"),
    ARG_BITS("ioctl", 1, LOW32, BTRFS_IOC_SUBVOL_CREATE_V2, EPERM, 0, "makes names unseen"),
    ARG_BITS("ioctl", 1, LOW32, BTRFS_IOC_SNAP_CREATE, EPERM, 0, "makes names unseen"),
    ARG_BITS("ioctl", 1, LOW32, BTRFS_IOC_SNAP_CREATE_V2, EPERM, 0, "makes names unseen"),
    ARG_BITS("ioctl", 1, LOW32, OCFS2_IOC_REFLINK, EPERM, 0, "makes names unseen"),
    ARG_BITS("ioctl", 1, LOW32, BCH_IOCTL_SUBVOLUME_CREATE, EPERM, 0, "makes names unseen"),
    ARG_BITS("ioctl", 1, LOW32, BTRFS_IOC_SNAP_DESTROY, EPERM, 0, "removes names unseen"),
    ARG_BITS("ioctl", 1, LOW32, BTRFS_IOC_SNAP_DESTROY_V2, EPERM, 0, "removes names unseen"),
    ARG_BITS("ioctl", 1, LOW32, BCH_IOCTL_SUBVOLUME_DESTROY, EPERM, 0, "removes names unseen"),

    /* Calls of file systems that change files which may only be read. */
    ARG_BITS("ioctl", 1, LOW32, FS_IOC_ENABLE_VERITY, EPERM, 0, "changes files unseen"),
    ARG_BITS("ioctl", 1, LOW32, FS_IOC_SET_ENCRYPTION_POLICY, EPERM, 0, "changes files unseen"),
    ARG_BITS("ioctl", 1, LOW32, FS_IOC_SETVERSION, EPERM, 0, "changes files unseen"),
    ARG_BITS("ioctl", 1, LOW32, EXT4_IOC_SETVERSION, EPERM, 0, "changes files unseen"),
    ARG_BITS("ioctl", 1, LOW32, FAT_IOCTL_SET_ATTRIBUTES, EPERM, 0, "changes files unseen"),
    ARG_BITS("ioctl", 1, LOW32, BTRFS_IOC_SUBVOL_SETFLAGS, EPERM, 0, "changes files unseen"),

    /* On any file that may be read and is this user's; who opens it waits for up to 45 s. */
    ARG_BITS("fcntl", 1, LOW32, F_SETLEASE, EPERM, 0, "holds up who opens a file outside"),
    ARG_BITS("fcntl", 1, LOW32, F_SETDELEG, EPERM, 0, "holds up who opens a file outside"),

    /* Sockets: IPv4, IPv6, and the netlink that name resolution and `ip` need. */
    ARG_BITS("socket", 0, LOW32, AF_UNIX, EPERM, SYSCALLS_UNIX_SOCKETS | SYSCALLS_NAMED_SOCKETS,
             "services of the host listen on Unix sockets"),
    /* The kernel makes two sockets of any family before it asks whether that has pairs. */
    {.name = "socketpair",
     .compare = SYSCALLS_OTHER,
     .value = AF_UNIX,
     .error = EOPNOTSUPP,
     .reason = "only Unix sockets have a use in pairs"},
    /* A stream pair is connected to itself for ever; a datagram pair can send anywhere. */
    ARG_BITS("socketpair", 1, 0xf, SOCK_DGRAM, EPERM,
             SYSCALLS_UNIX_SOCKETS | SYSCALLS_NAMED_DATAGRAMS,
             "a datagram pair can send to any Unix socket"),
    /* Which Unix sockets take for SOCK_DGRAM. */
    ARG_BITS("socketpair", 1, 0xf, SOCK_RAW, EPERM,
             SYSCALLS_UNIX_SOCKETS | SYSCALLS_NAMED_DATAGRAMS,
             "a datagram pair can send to any Unix socket"),
    /* A pair of packets in order is connected for ever, too (unix_seqpacket_sendmsg() ignores the
     * name). One that is closed on exec is what Rust's library makes for a process that it starts:
     * without it cargo runs nothing. Others are for who may have Unix sockets (Chromium's processes
     * among themselves) and for a sandbox inside. */
    ARG_BITS("socketpair", 1, 0xf | SOCK_CLOEXEC, SOCK_SEQPACKET, EPERM,
             SYSCALLS_UNIX_SOCKETS | SYSCALLS_NAMED_SOCKETS | SYSCALLS_NESTED_USERNS,
             "only stream pairs are handed on to other programs"),
    ARG_BITS("socket", 1, 0xf, SOCK_PACKET, EPERM, 0, "packets are made by the kernel"),

    /* It would bind who calls and not the warden, which makes names and opens files for it: a fence
     * inside that does not hold. Who finds it missing says so, or has a second way. */
    NEW_CALL("landlock_create_ruleset", 444, ENOSYS, SYSCALLS_NESTED_USERNS,
             "the warden would not be bound by it"),
    NEW_CALL("landlock_add_rule", 445, ENOSYS, SYSCALLS_NESTED_USERNS,
             "the warden would not be bound by it"),
    NEW_CALL("landlock_restrict_self", 446, ENOSYS, SYSCALLS_NESTED_USERNS,
             "the warden would not be bound by it"),

    /* Around the filter or the walls. */
    CALL("io_uring_setup", ENOSYS, 0, "does what system calls do, unseen by this filter"),
    CALL("io_uring_enter", ENOSYS, 0, "does what system calls do, unseen by this filter"),
    CALL("io_uring_register", ENOSYS, 0, "does what system calls do, unseen by this filter"),
    ARG_BITS("ptrace", 0, LOW32, PTRACE_ATTACH, EPERM, 0, "no process reaches into another"),
    ARG_BITS("ptrace", 0, LOW32, PTRACE_SEIZE, EPERM, 0, "no process reaches into another"),
    /* What the warden of a sandbox inside does; process 1 here is out of reach, being not dumpable.
     */
    CALL("process_vm_readv", EPERM, SYSCALLS_NESTED_USERNS, "no process reaches into another"),
    CALL("process_vm_writev", EPERM, 0, "no process reaches into another"),
    CALL("pidfd_getfd", EPERM, SYSCALLS_NESTED_USERNS, "no process reaches into another"),
    CALL("kcmp", EPERM, 0, "no process reaches into another"),
    /* Its own children's limits are anybody's to set. */
    ARG_BITS("prlimit64", 0, LOW32, 1, EPERM, 0, "pid 1 watches over every process"),
    CALL("open_by_handle_at", EPERM, 0, "opens files past their directories"),
    CALL("add_key", EPERM, 0, "keyrings are shared with the host"),
    CALL("request_key", EPERM, 0, "keyrings are shared with the host"),
    CALL("keyctl", EPERM, 0, "keyrings are shared with the host"),

    /* Kernel surface that nothing in a sandbox needs. */
    CALL("bpf", EPERM, 0, "kernel surface"),
    CALL("perf_event_open", EPERM, 0, "kernel surface"),
    CALL("userfaultfd", EPERM, 0, "makes races in the kernel winnable"),
    CALL("kexec_load", EPERM, 0, "the machine is not the sandbox's"),
    CALL("kexec_file_load", EPERM, 0, "the machine is not the sandbox's"),
    CALL("init_module", EPERM, 0, "the machine is not the sandbox's"),
    CALL("finit_module", EPERM, 0, "the machine is not the sandbox's"),
    CALL("delete_module", EPERM, 0, "the machine is not the sandbox's"),
    CALL("reboot", EPERM, 0, "the machine is not the sandbox's"),
    CALL("swapon", EPERM, 0, "the machine is not the sandbox's"),
    CALL("swapoff", EPERM, 0, "the machine is not the sandbox's"),
    CALL("acct", EPERM, 0, "the machine is not the sandbox's"),
    CALL("quotactl", EPERM, 0, "the machine is not the sandbox's"),
    NEW_CALL("quotactl_fd", 443, EPERM, 0, "the machine is not the sandbox's"),
    CALL("settimeofday", EPERM, 0, "the machine is not the sandbox's"),
    CALL("clock_settime", EPERM, 0, "the machine is not the sandbox's"),
    CALL("syslog", EPERM, 0, "the kernel's log names processes and addresses of the host"),
    CALL("iopl", EPERM, 0, "hardware"),
    CALL("ioperm", EPERM, 0, "hardware"),
    CALL("modify_ldt", EPERM, 0, "kernel surface of 16-bit programs"),
    CALL("vhangup", EPERM, 0, "the terminal belongs to whoever started us"),

    /* 0xffffffff only asks and has the top bit set. */
    ARG_BITS("personality", 0, 0x80000000u | READ_IMPLIES_EXEC, READ_IMPLIES_EXEC, EPERM, 0,
             "every readable page would be executable"),
    ARG_BITS("personality", 0, 0x80000000u | MMAP_PAGE_ZERO, MMAP_PAGE_ZERO, EPERM, 0,
             "page zero makes kernel faults usable"),
    ARG_BITS("personality", 0, 0x80000000u | ADDR_COMPAT_LAYOUT, ADDR_COMPAT_LAYOUT, EPERM, 0,
             "weakens address randomisation"),
};

enum { ROW_COUNT = sizeof(syscalls_rows) / sizeof(syscalls_rows[0]) };
const size_t syscalls_row_count = ROW_COUNT;

static const char family_reason[] = "only IPv4, IPv6 and routing netlink have a use here";
static const char raw_reason[] = "packets are made by the kernel (raw, but for netlink)";

static const char protocol_reason[] = "of IPv4 and IPv6 only TCP, UDP and ping have a use here";

/* The kernel loads a module for each, and hardly any program was ever written for them. */
const unsigned syscalls_protocols[SYSCALLS_PROTOCOLS] = {IPPROTO_DCCP, IPPROTO_L2TP, IPPROTO_SCTP,
                                                         IPPROTO_UDPLITE, IPPROTO_SMC};
const unsigned syscalls_protocol_types[SYSCALLS_PROTOCOL_TYPES] = {SOCK_SEQPACKET, SOCK_DCCP};

bool syscalls_row_applies(const struct syscalls_row *row, unsigned options)
{
    return (row->unless & options) == 0;
}

/* A program that asks for what seems not to exist has a second way, and is not told about. */
bool syscalls_row_is_reported(const struct syscalls_row *row)
{
    return row->error != ENOSYS;
}

/* Sockets whose peer is fixed by connect(), which waits for the warden; a datagram names its
 * receiver. */
bool syscalls_datagrams_refused(unsigned options)
{
    const unsigned allowed = SYSCALLS_UNIX_SOCKETS | SYSCALLS_NAMED_DATAGRAMS;
    return (options & (SYSCALLS_NAMED_SOCKETS | allowed)) == SYSCALLS_NAMED_SOCKETS;
}

static struct sock_fprog baked(unsigned options, bool supervised)
{
    assert(options < SYSCALLS_VARIANTS);
    const struct syscalls_program *program = &syscalls_baked[options][supervised];
    /* The kernel only reads through the pointer. */
    return (struct sock_fprog){.len = program->len,
                               .filter = (struct sock_filter *)(uintptr_t)program->code};
}

int syscalls_install(unsigned options, struct srt_err *err)
{
    struct sock_fprog program = baked(options, false);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
        return srt_err_set(err, "the kernel refuses the system call filter: %s",
                           remedy_error(errno));
    return 0;
}

int syscalls_install_notify(unsigned options, struct srt_err *err)
{
    struct sock_fprog program = baked(options, true);
    /* Without WAIT_KILLABLE a call whose work is done could be begun again. */
    int fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                          SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
                          &program);
    if (fd < 0 && errno == EINVAL) /* before Linux 5.19 */
        fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                          &program);
    if (fd < 0 && errno == EBUSY)
        return -2;
    return fd >= 0 ? fd : srt_err_set(err, "calls cannot be supervised: %s", remedy_error(errno));
}

static bool row_matches(const struct syscalls_row *row, const uint64_t *args)
{
    switch (row->compare) {
    case SYSCALLS_ALWAYS:
        return true;
    case SYSCALLS_EQUAL:
        return args[row->argument] == row->value;
    case SYSCALLS_OTHER:
        return args[row->argument] != row->value;
    case SYSCALLS_AT_LEAST:
        return args[row->argument] >= row->value;
    case SYSCALLS_BITS:
        return (args[row->argument] & row->mask) == row->value;
    }
    return true;
}

bool syscalls_find_refusal(unsigned options, int number, const uint64_t *args,
                           struct syscalls_refusal *refusal)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct syscalls_row *row = &syscalls_rows[i];
        if (syscalls_baked_numbers[i] != number || !syscalls_row_applies(row, options) ||
            !row_matches(row, args))
            continue;
        *refusal = (struct syscalls_refusal){.name = row->name,
                                             .detail = row->detail != NULL ? row->detail : "",
                                             .reason = row->reason,
                                             .error = row->error,
                                             .unless = row->unless};
        return true;
    }
    if (number != SYS_socket)
        return false;
    *refusal = (struct syscalls_refusal){.name = "socket", .detail = "", .reason = family_reason};
    if (args[0] == AF_UNIX && syscalls_datagrams_refused(options) &&
        (args[1] & 0xf) == SOCK_DGRAM) {
        refusal->error = EPERM;
        refusal->detail = "AF_UNIX, SOCK_DGRAM";
        refusal->reason = "none of network.allowUnixSockets takes datagrams";
        refusal->unless = SYSCALLS_NAMED_DATAGRAMS;
    } else if (args[0] != AF_NETLINK && (args[1] & 0xf) == SOCK_RAW) {
        refusal->error = EPERM;
        refusal->detail = "SOCK_RAW";
        refusal->reason = raw_reason;
    } else if (args[0] == AF_INET || args[0] == AF_INET6) {
        refusal->error = EPROTONOSUPPORT;
        refusal->detail = args[0] == AF_INET ? "AF_INET" : "AF_INET6";
        refusal->reason = protocol_reason;
    } else if (args[0] == AF_NETLINK) {
        refusal->error = EPROTONOSUPPORT;
        refusal->detail = "AF_NETLINK";
    } else {
        refusal->error = EAFNOSUPPORT;
    }
    return true;
}

void syscalls_print(unsigned options, FILE *out)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (syscalls_row_applies(&syscalls_rows[i], options))
            fprintf(out, "%s: %s\n", syscalls_rows[i].name, syscalls_rows[i].reason);
    fprintf(out, "socket: %s\n", raw_reason);
    fprintf(out, "socket: %s\n", family_reason);
    fprintf(out, "socket: %s\n", protocol_reason);
    fprintf(out, "calls above number %d: younger than this program\n", SYSCALLS_YOUNGEST);
}
