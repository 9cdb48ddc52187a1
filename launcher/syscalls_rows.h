/*
 * The table of refused system calls, for who decides by it (syscalls.c) and who makes filters of it
 * (syscalls_make.c); and the filters that were made when the program was built.
 *
 * Constant data; thread: any.
 */
#ifndef LAUNCHER_SYSCALLS_ROWS_H
#define LAUNCHER_SYSCALLS_ROWS_H

#include "launcher/syscalls.h"

#include <linux/filter.h>
#include <stddef.h>

/* BITS: (argument & mask) == value */
enum syscalls_compare {
    SYSCALLS_ALWAYS,
    SYSCALLS_EQUAL,
    SYSCALLS_OTHER,
    SYSCALLS_AT_LEAST,
    SYSCALLS_BITS,
};

/* Rows whose `unless` is set in the options are left out. Arguments that the kernel takes as 32
 * bits are compared in 32 bits or from a number up, so that rubbish in the upper half changes
 * nothing. */
struct syscalls_row {
    const char *name;
    int number; /* of calls that libseccomp may not know by name yet; 0 = by name */
    enum syscalls_compare compare;
    unsigned argument;
    uint64_t value, mask;
    int error;
    unsigned unless;
    const char *reason;
    const char *detail; /* NULL = no argument matters */
};

extern const struct syscalls_row syscalls_rows[];
extern const size_t syscalls_row_count;

/* Of socket(), beside the rows: all families but four, and all of netlink but routing. */
enum { SYSCALLS_FAMILIES = 46, SYSCALLS_NETLINKS = 23, SYSCALLS_NETLINK_ROUTE = 0 };
/* And of IPv4 and IPv6 these protocols, and the types of sockets that stand for some of them. */
enum { SYSCALLS_PROTOCOLS = 5, SYSCALLS_PROTOCOL_TYPES = 2 };
extern const unsigned syscalls_protocols[SYSCALLS_PROTOCOLS];
extern const unsigned syscalls_protocol_types[SYSCALLS_PROTOCOL_TYPES];

/* The youngest call that was looked at when the table was written, listns() of Linux 6.19. What has
 * a higher number does not exist here, whatever the kernel makes of it. */
enum { SYSCALLS_YOUNGEST = 470 };

bool syscalls_row_applies(const struct syscalls_row *row, unsigned options);
/* Whether the warden tells about it. */
bool syscalls_row_is_reported(const struct syscalls_row *row);
/* Whether socket(AF_UNIX, SOCK_DGRAM) is refused, though AF_UNIX is not. */
bool syscalls_datagrams_refused(unsigned options);

/* ---- by libseccomp, for the architecture it runs on (syscalls_make.c) ---- */

/* The number of a call here, negative when this architecture has none. */
int syscalls_number(const struct syscalls_row *row);
/* 0, or a negative errno. The caller frees the code. */
int syscalls_make(unsigned options, bool supervised, struct sock_filter **code, size_t *len);

/* ---- when the program was built (bake_filters.c writes this) ---- */

enum { SYSCALLS_VARIANTS = 32 }; /* all sets of enum syscalls_option */

struct syscalls_program {
    const struct sock_filter *code;
    unsigned short len;
};

extern const struct syscalls_program syscalls_baked[SYSCALLS_VARIANTS][2]; /* [1]: supervised */
extern const int syscalls_baked_numbers[]; /* as syscalls_number() says of each row */

#endif
