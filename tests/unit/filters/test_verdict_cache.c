#include "filters/verdict_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void assert_knows(struct verdict_cache *cache, const char *question, int64_t now_ms,
                         const char *expected)
{
    struct cached_verdict verdict;
    if (expected == NULL) {
        assert_false(verdict_cache_find(cache, str_of(question), now_ms, &verdict));
        return;
    }
    assert_true(verdict_cache_find(cache, str_of(question), now_ms, &verdict));
    assert_string_equal(verdict.pass ? "pass" : verdict.reason, expected);
}

static void a_verdict_is_good_for_its_time(void **state)
{
    (void)state;
    struct verdict_cache *cache = verdict_cache_create(10);
    verdict_cache_put(cache, STR("a"), true, "", 100);
    verdict_cache_put(cache, STR("b"), false, "no", 200);
    assert_knows(cache, "a", 99, "pass");
    assert_knows(cache, "a", 100, NULL);
    assert_knows(cache, "b", 100, "no");
    assert_knows(cache, "B", 100, NULL);
    assert_knows(cache, "", 100, NULL);
    assert_int_equal(verdict_cache_count(cache), 1);
    verdict_cache_put(cache, STR("b"), true, NULL, 300); /* the last word counts */
    assert_knows(cache, "b", 250, "pass");
    verdict_cache_clear(cache);
    assert_knows(cache, "b", 250, NULL);
    verdict_cache_free(cache);
}

static void the_one_that_was_not_used_for_longest_makes_room(void **state)
{
    (void)state;
    struct verdict_cache *cache = verdict_cache_create(2);
    verdict_cache_put(cache, STR("a"), true, "", 100);
    verdict_cache_put(cache, STR("b"), true, "", 100);
    assert_knows(cache, "a", 0, "pass");
    verdict_cache_put(cache, STR("c"), true, "", 100);
    assert_knows(cache, "b", 0, NULL);
    assert_knows(cache, "a", 0, "pass");
    assert_knows(cache, "c", 0, "pass");
    verdict_cache_free(cache);
}

static void many_are_bounded(void **state)
{
    (void)state;
    struct verdict_cache *cache = verdict_cache_create(1000);
    char question[32];
    for (unsigned i = 0; i < 5000; i++) {
        snprintf(question, sizeof(question), "%u", i);
        verdict_cache_put(cache, str_of(question), i % 2 == 0, "odd", 100);
    }
    assert_int_equal(verdict_cache_count(cache), 1000);
    assert_knows(cache, "3999", 0, NULL);
    for (unsigned i = 4000; i < 5000; i++) {
        snprintf(question, sizeof(question), "%u", i);
        assert_knows(cache, question, 0, i % 2 == 0 ? "pass" : "odd");
    }
    verdict_cache_free(cache);
}

static void what_is_too_long_is_not_kept_and_not_the_one_before(void **state)
{
    (void)state;
    struct verdict_cache *cache = verdict_cache_create(2);
    char *question = calloc(1, VERDICT_CACHE_QUESTION_MAX + 2);
    memset(question, 'x', VERDICT_CACHE_QUESTION_MAX);
    verdict_cache_put(cache, str_of(question), true, "", 100);
    assert_knows(cache, question, 0, "pass");
    question[VERDICT_CACHE_QUESTION_MAX] = 'x';
    verdict_cache_put(cache, str_of(question), true, "", 100);
    assert_knows(cache, question, 0, NULL);
    free(question);
    verdict_cache_free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verdict_is_good_for_its_time),
        cmocka_unit_test(the_one_that_was_not_used_for_longest_makes_room),
        cmocka_unit_test(many_are_bounded),
        cmocka_unit_test(what_is_too_long_is_not_kept_and_not_the_one_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
