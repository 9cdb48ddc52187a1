/*
 * The path of a visible request against the glob of a `path=` attribute.
 *
 * Percent-encoded bytes are compared decoded (RFC 3986 6.2.2.2), on both sides, so that a rule
 * cannot be dodged by spelling a letter as %61. Paths that two servers may read as two different
 * resources match no rule at all. Two readings are so common that such paths are judged by both:
 * several slashes may count as one, and a segment may end at its `;` (unless the glob has them, and
 * so means them). Thread: any; pure.
 */
#ifndef FILTERS_PATH_H
#define FILTERS_PATH_H

#include "srt/str.h"

enum { PATH_GLOB_MAX = 512 }; /* bounds the work on a hostile path */

/* Dot segments in any spelling, encoded slashes, backslashes, encoded NUL, broken percent-encoding.
 */
bool path_is_ambiguous(struct str path);

/* `*` crosses `/`, `?` is one byte, everything else is itself. However it is read; false for
 * ambiguous paths. */
bool path_matches(struct str glob, struct str path);
/* In one of its readings: for what denies. */
bool path_may_match(struct str glob, struct str path);

#endif
