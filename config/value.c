#include "config/value.h"

#include <time.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool value_bool(struct str text, bool *out)
{
    static const struct {
        struct str word;
        bool value;
    } words[] = {
        {{"yes", 3}, true},    {{"no", 2}, false}, {{"true", 4}, true},
        {{"false", 5}, false}, {{"on", 2}, true},  {{"off", 3}, false},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (str_eq(text, words[i].word)) {
            *out = words[i].value;
            return true;
        }
    }
    return false;
}

struct unit {
    struct str word;
    uint64_t factor;
};

static const struct unit duration_units[] = {
    {{"ms", 2}, 1},
    {{"s", 1}, 1000},
    {{"m", 1}, 60 * 1000},
    {{"h", 1}, 3600 * 1000},
    {{"d", 1}, 24 * 3600 * 1000},
    {{NULL, 0}, 0},
};

static const struct unit size_units[] = {
    {{"", 0}, 1},        {{"k", 1}, 1 << 10}, {{"K", 1}, 1 << 10}, {{"m", 1}, 1 << 20},
    {{"M", 1}, 1 << 20}, {{"g", 1}, 1 << 30}, {{"G", 1}, 1 << 30}, {{NULL, 0}, 0},
};

static bool with_unit(struct str text, const struct unit *units, uint64_t *out)
{
    uint64_t number;
    if (!str_take_uint(&text, &number))
        return false;
    for (; units->word.p != NULL; units++)
        if (str_eq(text, units->word))
            return !__builtin_mul_overflow(number, units->factor, out);
    return false;
}

bool value_duration_ms(struct str text, uint64_t *out)
{
    if (str_eq(text, STR("0"))) {
        *out = 0;
        return true;
    }
    return with_unit(text, duration_units, out);
}

bool value_size(struct str text, uint64_t *out)
{
    return with_unit(text, size_units, out);
}

bool value_rate(struct str text, bool sizes, uint64_t *count, uint64_t *per_ms)
{
    struct str unit = text;
    const struct str number = str_take_until(&unit, '/');
    if (!(sizes ? value_size(number, count) : str_uint(number, UINT64_MAX, count)))
        return false;
    for (const struct unit *known = &duration_units[1]; known->word.p != NULL; known++) {
        if (str_eq(unit, known->word)) {
            *per_ms = known->factor;
            return true;
        }
    }
    return false;
}

bool value_take_digits(struct str *text, size_t digits, int *out)
{
    *out = 0;
    if (text->len < digits)
        return false;
    for (size_t i = 0; i < digits; i++) {
        if (!is_digit(text->p[i]))
            return false;
        *out = *out * 10 + (text->p[i] - '0');
    }
    *text = str_from(*text, digits);
    return true;
}

/* So many digits, and then `after` (0: nothing). */
static bool take_field(struct str *text, size_t digits, char after, int *out)
{
    if (!value_take_digits(text, digits, out))
        return false;
    if (after == '\0')
        return true;
    const bool follows = text->len > 0 && text->p[0] == after;
    *text = str_from(*text, 1);
    return follows;
}

/* RFC 3339 5.6 time-offset, in seconds east of UTC. */
static bool read_offset(struct str text, int *seconds)
{
    if (text.len == 1 && (text.p[0] == 'Z' || text.p[0] == 'z')) {
        *seconds = 0;
        return true;
    }
    if (text.len != 6 || (text.p[0] != '+' && text.p[0] != '-'))
        return false;
    int sign = text.p[0] == '-' ? -1 : 1, hours, minutes;
    text = str_from(text, 1);
    if (!take_field(&text, 2, ':', &hours) || !take_field(&text, 2, '\0', &minutes) || hours > 23 ||
        minutes > 59)
        return false;
    *seconds = sign * (hours * 3600 + minutes * 60);
    return true;
}

static bool skip_fraction(struct str *text)
{
    if (text->len == 0 || text->p[0] != '.')
        return true;
    size_t i = 1;
    while (i < text->len && is_digit(text->p[i]))
        i++;
    *text = str_from(*text, i);
    return i > 1;
}

bool value_rfc3339(struct str text, int64_t *out)
{
    struct tm tm = {0};
    int offset;
    if (!take_field(&text, 4, '-', &tm.tm_year) || !take_field(&text, 2, '-', &tm.tm_mon) ||
        !take_field(&text, 2, '\0', &tm.tm_mday) || text.len == 0 ||
        (text.p[0] != 'T' && text.p[0] != 't'))
        return false;
    text = str_from(text, 1);
    if (!take_field(&text, 2, ':', &tm.tm_hour) || !take_field(&text, 2, ':', &tm.tm_min) ||
        !take_field(&text, 2, '\0', &tm.tm_sec) || !skip_fraction(&text) ||
        !read_offset(text, &offset))
        return false;
    if (tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_hour > 23 || tm.tm_min > 59 ||
        tm.tm_sec > 60) /* 60: a leap second, which counts as the second after it */
        return false;

    int month = tm.tm_mon - 1, day = tm.tm_mday, leap = tm.tm_sec == 60;
    tm.tm_mon = month;
    tm.tm_year -= 1900;
    tm.tm_sec -= leap;
    time_t seconds = timegm(&tm);
    if (tm.tm_mon != month ||
        tm.tm_mday != day) /* such as 30 February: timegm() went on counting */
        return false;
    *out = (int64_t)seconds + leap - offset;
    return true;
}

bool value_range(struct str text, struct cidr *out)
{
    char plain[ADDR_TEXT_MAX + sizeof("/128")];
    if (text.len == 0 || text.p[0] != '[')
        return cidr_parse(out, text);
    struct str after = str_from(text, 1);
    const struct str inside = str_take_until(&after, ']');
    if (!str_has(text, ']') || text.len - 2 > sizeof(plain) || !str_has(inside, ':') ||
        (after.len > 0 && after.p[0] != '/'))
        return false;
    memcpy(plain, inside.p, inside.len);
    if (after.len > 0)
        memcpy(plain + inside.len, after.p, after.len);
    return cidr_parse(out, (struct str){plain, inside.len + after.len});
}

bool value_hex(struct str text, uint8_t *out, size_t len)
{
    if (text.len != len * 2)
        return false;
    for (size_t i = 0; i < len; i++) {
        int high = str_hex_digit(text.p[i * 2]), low = str_hex_digit(text.p[i * 2 + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
