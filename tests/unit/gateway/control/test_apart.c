#include "control/apart.h"

#include <ev.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct scene {
    struct ev_loop *loop;
    struct apart *apart;
    struct apart_watch watch;
    int ours, theirs, also_theirs; /* the last is ours in another process */
    int heard;
};

static void on_heard(struct apart_watch *watch, int events)
{
    struct scene *scene = watch->data;
    scene->heard |= events;
}

static int open_scene(void **state)
{
    int pair[2];
    struct scene *scene = calloc(1, sizeof(*scene));
    assert_non_null(scene);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    scene->loop = ev_loop_new(EVFLAG_AUTO);
    scene->apart = apart_create(scene->loop);
    scene->ours = pair[0];
    scene->theirs = pair[1];
    scene->also_theirs = dup(pair[0]);
    scene->watch = (struct apart_watch){.fd = scene->ours, .heard = on_heard, .data = scene};
    *state = scene;
    return 0;
}

static int close_scene(void **state)
{
    struct scene *scene = *state;
    apart_set(scene->apart, &scene->watch, 0);
    apart_free(scene->apart);
    ev_loop_destroy(scene->loop);
    close(scene->theirs);
    close(scene->also_theirs);
    free(scene);
    return 0;
}

static int hear(struct scene *scene)
{
    scene->heard = 0;
    ev_run(scene->loop, EVRUN_NOWAIT);
    return scene->heard;
}

static void what_is_asked_for_is_heard(void **state)
{
    struct scene *scene = *state;
    apart_set(scene->apart, &scene->watch, EV_READ);
    assert_int_equal(hear(scene), 0);
    apart_set(scene->apart, &scene->watch, EV_READ | EV_WRITE);
    assert_int_equal(hear(scene), EV_WRITE);
    assert_int_equal(write(scene->theirs, "x", 1), 1);
    assert_int_equal(hear(scene), EV_READ | EV_WRITE);
    apart_set(scene->apart, &scene->watch, EV_READ);
    assert_int_equal(hear(scene), EV_READ);
    close(scene->theirs);
    apart_set(scene->apart, &scene->watch, EV_WRITE);
    assert_int_equal(hear(scene), EV_WRITE);
    close(scene->ours);
}

static void what_was_closed_is_not_heard_while_another_has_it(void **state)
{
    struct scene *scene = *state;
    apart_set(scene->apart, &scene->watch, EV_READ);
    apart_set(scene->apart, &scene->watch, 0);
    close(scene->ours);
    assert_int_equal(write(scene->theirs, "x", 1), 1);
    assert_int_equal(hear(scene), 0);
    /* Nor does a loop go on that has nothing to watch. */
    ev_run(scene->loop, 0);
    assert_int_equal(scene->heard, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_asked_for_is_heard, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(what_was_closed_is_not_heard_while_another_has_it,
                                        open_scene, close_scene),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
