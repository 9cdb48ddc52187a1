#include "session/listener.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
/* cmocka wants the above first */
#include <cmocka.h>

static char directory[] = "/tmp/srt-listener-XXXXXX";
static char path[64];
static struct srt_err err;

static int make_directory(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/proxy.sock", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

static struct config_listen at_port(uint16_t port)
{
    struct config_listen config = {.name = "test", .address.port = port};
    assert_true(addr_parse(&config.address.addr, STR("127.0.0.1")));
    return config;
}

static struct config_listen at_path(void)
{
    return (struct config_listen){.name = "test", .address.path = path, .mode = 0600};
}

static bool exists(void)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static void a_port_is_never_shared(void **state)
{
    (void)state;
    struct config_listen config = at_port(0);
    struct listener *first = listener_open(&config, &err);
    assert_non_null(first);
    const uint16_t port = listener_bound(first)->port;
    assert_int_not_equal(port, 0);
    assert_true(listener_serves(first, &config));
    config.address.port = port;
    assert_null(listener_open(&config, &err));
    assert_non_null(strstr(err.text, "127.0.0.1:"));
    listener_close(first);
    struct listener *second = listener_open(&config, &err);
    assert_non_null(second);
    listener_close(second);
}

static void a_path_has_its_mode_and_goes_with_its_listener(void **state)
{
    (void)state;
    const struct config_listen config = at_path();
    struct stat st;
    struct listener *listener = listener_open(&config, &err);
    assert_non_null(listener);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_null(listener_open(&config, &err)); /* somebody answers there */
    assert_true(exists());
    listener_close(listener);
    assert_false(exists());
}

static void a_path_left_behind_is_replaced(void **state)
{
    (void)state;
    const struct config_listen config = at_path();
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    memcpy(addr.sun_path, path, strlen(path) + 1);
    int dead = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(dead, (struct sockaddr *)&addr, sizeof(addr)), 0);
    close(dead);
    struct listener *listener = listener_open(&config, &err);
    assert_non_null(listener);
    listener_close(listener);
}

static void a_file_is_not_replaced(void **state)
{
    (void)state;
    const struct config_listen config = at_path();
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_null(listener_open(&config, &err));
    assert_true(exists());
    unlink(path);
}

static void anothers_path_is_left_alone_at_the_end(void **state)
{
    (void)state;
    const struct config_listen config = at_path();
    struct listener *old = listener_open(&config, &err);
    assert_non_null(old);
    unlink(path);
    struct listener *fresh = listener_open(&config, &err);
    assert_non_null(fresh);
    listener_close(old);
    assert_true(exists());
    listener_close(fresh);
    assert_false(exists());
}

static void only_listening_streams_are_adopted(void **state)
{
    (void)state;
    assert_null(listener_adopt(socket(AF_INET, SOCK_STREAM, 0), LISTENER_PROXY, &err));
    assert_null(listener_adopt(socket(AF_INET, SOCK_DGRAM, 0), LISTENER_PROXY, &err));
    assert_null(listener_adopt(dup(0), LISTENER_PROXY, &err));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(listen(fd, 1), 0);
    struct listener *listener = listener_adopt(fd, LISTENER_PROXY, &err);
    assert_non_null(listener);
    assert_true(listener_unblock(listener));
    assert_true(listener_tune(listener));
    listener_release(listener);
}

static void a_resolver_has_datagrams(void **state)
{
    (void)state;
    static const int families[] = {AF_INET, AF_INET6};
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        int fd = socket(families[i], SOCK_DGRAM, 0);
        if (fd < 0) /* no IPv6 */
            continue;
        struct listener *listener = listener_adopt(fd, LISTENER_DNS_UDP, &err);
        assert_non_null(listener);
        assert_int_equal(listener_kind(listener), LISTENER_DNS_UDP);
        assert_true(listener_tune(listener));
        listener_release(listener);
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_null(listener_adopt(fd, LISTENER_DNS_UDP, &err));
    assert_null(listener_adopt(socket(AF_UNIX, SOCK_DGRAM, 0), LISTENER_DNS_UDP, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_is_never_shared),
        cmocka_unit_test(a_path_has_its_mode_and_goes_with_its_listener),
        cmocka_unit_test(a_path_left_behind_is_replaced),
        cmocka_unit_test(a_file_is_not_replaced),
        cmocka_unit_test(anothers_path_is_left_alone_at_the_end),
        cmocka_unit_test(only_listening_streams_are_adopted),
        cmocka_unit_test(a_resolver_has_datagrams),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
