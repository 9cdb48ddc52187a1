#include "config/value.h"

#include "said.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static void switches_are_six_words(void **state)
{
    (void)state;
    static const char *const on[] = {"yes", "true", "on"}, *const off[] = {"no", "false", "off"};
    static const char *const neither[] = {"", "Yes", "1", "0", "yes ", "y", "ye"};
    bool value;
    for (size_t i = 0; i < COUNT(on); i++)
        assert_true(value_bool(str_of(on[i]), &value) && value);
    for (size_t i = 0; i < COUNT(off); i++)
        assert_true(value_bool(str_of(off[i]), &value) && !value);
    for (size_t i = 0; i < COUNT(neither); i++)
        assert_false(value_bool(str_of(neither[i]), &value));
}

static void durations_need_a_unit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        uint64_t ms;
    } rows[] = {
        {"0", true, 0},         {"0s", true, 0},
        {"250ms", true, 250},   {"10s", true, 10000},
        {"15m", true, 900000},  {"2h", true, 7200000},
        {"1d", true, 86400000}, {"10", false, 0},
        {"10 s", false, 0},     {"s", false, 0},
        {"1.5s", false, 0},     {"10S", false, 0},
        {"1m30s", false, 0},    {"18446744073709551615d", false, 0},
        {"", false, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t ms;
        assert_int_equal(value_duration_ms(str_of(rows[i].text), &ms), rows[i].good);
        if (rows[i].good)
            assert_int_equal(ms, rows[i].ms);
    }
}

static void sizes_count_in_1024(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        uint64_t bytes;
    } rows[] = {
        {"512", true, 512},       {"64k", true, 65536},
        {"64K", true, 65536},     {"1m", true, 1048576},
        {"1g", true, 1073741824}, {"1t", false, 0},
        {"1kb", false, 0},        {"k", false, 0},
        {"-1k", false, 0},        {"18446744073709551615k", false, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t bytes;
        assert_int_equal(value_size(str_of(rows[i].text), &bytes), rows[i].good);
        if (rows[i].good)
            assert_int_equal(bytes, rows[i].bytes);
    }
}

static void rates_are_a_count_or_a_size_in_a_time(void **state)
{
    (void)state;
    uint64_t count, per_ms;
    assert_true(value_rate(STR("50/s"), false, &count, &per_ms));
    assert_int_equal(count, 50);
    assert_int_equal(per_ms, 1000);
    assert_true(value_rate(STR("1g/h"), true, &count, &per_ms));
    assert_int_equal(count, 1 << 30);
    assert_int_equal(per_ms, 3600 * 1000);
    assert_false(value_rate(STR("1g/h"), false, &count, &per_ms));
    static const char *const bad[] = {"", "50", "50/", "/s", "50/ms", "50/w", "50/s/s", "50 /s"};
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(value_rate(str_of(bad[i]), false, &count, &per_ms));
}

static void times_follow_rfc_3339(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        int64_t seconds;
    } rows[] = {
        {"1970-01-01T00:00:00Z", true, 0},
        {"2026-03-01T12:00:00Z", true, 1772366400},
        {"2026-03-01t13:30:00.25+01:30", true, 1772366400},
        {"2026-03-01T10:30:00-01:30", true, 1772366400},
        {"2024-02-29T00:00:00Z", true, 1709164800},
        {"2016-12-31T23:59:60Z", true, 1483228800},
        {"2023-02-29T00:00:00Z", false, 0},
        {"2026-13-01T00:00:00Z", false, 0},
        {"2026-00-01T00:00:00Z", false, 0},
        {"2026-01-00T00:00:00Z", false, 0},
        {"2026-04-31T00:00:00Z", false, 0},
        {"2026-01-01T24:00:00Z", false, 0},
        {"2026-01-01T00:60:00Z", false, 0},
        {"2026-01-01T00:00:61Z", false, 0},
        {"2026-01-01T00:00:00", false, 0},
        {"2026-01-01 00:00:00Z", false, 0},
        {"2026-01-01T00:00:00.Z", false, 0},
        {"2026-01-01T00:00:00+24:00", false, 0},
        {"2026-01-01T00:00:00+0100", false, 0},
        {"2026-01-01", false, 0},
        {"2026-1-1T00:00:00Z", false, 0},
        {"", false, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t seconds;
        assert_int_equal(value_rfc3339(str_of(rows[i].text), &seconds), rows[i].good);
        if (rows[i].good)
            assert_int_equal(seconds, rows[i].seconds);
    }
}

static void ranges_may_stand_in_brackets_where_they_are_ipv6(void **state)
{
    (void)state;
    static const struct {
        const char *text, *base;
        unsigned len;
    } good[] = {
        {"10.0.0.0/8", "10.0.0.0", 8},
        {"10.0.0.1", "10.0.0.1", 32},
        {"::1", "::1", 128},
        {"[::1]", "::1", 128},
        {"2001:db8::/32", "2001:db8::", 32},
        {"[2001:db8::/32]", "2001:db8::", 32},
        {"[2001:db8::]/32", "2001:db8::", 32},
        {"[2001:DB8:0:0:0:0:0:1]/128", "2001:db8::1", 128},
        {"[::ffff:10.0.0.0/104]", "10.0.0.0", 8},
        {"[0000:0000:0000:0000:0000:ffff:255.255.255.255]/128", "255.255.255.255", 32},
    };
    struct cidr range;
    for (size_t i = 0; i < COUNT(good); i++) {
        char text[ADDR_TEXT_MAX];
        assert_true(value_range(str_of(good[i].text), &range));
        assert_string_equal(addr_format(text, &range.base), good[i].base);
        assert_int_equal(range.len, good[i].len);
    }
    static const char *const bad[] = {
        "",
        "[",
        "[]",
        "]",
        "[::1",
        "::1]",
        "[10.0.0.1]",
        "[10.0.0.0]/8",
        "[10.0.0.0/8]",
        "[::1]]",
        "[[::1]]",
        "[::1]32",
        "[::1]:80",
        "[::1]/",
        "[::1]/129",
        "[::1/]",
        "[::1/128]/128",
        "[2001:db8::1]/32",
        "[::1%lo]",
        "[a.test]",
        "10.0.0.1/8",
        "10.0.0.0/8/8",
        "[2001:0db8:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]/32",
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        if (value_range(str_of(bad[i]), &range))
            fail_msg("%s is taken for a range", bad[i]);
}

static void hexadecimal_has_its_exact_length(void **state)
{
    (void)state;
    uint8_t bytes[3];
    assert_true(value_hex(STR("00fFa9"), bytes, 3));
    assert_memory_equal(bytes, "\x00\xff\xa9", 3);
    assert_false(value_hex(STR("00fFa"), bytes, 3));
    assert_false(value_hex(STR("00fFa90"), bytes, 3));
    assert_false(value_hex(STR("00fFag"), bytes, 3));
    assert_false(value_hex(STR(""), bytes, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(switches_are_six_words),
        cmocka_unit_test(durations_need_a_unit),
        cmocka_unit_test(sizes_count_in_1024),
        cmocka_unit_test(rates_are_a_count_or_a_size_in_a_time),
        cmocka_unit_test(times_follow_rfc_3339),
        cmocka_unit_test(ranges_may_stand_in_brackets_where_they_are_ipv6),
        cmocka_unit_test(hexadecimal_has_its_exact_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
