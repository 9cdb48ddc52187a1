#include "dns/name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static enum name_fault fault_of(struct str text)
{
    struct name name;
    return name_parse(&name, text);
}

static void assert_canonical(const char *text, const char *canonical)
{
    struct name name;
    assert_int_equal(name_parse(&name, str_of(text)), NAME_OK);
    assert_string_equal(name.text, canonical);
    assert_int_equal(name.len, strlen(canonical));
}

static void assert_idna(const char *text, const char *canonical)
{
    struct name name;
    assert_int_equal(name_parse_idna(&name, str_of(text)), NAME_OK);
    assert_string_equal(name.text, canonical);
}

static void assert_idna_fault(const char *text, enum name_fault fault)
{
    struct name name;
    assert_int_equal(name_parse_idna(&name, str_of(text)), fault);
}

static struct name name_of(const char *text)
{
    struct name name;
    assert_int_equal(name_parse(&name, str_of(text)), NAME_OK);
    return name;
}

static void test_one_form_for_every_spelling(void **state)
{
    (void)state;
    assert_canonical("example.com", "example.com");
    assert_canonical("EXAMPLE.Com", "example.com");
    assert_canonical("example.com.", "example.com");
    assert_canonical("localhost", "localhost");
    assert_canonical("_dmarc.Example.com", "_dmarc.example.com");
    assert_canonical("a_b-c.x", "a_b-c.x");
    assert_canonical("xn--BCHER-kva.test", "xn--bcher-kva.test");
    assert_canonical("1.2.3.4.in-addr.arpa", "1.2.3.4.in-addr.arpa");
    assert_canonical("3com.3d", "3com.3d");
}

static void test_empty_labels(void **state)
{
    (void)state;
    assert_int_equal(fault_of(STR("")), NAME_EMPTY);
    assert_int_equal(fault_of(STR_NULL), NAME_EMPTY);
    const char *bad[] = {".", "..", ".a", "a..", "a..b", "evil.test..", ".example.com"};
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(fault_of(str_of(bad[i])), NAME_LABEL_EMPTY);
}

/* S01, S02: no byte is dropped, folded or read as an end. */
static void test_only_ldh_underscore_and_dot(void **state)
{
    (void)state;
    assert_int_equal(fault_of(STR("evil.test\0.good.test")), NAME_BAD_BYTE);
    for (int byte = 0; byte < 256; byte++) {
        char text[] = "go?od.good.test";
        text[2] = (char)byte;
        bool good = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                    (byte >= 'A' && byte <= 'Z') || byte == '-' || byte == '_' || byte == '.';
        enum name_fault fault = fault_of((struct str){text, sizeof(text) - 1});
        assert_int_equal(fault, good ? NAME_OK : NAME_BAD_BYTE);
    }
}

/* P07, P08: a client speaks ASCII. */
static void test_unicode_is_not_folded(void **state)
{
    (void)state;
    const char *bad[] = {"b\u00fccher.test", "\u212aelvin.test", "\u0130.test",
                         "a\u3002test",      "a\uff0etest",      "\uff47ood.test"};
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(fault_of(str_of(bad[i])), NAME_BAD_BYTE);
}

static void test_hyphens_stay_inside(void **state)
{
    (void)state;
    const char *bad[] = {"-a.test", "a-.test", "a.-b", "a.b-", "-", "a.b-."};
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(fault_of(str_of(bad[i])), NAME_BAD_HYPHEN);
    assert_canonical("r3---sn-4g5e.test", "r3---sn-4g5e.test");
}

/* P04: whatever inet_aton() would read. */
static void test_numbers_are_not_names(void **state)
{
    (void)state;
    const char *bad[] = {
        "127.1",         "0x7f.1",     "2130706433", "0177.0.0.1",    "0",
        "127.0.0.1",     "127.0.0.1.", "0x7f000001", "0x7F.0x1",      "1.2.3.4.5",
        "good.123",      "0x",         "a.0x",       "0X7F.0.0.0x01", "256.1.1.1",
        "00000177.0x.1", "1.2.3.0xfF", "4294967296", "127.0.1",       "0x7f.0.1.",
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(fault_of(str_of(bad[i])), NAME_NUMERIC);
    assert_canonical("0xfg", "0xfg");
    assert_canonical("127.0.0.1a", "127.0.0.1a");
    assert_canonical("1x2", "1x2");
}

static void test_lengths(void **state)
{
    (void)state;
    char text[NAME_MAX_LEN + 3];
    memset(text, 'a', sizeof(text));
    assert_int_equal(fault_of((struct str){text, 63}), NAME_OK);
    assert_int_equal(fault_of((struct str){text, 64}), NAME_LABEL_TOO_LONG);

    for (size_t dot = 63; dot < sizeof(text); dot += 64)
        text[dot] = '.';
    assert_int_equal(fault_of((struct str){text, 253}), NAME_OK);
    assert_int_equal(fault_of((struct str){text, 254}), NAME_TOO_LONG);
    text[253] = '.';
    assert_int_equal(fault_of((struct str){text, 254}), NAME_OK);
    assert_int_equal(fault_of((struct str){text, 255}), NAME_TOO_LONG);
}

static void test_idna_gives_a_labels(void **state)
{
    (void)state;
    assert_idna("b\u00fccher.test", "xn--bcher-kva.test");
    assert_idna("B\u00fccher.TEST.", "xn--bcher-kva.test");
    assert_idna("bu\u0308cher.test", "xn--bcher-kva.test"); /* NFC */
    assert_idna("stra\u00dfe.test", "xn--strae-oqa.test");  /* non-transitional */
    assert_idna("_x.b\u00fccher.test", "_x.xn--bcher-kva.test");
    assert_idna("Plain.Test.", "plain.test");
    assert_idna("XN--BCHER-KVA.test", "xn--bcher-kva.test");
}

static void test_idna_refuses_look_alikes(void **state)
{
    (void)state;
    const char *bad[] = {
        "\u212aelvin.test", /* KELVIN SIGN */
        "a\u3002test",      /* IDEOGRAPHIC FULL STOP */
        "a\uff0etest",      /* FULLWIDTH FULL STOP */
        "\uff47ood.test",   /* FULLWIDTH G */
        "\u0130.test",      /* capital I with dot */
        "B\u00dcCHER.test", /* upper case beyond ASCII */
        "\u2615.test",      /* symbol */
        "\u200d.test",      /* joiner without context */
        "\xff.test",        /* not UTF-8 */
        "\xc0\xae.test",    /* overlong */
        "xn--a\u00fc.test",
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_idna_fault(bad[i], NAME_NOT_IDNA);
}

static void test_idna_keeps_the_rules_of_names(void **state)
{
    (void)state;
    struct name name;
    assert_int_equal(name_parse_idna(&name, STR("b\u00fc\0.test")), NAME_BAD_BYTE);
    assert_idna_fault("\u00fc.a b", NAME_BAD_BYTE);
    assert_idna_fault("\u00fc..test", NAME_LABEL_EMPTY);
    assert_idna_fault("\u00fc..", NAME_LABEL_EMPTY);
    assert_idna_fault("-\u00fc.test", NAME_BAD_HYPHEN);
    assert_idna_fault("\u00fc-.test", NAME_BAD_HYPHEN);
    assert_idna_fault("\u00fc.127", NAME_NUMERIC);
    assert_idna_fault("", NAME_EMPTY);

    char text[2000];
    memset(text, 'a', sizeof(text));
    memcpy(text, "\u00fc", 2);
    assert_int_equal(name_parse_idna(&name, (struct str){text, 90}), NAME_LABEL_TOO_LONG);
    assert_int_equal(name_parse_idna(&name, (struct str){text, sizeof(text)}), NAME_TOO_LONG);
}

/* P10: on a label boundary, any depth, never the apex. */
static void test_below(void **state)
{
    (void)state;
    struct name apex = name_of("good.test");
    const char *below[] = {"a.good.test", "a.b.c.good.test", "good.test.good.test"};
    const char *beside[] = {"good.test", "foogood.test", "good.test.evil.test", "test",
                            "ood.test",  "x-good.test",  "a.good.testx",        "good"};
    for (size_t i = 0; i < COUNT(below); i++) {
        struct name name = name_of(below[i]);
        assert_true(name_is_below(&name, &apex));
    }
    for (size_t i = 0; i < COUNT(beside); i++) {
        struct name name = name_of(beside[i]);
        assert_false(name_is_below(&name, &apex));
    }
}

static void test_localhost(void **state)
{
    (void)state;
    const char *yes[] = {"localhost", "LOCALHOST.", "a.localhost", "a.b.LocalHost"};
    const char *no[] = {"localhost.test", "xlocalhost", "localhos", "local", "a.xlocalhost"};
    for (size_t i = 0; i < COUNT(yes); i++) {
        struct name name = name_of(yes[i]);
        assert_true(name_is_localhost(&name));
    }
    for (size_t i = 0; i < COUNT(no); i++) {
        struct name name = name_of(no[i]);
        assert_false(name_is_localhost(&name));
    }
}

static void test_every_fault_has_words_of_its_own(void **state)
{
    (void)state;
    for (int a = NAME_OK; a <= NAME_NOT_IDNA; a++)
        for (int b = NAME_OK; b < a; b++)
            assert_string_not_equal(name_fault_text((enum name_fault)a),
                                    name_fault_text((enum name_fault)b));
}

static uint32_t dice_state = 1;

static uint32_t dice(uint32_t sides)
{
    dice_state = dice_state * 1664525 + 1013904223;
    return (dice_state >> 8) % sides;
}

/* Whatever is canonical stays as it is, and every spelling of it, however often, leads there. */
static void test_the_canonical_form_is_its_own(void **state)
{
    (void)state;
    static const char *const pieces[] = {"a",
                                         "B",
                                         "xn--bcher-kva",
                                         "XN--STRAE-OQA",
                                         "\u00fc",
                                         "\u00df",
                                         "\u4f8b",
                                         "7",
                                         "0x7f",
                                         "-",
                                         "_",
                                         ".",
                                         ".",
                                         ".",
                                         "test",
                                         "TEST",
                                         "\u0130",
                                         " "};
    unsigned good = 0;
    for (unsigned round = 0; round < 20000; round++) {
        char text[NAME_MAX_LEN + 2] = "";
        for (uint32_t i = 0, count = 1 + dice(7); i < count; i++)
            strcat(text, pieces[dice(COUNT(pieces))]);
        struct name once, twice, upper;
        if (name_parse_idna(&once, str_of(text)) != NAME_OK)
            continue;
        good++;
        assert_int_equal(name_parse_idna(&twice, name_str(&once)), NAME_OK);
        assert_true(name_eq(&once, &twice));
        assert_int_equal(name_parse(&twice, name_str(&once)), NAME_OK);
        assert_true(name_eq(&once, &twice));
        snprintf(text, sizeof(text), "%s.", once.text);
        for (char *c = text; *c != '\0'; c++)
            if (*c >= 'a' && *c <= 'z' && dice(2))
                *c = (char)(*c - 'a' + 'A');
        assert_int_equal(name_parse(&upper, str_of(text)), NAME_OK);
        assert_true(name_eq(&once, &upper));
    }
    assert_true(good > 1000); /* the dice do find names */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_form_for_every_spelling),
        cmocka_unit_test(test_empty_labels),
        cmocka_unit_test(test_only_ldh_underscore_and_dot),
        cmocka_unit_test(test_unicode_is_not_folded),
        cmocka_unit_test(test_hyphens_stay_inside),
        cmocka_unit_test(test_numbers_are_not_names),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_idna_gives_a_labels),
        cmocka_unit_test(test_idna_refuses_look_alikes),
        cmocka_unit_test(test_idna_keeps_the_rules_of_names),
        cmocka_unit_test(test_the_canonical_form_is_its_own),
        cmocka_unit_test(test_below),
        cmocka_unit_test(test_localhost),
        cmocka_unit_test(test_every_fault_has_words_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
