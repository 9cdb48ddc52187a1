/*
 * What a filter changes in the head of a request: collected while it is asked, made in the head
 * that goes to the upstream when it has not said no.
 *
 * Ownership: the caller's struct; edits_free(). Thread: the session's worker. Failure: a change
 * that is not a filter's to make, or too many of them, is refused (-1), and nothing is changed.
 */
#ifndef SESSION_EDITS_H
#define SESSION_EDITS_H

#include "srt/filter.h"
#include "transport/buf.h"

enum { EDITS_MAX = 64, EDITS_BYTES_MAX = 16 << 10 };

struct srt_filter_edits {
    bool visible; /* there is a head to edit */
    struct {
        size_t name, name_len;
        bool sets;
        size_t value, value_len;
    } items[EDITS_MAX]; /* as places in `text` */
    size_t count;
    struct buf text;
};

/* For struct srt_filter_host. */
int edits_set(struct srt_filter_edits *edits, struct srt_filter_text name,
              struct srt_filter_text value);
int edits_remove(struct srt_filter_edits *edits, struct srt_filter_text name);

/* Makes them in `head`, a whole head as written by us. */
void edits_apply(const struct srt_filter_edits *edits, struct buf *head);
void edits_free(struct srt_filter_edits *edits);

/* The parts of such a head. `fields` holds at least head_count_lines(head) of them; returns how
 * many there are. Views into `head`. */
size_t head_count_lines(struct str head);
size_t head_fields(struct str head, struct srt_filter_field *fields);
/* Path and query of its request line. */
struct str head_path(struct str head);

#endif
