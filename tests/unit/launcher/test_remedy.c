#include "launcher/remedy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[64];

static void put(const char *path, const char *text)
{
    char full[256];
    snprintf(full, sizeof(full), "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(root, "/tmp/srt-remedy-XXXXXX");
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", root);
    return system(command);
}

static const char *said(const char *complaint, bool nested)
{
    static char text[1024];
    return remedy_for(text, sizeof(text), complaint, "/opt/bwrap", root, nested);
}

static void assert_says(const char *complaint, const char *part)
{
    if (strstr(said(complaint, false), part) == NULL)
        fail_msg("%s: %s\ndoes not say: %s", complaint, said(complaint, false), part);
}

static const char refused[] = "bwrap: setting up uid map: Permission denied";

static void the_switch_that_stands_in_the_way_is_named(void **state)
{
    (void)state;
    put("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
    put("/proc/sys/user/max_user_namespaces", "96000\n");
    assert_says("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
                "profile bwrap /opt/bwrap flags=(unconfined) {\n      userns,\n    }");
    assert_says(refused, "apparmor_parser -r /etc/apparmor.d/bwrap");
    assert_null(strstr(said(refused, false), "sysctl -w"));
    put("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "0\n");
    put("/proc/sys/kernel/unprivileged_userns_clone", "0\n");
    assert_says(refused, "sysctl -w kernel.unprivileged_userns_clone=1");
    assert_null(strstr(said(refused, false), "AppArmor"));
    put("/proc/sys/user/max_user_namespaces", "0\n");
    assert_says(refused, "sysctl -w user.max_user_namespaces=15000");
    assert_says(refused, "sysctl -w kernel.unprivileged_userns_clone=1");
}

static void where_none_is_seen_the_usual_ones_are_listed(void **state)
{
    (void)state;
    put("/proc/self/status", "Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t2\n");
    assert_says(refused, "user.max_user_namespaces");
    assert_null(strstr(said(refused, false), "--security-opt"));
    put("/proc/self/status", "Name:\tx\nSeccomp:\t2\n");
    assert_says(refused, "--security-opt seccomp=");
}

static void covered_proc_and_sandboxes_have_their_own(void **state)
{
    (void)state;
    assert_says("bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
                "enableWeakerNestedSandbox");
    assert_non_null(strstr(said(refused, true), "allowNestedUserNamespaces"));
    assert_string_equal(said("bwrap: execvp x: No such file or directory", false), "");
}

static void a_small_buffer_is_not_overrun(void **state)
{
    (void)state;
    char text[64];
    memset(text, 'x', sizeof(text));
    remedy_for(text, 40, refused, "/opt/bwrap", root, false);
    assert_int_equal(strlen(text), 39);
    assert_int_equal(text[40], 'x');
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_switch_that_stands_in_the_way_is_named),
        CASE(where_none_is_seen_the_usual_ones_are_listed),
        CASE(covered_proc_and_sandboxes_have_their_own),
        CASE(a_small_buffer_is_not_overrun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
