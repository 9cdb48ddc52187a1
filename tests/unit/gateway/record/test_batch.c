#include "record/batch.h"

#include "record/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct str fields = {",\"kind\":\"tunnel\"", sizeof(",\"kind\":\"tunnel\"") - 1};

static void fill(struct batch *batch, size_t bytes)
{
    const struct entry entry = {.ts_ms = 1};
    while (batch->bytes.len < bytes)
        batch_add(batch, fields, STR(""), &entry);
}

static void storage_stays_for_the_next_batch(void **state)
{
    (void)state;
    struct batch batch = {0};
    struct lines lines = {0};
    fill(&batch, 1000);
    lines_format(&lines, &batch, 0);
    const struct entry *entries = batch.entries;
    const char *bytes = batch.bytes.data, *text = lines.text.data;
    batch_reset(&batch);
    lines_reset(&lines);
    assert_int_equal(batch.count, 0);
    fill(&batch, 1000);
    lines_format(&lines, &batch, 0);
    assert_ptr_equal(batch.entries, entries);
    assert_ptr_equal(batch.bytes.data, bytes);
    assert_ptr_equal(lines.text.data, text);
    batch_free(&batch);
    lines_free(&lines);
}

static void what_a_burst_has_used_goes_back(void **state)
{
    (void)state;
    struct batch batch = {0};
    struct lines lines = {0};
    fill(&batch, BATCH_KEEP + 1);
    lines_format(&lines, &batch, 0);
    batch_keep(&batch, batch.count);
    lines_reset(&lines);
    assert_null(batch.entries);
    assert_null(batch.bytes.data);
    assert_null(lines.text.data);
    assert_null(lines.ends);
    fill(&batch, 1000);
    lines_format(&lines, &batch, 0);
    assert_true(lines.text.len > batch.bytes.len);
    batch_free(&batch);
    lines_free(&lines);
}

static void more_than_the_first_room_is_found(void **state)
{
    (void)state;
    struct batch batch = {0};
    struct lines lines = {0};
    fill(&batch, 3 * (size_t)BATCH_ROOM);
    lines_format(&lines, &batch, 7);
    const struct entry *last = &batch.entries[batch.count - 1];
    assert_true(last->start + last->len == batch.bytes.len);
    assert_memory_equal(batch.bytes.data + last->start, fields.p, fields.len);
    assert_int_equal(lines.ends[batch.count - 1], lines.text.len);
    batch_free(&batch);
    lines_free(&lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(storage_stays_for_the_next_batch),
        cmocka_unit_test(what_a_burst_has_used_goes_back),
        cmocka_unit_test(more_than_the_first_room_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
