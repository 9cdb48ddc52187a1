#include "launcher/gitindex.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 4096, FILE_MODE = 0100644, TREE_MODE = 040000 };

struct bytes {
    char bytes[ROOM];
    size_t len;
};

static void add(struct bytes *to, const void *bytes, size_t len)
{
    assert_true(to->len + len <= ROOM);
    memcpy(to->bytes + to->len, bytes, len);
    to->len += len;
}

static void add_number(struct bytes *to, uint32_t number)
{
    number = htonl(number);
    add(to, &number, sizeof(number));
}

static void add_head(struct bytes *to, uint32_t version, uint32_t count)
{
    add(to, "DIRC", 4);
    add_number(to, version);
    add_number(to, count);
}

/* `told` is the length that the flags tell. */
static void add_entry_told(struct bytes *to, size_t hash, uint32_t mode, const char *name,
                           size_t told)
{
    static const char nothing[64];
    size_t begin = to->len;
    add(to, nothing, 24);
    add_number(to, mode);
    add(to, nothing, 12 + hash);
    add(to, (const char[]){(char)(told >> 8), (char)told}, 2);
    add(to, name, strlen(name));
    add(to, nothing, 8 - (to->len - begin) % 8);
}

static void add_entry(struct bytes *to, size_t hash, uint32_t mode, const char *name)
{
    add_entry_told(to, hash, mode, name, strlen(name));
}

/* Of version 4: `strip` says how much of the name before is dropped. */
static void add_prefixed(struct bytes *to, const char *strip, const char *rest, size_t len)
{
    static const char nothing[64];
    add(to, nothing, 24);
    add_number(to, FILE_MODE);
    add(to, nothing, 12 + GITINDEX_SHA1);
    add(to, (const char[]){(char)(len >> 8), (char)len}, 2);
    add(to, strip, strlen(strip) + (strip[0] == '\0'));
    add(to, rest, strlen(rest) + 1);
}

static void add_extension(struct bytes *to, const char *name, const struct bytes *body)
{
    add(to, name, 4);
    add_number(to, (uint32_t)body->len);
    add(to, body->bytes, body->len);
}

static void add_trailer(struct bytes *to, size_t hash)
{
    static const char nothing[64];
    add(to, nothing, hash);
}

static const char *look(const struct bytes *index, size_t hash)
{
    static char name[64];
    name[0] = '\0';
    /* Of exactly this length, so that reading beyond it is seen. */
    char *exact = malloc(index->len > 0 ? index->len : 1);
    memcpy(exact, index->bytes, index->len);
    enum gitindex_end end = gitindex_look(exact, index->len, hash, name, sizeof(name));
    free(exact);
    return end == GITINDEX_STRAY ? name : end == GITINDEX_ODD ? "odd" : "plain";
}

static const char *look_at_name(const char *name, uint32_t mode, size_t hash)
{
    struct bytes index = {.len = 0};
    add_head(&index, 2, 2);
    add_entry(&index, hash, FILE_MODE, "a");
    add_entry(&index, hash, mode, name);
    add_trailer(&index, hash);
    return look(&index, hash);
}

static void test_names_of_the_work_tree_are_plain(void **state)
{
    (void)state;
    const char *const names[] = {"a",      "b/c",     ".gitignore", ".github/x", "a/.gitmodules",
                                 "..a/b.", "a.git/x", ".gi",        "",          "git",
                                 "...",    " /\n"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_string_equal(look_at_name(names[i], FILE_MODE, GITINDEX_SHA1), "plain");
        assert_string_equal(look_at_name(names[i], FILE_MODE, GITINDEX_SHA256), "plain");
    }
    assert_string_equal(look_at_name("a/", TREE_MODE, GITINDEX_SHA1), "plain");
}

static void test_names_that_lead_elsewhere_are_found(void **state)
{
    (void)state;
    const char *const names[] = {".git/hooks/x",
                                 ".GIT/hooks/x",
                                 ".g\u200cit/hooks/x",
                                 "a/.git./config",
                                 ".git ./x",
                                 "GIT~1/hooks/x",
                                 "a/.gIt/config",
                                 ".git",
                                 "../x",
                                 "a/../../x",
                                 "..",
                                 "/etc/x",
                                 "a//b",
                                 "./a",
                                 "a/.",
                                 "a/",
                                 "/"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_string_equal(look_at_name(names[i], FILE_MODE, GITINDEX_SHA1), names[i]);
        assert_string_equal(look_at_name(names[i], FILE_MODE, GITINDEX_SHA256), names[i]);
    }
    assert_string_equal(look_at_name("a//", TREE_MODE, GITINDEX_SHA1), "a//");
    assert_string_equal(look_at_name("/", TREE_MODE, GITINDEX_SHA1), "/");
}

static void test_a_length_that_is_not_the_names_is_odd(void **state)
{
    (void)state;
    const size_t told[] = {0, 1, 3, 0xfff};
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
        struct bytes index = {.len = 0};
        add_head(&index, 2, 1);
        add_entry_told(&index, GITINDEX_SHA1, FILE_MODE, "ab", told[i]);
        add_trailer(&index, GITINDEX_SHA1);
        assert_string_equal(look(&index, GITINDEX_SHA1), "odd");
    }
}

static void test_names_that_share_their_beginning(void **state)
{
    (void)state;
    static const struct {
        const char *strip, *rest;
        size_t len;
        const char *expected;
    } rows[] = {{"\1", "c/d", 9, "plain"}, {"\3", "/hooks", 10, ".git/hooks"},
                {"\7", "../x", 4, "../x"}, {"\3", "/hooks", 4, "odd"},
                {"\10", "x", 1, "odd"},    {"\7", "x", 1, "plain"},
                {"\200\1", "x", 1, "odd"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bytes index = {.len = 0};
        add_head(&index, 4, 2);
        add_prefixed(&index, "", ".gitx/b", 7);
        add_prefixed(&index, rows[i].strip, rows[i].rest, rows[i].len);
        add_trailer(&index, GITINDEX_SHA1);
        assert_string_equal(look(&index, GITINDEX_SHA1), rows[i].expected);
    }
}

/* An index of two entries; the extensions say where the second begins. */
static void make_with_offsets(struct bytes *index, const char *hidden, uint32_t first_count,
                              uint32_t second_count, int shift)
{
    struct bytes offsets = {.len = 0}, end = {.len = 0}, other = {.len = 0};
    add_head(index, 2, 2);
    add_entry(index, GITINDEX_SHA1, FILE_MODE, "a");
    uint32_t second = (uint32_t)index->len;
    add_entry(index, GITINDEX_SHA1, FILE_MODE, "b");
    uint32_t behind = (uint32_t)index->len;
    if (hidden != NULL) {
        add_entry(&other, GITINDEX_SHA1, FILE_MODE, hidden);
        second = (uint32_t)index->len + 8;
        add_extension(index, "XXXX", &other);
    }
    add_number(&offsets, 1);
    add_number(&offsets, 12);
    add_number(&offsets, first_count);
    add_number(&offsets, second);
    add_number(&offsets, second_count);
    add_extension(index, "IEOT", &offsets);
    add_number(&end, behind + (uint32_t)shift);
    add_trailer(&end, GITINDEX_SHA1);
    add_extension(index, "EOIE", &end);
    add_trailer(index, GITINDEX_SHA1);
}

static void test_what_threads_would_read_is_looked_at(void **state)
{
    (void)state;
    static const struct {
        const char *hidden;
        uint32_t first, second;
        int shift;
        const char *expected;
    } rows[] = {{NULL, 1, 1, 0, "plain"}, {".git/x", 1, 1, 0, ".git/x"}, {"c", 1, 1, 0, "plain"},
                {NULL, 1, 1, 8, "odd"},   {NULL, 1, 2, 0, "odd"},        {NULL, 2, 0, 0, "plain"},
                {NULL, 1, -1U, 0, "odd"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bytes index = {.len = 0};
        make_with_offsets(&index, rows[i].hidden, rows[i].first, rows[i].second, rows[i].shift);
        assert_string_equal(look(&index, GITINDEX_SHA1), rows[i].expected);
    }
}

static void test_cut_anywhere_it_is_odd_or_none(void **state)
{
    (void)state;
    struct bytes index = {.len = 0};
    make_with_offsets(&index, "c", 1, 1, 0);
    assert_string_equal(look(&index, GITINDEX_SHA1), "plain");
    for (size_t len = index.len - 1; len >= 12 + GITINDEX_SHA1; len--) {
        index.len = len;
        assert_string_not_equal(look(&index, GITINDEX_SHA1), "c");
    }
    index.len = 12;
    assert_string_equal(look(&index, GITINDEX_SHA1), "plain");
}

static void test_other_files_are_none(void **state)
{
    (void)state;
    struct bytes index = {.len = 0};
    assert_string_equal(look(&index, GITINDEX_SHA1), "plain");
    add_head(&index, 5, 1);
    add_trailer(&index, GITINDEX_SHA1);
    assert_string_equal(look(&index, GITINDEX_SHA1), "plain");
    memset(index.bytes, 'x', 4);
    assert_string_equal(look(&index, GITINDEX_SHA1), "plain");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_the_work_tree_are_plain),
        cmocka_unit_test(test_names_that_lead_elsewhere_are_found),
        cmocka_unit_test(test_a_length_that_is_not_the_names_is_odd),
        cmocka_unit_test(test_names_that_share_their_beginning),
        cmocka_unit_test(test_what_threads_would_read_is_looked_at),
        cmocka_unit_test(test_cut_anywhere_it_is_odd_or_none),
        cmocka_unit_test(test_other_files_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
