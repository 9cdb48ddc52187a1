#include "record/ulid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void time_and_chance_become_digits(void **state)
{
    (void)state;
    char id[ULID_LEN + 1];
    const uint8_t chance[ULID_CHANCE] = {0, 1, 31, 32, 255, 10, 18, 27};
    /* The time of the specification's example. */
    ulid_make(id, 1469918176385, chance);
    assert_string_equal(id, "01ARYZ6S4101Z0ZAJV00000000");
    ulid_make(id, 0, chance);
    assert_string_equal(id, "000000000001Z0ZAJV00000000");
}

static void the_next_one_carries_over(void **state)
{
    (void)state;
    static const struct {
        const char *id, *next;
    } rows[] = {
        {"01ARYZ6S4101Z0ZAJV00000000", "01ARYZ6S4101Z0ZAJV00000001"},
        {"01ARYZ6S4101Z0ZAJV0000000H", "01ARYZ6S4101Z0ZAJV0000000J"},
        {"01ARYZ6S4101Z0ZAJV000009ZZ", "01ARYZ6S4101Z0ZAJV00000A00"},
        {"ZZZZZZZZZZZZZZZZZZZZZZZZZZ", "00000000000000000000000000"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char id[ULID_LEN + 1];
        for (size_t at = 0; at <= ULID_LEN; at++)
            id[at] = rows[i].id[at];
        ulid_next(id);
        assert_string_equal(id, rows[i].next);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_and_chance_become_digits),
        cmocka_unit_test(the_next_one_carries_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
