#include "config/ini.h"

#include "files.h"
#include "said.h"

#include <sys/stat.h>
#include <unistd.h>

/* The entries one a line: `LINE section/name`, `LINE key=value`, `LINE +key=value` when continued.
 */
static const char *entries_of(const struct ini_doc *doc)
{
    static char *text;
    static size_t size;
    free(text);
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; i < doc->count; i++) {
        const struct ini_entry *entry = &doc->entries[i];
        if (entry->key == NULL)
            fprintf(out, "%u %s/%s\n", entry->place.line, entry->section, entry->name);
        else
            fprintf(out, "%u %s%s=%s\n", entry->place.line, entry->continuation ? "+" : "",
                    entry->key, entry->value);
    }
    fclose(out);
    return text;
}

struct row {
    const char *text, *result;
};

static void read_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct ini_doc doc = {0};
        struct faults faults = {0};
        assert_true(ini_read_text(&doc, "g.ini", str_of(rows[i].text), &faults));
        assert_string_equal(said(&faults), "");
        assert_string_equal(entries_of(&doc), rows[i].result);
        ini_free(&doc);
    }
}

static void refuse_bytes(struct str text, const char *result)
{
    struct ini_doc doc = {0};
    struct faults faults = {0};
    bool good = ini_read_text(&doc, "g.ini", text, &faults);
    assert_string_equal(said(&faults), result);
    assert_false(good);
    ini_free(&doc);
}

static void refuse_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        refuse_bytes(str_of(rows[i].text), rows[i].result);
}

#define READ(rows) read_rows(rows, sizeof(rows) / sizeof((rows)[0]))
#define REFUSE(rows) refuse_rows(rows, sizeof(rows) / sizeof((rows)[0]))

static void sections_keys_and_values_have_their_lines(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"[a]\n", "1 a/\n"},
        {"[a]", "1 a/\n"},
        {"\n; c\n# c\n  ; c\n\n[a b]\nk=v\n\nk2 = v 2 \n", "6 a/b\n7 k=v\n9 k2=v 2\n"},
        {"[ a \t b ] ; comment\n", "1 a/b\n"},
        {"[a]\n[b x]\n[c]\nk=1\n", "1 a/\n2 b/x\n3 c/\n4 k=1\n"},
        {"[a]\r\nk = v\r\n", "1 a/\n2 k=v\n"},
        {"[a]\nk =\n", "1 a/\n2 k=\n"},
        {"[a]\nk : v=w\n", "1 a/\n2 k=v=w\n"},
        {"[a]\nk = v:w\n", "1 a/\n2 k=v:w\n"},
        {"[a]\nk = \xc3\xbc\n", "1 a/\n2 k=\xc3\xbc\n"},
    };
    READ(rows);
}

static void comments_are_cut_outside_quotes_only(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"[a]\nk = v ; c\n", "1 a/\n2 k=v\n"},
        {"[a]\nk = v;c\n", "1 a/\n2 k=v;c\n"},
        {"[a]\nk = v\t;c \"\n", "1 a/\n2 k=v\n"},
        {"[a]\nk = ; c\n", "1 a/\n2 k=\n"},
        {"[a]\nk = v reason=\"a ; b\" ; c\n", "1 a/\n2 k=v reason=\"a ; b\"\n"},
        {"[a]\nk = v reason=\"a # b\"\n", "1 a/\n2 k=v reason=\"a # b\"\n"},
        {"[a]\nk = v#c\n", "1 a/\n2 k=v#c\n"},
    };
    READ(rows);
}

static void indented_lines_continue_a_value_whole(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"[a]\nk = a.test:443\n  b.test:80 = x\n\tc.test ; c\n",
         "1 a/\n2 k=a.test:443\n3 +k=b.test:80 = x\n4 +k=c.test\n"},
        {"[a]\nk = 1\n\n; between\n  2\n", "1 a/\n2 k=1\n5 +k=2\n"},
        {"[a]\nk =\n  1\n  [2001:db8::1]:443\n  [::1]\n",
         "1 a/\n2 k=\n3 +k=1\n4 +k=[2001:db8::1]:443\n5 +k=[::1]\n"},
        {"[a]\nk = 1\nl = 2\n  3\n[b]\nk = 4\n", "1 a/\n2 k=1\n3 l=2\n4 +l=3\n5 b/\n6 k=4\n"},
    };
    READ(rows);
}

static void what_would_be_cut_or_skipped_is_refused(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"", "g.ini:1: is empty"},
        {" \n\r\n\t\n", "g.ini:1: is empty"},
        {"; only comments\n", "g.ini:1: has no [section], so it configures nothing"},
        {"k = v\n[a]\n", "g.ini:1: `k = v` stands before the first [section]"},
        {"[a]\njunk\n", "g.ini:2: expected KEY = VALUE, found `junk`"},
        {"[a]\nallow good.test:443\n",
         "g.ini:2: expected KEY = VALUE, but `allow good.test` is not one word"},
        {"[a]\n = v\n", "g.ini:2: an indented line continues the list above it, and here is none"},
        {"[a]\n= v\n", "g.ini:2: a key is missing before `=`"},
        {"[a\nk = v\n", "g.ini:1: a section header ends with `]`"},
        {"[a ; ]\n", "g.ini:1: a section header ends with `]`"},
        {"[a] b\n", "g.ini:1: `b` stands behind the section header"},
        {"[a]]\n", "g.ini:1: `]` stands behind the section header"},
        {"[]\n", "g.ini:1: a section needs a name between its brackets"},
        {"[  ]\n", "g.ini:1: a section needs a name between its brackets"},
        {"[a]\nk = 1\n  [b]\n", "g.ini:3: a section header must not be indented"},
        {" [a]\nk = v\n", "g.ini:1: a section header must not be indented"},
        {"[a]\n  k = v\n",
         "g.ini:2: an indented line continues the list above it, and here is none"},
        {"[a]\nk = v # c\n",
         "g.ini:2: `#` starts a comment only at the start of a line; behind a value it is ` ;`"},
        {"[a]\nk = v \"open ; c\n", "g.ini:2: a quote is opened and not closed on this line"},
        {"[a]\nk = a\rb\n", "g.ini:2: byte 0x0d in column 6 is not text"},
        {"[a]\nk = \x1b[31m\n", "g.ini:2: byte 0x1b in column 5 is not text"},
        {"[a]\nk = \xff\n", "g.ini:2: byte 0xff in column 5 is not valid UTF-8"},
        {"[a]\nk = \xc0\xaf\n", "g.ini:2: byte 0xc0 in column 5 is not valid UTF-8"},
        {"[a]\nk = \xed\xa0\x80\n", "g.ini:2: byte 0xed in column 5 is not valid UTF-8"},
        {"[a]\n; \x7f\n", "g.ini:2: byte 0x7f in column 3 is not text"},
        {"\xef\xbb\xbf[a]\n",
         "g.ini:1: starts with a byte order mark; save it as UTF-8 without one"},
        {"[a234567890123456789012345678901234567890123456789x]\n",
         "g.ini:1: a section header has at most 49 bytes between its brackets, this one has 50"},
        {"[a]\nk2345678901234567890123456789012345678901234567890 = v\n",
         "g.ini:2: a key has at most 49 bytes, this one has 50"},
    };
    REFUSE(rows);
    refuse_bytes((struct str){"[a]\nk = \0v\n", 11},
                 "g.ini:2: contains a NUL byte, so it is not a text file");
}

static void every_fault_is_told_once(void **state)
{
    (void)state;
    static const struct row rows[] = {
        /* Every fault is told; what hangs on a line at fault is not told again. */
        {"[a\nk = v\n  w\n[b] x\nl = w\n[c]\njunk\n  1\nm\n",
         "g.ini:1: a section header ends with `]`\n"
         "g.ini:4: `x` stands behind the section header\n"
         "g.ini:7: expected KEY = VALUE, found `junk`\n"
         "g.ini:8: an indented line continues the list above it, and here is none\n"
         "g.ini:9: expected KEY = VALUE, found `m`"},
    };
    REFUSE(rows);
}

static void lines_may_have_4096_bytes_and_no_more(void **state)
{
    (void)state;
    char text[INI_LINE_MAX + 100] = "[a]\nk = ";
    size_t start = strlen(text);
    memset(text + start, 'x', INI_LINE_MAX - 4);
    strcpy(text + start + INI_LINE_MAX - 4, "\nl = 1\n");
    struct ini_doc doc = {0};
    struct faults faults = {0};
    assert_true(ini_read_text(&doc, "g.ini", str_of(text), &faults));
    assert_int_equal(doc.count, 3);
    assert_int_equal(strlen(doc.entries[1].value), INI_LINE_MAX - 4);
    assert_string_equal(doc.entries[2].value, "1");
    ini_free(&doc);

    strcpy(text + start + INI_LINE_MAX - 4, "x\nl = 1\n");
    refuse_bytes(str_of(text), "g.ini:2: a line has at most 4096 bytes, this one has 4097");
}

static void read_main(struct ini_doc *doc, const char *path, const char *result)
{
    struct faults faults = {0};
    *doc = (struct ini_doc){0};
    ini_read(doc, path, &faults);
    assert_string_equal(said(&faults), result);
}

static void includes_are_read_in_lexical_order_where_they_stand(void **state)
{
    (void)state;
    assert_int_equal(mkdir("conf.d", 0700) | mkdir("d[1]", 0700) | mkdir("d[1]/c", 0700), 0);
    write_file("g.ini", "[gateway]\nbefore = 1\ninclude = conf.d/*.ini\nafter = 1\n[z]\n");
    write_file("conf.d/20.ini", "[b]\n");
    write_file("conf.d/10.ini", "; comments alone are no fault here\n");
    write_file("conf.d/15.ini", "[a]\nk = v\n[gateway]\ninclude = ../other\n");
    write_file("conf.d/30.ini~", "not read");
    write_file("conf.d/.hidden.ini", "not read");
    write_file("other", "[o]\n");

    struct ini_doc doc;
    read_main(&doc, "g.ini", "");
    assert_string_equal(entries_of(&doc), "1 gateway/\n2 before=1\n1 a/\n2 k=v\n3 gateway/\n1 o/\n"
                                          "1 b/\n4 after=1\n5 z/\n");
    static const char *const files[] = {"g.ini", "conf.d/10.ini", "conf.d/15.ini",
                                        "conf.d/../other", "conf.d/20.ini"};
    assert_int_equal(doc.file_count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(doc.files[i].path, files[i]);
    assert_string_equal(doc.entries[7].section, "gateway");
    assert_string_equal(doc.entries[7].place.file, "g.ini");
    assert_int_equal(doc.include_dir_count, 1); /* a literal is no place to look for new files */
    assert_string_equal(doc.include_dirs[0], "conf.d");
    /* sha256sum of "[o]\n" */
    assert_memory_equal(doc.files[3].sha256, "\x4a\xdb\x48\x9f", 4);
    ini_free(&doc);

    write_file("d[1]/g.ini", "[gateway]\ninclude = c/*.ini\n");
    write_file("d[1]/c/1.ini", "[c]\n");
    read_main(&doc, "d[1]/g.ini", "");
    assert_string_equal(entries_of(&doc), "1 gateway/\n1 c/\n");
    assert_string_equal(doc.include_dirs[0], "d[1]/c");
    ini_free(&doc);
}

static void the_directories_of_patterns_are_kept(void **state)
{
    (void)state;
    struct ini_doc doc;
    assert_int_equal(mkdir("sub", 0700), 0);
    write_file("sub/g.ini", "[gateway]\ninclude = *.none\ninclude = more/?/x.ini\n"
                            "include = /nowhere/a*/*.ini\ninclude = /*.none\n");
    read_main(&doc, "sub/g.ini", "");
    static const char *const dirs[] = {"sub/.", "sub/more", "/nowhere", "/"};
    assert_int_equal(doc.include_dir_count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(doc.include_dirs[i], dirs[i]);
    ini_free(&doc);
}

/* A wildcard in a directory: whatever may come to match appears in one of these. */
static void the_directories_that_wildcards_lead_to_are_kept(void **state)
{
    (void)state;
    struct ini_doc doc;
    static const char *const made[] = {"t", "t/a", "t/a/conf", "t/a/conf/x.ini", "t/b", "t/c"};
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
        assert_int_equal(mkdir(made[i], 0700), 0);
    write_file("t/c/conf", "a file");
    write_file("t/file", "another");
    write_file("g.ini", "[gateway]\ninclude = t/*/conf/*.ini/[x]/*.none\ninclude = t/?\n");
    read_main(&doc, "g.ini",
              "g.ini:3: t/a: is a directory\ng.ini:3: t/b: is a directory\n"
              "g.ini:3: t/c: is a directory");
    static const char *const dirs[] = {"t", "t/a", "t/b", "t/c", "t/a/conf", "t/a/conf/x.ini", "t"};
    assert_int_equal(doc.include_dir_count, sizeof(dirs) / sizeof(dirs[0]));
    for (size_t i = 0; i < doc.include_dir_count; i++)
        assert_string_equal(doc.include_dirs[i], dirs[i]);
    ini_free(&doc);
}

static void includes_that_cannot_be_read_are_refused(void **state)
{
    (void)state;
    struct ini_doc doc;
    assert_int_equal(mkdir("dir", 0700), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    write_file("none.ini", "[gateway]\ninclude = nothing/*.ini\ninclude = *.absent\n");
    read_main(&doc, "none.ini", "");
    ini_free(&doc);

    write_file("bad.ini", "[gateway]\ninclude = missing.ini\ninclude = dir\ninclude = fifo\n"
                          "include =\ninclude = empty\n");
    write_file("empty", "");
    read_main(&doc, "bad.ini",
              "bad.ini:2: missing.ini: No such file or directory\n"
              "bad.ini:3: dir: is a directory\n"
              "bad.ini:4: fifo: is not a regular file\n"
              "bad.ini:5: include needs a value\n"
              "empty:1: is empty");
    ini_free(&doc);

    /* A directory that cannot be listed hides files. Size 0 and yet not empty: as if it grew. */
    assert_int_equal(symlink("loop", "loop"), 0);
    write_file("hidden.ini", "[gateway]\ninclude = loop/*.ini\ninclude = /proc/self/status\n");
    read_main(&doc, "hidden.ini",
              "hidden.ini:2: include: cannot list `loop/*.ini`: Too many levels of symbolic links\n"
              "hidden.ini:3: /proc/self/status: grew while it was read");
    ini_free(&doc);

    write_file("faulty.ini", "[gateway]\ninclude = part.ini\n");
    write_file("part.ini", "[x]\njunk\n");
    read_main(&doc, "faulty.ini", "part.ini:2: expected KEY = VALUE, found `junk`");
    ini_free(&doc);

    read_main(&doc, "absent.ini", "absent.ini:1: No such file or directory");
    ini_free(&doc);
    read_main(&doc, "dir", "dir:1: is a directory");
    ini_free(&doc);
}

static void includes_end(void **state)
{
    (void)state;
    struct ini_doc doc;
    write_file("self.ini", "[gateway]\ninclude = s*.ini\n");
    read_main(&doc, "self.ini", "self.ini:2: self.ini includes itself");
    ini_free(&doc);

    write_file("a.ini", "[gateway]\ninclude = b.ini\n");
    write_file("b.ini", "[gateway]\ninclude = link.ini\n");
    assert_int_equal(symlink("a.ini", "link.ini"), 0);
    read_main(&doc, "a.ini", "b.ini:2: link.ini includes itself");
    ini_free(&doc);

    for (int i = 0; i < 20; i++) {
        char path[32], text[64];
        snprintf(path, sizeof(path), "deep%d.ini", i);
        snprintf(text, sizeof(text), "[gateway]\ninclude = deep%d.ini\n", i + 1);
        write_file(path, text);
    }
    write_file("deep20.ini", "[x]\n");
    read_main(&doc, "deep0.ini", "deep16.ini:2: include goes deeper than 16 files");
    ini_free(&doc);
    read_main(&doc, "deep4.ini", "");
    ini_free(&doc);

    refuse_bytes(STR("[gateway]\ninclude = x\n"), "g.ini:2: include works only in files");

    assert_int_equal(mkdir("many", 0700), 0);
    for (int i = 0; i < INI_FILES_MAX; i++) {
        char path[32];
        snprintf(path, sizeof(path), "many/%04d", i);
        write_file(path, ";\n");
    }
    write_file("many.ini", "[gateway]\ninclude = many/*\n");
    write_file("most.ini", "[gateway]\ninclude = many/[0-3]*\n");
    read_main(&doc, "most.ini", "");
    ini_free(&doc);
    read_main(&doc, "many.ini", "many.ini:2: include reads more than 4096 files");
    assert_int_equal(doc.file_count, INI_FILES_MAX);
    ini_free(&doc);

    for (int i = 0; i < INI_FILES_MAX; i++) {
        char path[32];
        snprintf(path, sizeof(path), "many/d%04d", i);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    write_file("wide.ini", "[gateway]\ninclude = many/*/*.ini\n");
    read_main(&doc, "wide.ini", "wide.ini:2: include looks into more than 4096 directories");
    ini_free(&doc);
}

static void side_files_are_found_beside_the_file_that_names_them(void **state)
{
    (void)state;
    assert_int_equal(mkdir("sub", 0700), 0);
    write_file("sub/list", "a.test\n");
    struct ini_doc doc = {0};
    struct faults faults = {0};
    const char *path;
    struct place place = {"sub/g.ini", 7, 0};
    struct str bytes = ini_read_side_file(&doc, place, "list", 100, &path, &faults);
    assert_true(str_eq(bytes, STR("a.test\n")));
    assert_string_equal(path, "sub/list");
    assert_int_equal(doc.file_count, 1);
    assert_null(ini_read_side_file(&doc, place, "absent", 100, &path, &faults).p);
    assert_null(ini_read_side_file(&doc, place, "list", 6, &path, &faults).p);
    assert_string_equal(said(&faults), "sub/g.ini:7: sub/absent: No such file or directory\n"
                                       "sub/g.ini:7: sub/list: is larger than 6 bytes");
    ini_free(&doc);
}

#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, enter_directory, leave_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_keys_and_values_have_their_lines),
        cmocka_unit_test(comments_are_cut_outside_quotes_only),
        cmocka_unit_test(indented_lines_continue_a_value_whole),
        cmocka_unit_test(what_would_be_cut_or_skipped_is_refused),
        cmocka_unit_test(every_fault_is_told_once),
        cmocka_unit_test(lines_may_have_4096_bytes_and_no_more),
        IN_DIRECTORY(includes_are_read_in_lexical_order_where_they_stand),
        IN_DIRECTORY(the_directories_of_patterns_are_kept),
        IN_DIRECTORY(the_directories_that_wildcards_lead_to_are_kept),
        IN_DIRECTORY(includes_that_cannot_be_read_are_refused),
        IN_DIRECTORY(includes_end),
        IN_DIRECTORY(side_files_are_found_beside_the_file_that_names_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
