#include "dns/cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct cache *cache;
static struct resolve_answer found;

static struct name name_of(const char *text)
{
    struct name name;
    assert_int_equal(name_parse(&name, str_of(text)), NAME_OK);
    return name;
}

static void store(const char *text, uint8_t last_byte, double now_s, uint32_t ttl_s)
{
    struct name name = name_of(text);
    struct resolve_answer answer = {.status = RESOLVE_OK, .count = 1};
    answer.addrs[0] = addr_of_v4((uint8_t[4]){192, 0, 2, last_byte});
    cache_store(cache, &name, &answer, now_s, ttl_s);
}

static bool find(const char *text, double now_s)
{
    struct name name = name_of(text);
    return cache_find(cache, &name, now_s, &found);
}

static void test_an_answer_until_it_expires(void **state)
{
    (void)state;
    cache = cache_create(10);
    store("a.test", 1, 100, 30);
    assert_true(find("a.test", 100));
    assert_int_equal(found.status, RESOLVE_OK);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.addrs[0].bytes[3], 1);
    assert_true(find("a.test", 129.9));
    assert_false(find("b.test", 100));
    assert_false(find("a.test", 130));
    assert_int_equal(cache_count(cache), 0);
    cache_destroy(cache);
}

static void test_a_clock_set_back_prolongs_nothing(void **state)
{
    (void)state;
    cache = cache_create(10);
    store("a.test", 1, 1000, 30);
    assert_false(find("a.test", 900));
    cache_destroy(cache);
}

static void test_negative_answers(void **state)
{
    (void)state;
    cache = cache_create(10);
    struct name name = name_of("a.test");
    struct resolve_answer answer = {.status = RESOLVE_NXDOMAIN};
    cache_store(cache, &name, &answer, 100, 5);
    assert_true(find("a.test", 104));
    assert_int_equal(found.status, RESOLVE_NXDOMAIN);
    assert_int_equal(found.count, 0);
    cache_destroy(cache);
}

static void test_a_new_answer_replaces_the_old(void **state)
{
    (void)state;
    cache = cache_create(10);
    store("a.test", 1, 100, 30);
    store("a.test", 2, 110, 30);
    assert_int_equal(cache_count(cache), 1);
    assert_true(find("a.test", 135));
    assert_int_equal(found.addrs[0].bytes[3], 2);
    store("a.test", 3, 136, 0); /* valid for no time: nothing is kept, the old answer neither */
    assert_false(find("a.test", 136));
    cache_destroy(cache);
}

static void test_the_least_recently_used_gives_way(void **state)
{
    (void)state;
    cache = cache_create(2);
    store("a.test", 1, 100, 30);
    store("b.test", 2, 100, 30);
    assert_true(find("a.test", 101));
    store("c.test", 3, 102, 30);
    assert_int_equal(cache_count(cache), 2);
    assert_true(find("a.test", 103));
    assert_false(find("b.test", 103));
    assert_true(find("c.test", 103));
    cache_destroy(cache);
}

static void test_no_room_at_all(void **state)
{
    (void)state;
    cache = cache_create(0);
    store("a.test", 1, 100, 30);
    assert_false(find("a.test", 100));
    cache_destroy(cache);
    cache_destroy(NULL);
}

static void test_many_names_stay_within_bounds(void **state)
{
    (void)state;
    cache = cache_create(100);
    for (unsigned i = 0; i < 5000; i++) {
        char text[32];
        snprintf(text, sizeof(text), "n%u.test", i * 7919 % 5000);
        store(text, (uint8_t)i, 100, 30);
        assert_true(find(text, 101));
    }
    assert_int_equal(cache_count(cache), 100);
    cache_clear(cache);
    assert_int_equal(cache_count(cache), 0);
    store("a.test", 1, 100, 30);
    assert_true(find("a.test", 100));
    cache_destroy(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer_until_it_expires),
        cmocka_unit_test(test_a_clock_set_back_prolongs_nothing),
        cmocka_unit_test(test_negative_answers),
        cmocka_unit_test(test_a_new_answer_replaces_the_old),
        cmocka_unit_test(test_the_least_recently_used_gives_way),
        cmocka_unit_test(test_no_room_at_all),
        cmocka_unit_test(test_many_names_stay_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
