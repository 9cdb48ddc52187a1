/* schedule: at which hours, on which days of the week, on which dates. */
#include "config/value.h"
#include "filters/builtin.h"
#include "srt/grow.h"
#include "srt/must.h"

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { DAY_MINUTES = 24 * 60 };

struct hours {
    int from, to; /* minutes; to <= from: past midnight, and then it belongs to the day it began */
};

struct dates {
    int from, to; /* YYYYMMDD, both within */
};

struct date_list {
    struct dates *items;
    size_t count;
};

struct schedule {
    unsigned days; /* bit 0 is Sunday; 0 = all */
    struct hours *hours;
    size_t hour_count;
    struct date_list open, closed;
    bool local;
};

static void destroy(void *filter)
{
    struct schedule *self = filter;
    free(self->hours);
    free(self->open.items);
    free(self->closed.items);
    free(self);
}

/* ---- the section ---- */

static bool take_text(struct str *text, struct str expected)
{
    if (!str_starts(*text, expected))
        return false;
    *text = str_from(*text, expected.len);
    return true;
}

static bool take_clock(struct str *text, int *minutes)
{
    int hour, minute;
    if (!value_take_digits(text, 2, &hour) || !take_text(text, STR(":")) ||
        !value_take_digits(text, 2, &minute) || minute > 59)
        return false;
    *minutes = hour * 60 + minute;
    return *minutes <= DAY_MINUTES;
}

/* HH:MM-HH:MM */
static bool read_hours(struct str word, struct hours *out)
{
    return take_clock(&word, &out->from) && take_text(&word, STR("-")) &&
           take_clock(&word, &out->to) && word.len == 0 && out->from < DAY_MINUTES &&
           out->from != out->to;
}

static bool take_date(struct str *text, int *date)
{
    static const int lengths[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year, month, day;
    if (!value_take_digits(text, 4, &year) || !take_text(text, STR("-")) ||
        !value_take_digits(text, 2, &month) || !take_text(text, STR("-")) ||
        !value_take_digits(text, 2, &day))
        return false;
    *date = (year * 100 + month) * 100 + day;
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month >= 1 && month <= 12 && day >= 1 && day <= lengths[month - 1] &&
           (month != 2 || day < 29 || leap);
}

/* YYYY-MM-DD or YYYY-MM-DD..YYYY-MM-DD */
static bool read_dates(struct str word, struct dates *out)
{
    if (!take_date(&word, &out->from))
        return false;
    out->to = out->from;
    if (word.len > 0 && (!take_text(&word, STR("..")) || !take_date(&word, &out->to)))
        return false;
    return word.len == 0 && out->from <= out->to;
}

static int day_of(struct str word)
{
    static const char names[7][4] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
    for (int day = 0; day < 7; day++)
        if (str_ieq(word, str_of(names[day])))
            return day;
    return -1;
}

/* mon, or mon-fri, or fri-mon. */
static bool read_days(struct str word, unsigned *days)
{
    struct str rest = word;
    const int from = day_of(str_take_until(&rest, '-'));
    const int to = str_has(word, '-') ? day_of(rest) : from;
    if (from < 0 || to < 0)
        return false;
    for (int day = from;; day = (day + 1) % 7) {
        *days |= 1u << day;
        if (day == to)
            return true;
    }
}

static bool take_hours(void *field, const struct srt_filter_key *key,
                       struct srt_filter_fault *fault)
{
    struct schedule *self = field;
    struct str list = str_of(key->value), word;
    while (builtin_next_word(&list, &word)) {
        self->hours = grow_one(self->hours, self->hour_count, sizeof(*self->hours));
        if (!read_hours(word, &self->hours[self->hour_count++]))
            return builtin_refuse(fault, key, "'%.*s' is not HH:MM-HH:MM", STR_ARG(word));
    }
    return true;
}

static bool take_dates(void *field, const struct srt_filter_key *key,
                       struct srt_filter_fault *fault)
{
    struct date_list *dates = field;
    struct str list = str_of(key->value), word;
    while (builtin_next_word(&list, &word)) {
        dates->items = grow_one(dates->items, dates->count, sizeof(*dates->items));
        if (!read_dates(word, &dates->items[dates->count++]))
            return builtin_refuse(fault, key,
                                  "'%.*s' is neither YYYY-MM-DD nor YYYY-MM-DD..YYYY-MM-DD",
                                  STR_ARG(word));
    }
    return true;
}

static bool take_days(void *days, const struct srt_filter_key *key, struct srt_filter_fault *fault)
{
    struct str list = str_of(key->value), word;
    while (builtin_next_word(&list, &word))
        if (!read_days(word, days))
            return builtin_refuse(fault, key, "'%.*s' is neither a day (mon) nor days (mon-fri)",
                                  STR_ARG(word));
    return true;
}

static bool take_zone(void *field, const struct srt_filter_key *key, struct srt_filter_fault *fault)
{
    bool *local = field;
    if (strcmp(key->value, "utc") != 0 && !builtin_take_either(local, "UTC", "local", key, fault))
        return false;
    if (*local)
        tzset(); /* reads the zone's file here, so that no worker has to */
    return true;
}

#define AT(field) offsetof(struct schedule, field)

static const struct builtin_key known_keys[] = {
    {"days", true, take_days, AT(days)},       {"hours", true, take_hours, 0},
    {"dates", true, take_dates, AT(open)},     {"closed", true, take_dates, AT(closed)},
    {"timezone", false, take_zone, AT(local)}, {NULL, false, NULL, 0},
};

static void *create(const struct srt_filter_host *host, const char *name,
                    const struct srt_filter_key *keys, size_t key_count,
                    struct srt_filter_fault *fault)
{
    (void)host, (void)name;
    struct schedule *self = must_calloc(1, sizeof(*self));
    bool good = builtin_take_keys(self, known_keys, keys, key_count, fault);
    if (good && self->days == 0 && self->hour_count + self->open.count + self->closed.count == 0)
        good = builtin_refuse(fault, NULL, "it has none of days, hours, dates and closed");
    if (good)
        return self;
    destroy(self);
    return NULL;
}

/* ---- the request ---- */

static bool is_among(const struct date_list *dates, const struct tm *day)
{
    const int date = ((day->tm_year + 1900) * 100 + day->tm_mon + 1) * 100 + day->tm_mday;
    for (size_t i = 0; i < dates->count; i++)
        if (date >= dates->items[i].from && date <= dates->items[i].to)
            return true;
    return false;
}

static bool is_open_day(const struct schedule *self, const struct tm *day)
{
    return (self->days == 0 || (self->days & 1u << day->tm_wday) != 0) &&
           (self->open.count == 0 || is_among(&self->open, day)) && !is_among(&self->closed, day);
}

static void split_time(const struct schedule *self, time_t time, struct tm *out)
{
    if (self->local)
        localtime_r(&time, out);
    else
        gmtime_r(&time, out);
}

/* Calendar arithmetic, since a day of local time may have 23 or 25 hours. */
static struct tm day_before(const struct tm *today)
{
    struct tm noon = *today;
    noon.tm_hour = 12;
    noon.tm_mday--;
    time_t time = timegm(&noon); /* only the calendar of it counts */
    gmtime_r(&time, &noon);
    return noon;
}

static bool is_open(const struct schedule *self, time_t time)
{
    struct tm now;
    split_time(self, time, &now);
    const int minute = now.tm_hour * 60 + now.tm_min;
    const bool today = is_open_day(self, &now);
    if (self->hour_count == 0)
        return today;
    for (size_t i = 0; i < self->hour_count; i++) {
        const struct hours *hours = &self->hours[i];
        if (hours->from < hours->to) {
            if (today && minute >= hours->from && minute < hours->to)
                return true;
        } else if (today && minute >= hours->from) {
            return true;
        } else if (minute < hours->to) {
            const struct tm yesterday = day_before(&now);
            if (is_open_day(self, &yesterday))
                return true;
        }
    }
    return false;
}

static enum srt_filter_verdict on_request(void *local, const struct srt_filter_request *request,
                                          const struct srt_filter_ticket *ticket,
                                          struct srt_filter_edits *edits,
                                          struct srt_filter_ruling *ruling)
{
    const struct schedule *self = local;
    (void)ticket, (void)edits;
    if (is_open(self, (time_t)(request->now_ms / 1000)))
        return SRT_FILTER_PASS;
    return builtin_deny(ruling, "it is not allowed at this time");
}

const struct srt_filter_module module_schedule = {
    .abi = SRT_FILTER_ABI,
    .size = sizeof(struct srt_filter_module),
    .name = "schedule",
    .create = create,
    .destroy = destroy,
    .on_request = on_request,
};
