#include "control/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ev.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A directory as a Kubernetes ConfigMap lays it out: dir/file -> ..data/file, ..data -> 1/. */
struct scene {
    struct ev_loop *loop;
    struct watch *watch;
    ev_timer limit;
    bool late;
    int reports;
    char dir[64];
};

static char *at(const struct scene *scene, const char *name)
{
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", scene->dir, name);
    return path;
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void on_changed(void *arg)
{
    struct scene *scene = arg;
    scene->reports++;
    ev_break(scene->loop, EVBREAK_ALL);
}

static void on_limit(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct scene *scene = timer->data;
    (void)events;
    scene->late = true;
    ev_break(loop, EVBREAK_ALL);
}

/* Runs until a change is reported, or for `seconds`. */
static int reports_within(struct scene *scene, double seconds)
{
    scene->reports = 0;
    scene->late = false;
    ev_now_update(scene->loop);
    ev_timer_init(&scene->limit, on_limit, seconds, 0.);
    scene->limit.data = scene;
    ev_timer_start(scene->loop, &scene->limit);
    ev_run(scene->loop, 0);
    ev_timer_stop(scene->loop, &scene->limit);
    return scene->reports;
}

static int set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    strcpy(scene->dir, "/tmp/srt-watch-XXXXXX");
    assert_non_null(mkdtemp(scene->dir));
    mkdir(at(scene, "1"), 0700);
    mkdir(at(scene, "2"), 0700);
    put(at(scene, "1/file"), "one");
    put(at(scene, "2/file"), "two");
    assert_int_equal(symlink("1", at(scene, "..data")), 0);
    assert_int_equal(symlink("..data/file", at(scene, "file")), 0);
    put(at(scene, "plain"), "text");
    scene->loop = ev_loop_new(EVFLAG_AUTO);
    scene->watch = watch_create(scene->loop, on_changed, scene);
    const char *paths[] = {at(scene, "file"), at(scene, "plain")};
    watch_set(scene->watch, paths, 2);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    static const char *const names[] = {"1/file", "2/file", "..data",     "file", "plain",
                                        "other",  "new",    "..data.new", "1",    "2"};
    watch_free(scene->watch);
    ev_loop_destroy(scene->loop);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        (void)remove(at(scene, names[i]));
    assert_int_equal(rmdir(scene->dir), 0);
    free(scene);
    return 0;
}

/* Long enough for any machine, short of the slow look that would hide a missing event. */
static const double soon_s = 1.9;

static void writing_in_place_is_noticed(void **state)
{
    struct scene *scene = *state;
    put(at(scene, "plain"), "other text");
    assert_int_equal(reports_within(scene, soon_s), 1);
    put(at(scene, "1/file"), "behind both links");
    assert_int_equal(reports_within(scene, soon_s), 1);
}

static void renaming_over_is_noticed(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 3; i++) {
        put(at(scene, "new"), "text");
        assert_int_equal(rename(at(scene, "new"), at(scene, "plain")), 0);
        assert_int_equal(reports_within(scene, soon_s), 1);
    }
}

static void swapping_a_link_is_noticed(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(symlink(i % 2 == 0 ? "2" : "1", at(scene, "..data.new")), 0);
        assert_int_equal(rename(at(scene, "..data.new"), at(scene, "..data")), 0);
        assert_int_equal(reports_within(scene, soon_s), 1);
    }
}

static void deleting_and_making_anew_are_noticed(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(unlink(at(scene, "plain")), 0);
    assert_int_equal(reports_within(scene, soon_s), 1);
    put(at(scene, "plain"), "back");
    assert_int_equal(reports_within(scene, soon_s), 1);
}

static void other_files_in_the_directory_are_not(void **state)
{
    struct scene *scene = *state;
    put(at(scene, "other"), "nobody's");
    assert_int_equal(reports_within(scene, 0.5), 0);
    assert_true(scene->late);
}

static void a_change_while_the_files_are_read_is_reported_later(void **state)
{
    struct scene *scene = *state;
    watch_mark(scene->watch);
    put(at(scene, "plain"), "changed behind the reader's back");
    const char *paths[] = {at(scene, "plain")};
    watch_set(scene->watch, paths, 1);
    assert_int_equal(reports_within(scene, soon_s), 1);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(writing_in_place_is_noticed),
        CASE(renaming_over_is_noticed),
        CASE(swapping_a_link_is_noticed),
        CASE(deleting_and_making_anew_are_noticed),
        CASE(other_files_in_the_directory_are_not),
        CASE(a_change_while_the_files_are_read_is_reported_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
