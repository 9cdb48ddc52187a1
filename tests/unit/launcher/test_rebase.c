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

static void assert_program(const char *file, const char *expected)
{
    char command[32] = "";
    bool found = rebase_names_program(file, strlen(file), command, sizeof(command));
    if (found != (expected != NULL) || (found && strcmp(command, expected) != 0))
        fail_msg("%s: %s", file, command);
}

static void test_a_way_to_merge_that_git_lacks_is_a_program(void **state)
{
    (void)state;
    assert_program("", NULL);
    assert_program("\n", NULL);
    assert_program("ort\n", NULL);
    assert_program("recursive", NULL);
    assert_program("ours\r\n", NULL);
    assert_program("d/../evil\n", "git-merge-d/../evil");
    assert_program("ort \n", "git-merge-ort ");
    assert_program("ort\nx\n", "git-merge-ort?x");
    assert_program("0123456789012345678901234567890123456789", "git-merge-012345678901234567890");
}

static void assert_sequence(const char *options, bool expected)
{
    char command[64] = "";
    bool found = rebase_sequence_names_program(options, strlen(options), command, sizeof(command));
    assert_int_equal(found, expected);
    assert_string_equal(command, expected ? "git-merge-d/../x" : "");
}

static void test_so_it_is_in_the_options_of_a_sequence(void **state)
{
    (void)state;
    assert_sequence("[options]\n\tedit = true\n\tstrategy = d/../x\n", true);
    assert_sequence("[OPTIONS] Strategy=\"d/..\"/x", true);
    assert_sequence("[options]strategy=ort\nstrategy = d/\\\n../x\n", true);
    assert_sequence("[options]\n\tstrategy = ort\n\tstrategy-option = d/../x\n", false);
    assert_sequence("[options]\n\tstrategy\n[other]\n\tstrategy = d/../x\n", false);
    assert_sequence("", false);
}

static void assert_option(const char *file, const char *expected)
{
    char command[32] = "";
    bool found = rebase_has_odd_option(file, strlen(file), command, sizeof(command));
    if (found != (expected != NULL) || (found && strcmp(command, expected) != 0))
        fail_msg("%s: %s", file, command);
}

static void test_options_that_git_am_does_not_hand_on_are_found(void **state)
{
    (void)state;
    assert_option("", NULL);
    assert_option("\n", NULL);
    assert_option(" '-p1' '--whitespace=fix' '-C3' '--directory=a b' '--reject'\n", NULL);
    assert_option(" '--build-fake=/x'\n", "git apply '--build-fake=/x'");
    assert_option(" '-p1' '--unsafe-paths'", "git apply '--unsafe-paths'");
    assert_option(" '-p1'\\'' '--build-fake=/x'", "git apply\\'' '--build-fake=/x'");
    assert_option(" '-p1", "git apply '-p1");
    assert_option("-p1", "git apply-p1");
    assert_option(" '-p1'\n '-z'", "git apply? '-z'");
    assert_option(" '-p1' ", "git apply ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_that_run_something_are_found),
        cmocka_unit_test(test_other_lines_are_not),
        cmocka_unit_test(test_byte_by_byte_it_is_found_when_it_is_there),
        cmocka_unit_test(test_a_way_to_merge_that_git_lacks_is_a_program),
        cmocka_unit_test(test_so_it_is_in_the_options_of_a_sequence),
        cmocka_unit_test(test_options_that_git_am_does_not_hand_on_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
