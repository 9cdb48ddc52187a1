#include "launcher/rebase.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static void assert_command(const char *list, const char *expected)
{
    char command[32] = "";
    bool found = rebase_finds_command(list, strlen(list), command, sizeof(command));
    if (found != (expected != NULL) || (found && strcmp(command, expected) != 0))
        fail_msg("%s: %s", list, command);
}

static void test_lines_that_run_something_are_found(void **state)
{
    (void)state;
    assert_command("pick 1 a\nexec make test\npick 2 b\n", "make test");
    assert_command("x make", "make");
    assert_command("  \texec \t make\n", "make");
    assert_command("# exec no\nx\tyes \"it is\"\n", "yes \"it is\"");
    assert_command("exec a\x1b[2J\n", "a?[2J");
    assert_command("x 0123456789012345678901234567890123456789\n",
                   "0123456789012345678901234567890");
}

static void test_other_lines_are_not(void **state)
{
    (void)state;
    assert_command("", NULL);
    assert_command("pick 1 exec x\n\n# exec make\nexecute 1\nxy 1\nbreak\nreset x\nlabel exec\n"
                   "update-ref refs/heads/x\nmerge -C 1 x # exec\nfixup -C 2 x y\n",
                   NULL);
    assert_command("exec", NULL);
    assert_command("exec\nx\n", NULL);
}

static void test_byte_by_byte_it_is_found_when_it_is_there(void **state)
{
    (void)state;
    const char list[] = "pick 1 a\nexec make\n";
    char command[32];
    const size_t there = strlen("pick 1 a\nexec ");
    for (size_t len = 0; len < sizeof(list); len++)
        assert_int_equal(rebase_finds_command(list, len, command, sizeof(command)), len >= there);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_that_run_something_are_found),
        cmocka_unit_test(test_other_lines_are_not),
        cmocka_unit_test(test_byte_by_byte_it_is_found_when_it_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
