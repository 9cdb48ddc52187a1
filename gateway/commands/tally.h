/*
 * Counts by key in bounded memory: once TALLY_ROWS keys are known, whatever else comes is counted
 * together in one row of the others, so a log that names a million hosts costs no more than one
 * that names a thousand.
 *
 * Ownership: tally_create() gives the caller the table and its rows. Thread: one. Failure: running
 * out of memory ends the process.
 */
#ifndef COMMANDS_TALLY_H
#define COMMANDS_TALLY_H

#include "srt/str.h"

#include <stdint.h>

enum { TALLY_ROWS = 32768, TALLY_PORTS = 16 };

struct tally_row {
    char *key; /* NULL: the others */
    uint64_t requests, denied, bytes_up, bytes_down;
    char *note; /* the owner's: freed with the row */
    uint16_t ports[TALLY_PORTS];
    size_t port_count; /* TALLY_PORTS + 1: more than these */
};

struct tally;

struct tally *tally_create(void);
void tally_free(struct tally *tally);

/* The row of `key`, made if there is none; never NULL. */
struct tally_row *tally_row(struct tally *tally, struct str key);

void tally_add_port(struct tally_row *row, uint16_t port);

/* The rows by `weight`, heaviest first (equal ones by key), the others always last and only if
 * there were any. Valid until the next tally_row(). */
typedef uint64_t tally_weight(const struct tally_row *row);
struct tally_row **tally_sorted(struct tally *tally, tally_weight *weight, size_t *count);

#endif
