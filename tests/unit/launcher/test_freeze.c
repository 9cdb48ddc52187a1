#include "launcher/freeze.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char state_of(pid_t pid)
{
    char path[64], state = '?';
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
    fclose(file);
    return state;
}

/* A child that writes a byte each time it is asked to, and one below it that does so too. */
struct tree {
    pid_t root, child, grandchild;
    int pids; /* where they say who they are */
};

/* A test that fails leaves nobody behind. */
static pid_t fork_bound(void)
{
    pid_t pid = fork();
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

static _Noreturn void wait_for_ever(void)
{
    for (;;)
        pause();
}

static void plant(struct tree *tree)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    tree->root = fork_bound();
    if (tree->root == 0) {
        pid_t child = fork_bound();
        if (child == 0) {
            pid_t self = getpid(), grandchild = fork_bound();
            if (grandchild == 0)
                wait_for_ever();
            const pid_t both[2] = {self, grandchild};
            if (write(ends[1], both, sizeof(both)) != (ssize_t)sizeof(both))
                _exit(1);
            wait_for_ever();
        }
        wait_for_ever();
    }
    pid_t both[2];
    assert_int_equal(read(ends[0], both, sizeof(both)), sizeof(both));
    tree->child = both[0];
    tree->grandchild = both[1];
    close(ends[0]);
    close(ends[1]);
}

static void fell(const struct tree *tree)
{
    kill(tree->grandchild, SIGKILL);
    kill(tree->child, SIGKILL);
    kill(tree->root, SIGKILL);
    waitpid(tree->root, NULL, 0);
}

static void everything_below_is_held_and_goes_on(void **state)
{
    (void)state;
    struct tree tree;
    struct freeze freeze;
    plant(&tree);
    assert_true(freeze_begin(&freeze, tree.root, false));
    assert_int_equal(freeze.count, 2);
    assert_int_equal(state_of(tree.child), 'T');
    assert_int_equal(state_of(tree.grandchild), 'T');
    assert_int_not_equal(state_of(tree.root), 'T');
    assert_true(freeze_has_group(&freeze, getpgrp()));
    assert_false(freeze_has_group(&freeze, 1));
    freeze_end(&freeze);
    assert_int_not_equal(state_of(tree.child), 'T');
    assert_int_not_equal(state_of(tree.grandchild), 'T');
    fell(&tree);
}

static void what_was_stopped_before_stays_so(void **state)
{
    (void)state;
    struct tree tree;
    struct freeze freeze;
    plant(&tree);
    kill(tree.grandchild, SIGSTOP);
    while (state_of(tree.grandchild) != 'T')
        ;
    assert_true(freeze_begin(&freeze, tree.root, false));
    assert_int_equal(freeze.count, 1);
    freeze_end(&freeze);
    assert_int_equal(state_of(tree.grandchild), 'T');
    assert_int_not_equal(state_of(tree.child), 'T');
    fell(&tree);
}

static void nobody_below_is_soon_held(void **state)
{
    (void)state;
    struct freeze freeze;
    assert_true(freeze_begin(&freeze, getpid(), false));
    assert_int_equal(freeze.count, 0);
    freeze_end(&freeze);
}

static void the_root_is_held_first_where_it_is_inside(void **state)
{
    (void)state;
    struct tree tree;
    struct freeze freeze;
    plant(&tree);
    assert_true(freeze_begin(&freeze, tree.root, true));
    assert_int_equal(freeze.count, 3);
    assert_int_equal(freeze.items[0].pid, tree.root);
    assert_int_equal(state_of(tree.root), 'T');
    assert_int_equal(state_of(tree.child), 'T');
    freeze_end(&freeze);
    assert_int_not_equal(state_of(tree.root), 'T');
    fell(&tree);
}

/* The parent waits for stops as a shell does, and must not see any. */
static void no_parent_sees_its_children_stopped(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t root = fork_bound();
    if (root == 0) {
        if (fork_bound() == 0) {
            int status = 0;
            pid_t child = fork_bound();
            if (child == 0)
                wait_for_ever();
            uint8_t byte = 1;
            if (write(ends[1], &byte, 1) != 1)
                _exit(1);
            waitpid(child, &status, WUNTRACED);
            byte = WIFSTOPPED(status) ? 2 : 3;
            _exit(write(ends[1], &byte, 1) == 1 ? 0 : 1);
        }
        wait_for_ever();
    }
    uint8_t byte = 0;
    assert_int_equal(read(ends[0], &byte, 1), 1);
    pid_t last = 0;
    for (int round = 0; round < 50; round++) {
        struct freeze freeze;
        assert_true(freeze_begin(&freeze, root, false));
        assert_int_equal(freeze.count, 2); /* the one that waits has not gone */
        last = freeze.items[1].pid;
        freeze_end(&freeze);
    }
    kill(last, SIGKILL);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(byte, 3);
    kill(root, SIGKILL);
    waitpid(root, NULL, 0);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_below_is_held_and_goes_on),
        cmocka_unit_test(what_was_stopped_before_stays_so),
        cmocka_unit_test(nobody_below_is_soon_held),
        cmocka_unit_test(the_root_is_held_first_where_it_is_inside),
        cmocka_unit_test(no_parent_sees_its_children_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
