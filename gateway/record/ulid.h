/*
 * ULIDs: 128 bits as 26 digits, of a time in milliseconds and of chance, which sort by that time
 * (github.com/ulid/spec). Requests and grants are named by them.
 *
 * Pure. Thread: any.
 */
#ifndef RECORD_ULID_H
#define RECORD_ULID_H

#include <stdint.h>

enum { ULID_LEN = 26, ULID_TIME_LEN = 10, ULID_CHANCE = ULID_LEN - ULID_TIME_LEN };

/* Of milliseconds since the epoch and ULID_CHANCE bytes that nobody can guess. */
void ulid_make(char out[ULID_LEN + 1], int64_t ms, const uint8_t chance[ULID_CHANCE]);
/* The one that follows it. */
void ulid_next(char id[ULID_LEN + 1]);

#endif
