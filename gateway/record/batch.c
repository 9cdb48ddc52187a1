#include "record/batch.h"

#include "srt/must.h"

#include <stdlib.h>

static void make_room(struct batch *batch)
{
    if (batch->bytes.cap == 0)
        json_reserve(&batch->bytes, BATCH_ROOM);
    if (batch->count < batch->cap)
        return;
    batch->cap = batch->cap != 0 ? batch->cap * 2 : BATCH_ROOM / sizeof(*batch->entries) + 1;
    batch->entries = must(reallocarray(batch->entries, batch->cap, sizeof(*batch->entries)));
}

void batch_add(struct batch *batch, struct str fields, struct str squid, const struct entry *entry)
{
    make_room(batch);
    struct entry *added = &batch->entries[batch->count++];
    *added = *entry;
    added->start = batch->bytes.len;
    added->len = fields.len;
    added->squid_len = squid.len;
    json_append(&batch->bytes, fields);
    json_append(&batch->bytes, squid);
}

void batch_keep(struct batch *batch, size_t from)
{
    size_t kept = 0;
    for (size_t i = from; i < batch->count; i++)
        if (!entry_is_dropped(&batch->entries[i]))
            batch->entries[kept++] = batch->entries[i];
    batch->count = kept;
    if (kept == 0)
        batch_reset(batch);
}

void batch_reset(struct batch *batch)
{
    if (batch->bytes.len > BATCH_KEEP)
        batch_free(batch);
    batch->count = 0;
    json_reset(&batch->bytes);
}

void batch_free(struct batch *batch)
{
    free(batch->entries);
    batch->entries = NULL;
    batch->count = batch->cap = 0;
    json_free(&batch->bytes);
}

size_t entry_cost_of(size_t len)
{
    return len + sizeof(struct entry);
}

size_t entry_cost(const struct entry *entry)
{
    return entry_cost_of(entry->len + entry->squid_len);
}

void entry_drop(struct entry *entry)
{
    entry->len = SIZE_MAX;
}

bool entry_is_dropped(const struct entry *entry)
{
    return entry->len == SIZE_MAX;
}
