#include "launcher/syscalls_rows.h"
#include "launcher/warden/door.h"
#include "launcher/warden/table.h"
#include "srt/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define LOW32 0xffffffffu

/* Calls that the filter looks at, such as a plain open, find their row in a few steps. */
enum { BINARY_TREE = 2 };
/* What libseccomp may use, whatever the kernel of the machine that builds can do: errors since 2.4,
 * notification since 2.5. */
enum { API_LEVEL = 6 };

int syscalls_number(const struct syscalls_row *row)
{
    int number = seccomp_syscall_resolve_name(row->name);
    return number == __NR_SCMP_ERROR ? row->number : number;
}

/* Refused at once, or by the warden, who reports it. */
static uint32_t refusal(int error, bool by_warden)
{
    return by_warden ? SCMP_ACT_NOTIFY : SCMP_ACT_ERRNO((uint32_t)error);
}

static int add_row(scmp_filter_ctx filter, const struct syscalls_row *row, bool by_warden)
{
    int number = syscalls_number(row);
    if (number == 0)
        return -EINVAL; /* a misspelled name; no row is about read() */
    uint32_t action = refusal(row->error, by_warden);
    switch (row->compare) {
    case SYSCALLS_ALWAYS:
        return seccomp_rule_add(filter, action, number, 0);
    case SYSCALLS_EQUAL:
        return seccomp_rule_add(filter, action, number, 1,
                                SCMP_CMP(row->argument, SCMP_CMP_EQ, row->value, 0));
    case SYSCALLS_OTHER:
        return seccomp_rule_add(filter, action, number, 1,
                                SCMP_CMP(row->argument, SCMP_CMP_NE, row->value, 0));
    case SYSCALLS_AT_LEAST:
        return seccomp_rule_add(filter, action, number, 1,
                                SCMP_CMP(row->argument, SCMP_CMP_GE, row->value, 0));
    case SYSCALLS_BITS:
        return seccomp_rule_add(filter, action, number, 1,
                                SCMP_CMP(row->argument, SCMP_CMP_MASKED_EQ, row->mask, row->value));
    }
    return -EINVAL;
}

/* Families one by one, and all from SYSCALLS_FAMILIES up, which takes in numbers with a dirty upper
 * half. */
static int add_families(scmp_filter_ctx filter, bool by_warden)
{
    struct syscalls_row row = {.name = "socket", .compare = SYSCALLS_EQUAL, .error = EAFNOSUPPORT};
    int result = 0;
    for (unsigned family = 0; family < SYSCALLS_FAMILIES && result == 0; family++) {
        row.value = family;
        if (family != AF_UNIX && family != AF_INET && family != AF_INET6 && family != AF_NETLINK)
            result = add_row(filter, &row, by_warden);
    }
    row.compare = SYSCALLS_AT_LEAST;
    row.value = SYSCALLS_FAMILIES;
    if (result == 0)
        result = add_row(filter, &row, by_warden);
    for (unsigned protocol = 0; protocol <= SYSCALLS_NETLINKS && result == 0; protocol++) {
        enum scmp_compare compare = protocol == SYSCALLS_NETLINKS ? SCMP_CMP_GE : SCMP_CMP_EQ;
        if (protocol != SYSCALLS_NETLINK_ROUTE)
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

static int add_protocols(scmp_filter_ctx filter, bool by_warden)
{
    static const unsigned families[] = {AF_INET, AF_INET6};
    const uint32_t action = refusal(EPROTONOSUPPORT, by_warden);
    int result = 0;
    for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
        for (size_t i = 0; i < SYSCALLS_PROTOCOLS && result == 0; i++)
            result = seccomp_rule_add(filter, action, SCMP_SYS(socket), 2,
                                      SCMP_A0(SCMP_CMP_EQ, families[f], 0),
                                      SCMP_A2(SCMP_CMP_MASKED_EQ, LOW32, syscalls_protocols[i]));
        for (size_t i = 0; i < SYSCALLS_PROTOCOL_TYPES && result == 0; i++)
            result = seccomp_rule_add(filter, action, SCMP_SYS(socket), 2,
                                      SCMP_A0(SCMP_CMP_EQ, families[f], 0),
                                      SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, syscalls_protocol_types[i]));
    }
    return result;
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
    for (size_t i = 0; i < syscalls_row_count && result == 0; i++) {
        if (!syscalls_row_applies(&syscalls_rows[i], options) ||
            syscalls_row_is_reported(&syscalls_rows[i]) != reported)
            continue;
        result = add_row(filter, &syscalls_rows[i], by_warden);
        if (result == -EDOM)
            result = 0; /* a call that this architecture does not have */
    }
    if (result == 0 && reported)
        result = add_families(filter, by_warden);
    if (result == 0 && reported)
        result = add_raw(filter, by_warden);
    if (result == 0 && reported)
        result = add_protocols(filter, by_warden);
    if (result == 0 && reported && syscalls_datagrams_refused(options))
        result = add_datagrams(filter, by_warden);
    return result;
}

static int add_notify_row(scmp_filter_ctx filter, const struct table_row *row, unsigned options)
{
    if (row->flags_at == TABLE_WITH_RECEIVER)
        return seccomp_rule_add(filter, SCMP_ACT_NOTIFY, row->number, 1,
                                SCMP_A4(SCMP_CMP_NE, 0, 0));
    if (row->flags_at == TABLE_NUMBERS_OF_DOOR)
        return seccomp_rule_add(filter, SCMP_ACT_NOTIFY, row->number, 1,
                                SCMP_CMP(0, SCMP_CMP_MASKED_EQ, (uint32_t)DOOR_MASK, DOOR_FIRST));
    if (row->flags_at == TABLE_FLAGS_OF_FILES) {
        int result = 0;
        for (size_t i = 0; i < TABLE_FLAG_REQUESTS && result == 0; i++)
            result = seccomp_rule_add(filter, SCMP_ACT_NOTIFY, row->number, 1,
                                      SCMP_A1(SCMP_CMP_MASKED_EQ, LOW32, table_flag_requests[i]));
        return result;
    }
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

static int add_all(scmp_filter_ctx filter, unsigned options, bool supervised)
{
    /* 32-bit and x32 entry points have other numbers for the same calls: none of them exists here.
     */
    int result = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    if (result == 0)
        result = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, BINARY_TREE);
    for (size_t i = 0; supervised && i < table_row_count && result == 0; i++)
        if (table_rows[i].only_if == 0 || (table_rows[i].only_if & options) != 0)
            result = add_notify_row(filter, &table_rows[i], options);
    if (result == 0)
        result = add_rows(filter, options, true, supervised);
    if (result == 0)
        result = add_rows(filter, options, false, false);
    return result;
}

/* What goes before all else: libseccomp knows no rule for calls that it has no name for. */
static const struct sock_filter refuse_younger[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, SYSCALLS_YOUNGEST, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
};

/* libseccomp 2.5 gives its code to descriptors only. */
static int take_code(scmp_filter_ctx filter, struct sock_filter **code, size_t *len)
{
    autoclose int file = memfd_create("srt-filter", MFD_CLOEXEC);
    struct stat st;
    if (file < 0 || seccomp_export_bpf(filter, file) != 0 || fstat(file, &st) != 0)
        return -EIO;
    size_t size = (size_t)st.st_size;
    autofree char *bytes = malloc(sizeof(refuse_younger) + size);
    if (bytes == NULL || pread(file, bytes + sizeof(refuse_younger), size, 0) != (ssize_t)size)
        return -EIO;
    memcpy(bytes, refuse_younger, sizeof(refuse_younger));
    *len = (sizeof(refuse_younger) + size) / sizeof(struct sock_filter);
    *code = (void *)steal_ptr(bytes);
    return *len <= BPF_MAXINSNS ? 0 : -E2BIG;
}

int syscalls_make(unsigned options, bool supervised, struct sock_filter **code, size_t *len)
{
    *code = NULL;
    seccomp_api_set(API_LEVEL);
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (filter == NULL)
        return -EINVAL;
    int result = add_all(filter, options, supervised);
    if (result == 0)
        result = take_code(filter, code, len);
    seccomp_release(filter);
    return result;
}
