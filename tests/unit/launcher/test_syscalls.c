#include "launcher/syscalls_rows.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* What was made when this was built is what libseccomp makes of the table now. */
static void the_baked_filters_are_those_of_the_table(void **state)
{
    (void)state;
    for (unsigned options = 0; options < SYSCALLS_VARIANTS; options++)
        for (int supervised = 0; supervised < 2; supervised++) {
            const struct syscalls_program *baked = &syscalls_baked[options][supervised];
            struct sock_filter *code;
            size_t len;
            assert_int_equal(syscalls_make(options, supervised != 0, &code, &len), 0);
            assert_int_equal(baked->len, len);
            assert_memory_equal(baked->code, code, len * sizeof(*code));
            free(code);
        }
    for (size_t i = 0; i < syscalls_row_count; i++)
        assert_int_equal(syscalls_baked_numbers[i], syscalls_number(&syscalls_rows[i]));
}

static void options_make_a_difference(void **state)
{
    (void)state;
    for (unsigned option = 1; option < SYSCALLS_VARIANTS; option <<= 1)
        assert_ptr_not_equal(syscalls_baked[0][1].code, syscalls_baked[option][1].code);
    /* Only the warden watches reads. */
    assert_ptr_equal(syscalls_baked[0][0].code, syscalls_baked[SYSCALLS_WATCH_READS][0].code);
}

/* The exit status of a child that installs the filter: the number of the first surprise, or 0. */
static int under_filter(unsigned options)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct srt_err err;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscalls_install(options, &err) != 0)
            _exit(1);
        if (syscall(SYS_clone3, NULL, 0) != -1 || errno != ENOSYS)
            _exit(2);
        if (syscall(SYS_socket, AF_INET, SOCK_STREAM, 0) < 0)
            _exit(3);
        bool unix_socket = syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0) >= 0;
        if (unix_socket != ((options & SYSCALLS_UNIX_SOCKETS) != 0))
            _exit(4);
        if (syscall(SYS_socket, AF_PACKET, SOCK_DGRAM, 0) != -1 || errno != EAFNOSUPPORT)
            _exit(5);
        _exit(syscall(SYS_getppid) > 0 ? 0 : 6);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void the_kernel_takes_them(void **state)
{
    (void)state;
    assert_int_equal(under_filter(0), 0);
    assert_int_equal(under_filter(SYSCALLS_UNIX_SOCKETS), 0);
}

static bool jumps(const struct sock_filter *at, uint32_t a)
{
    switch (BPF_OP(at->code)) {
    case BPF_JEQ:
        return a == at->k;
    case BPF_JGE:
        return a >= at->k;
    case BPF_JGT:
        return a > at->k;
    default:
        assert_int_equal(BPF_OP(at->code), BPF_JSET);
        return (a & at->k) != 0;
    }
}

/* What the kernel would make of a call under the filter. */
static uint32_t judged(unsigned options, bool supervised, const struct seccomp_data *data)
{
    const struct syscalls_program *program = &syscalls_baked[options][supervised];
    uint32_t a = 0;
    for (size_t i = 0; i < program->len; i++) {
        const struct sock_filter *at = &program->code[i];
        switch (BPF_CLASS(at->code)) {
        case BPF_LD:
            memcpy(&a, (const char *)data + at->k, sizeof(a));
            break;
        case BPF_ALU:
            assert_int_equal(BPF_OP(at->code), BPF_AND);
            a &= at->k;
            break;
        case BPF_JMP:
            if (BPF_OP(at->code) == BPF_JA)
                i += at->k;
            else
                i += jumps(at, a) ? at->jt : at->jf;
            break;
        default:
            assert_int_equal(BPF_CLASS(at->code), BPF_RET);
            return at->k;
        }
    }
    fail_msg("the filter has no end");
    return 0;
}

static struct seccomp_data call_of(int number, uint64_t first)
{
#ifdef __x86_64__
    return (struct seccomp_data){.nr = number, .arch = AUDIT_ARCH_X86_64, .args = {first}};
#else
    return (struct seccomp_data){.nr = number, .arch = AUDIT_ARCH_AARCH64, .args = {first}};
#endif
}

static void what_is_younger_than_the_table_does_not_exist(void **state)
{
    (void)state;
    const struct seccomp_data known = call_of(SYS_getpid, 0);
    for (unsigned options = 0; options < SYSCALLS_VARIANTS; options++)
        for (int supervised = 0; supervised < 2; supervised++) {
            assert_int_equal(judged(options, supervised, &known), SECCOMP_RET_ALLOW);
            for (unsigned number = SYSCALLS_YOUNGEST + 1; number != 0;
                 number = number < 2048 ? number + 1 : number << 1) {
                const struct seccomp_data call = call_of((int)number, 0);
                assert_int_equal(judged(options, supervised, &call), SECCOMP_RET_ERRNO | ENOSYS);
            }
        }
}

/* The number of a family is 32 bits to the kernel. */
static void no_sockets_of_other_families_are_made(void **state)
{
    (void)state;
    for (uint64_t family = 0; family < 64; family++) {
        const uint64_t dirty = family | UINT64_C(1) << 40;
        const struct seccomp_data calls[] = {
            call_of(SYS_socketpair, family), call_of(SYS_socketpair, dirty),
            call_of(SYS_socket, family), call_of(SYS_socket, dirty)};
        bool socket = family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
        const bool allowed[] = {family == AF_UNIX, false, socket, false};
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
            assert_int_equal(judged(0, false, &calls[i]) == SECCOMP_RET_ALLOW, allowed[i]);
            assert_int_equal(judged(0, true, &calls[i]),
                             allowed[i] ? SECCOMP_RET_ALLOW : SECCOMP_RET_USER_NOTIF);
        }
    }
}

static void no_rare_protocols_are_made(void **state)
{
    (void)state;
    static const struct {
        uint64_t type, protocol;
        bool allowed;
    } rows[] = {{SOCK_STREAM, 0, true},
                {SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP, true},
                {SOCK_STREAM, 262, true}, /* MPTCP, for which Go's programs ask first */
                {SOCK_DGRAM | SOCK_NONBLOCK, IPPROTO_UDP, true},
                {SOCK_DGRAM, IPPROTO_ICMP, true},
                {SOCK_DGRAM, IPPROTO_ICMPV6, true},
                {SOCK_STREAM, IPPROTO_SCTP, false},
                {SOCK_STREAM, IPPROTO_SCTP | UINT64_C(1) << 32, false},
                {SOCK_SEQPACKET | SOCK_CLOEXEC, 0, false},
                {SOCK_DCCP | SOCK_CLOEXEC, 0, false},
                {SOCK_STREAM, 256, false},
                {SOCK_DGRAM, 115, false},
                {SOCK_DGRAM, IPPROTO_UDPLITE, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int family = AF_INET; family <= AF_INET6; family += AF_INET6 - AF_INET) {
            struct seccomp_data call = call_of(SYS_socket, (uint64_t)family);
            call.args[1] = rows[i].type;
            call.args[2] = rows[i].protocol;
            assert_int_equal(judged(0, true, &call),
                             rows[i].allowed ? SECCOMP_RET_ALLOW : SECCOMP_RET_USER_NOTIF);
            assert_int_equal(judged(0, false, &call), rows[i].allowed
                                                          ? SECCOMP_RET_ALLOW
                                                          : SECCOMP_RET_ERRNO | EPROTONOSUPPORT);
            struct syscalls_refusal refusal;
            const uint64_t args[6] = {(uint64_t)family, rows[i].type, rows[i].protocol};
            assert_true(rows[i].allowed || (syscalls_find_refusal(0, SYS_socket, args, &refusal) &&
                                            refusal.error == EPROTONOSUPPORT));
        }
}

static void every_row_is_found_by_its_call(void **state)
{
    (void)state;
    for (size_t i = 0; i < syscalls_row_count; i++) {
        const struct syscalls_row *row = &syscalls_rows[i];
        if (syscalls_baked_numbers[i] < 0)
            continue; /* not on this architecture */
        uint64_t args[6] = {0};
        args[row->argument] = row->value + (row->compare == SYSCALLS_OTHER);
        if (row->argument != 0 && strcmp(row->name, "socketpair") == 0)
            args[0] = AF_UNIX;
        struct syscalls_refusal refusal;
        assert_true(syscalls_find_refusal(0, syscalls_baked_numbers[i], args, &refusal));
        assert_string_equal(refusal.name, row->name);
        if (row->unless != 0)
            assert_false(
                syscalls_find_refusal(row->unless, syscalls_baked_numbers[i], args, &refusal) &&
                refusal.reason == row->reason && refusal.unless == row->unless);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_baked_filters_are_those_of_the_table),
        cmocka_unit_test(options_make_a_difference),
        cmocka_unit_test(the_kernel_takes_them),
        cmocka_unit_test(what_is_younger_than_the_table_does_not_exist),
        cmocka_unit_test(no_sockets_of_other_families_are_made),
        cmocka_unit_test(no_rare_protocols_are_made),
        cmocka_unit_test(every_row_is_found_by_its_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
