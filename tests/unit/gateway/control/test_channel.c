#include "control/apart.h"
#include "control/channel.h"

#include <ev.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct ends {
    struct ev_loop *loop;
    struct apart *apart;
    struct channel *left, *right;
    char heard[64];
};

static int open_ends(void **state)
{
    int pair[2];
    struct ends *ends = calloc(1, sizeof(*ends));
    ends->loop = ev_loop_new(EVFLAG_AUTO);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    ends->apart = apart_create(ends->loop);
    ends->left = channel_create(ends->apart, pair[0]);
    ends->right = channel_create(ends->apart, pair[1]);
    *state = ends;
    return 0;
}

static int close_ends(void **state)
{
    struct ends *ends = *state;
    channel_free(ends->left);
    channel_free(ends->right);
    apart_free(ends->apart);
    ev_loop_destroy(ends->loop);
    free(ends);
    return 0;
}

static struct json word(const char *type)
{
    struct json message = channel_compose(type);
    json_text(&message, "name", STR("box"));
    json_number(&message, "count", 7);
    json_bool(&message, "own", true);
    return message;
}

static void a_message_comes_with_its_descriptors(void **state)
{
    struct ends *ends = *state;
    int parcel = parcel_make(STR("what is in it"));
    struct json content = {0}, message = word("listener");
    assert_true(channel_send(ends->left, &message, &parcel, 1, 0));
    close(parcel);
    struct channel_message *came = channel_receive(ends->right, 0);
    assert_non_null(came);
    assert_true(channel_is(came, "listener"));
    assert_false(channel_is(came, "listen"));
    assert_string_equal(channel_text(came, "name"), "box");
    assert_null(channel_text(came, "kind"));
    assert_int_equal(channel_number(came, "count"), 7);
    assert_true(channel_flag(came, "own"));
    assert_true(parcel_open(channel_take_fd(came), &content));
    assert_int_equal(channel_take_fd(came), -1);
    assert_true(str_eq((struct str){content.data, content.len}, STR("what is in it")));
    json_free(&content);
    channel_message_free(came);
}

static void descriptors_that_nobody_takes_are_closed(void **state)
{
    struct ends *ends = *state;
    int pair[2];
    char byte;
    struct json message = word("launch");
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    assert_true(channel_send(ends->left, &message, &pair[1], 1, 0));
    close(pair[1]);
    channel_message_free(channel_receive(ends->right, 0));
    assert_int_equal(read(pair[0], &byte, 1), 0);
    close(pair[0]);
}

static void without_room_or_a_listener_it_is_not_sent(void **state)
{
    struct ends *ends = *state;
    struct json message = word("denial");
    unsigned sent = 0;
    while (channel_send(ends->left, &message, NULL, 0, 0)) {
        message = word("denial");
        sent++;
    }
    assert_true(sent > 1);
    channel_message_free(channel_receive(ends->right, 0));
    message = channel_compose("denial");
    while (message.len < (size_t)1 << 20)
        json_text(&message, "message", STR("too long for a message"));
    assert_false(channel_send(ends->left, &message, NULL, 0, 0));
    channel_free(ends->right);
    ends->right = NULL;
    message = word("denial");
    assert_false(channel_send(ends->left, &message, NULL, 0, 0));
}

static void hear(void *arg, struct channel_message *message)
{
    struct ends *ends = arg;
    strcat(ends->heard, message != NULL ? channel_text(message, "type") : "(end)");
}

static void the_loop_hears_each_and_the_end_once(void **state)
{
    struct ends *ends = *state;
    struct json one = word("one"), two = word("two");
    assert_true(channel_send(ends->left, &one, NULL, 0, 0));
    assert_true(channel_send(ends->left, &two, NULL, 0, 0));
    channel_free(ends->left);
    ends->left = NULL;
    channel_hear(ends->right, hear, ends);
    ev_run(ends->loop, 0); /* until nothing is watched any more */
    assert_string_equal(ends->heard, "onetwo(end)");
}

static void what_is_no_message_is_an_end(void **state)
{
    struct ends *ends = *state;
    assert_int_equal(send(channel_fd(ends->left), "[]", 2, 0), 2);
    channel_hear(ends->right, hear, ends);
    ev_run(ends->loop, 0);
    assert_string_equal(ends->heard, "(end)");
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_ends, close_ends)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_message_comes_with_its_descriptors),
        CASE(descriptors_that_nobody_takes_are_closed),
        CASE(without_room_or_a_listener_it_is_not_sent),
        CASE(the_loop_hears_each_and_the_end_once),
        CASE(what_is_no_message_is_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
