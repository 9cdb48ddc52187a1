#include "filters/grants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct grant about(const char *target)
{
    return (struct grant){.scope = GRANT_SANDBOX,
                          .by = GRANT_BY_OPERATOR,
                          .name = "box",
                          .policy = "build",
                          .target = target,
                          .who = "uid=0,pid=1"};
}

static void put(struct grants *grants, struct grant grant, const char *id)
{
    snprintf(grant.id, sizeof(grant.id), "%s", id);
    grants_put(grants, &grant);
}

static const char *id_of(const struct grants *grants, struct grant like, int64_t now)
{
    const struct grant *found = grants_find(grants, &like, now);
    return found != NULL ? found->id : NULL;
}

static void an_empty_table_knows_nothing(void **state)
{
    (void)state;
    struct grants grants = {0};
    assert_null(id_of(&grants, about("a.test:443"), 0));
    assert_false(grants_remove(&grants, "x"));
    grants_free(&grants);
}

static void a_grant_is_for_exactly_what_it_says(void **state)
{
    (void)state;
    struct grants grants = {0};
    put(&grants, about("a.test:443"), "1");
    assert_string_equal(id_of(&grants, about("a.test:443"), 0), "1");
    static const char *const others[] = {"a.test:80", "b.a.test:443", "*.test:443",
                                         "a.tes:443", "a.test:443 ",  "A.test:443",
                                         "",          "a.test:4430"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_null(id_of(&grants, about(others[i]), 0));
    struct grant other = about("a.test:443");
    other.name = "box2";
    assert_null(id_of(&grants, other, 0));
    other = about("a.test:443");
    other.policy = "other";
    assert_null(id_of(&grants, other, 0));
    other = about("a.test:443");
    other.scope = GRANT_CLIENT;
    assert_null(id_of(&grants, other, 0));
    other = about("a.test:443");
    other.by = GRANT_BY_LAUNCHER;
    assert_null(id_of(&grants, other, 0));
    grants_free(&grants);
}

static void the_latest_answer_about_the_same_counts(void **state)
{
    (void)state;
    struct grants grants = {0};
    struct grant no = about("a.test:443");
    no.refuses = true;
    put(&grants, about("a.test:443"), "1");
    put(&grants, no, "2");
    assert_int_equal(grants.count, 1);
    assert_string_equal(id_of(&grants, about("a.test:443"), 0), "2");
    assert_true(grants_find(&grants, &no, 0)->refuses);
    assert_false(grants_remove(&grants, "1"));
    grants_free(&grants);
}

static void a_grant_is_over_when_its_time_is(void **state)
{
    (void)state;
    struct grants grants = {0};
    struct grant limited = about("a.test:443");
    limited.until = 100;
    put(&grants, limited, "1");
    put(&grants, about("b.test:443"), "2");
    assert_string_equal(id_of(&grants, limited, 99), "1");
    assert_null(id_of(&grants, limited, 100));
    assert_null(id_of(&grants, limited, 101));
    assert_string_equal(id_of(&grants, about("b.test:443"), INT64_MAX), "2");
    grants_free(&grants);
}

static bool is_over_at(const struct grant *grant, const void *now)
{
    return grant_is_over(grant, *(const int64_t *)now);
}

static void collect(const struct grant *grant, void *ids)
{
    strcat(ids, grant->id);
}

static void what_is_over_can_be_taken_out_and_the_rest_is_found(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    struct grants grants = {0};
    char target[32], id[16];
    for (int i = 0; i < COUNT; i++) {
        snprintf(target, sizeof(target), "h%d.test:443", i);
        snprintf(id, sizeof(id), "%d", i);
        struct grant grant = about(target);
        grant.until = i % 2 == 0 ? 100 : 200;
        put(&grants, grant, id);
    }
    assert_int_equal(grants.count, COUNT);
    const int64_t now = 150;
    grants_remove_if(&grants, is_over_at, &now);
    assert_int_equal(grants.count, COUNT / 2);
    for (int i = 0; i < COUNT; i++) {
        snprintf(target, sizeof(target), "h%d.test:443", i);
        assert_int_equal(id_of(&grants, about(target), 0) != NULL, i % 2);
    }
    assert_true(grants_remove(&grants, "7"));
    assert_null(id_of(&grants, about("h7.test:443"), 0));
    assert_int_equal(grants.count, COUNT / 2 - 1);
    grants_free(&grants);
    assert_int_equal(grants.count, 0);
}

static void each_visits_all_once_in_one_order(void **state)
{
    (void)state;
    struct grants grants = {0};
    char ids[32] = "", again[32] = "";
    put(&grants, about("c.test:1"), "c");
    put(&grants, about("a.test:1"), "a");
    put(&grants, about("b.test:1"), "b");
    grants_each(&grants, collect, ids);
    grants_each(&grants, collect, again);
    assert_string_equal(ids, "abc");
    assert_string_equal(again, ids);
    grants_free(&grants);
}

static void a_table_keeps_no_view_of_its_callers_texts(void **state)
{
    (void)state;
    struct grants grants = {0};
    char target[] = "a.test:443", name[] = "box";
    struct grant grant = about(target);
    grant.name = name;
    put(&grants, grant, "1");
    memset(target, 'x', sizeof(target) - 1);
    memset(name, 'x', sizeof(name) - 1);
    assert_string_equal(id_of(&grants, about("a.test:443"), 0), "1");
    grants_free(&grants);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_table_knows_nothing),
        cmocka_unit_test(a_grant_is_for_exactly_what_it_says),
        cmocka_unit_test(the_latest_answer_about_the_same_counts),
        cmocka_unit_test(a_grant_is_over_when_its_time_is),
        cmocka_unit_test(what_is_over_can_be_taken_out_and_the_rest_is_found),
        cmocka_unit_test(each_visits_all_once_in_one_order),
        cmocka_unit_test(a_table_keeps_no_view_of_its_callers_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
