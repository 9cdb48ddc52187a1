#include "asked.h"

#include <time.h>

static const char shut[] = "it is not allowed at this time";

/* "2026-11-30 12:00" (a Monday), UTC. */
static int64_t at(const char *text)
{
    struct tm tm = {0};
    assert_int_equal(sscanf(text, "%d-%d-%d %d:%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                            &tm.tm_hour, &tm.tm_min),
                     5);
    tm.tm_year -= 1900;
    tm.tm_mon--;
    return (int64_t)timegm(&tm) * 1000;
}

static void office_hours(void **state)
{
    (void)state;
    struct asked hours;
    asked_open(&hours, "[filter f]\nmodule = schedule\ndays = mon-fri\nhours = 08:00-18:00\n");
    PASSES(&hours, .now_ms = at("2026-11-30 08:00"));
    PASSES(&hours, .now_ms = at("2026-12-04 17:59"));
    DENIES(&hours, shut, .now_ms = at("2026-11-30 07:59"));
    DENIES(&hours, shut, .now_ms = at("2026-11-30 18:00"));
    DENIES(&hours, shut, .now_ms = at("2026-12-05 12:00"));
    DENIES(&hours, shut, .now_ms = at("2026-12-06 12:00"));
    PASSES(&hours, .now_ms = at("2026-11-30 12:00"), .opaque = true);
    asked_close(&hours);
}

static void a_night_belongs_to_the_day_it_began(void **state)
{
    (void)state;
    struct asked night;
    asked_open(&night,
               "[filter f]\nmodule = schedule\ndays = fri\nhours = 22:00-02:00, 12:00-13:00\n");
    DENIES(&night, shut, .now_ms = at("2026-12-04 01:00"));
    PASSES(&night, .now_ms = at("2026-12-04 12:30"));
    PASSES(&night, .now_ms = at("2026-12-04 22:00"));
    PASSES(&night, .now_ms = at("2026-12-05 01:59"));
    DENIES(&night, shut, .now_ms = at("2026-12-05 02:00"));
    DENIES(&night, shut, .now_ms = at("2026-12-05 22:00"));
    asked_close(&night);
    asked_open(
        &night,
        "[filter f]\nmodule = schedule\ndates = 2026-12-31\nhours = 23:00-24:00,00:00-01:00\n");
    PASSES(&night, .now_ms = at("2026-12-31 23:59"));
    PASSES(&night, .now_ms = at("2026-12-31 00:30"));
    DENIES(&night, shut, .now_ms = at("2027-01-01 00:30"));
    asked_close(&night);
}

static void dates(void **state)
{
    (void)state;
    struct asked dates;
    asked_open(&dates, "[filter f]\nmodule = schedule\ndates = 2026-12-01..2027-01-31\n"
                       "closed = 2026-12-24..2026-12-26, 2027-01-01\n");
    PASSES(&dates, .now_ms = at("2026-12-01 00:00"));
    PASSES(&dates, .now_ms = at("2027-01-31 23:59"));
    DENIES(&dates, shut, .now_ms = at("2026-11-30 23:59"));
    DENIES(&dates, shut, .now_ms = at("2026-12-25 12:00"));
    DENIES(&dates, shut, .now_ms = at("2027-01-01 12:00"));
    DENIES(&dates, shut, .now_ms = at("2027-02-01 00:00"));
    asked_close(&dates);
}

static void days_go_round(void **state)
{
    (void)state;
    struct asked days;
    asked_open(&days, "[filter f]\nmodule = schedule\ndays = sat-mon, Wed\n");
    PASSES(&days, .now_ms = at("2026-12-05 12:00"));
    PASSES(&days, .now_ms = at("2026-12-06 12:00"));
    PASSES(&days, .now_ms = at("2026-11-30 12:00"));
    PASSES(&days, .now_ms = at("2026-12-02 12:00"));
    DENIES(&days, shut, .now_ms = at("2026-12-01 12:00"));
    asked_close(&days);
}

static void local_time(void **state)
{
    (void)state;
    struct asked hours;
    setenv("TZ", "EST5", 1);
    asked_open(&hours, "[filter f]\nmodule = schedule\nhours = 08:00-09:00\ntimezone = local\n");
    PASSES(&hours, .now_ms = at("2026-11-30 13:30"));
    DENIES(&hours, shut, .now_ms = at("2026-11-30 08:30"));
    asked_close(&hours);
    unsetenv("TZ");
    tzset();
}

static void faults_have_their_line(void **state)
{
    (void)state;
    static const struct {
        const char *line, *said;
    } rows[] = {
        {"hours = 8:00-18:00", "hours: '8:00-18:00' is not HH:MM-HH:MM"},
        {"hours = 08:00-24:01", "hours: '08:00-24:01' is not HH:MM-HH:MM"},
        {"hours = 08:00-08:00", "hours: '08:00-08:00' is not HH:MM-HH:MM"},
        {"days = monday", "days: 'monday' is neither a day (mon) nor days (mon-fri)"},
        {"dates = 2026-02-29",
         "dates: '2026-02-29' is neither YYYY-MM-DD nor YYYY-MM-DD..YYYY-MM-DD"},
        {"dates = 2026-03-02..2026-03-01",
         "dates: '2026-03-02..2026-03-01' is neither YYYY-MM-DD nor YYYY-MM-DD..YYYY-MM-DD"},
        {"timezone = Europe/Berlin", "timezone: 'Europe/Berlin' is neither UTC nor local"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[256], said[256];
        snprintf(text, sizeof(text), "[filter f]\nmodule = schedule\n%s\n", rows[i].line);
        snprintf(said, sizeof(said), "gateway.ini:3: [filter f] %s\n", rows[i].said);
        assert_faulty(text, said);
    }
    assert_faulty("[filter f]\nmodule = schedule\n",
                  "gateway.ini:1: [filter f]: it has none of days, hours, dates and closed\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(office_hours), cmocka_unit_test(a_night_belongs_to_the_day_it_began),
        cmocka_unit_test(dates),        cmocka_unit_test(days_go_round),
        cmocka_unit_test(local_time),   cmocka_unit_test(faults_have_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
