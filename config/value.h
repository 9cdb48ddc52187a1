/*
 * Words of a configuration to values, strictly: no sign, no space, no overflow, known units only.
 *
 * Thread: any. Failure: false, with `out` unspecified; the caller words the fault.
 */
#ifndef CONFIG_VALUE_H
#define CONFIG_VALUE_H

#include "dns/addr.h"

#include <stdint.h>

bool value_bool(struct str text, bool *out);            /* yes no true false on off */
bool value_duration_ms(struct str text, uint64_t *out); /* 0, or N with ms s m h d */
bool value_size(struct str text, uint64_t *out);        /* bytes, or N with k m g (1024) */

/* Exactly `digits` of them off the front of `*text`. */
bool value_take_digits(struct str *text, size_t digits, int *out);

/* N/UNIT, UNIT being s, m, h or d; N a count, or a size when `sizes`. Rate per second in
 * thousandths is exact enough for a bucket: `per` is UNIT in milliseconds. */
bool value_rate(struct str text, bool sizes, uint64_t *count, uint64_t *per_ms);

/* RFC 3339 with `Z` or an offset; seconds since the epoch. */
bool value_rfc3339(struct str text, int64_t *out);

/* ADDR or ADDR/LEN, as cidr_parse(). IPv6 may stand in brackets, as rules have it: [ADDR],
 * [ADDR/LEN], [ADDR]/LEN; IPv4 may not. */
bool value_range(struct str text, struct cidr *out);

/* Hexadecimal to exactly `len` bytes. */
bool value_hex(struct str text, uint8_t *out, size_t len);

#endif
