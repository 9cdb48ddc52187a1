#include "transport/farewell.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>
/* cmocka wants the above first */
#include <cmocka.h>

/* More than are let be before the oldest is looked at. */
enum { MANY = 200 };

struct parting {
    struct ev_loop *loop;
    struct farewells farewells;
    unsigned closed;
};

static int set_up(void **state)
{
    static struct parting parting;
    parting = (struct parting){.loop = ev_loop_new(EVFLAG_AUTO)};
    farewells_init(&parting.farewells, parting.loop);
    *state = &parting;
    return 0;
}

static int tear_down(void **state)
{
    struct parting *parting = *state;
    farewells_end(&parting->farewells);
    ev_loop_destroy(parting->loop);
    return 0;
}

static void on_closed(void *arg)
{
    struct parting *parting = arg;
    parting->closed++;
}

/* Returns the peer, which gets "refused" and the end. */
static int say_farewell(struct parting *parting)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(write(fds[0], "refused", 7), 7);
    farewell_linger(&parting->farewells, fds[0], on_closed, parting);
    return fds[1];
}

static void assert_refused(int peer)
{
    char text[16];
    assert_int_equal(read(peer, text, sizeof(text)), 7);
    assert_int_equal(read(peer, text, sizeof(text)), 0);
}

/* The loop has nothing left to wait for once all are gone. */
static void run_until_closed(struct parting *parting, unsigned count)
{
    for (bool waits = true; parting->closed < count; waits = ev_run(parting->loop, EVRUN_ONCE))
        assert_true(waits);
    assert_int_equal(parting->closed, count);
    ev_run(parting->loop, 0);
}

static void a_peer_that_closes_at_once_is_not_watched(void **state)
{
    struct parting *parting = *state;
    const int peer = say_farewell(parting);
    assert_refused(peer);
    close(peer);
    assert_int_equal(parting->closed, 0);
    run_until_closed(parting, 1);
}

static void who_is_gone_makes_room_when_it_is_needed(void **state)
{
    struct parting *parting = *state;
    const int gone = say_farewell(parting), stays = say_farewell(parting);
    close(gone);
    farewells_look(&parting->farewells);
    assert_int_equal(parting->closed, 1);
    assert_int_equal(parting->farewells.fresh_count, 0);
    farewells_look(&parting->farewells);
    assert_refused(stays);
    close(stays);
    run_until_closed(parting, 2);
}

static void what_a_peer_still_says_is_thrown_away(void **state)
{
    struct parting *parting = *state;
    const int peer = say_farewell(parting);
    assert_int_equal(write(peer, "for the tunnel", 14), 14);
    while (parting->farewells.fresh_count > 0)
        ev_run(parting->loop, EVRUN_ONCE); /* it is watched now */
    assert_int_equal(write(peer, "and more", 8), 8);
    ev_run(parting->loop, EVRUN_ONCE);
    assert_int_equal(parting->closed, 0);
    assert_refused(peer);
    close(peer);
    run_until_closed(parting, 1);
}

static void a_peer_that_stays_is_left(void **state)
{
    struct parting *parting = *state;
    const int peer = say_farewell(parting);
    run_until_closed(parting, 1);
    assert_refused(peer);
    close(peer);
}

static void many_part_in_any_order(void **state)
{
    struct parting *parting = *state;
    int peers[MANY];
    for (size_t i = 0; i < MANY; i++) {
        peers[i] = say_farewell(parting);
        if (i % 3 == 0)
            close(peers[i]);
    }
    assert_true(parting->closed > 0); /* without the loop: the oldest were looked at */
    assert_true(parting->farewells.fresh_count < MANY / 2);
    for (size_t i = MANY; i-- > 0;) {
        if (i % 3 == 0)
            continue;
        assert_refused(peers[i]);
        close(peers[i]);
    }
    run_until_closed(parting, MANY);
}

static void the_end_closes_all(void **state)
{
    struct parting *parting = *state;
    int peers[MANY];
    for (size_t i = 0; i < MANY; i++)
        peers[i] = say_farewell(parting);
    farewells_end(&parting->farewells);
    assert_int_equal(parting->closed, MANY);
    ev_run(parting->loop, 0);
    for (size_t i = 0; i < MANY; i++) {
        assert_refused(peers[i]);
        close(peers[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_peer_that_closes_at_once_is_not_watched, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_is_gone_makes_room_when_it_is_needed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_a_peer_still_says_is_thrown_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_peer_that_stays_is_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_part_in_any_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_end_closes_all, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
