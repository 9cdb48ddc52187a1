#include "session/usage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void write_down(void *arg, const struct usage *usage)
{
    char line[64];
    snprintf(line, sizeof(line), "%s=%llu ", usage->policy,
             (unsigned long long)atomic_load(&usage->allowed));
    strcat(arg, line);
}

static void a_name_is_counted_on_however_often_it_is_found(void **state)
{
    (void)state;
    struct usages usages = {0};
    char said[128] = "";
    usages_each(&usages, write_down, said);
    assert_string_equal(said, "");
    struct usage *build = usages_find(&usages, "build");
    atomic_fetch_add(&build->allowed, 2);
    atomic_fetch_add(&usages_find(&usages, "agents")->allowed, 1);
    assert_ptr_equal(usages_find(&usages, "build"), build);
    atomic_fetch_add(&usages_find(&usages, "build")->allowed, 1);
    (void)usages_find(&usages, "builds");
    usages_each(&usages, write_down, said);
    assert_string_equal(said, "agents=1 build=3 builds=0 ");
    usages_free(&usages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_counted_on_however_often_it_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
