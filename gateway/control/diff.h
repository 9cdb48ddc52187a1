/*
 * What a reload added and removed: the difference of two rule lists, each taken as a multiset.
 *
 * A line is `POLICY: allow = RULE`. Ownership: the diff's; diff_free(). Thread: control. Failure:
 * running out of memory ends the process.
 */
#ifndef CONTROL_DIFF_H
#define CONTROL_DIFF_H

#include "record/json.h"
#include "session/snapshot.h"

enum { DIFF_LINES_MAX = 1000 }; /* of each kind; a last line says how many more there are */

struct diff_list {
    char **lines;
    size_t count;
    size_t total; /* without the bound */
};

struct diff {
    struct diff_list added, removed;
};

void diff_make(struct diff *diff, const struct snapshot *from, const struct snapshot *to);
void diff_free(struct diff *diff);

/* `"added":[...],"removed":[...]` */
void diff_write(const struct diff *diff, struct json *json);

#endif
