/*
 * The table of calls that wait for the warden: what the filter sends to it (launcher/syscalls.c)
 * and who answers there. One table, so that nothing can be sent that nobody answers.
 *
 * Constant data; thread: any.
 */
#ifndef LAUNCHER_WARDEN_TABLE_H
#define LAUNCHER_WARDEN_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct call;
struct table_row;

/* How the arguments become those of the youngest relative. */
enum table_shape {
    TABLE_AS_IS,
    TABLE_CWD_FIRST,  /* (path, ...): the directory in front is missing */
    TABLE_CWD_SECOND, /* symlink(target, path) */
    TABLE_CWD_BOTH,   /* rename(old, new), link(old, new) */
    TABLE_CREAT,      /* creat(path, mode) */
    TABLE_NO_FLAGS,   /* fchmodat, renameat: without the last argument of the youngest */
};

/* When a call waits, beside the arguments that hold open flags. */
enum table_wait {
    TABLE_ALWAYS = -1,
    TABLE_WITH_RECEIVER = -2,   /* sendto() that names one */
    TABLE_NUMBERS_OF_DOOR = -3, /* close() of what the door has given (warden/door.h) */
    TABLE_FLAGS_OF_FILES = -4,  /* ioctl() of one of table_flag_requests */
};

enum table_aim { TABLE_FOLLOWS = 0, TABLE_LINK = -1, TABLE_DESCRIPTOR = -2 };

struct table_row {
    int number;
    int flags_at;     /* waits only with open flags that create or write in this argument; or enum
                       * table_wait */
    unsigned only_if; /* enum syscalls_option, 0 = always */
    enum table_shape shape;
    int64_t (*answer)(struct call *call, const struct table_row *row, const uint64_t *args);
    const char *operation; /* the word in a report */
    int aim; /* of what changes attributes: enum table_aim, or where the AT_ flags are */
};

extern const struct table_row table_rows[];
extern const size_t table_row_count;

/* Those that change what a file is, on any descriptor of it. */
enum { TABLE_FLAG_REQUESTS = 2 };
extern const uint32_t table_flag_requests[TABLE_FLAG_REQUESTS];

/* Finds the row and lets it answer. A call that is in no row is refused. */
int64_t table_answer(struct call *call);

#endif
