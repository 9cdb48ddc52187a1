#include "launcher/syscalls.h"

#include "launcher/warden/table.h"
#include "srt/cleanup.h"
#include <asm/termbits.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <asm/ioctls.h>

/* From headers that are not exported: a struct of three 64-bit numbers, and one of 32 bytes. */
#define OCFS2_IOC_REFLINK _IOC(_IOC_WRITE, 'o', 4, 24)
#define BCH_IOCTL_SUBVOLUME_CREATE _IOC(_IOC_WRITE, 0xbc, 16, 32)

enum compare { ALWAYS, EQUAL, AT_LEAST, BITS }; /* BITS: (argument & mask) == value */

/* Rows whose `unless` is set in the options are left out. Arguments that the kernel takes as 32
 * bits are compared in 32 bits or from a number up, so that rubbish in the upper half changes
 * nothing. */
struct row {
    const char *name;
    int number; /* of calls that libseccomp may not know by name yet; 0 = by name */
    enum compare compare;
    unsigned argument;
    uint64_t value, mask;
    int error;
    unsigned unless;
    const char *reason;
    const char *detail; /* NULL = no argument matters */
};

#define LOW32 0xffffffffu
#define CALL(call, code, without, why)                                        \
    {                                                                         \
        .name = (call), .error = (code), .unless = (without), .reason = (why) \
    }
#define NEW_CALL(call, nr, code, without, why)                                                \
    {                                                                                         \
        .name = (call), .number = (nr), .error = (code), .unless = (without), .reason = (why) \
    }
#define ARG_BITS(call, arg, bits, equal, code, without, why)                                  \
    {                                                                                         \
        .name = (call), .compare = BITS, .argument = (arg), .value = (equal), .mask = (bits), \
        .error = (code), .unless = (without), .reason = (why), .detail = #equal               \
    }
#define FLAG(call, arg, flag, why)                                                           \
    {                                                                                        \
        .name = (call), .compare = BITS, .argument = (arg), .value = (flag), .mask = (flag), \
        .error = EPERM, .unless = SYSCALLS_NESTED_USERNS, .reason = (why), .detail = #flag   \
    }

static const struct row rows[] = {
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

    /* Calls of file systems that make names, which the warden does not see. */
    ARG_BITS("ioctl", 1, LOW32, BTRFS_IOC_SUBVOL_CREATE, EPERM, 0, "makes names unseen"),
    ARG_BITS("ioctl", 1, LOW32, BTRFS_IOC_SUBVOL_CREATE_V2, EPERM, 0, "makes names unseen"),
    ARG_BITS("ioctl", 1, LOW32, BTRFS_IOC_SNAP_CREATE, EPERM, 0, "makes names unseen"),
    ARG_BITS("ioctl", 1, LOW32, BTRFS_IOC_SNAP_CREATE_V2, EPERM, 0, "makes names unseen"),
    ARG_BITS("ioctl", 1, LOW32, OCFS2_IOC_REFLINK, EPERM, 0, "makes names unseen"),
    ARG_BITS("ioctl", 1, LOW32, BCH_IOCTL_SUBVOLUME_CREATE, EPERM, 0, "makes names unseen"),

    /* Sockets: IPv4, IPv6, and the netlink that name resolution and `ip` need. */
    ARG_BITS("socket", 0, LOW32, AF_UNIX, EPERM, SYSCALLS_UNIX_SOCKETS | SYSCALLS_NAMED_SOCKETS,
             "services of the host listen on Unix sockets"),
    /* A stream pair is connected to itself for ever; a datagram pair can send anywhere. */
    ARG_BITS("socketpair", 1, 0xf, SOCK_DGRAM, EPERM, SYSCALLS_UNIX_SOCKETS,
             "a datagram pair can send to any Unix socket"),
    /* A pair of packets in order is connected for ever, too (unix_seqpacket_sendmsg() ignores the
     * name); only a sandbox inside has a use for it. */
    ARG_BITS("socketpair", 1, 0xf, SOCK_SEQPACKET, EPERM,
             SYSCALLS_UNIX_SOCKETS | SYSCALLS_NESTED_USERNS,
             "only stream pairs are certain to stay what they are"),
    ARG_BITS("socket", 1, 0xf, SOCK_PACKET, EPERM, 0, "packets are made by the kernel"),

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

/* Calls that the filter looks at, such as a plain open, find their row in a few steps. */
enum { BINARY_TREE = 2 };
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

static const char family_reason[] = "only IPv4, IPv6 and routing netlink have a use here";
static const char raw_reason[] = "packets are made by the kernel (raw, but for netlink)";
enum { NETLINK_ROUTE_PROTOCOL = 0, FAMILIES = 46, NETLINK_PROTOCOLS = 23 };

static bool row_applies(const struct row *row, unsigned options)
{
    return (row->unless & options) == 0;
}

/* A program that asks for what seems not to exist has a second way, and is not told about. */
static bool row_is_reported(const struct row *row)
{
    return row->error != ENOSYS;
}

static int row_number(const struct row *row)
{
    int number = seccomp_syscall_resolve_name(row->name);
    return number == __NR_SCMP_ERROR ? row->number : number;
}

static bool row_matches(const struct row *row, const uint64_t *args)
{
    switch (row->compare) {
    case ALWAYS:
        return true;
    case EQUAL:
        return args[row->argument] == row->value;
    case AT_LEAST:
        return args[row->argument] >= row->value;
    case BITS:
        return (args[row->argument] & row->mask) == row->value;
    }
    return true;
}

/* Refused at once, or by the warden, who reports it. */
static uint32_t refusal(int error, bool by_warden)
{
    return by_warden ? SCMP_ACT_NOTIFY : SCMP_ACT_ERRNO((uint32_t)error);
}

static int add_row(scmp_filter_ctx filter, const struct row *row, bool by_warden)
{
    int number = row_number(row);
    if (number == 0)
        return -EINVAL; /* a misspelled name; no row is about read() */
    uint32_t action = refusal(row->error, by_warden);
    switch (row->compare) {
    case ALWAYS:
        return seccomp_rule_add(filter, action, number, 0);
    case EQUAL:
        return seccomp_rule_add(filter, action, number, 1,
                                SCMP_CMP(row->argument, SCMP_CMP_EQ, row->value, 0));
    case AT_LEAST:
        return seccomp_rule_add(filter, action, number, 1,
                                SCMP_CMP(row->argument, SCMP_CMP_GE, row->value, 0));
    case BITS:
        return seccomp_rule_add(filter, action, number, 1,
                                SCMP_CMP(row->argument, SCMP_CMP_MASKED_EQ, row->mask, row->value));
    }
    return -EINVAL;
}

/* Families one by one, and all from FAMILIES up, which takes in numbers with a dirty upper half. */
static int add_families(scmp_filter_ctx filter, bool by_warden)
{
    struct row row = {
        .name = "socket", .compare = EQUAL, .error = EAFNOSUPPORT, .reason = family_reason};
    int result = 0;
    for (unsigned family = 0; family < FAMILIES && result == 0; family++) {
        row.value = family;
        if (family != AF_UNIX && family != AF_INET && family != AF_INET6 && family != AF_NETLINK)
            result = add_row(filter, &row, by_warden);
    }
    row.compare = AT_LEAST;
    row.value = FAMILIES;
    if (result == 0)
        result = add_row(filter, &row, by_warden);
    for (unsigned protocol = 0; protocol <= NETLINK_PROTOCOLS && result == 0; protocol++) {
        enum scmp_compare compare = protocol == NETLINK_PROTOCOLS ? SCMP_CMP_GE : SCMP_CMP_EQ;
        if (protocol != NETLINK_ROUTE_PROTOCOL)
            result = seccomp_rule_add(filter, refusal(EPROTONOSUPPORT, by_warden), SCMP_SYS(socket),
                                      2, SCMP_A0(SCMP_CMP_EQ, AF_NETLINK, 0),
                                      SCMP_A2(compare, protocol, 0));
    }
    return result;
}

/* Netlink makes no difference between raw sockets and datagrams; getifaddrs() asks for raw ones. */
static int add_raw(scmp_filter_ctx filter, bool by_warden)
{
    return seccomp_rule_add(filter, refusal(EPERM, by_warden), SCMP_SYS(socket), 2,
                            SCMP_A0(SCMP_CMP_NE, AF_NETLINK, 0),
                            SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, SOCK_RAW));
}

/* Sockets whose peer is fixed by connect(), which waits for the warden; a datagram names its
 * receiver. */
static bool datagrams_refused(unsigned options)
{
    return (options & (SYSCALLS_NAMED_SOCKETS | SYSCALLS_UNIX_SOCKETS)) == SYSCALLS_NAMED_SOCKETS;
}

static int add_datagrams(scmp_filter_ctx filter, bool by_warden)
{
    return seccomp_rule_add(filter, refusal(EPERM, by_warden), SCMP_SYS(socket), 2,
                            SCMP_A0(SCMP_CMP_MASKED_EQ, LOW32, AF_UNIX),
                            SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, SOCK_DGRAM));
}

/* The rows that are reported, or the others. */
static int add_rows(scmp_filter_ctx filter, unsigned options, bool reported, bool by_warden)
{
    int result = 0;
    for (size_t i = 0; i < ROW_COUNT && result == 0; i++) {
        if (!row_applies(&rows[i], options) || row_is_reported(&rows[i]) != reported)
            continue;
        result = add_row(filter, &rows[i], by_warden);
        if (result == -EDOM)
            result = 0; /* a call that this architecture does not have */
    }
    if (result == 0 && reported)
        result = add_families(filter, by_warden);
    if (result == 0 && reported)
        result = add_raw(filter, by_warden);
    if (result == 0 && reported && datagrams_refused(options))
        result = add_datagrams(filter, by_warden);
    return result;
}

int syscalls_install(unsigned options, struct srt_err *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (filter == NULL)
        return srt_err_set(err, "libseccomp cannot make a filter for this architecture");
    /* 32-bit and x32 entry points have other numbers for the same calls: none of them exists here.
     */
    int result = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    if (result == 0)
        result = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, BINARY_TREE);
    if (result == 0)
        result = add_rows(filter, options, false, false);
    if (result == 0)
        result = add_rows(filter, options, true, false);
    if (result != 0)
        srt_err_set(err, "the system call filter cannot be made: %s", strerror(-result));
    if (result == 0 && (result = seccomp_load(filter)) != 0)
        srt_err_set(err, "the kernel refuses the system call filter: %s", strerror(-result));
    seccomp_release(filter);
    return result == 0 ? 0 : -1;
}

static int add_notify_row(scmp_filter_ctx filter, const struct table_row *row, unsigned options)
{
    if (row->flags_at < 0 || (options & SYSCALLS_WATCH_READS) != 0)
        return seccomp_rule_add(filter, SCMP_ACT_NOTIFY, row->number, 0);
    static const struct {
        unsigned mask, value;
    } writes[] = {
        {O_CREAT, O_CREAT}, {O_TRUNC, O_TRUNC}, {O_ACCMODE, O_WRONLY}, {O_ACCMODE, O_RDWR}};
    int result = 0;
    for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]) && result == 0; i++)
        result = seccomp_rule_add(
            filter, SCMP_ACT_NOTIFY, row->number, 1,
            SCMP_CMP((unsigned)row->flags_at, SCMP_CMP_MASKED_EQ, writes[i].mask, writes[i].value));
    return result;
}

/* libseccomp 2.5 builds the filter but cannot ask that only a fatal signal interrupts a call that
 * waits: without that a call whose work is done could be begun again. So the kernel is asked
 * directly. */
static int load_with_listener(scmp_filter_ctx filter)
{
    autoclose int file = memfd_create("srt-filter", MFD_CLOEXEC);
    struct stat st;
    if (file < 0 || seccomp_export_bpf(filter, file) != 0 || fstat(file, &st) != 0)
        return -1;
    size_t size = (size_t)st.st_size;
    autofree struct sock_filter *code = malloc(size);
    if (code == NULL || pread(file, code, size, 0) != (ssize_t)size)
        return -1;
    struct sock_fprog program = {.len = (unsigned short)(size / sizeof(*code)), .filter = code};
    int fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                          SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
                          &program);
    if (fd < 0 && errno == EINVAL) /* before Linux 5.19 */
        fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                          &program);
    return fd;
}

int syscalls_install_notify(unsigned options, struct srt_err *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (filter == NULL)
        return srt_err_set(err, "libseccomp cannot make a filter for this architecture");
    int result = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    if (result == 0)
        result = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, BINARY_TREE);
    for (size_t i = 0; i < table_row_count && result == 0; i++)
        if (table_rows[i].only_if == 0 || (table_rows[i].only_if & options) != 0)
            result = add_notify_row(filter, &table_rows[i], options);
    if (result == 0)
        result = add_rows(filter, options, true, true);
    if (result == 0)
        result = add_rows(filter, options, false, false);
    int fd = result == 0 ? load_with_listener(filter) : -1;
    int error = result == 0 ? errno : -result;
    seccomp_release(filter);
    if (fd < 0 && error == EBUSY)
        return -2;
    return fd >= 0 ? fd : srt_err_set(err, "calls cannot be supervised: %s", strerror(error));
}

bool syscalls_find_refusal(unsigned options, int number, const uint64_t *args,
                           struct syscalls_refusal *refusal)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct row *row = &rows[i];
        if (!row_applies(row, options) || row_number(row) != number || !row_matches(row, args))
            continue;
        *refusal = (struct syscalls_refusal){.name = row->name,
                                             .detail = row->detail != NULL ? row->detail : "",
                                             .reason = row->reason,
                                             .error = row->error,
                                             .unless = row->unless};
        return true;
    }
    if (number != SCMP_SYS(socket))
        return false;
    *refusal = (struct syscalls_refusal){.name = "socket", .detail = "", .reason = family_reason};
    if (args[0] == AF_UNIX && datagrams_refused(options) && (args[1] & 0xf) == SOCK_DGRAM) {
        refusal->error = EPERM;
        refusal->detail = "AF_UNIX, SOCK_DGRAM";
        refusal->reason = "a datagram names its receiver when it is sent";
        refusal->unless = SYSCALLS_UNIX_SOCKETS;
    } else if (args[0] != AF_NETLINK && (args[1] & 0xf) == SOCK_RAW) {
        refusal->error = EPERM;
        refusal->detail = "SOCK_RAW";
        refusal->reason = raw_reason;
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
        if (row_applies(&rows[i], options))
            fprintf(out, "%s: %s\n", rows[i].name, rows[i].reason);
    fprintf(out, "socket: %s\n", raw_reason);
    fprintf(out, "socket: %s\n", family_reason);
}
