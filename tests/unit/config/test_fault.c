#include "config/fault.h"

#include "said.h"

static void faults_are_printed_in_order_of_file_and_line(void **state)
{
    (void)state;
    struct faults faults = {0};
    faults_add(&faults, FAULT_ERROR, (struct place){"b.ini", 2, 0}, "second");
    faults_add(&faults, FAULT_WARNING, (struct place){"b.ini", 1, 7}, "first %d", 1);
    faults_add(&faults, FAULT_ERROR, (struct place){"a.ini", 0, 0}, "is missing");
    faults_add(&faults, FAULT_ERROR, (struct place){"b.ini", 2, 0}, "third");
    assert_int_equal(faults.count, 4);
    assert_int_equal(faults.errors, 3);
    assert_string_equal(said(&faults), "a.ini: is missing\n"
                                       "b.ini:1:7: warning: first 1\n"
                                       "b.ini:2: second\n"
                                       "b.ini:2: third");
}

static void repeats_are_told_once(void **state)
{
    (void)state;
    struct faults faults = {0};
    struct place place = {"a.ini", 2, 0};
    faults_add(&faults, FAULT_ERROR, place, "twice");
    faults_add(&faults, FAULT_ERROR, (struct place){"a.ini", 1, 0}, "twice");
    faults_add(&faults, FAULT_WARNING, place, "twice");
    faults_add(&faults, FAULT_ERROR, place, "twice");
    faults_settle(&faults);
    assert_int_equal(faults.count, 3);
    assert_int_equal(faults.errors, 2);
    assert_int_equal(faults.items[0].line, 1);
    faults_add(&faults, FAULT_ERROR, place, "twice");
    assert_string_equal(said(&faults), "a.ini:1: twice\na.ini:2: twice\na.ini:2: warning: twice");
    faults_settle(&faults);
    assert_int_equal(faults.count, 0);
}

static void a_fault_is_one_harmless_line(void **state)
{
    (void)state;
    struct faults faults = {0};
    faults_add(&faults, FAULT_ERROR, (struct place){"x\n.ini", 1, 0}, "%s",
               "a\nb\x1b[31m\x7f\xc2\x9b b\xc3\xbc \xff\xc3");
    assert_string_equal(said(&faults), "x\\x0a.ini:1: a\\x0ab\\x1b[31m\\x7f\\xc2\\x9b b\xc3\xbc "
                                       "\\xff\\xc3");
}

static void one_fault_can_be_formatted_into_a_buffer(void **state)
{
    (void)state;
    struct faults faults = {0};
    char text[16];
    faults_add(&faults, FAULT_WARNING, (struct place){"a", 3, 0}, "rather long text");
    assert_string_equal(fault_format(&faults.items[0], text, sizeof(text)), "a:3: warning: r");
    faults_free(&faults);
    assert_null(faults.items);
}

static void the_nearest_word_is_found(void **state)
{
    (void)state;
    static const char *const words[] = {"allow", "allow-file",     "deny",
                                        "uid",   "allowedDomains", NULL};
    static const struct {
        const char *word, *nearest;
    } rows[] = {
        {"alow", "allow"},
        {"allow-fiel", "allow-file"},
        {"Allow", "allow"},
        {"dney", "deny"},
        {"udi", "uid"},
        {"xyz", NULL},
        {"", NULL},
        {"alloweddomain", "allowedDomains"},
        {"completely-other", NULL},
        {"ab", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *nearest = nearest_word(rows[i].word, words);
        if (rows[i].nearest == NULL)
            assert_null(nearest);
        else
            assert_string_equal(nearest != NULL ? nearest : "(none)", rows[i].nearest);
    }
    char endless[200];
    memset(endless, 'a', sizeof(endless) - 1);
    endless[sizeof(endless) - 1] = '\0';
    assert_null(nearest_word(endless, words));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_are_printed_in_order_of_file_and_line),
        cmocka_unit_test(repeats_are_told_once),
        cmocka_unit_test(a_fault_is_one_harmless_line),
        cmocka_unit_test(one_fault_can_be_formatted_into_a_buffer),
        cmocka_unit_test(the_nearest_word_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
