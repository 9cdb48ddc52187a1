#include "dns/hosts.h"

#include "srt/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

static struct resolve_answer found;
static char folder[64], path[96];

static struct name name_of(const char *text)
{
    struct name name;
    assert_int_equal(name_parse(&name, str_of(text)), NAME_OK);
    return name;
}

/* The addresses of a name, as "1.2.3.4 ::1", or "" if the table does not name it. */
static const char *addrs_of(struct hosts_table *table, const char *text)
{
    static char out[RESOLVER_MAX_ADDRS * (ADDR_TEXT_MAX + 1)];
    struct name name = name_of(text);
    out[0] = '\0';
    if (!hosts_table_find(table, &name, &found))
        return out;
    for (uint32_t i = 0; i < found.count; i++) {
        char addr[ADDR_TEXT_MAX];
        strcat(out, i > 0 ? " " : "");
        strcat(out, addr_format(addr, &found.addrs[i]));
    }
    return out;
}

static void test_lines_and_aliases(void **state)
{
    (void)state;
    struct hosts_table *table =
        hosts_table_parse(STR("127.0.0.1\tlocalhost\n"
                              "# 10.0.0.9 comment.test\n"
                              "  192.0.2.1   good.test\talias.test  # other.test\r\n"
                              "\n"
                              "2001:DB8::1 Good.Test.\n"
                              "::ffff:192.0.2.7 mapped.test\n"
                              "192.0.2.2 last.test"));
    assert_string_equal(addrs_of(table, "good.test"), "192.0.2.1 2001:db8::1");
    assert_string_equal(addrs_of(table, "alias.test"), "192.0.2.1");
    assert_string_equal(addrs_of(table, "mapped.test"), "192.0.2.7");
    assert_string_equal(addrs_of(table, "last.test"), "192.0.2.2");
    assert_string_equal(addrs_of(table, "other.test"), "");
    assert_string_equal(addrs_of(table, "comment.test"), "");
    assert_string_equal(addrs_of(table, "a.good.test"), "");
    assert_string_equal(addrs_of(table, "test"), "");
    hosts_table_free(table);
}

static void test_what_makes_no_sense_is_passed_over(void **state)
{
    (void)state;
    struct hosts_table *table =
        hosts_table_parse(STR("127.1 a.test\n"
                              "fe80::1%lo0 a.test\n"
                              "a.test 192.0.2.1\n"
                              "192.0.2.1\n"
                              "192.0.2.1#a.test\n"
                              "192.0.2.3 a..test b\0c.test 10.0.0.1 ok.test\n"
                              "192.0.2.4 -x.test ok.test\n"
                              "   \t\n#\n"));
    assert_string_equal(addrs_of(table, "a.test"), "");
    assert_string_equal(addrs_of(table, "ok.test"), "192.0.2.3 192.0.2.4");
    hosts_table_free(table);

    table = hosts_table_parse(STR(""));
    assert_string_equal(addrs_of(table, "a.test"), "");
    hosts_table_free(table);
    hosts_table_free(NULL);
}

static void test_many_addresses_are_cut_in_the_order_of_the_file(void **state)
{
    (void)state;
    char text[200 * 32];
    size_t len = 0;
    for (int i = 0; i < 200; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "192.0.2.%d big.test\n", i);
    struct hosts_table *table = hosts_table_parse((struct str){text, len});
    struct name name = name_of("big.test");
    assert_true(hosts_table_find(table, &name, &found));
    assert_int_equal(found.count, RESOLVER_MAX_ADDRS);
    for (uint8_t i = 0; i < RESOLVER_MAX_ADDRS; i++)
        assert_int_equal(found.addrs[i].bytes[3], i);
    hosts_table_free(table);
}

static void write_file(const char *to, const char *text)
{
    autofclose FILE *file = fopen(to, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
}

static bool finds(struct hosts *hosts, const char *text, double now_s)
{
    struct name name = name_of(text);
    return hosts_find(hosts, &name, now_s, &found);
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/srt-test-hosts-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/hosts", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    remove(path);
    return remove(folder);
}

static void test_an_edited_file_counts_at_the_next_look(void **state)
{
    (void)state;
    write_file(path, "192.0.2.1 a.test\n");
    struct hosts *hosts = hosts_open(path, NULL);
    assert_non_null(hosts);
    assert_true(finds(hosts, "a.test", 1));
    assert_false(finds(hosts, "b.test", 1));

    write_file(path, "192.0.2.2 b.test\n"); /* in place, as long as before */
    assert_true(finds(hosts, "a.test", 1.05));
    assert_false(finds(hosts, "a.test", 2));
    assert_true(finds(hosts, "b.test", 2));
    hosts_close(hosts);
}

static void test_a_renamed_file_counts(void **state)
{
    (void)state;
    char other[128];
    snprintf(other, sizeof(other), "%s/new", folder);
    write_file(path, "192.0.2.1 a.test\n");
    struct hosts *hosts = hosts_open(path, NULL);
    write_file(other, "192.0.2.1 b.test\n");
    assert_int_equal(rename(other, path), 0);
    assert_true(finds(hosts, "b.test", 1));
    assert_false(finds(hosts, "a.test", 1));
    hosts_close(hosts);
}

static void test_a_lost_file_leaves_the_last_table(void **state)
{
    (void)state;
    write_file(path, "192.0.2.1 a.test\n");
    struct hosts *hosts = hosts_open(path, NULL);
    assert_int_equal(remove(path), 0);
    assert_true(finds(hosts, "a.test", 1));
    assert_int_equal(mkfifo(path, 0600), 0); /* would block a careless reader */
    assert_true(finds(hosts, "a.test", 2));
    assert_int_equal(remove(path), 0);
    write_file(path, "192.0.2.1 b.test\n");
    assert_true(finds(hosts, "b.test", 3));
    assert_false(finds(hosts, "a.test", 3));
    hosts_close(hosts);
}

static void test_files_that_cannot_be_used(void **state)
{
    (void)state;
    struct srt_err err = {""};
    assert_null(hosts_open(path, &err));
    assert_non_null(strstr(err.text, path));
    assert_null(hosts_open(folder, &err));
    assert_non_null(strstr(err.text, "not a regular file"));

    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), HOSTS_MAX_SIZE + 1), 0);
    fclose(file);
    assert_null(hosts_open(path, &err));
    assert_non_null(strstr(err.text, "larger"));
    hosts_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_and_aliases),
        cmocka_unit_test(test_what_makes_no_sense_is_passed_over),
        cmocka_unit_test(test_many_addresses_are_cut_in_the_order_of_the_file),
        cmocka_unit_test_setup_teardown(test_an_edited_file_counts_at_the_next_look, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_a_renamed_file_counts, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_lost_file_leaves_the_last_table, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_files_that_cannot_be_used, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
