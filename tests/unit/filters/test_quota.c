#include "asked.h"

enum { HOUR_MS = 3600 * 1000, DAY_MS = 24 * HOUR_MS };

static void requests_in_a_window(void **state)
{
    (void)state;
    struct asked quota;
    asked_open(&quota, "[filter f]\nmodule = quota\nrequests = 2/h\n");
    PASSES(&quota, .sandbox = "a");
    PASSES(&quota, .sandbox = "a");
    DENIES(&quota, "the quota of 2/h requests is used up until 1970-01-01T01:00:00Z",
           .sandbox = "a");
    PASSES(&quota, .sandbox = "b", .now_ms = HOUR_MS - 1);
    DENIES(&quota, "the quota of 2/h requests is used up until 1970-01-01T01:00:00Z",
           .sandbox = "a", .now_ms = HOUR_MS - 1);
    PASSES(&quota, .sandbox = "a", .now_ms = HOUR_MS);
    asked_close(&quota);
}

static void bytes_count_when_a_request_ends(void **state)
{
    (void)state;
    struct asked quota;
    asked_open(&quota, "[filter f]\nmodule = quota\nbytes = 1k/d\nper = client\n");
    PASSES(&quota, .client = "c", .sandbox = "a");
    ends(&quota, (struct asking){.client = "c", .sandbox = "b"}, 24, 999);
    PASSES(&quota, .client = "c");
    ends(&quota, (struct asking){.client = "c"}, 1, 0);
    DENIES(&quota, "the quota of 1k/d bytes is used up until 1970-01-02T00:00:00Z", .client = "c");
    PASSES(&quota, .client = "d");
    PASSES(&quota, .client = "c", .now_ms = DAY_MS);
    asked_close(&quota);
}

static void a_reload_gives_no_fresh_window(void **state)
{
    (void)state;
    struct asked before, after;
    asked_open(&before, "[filter f]\nmodule = quota\nrequests = 1/h\nper = policy\n");
    PASSES(&before, .path = "/");
    asked_open(&after, "[filter f]\nmodule = quota\nrequests = 1/h\nper = policy\n");
    asked_close(&before);
    assert_false(passes(&after, (struct asking){.path = "/"}));
    asked_close(&after);
    asked_open(&after, "[filter f]\nmodule = quota\nrequests = 1/h\nper = policy\n");
    PASSES(&after, .path = "/");
    asked_close(&after);
}

static void who_is_counted_is_bounded(void **state)
{
    (void)state;
    struct asked quota;
    char name[32];
    asked_open(&quota, "[filter f]\nmodule = quota\nrequests = 1/m\n");
    for (int i = 0; i < 100000; i++) {
        snprintf(name, sizeof(name), "sandbox-%d", i);
        PASSES(&quota, .sandbox = name, .now_ms = DAY_MS);
    }
    DENIES(&quota, "too many are counted at once", .sandbox = "one more", .now_ms = DAY_MS);
    DENIES(&quota, "the quota of 1/m requests is used up until 1970-01-02T00:01:00Z",
           .sandbox = "sandbox-7", .now_ms = DAY_MS);
    PASSES(&quota, .sandbox = "one more", .now_ms = DAY_MS + HOUR_MS);
    asked_close(&quota);
}

static void faults_have_their_line(void **state)
{
    (void)state;
    assert_faulty("[filter f]\nmodule = quota\nper = client\n",
                  "gateway.ini:1: [filter f]: it has neither requests nor bytes\n");
    assert_faulty("[filter f]\nmodule = quota\nrequests = 5\n",
                  "gateway.ini:3: [filter f] requests: '5' is not NUMBER/UNIT, such as 1000/h\n");
    assert_faulty("[filter f]\nmodule = quota\nbytes = 5/w\n",
                  "gateway.ini:3: [filter f] bytes: '5/w' is not SIZE/UNIT, such as 1g/d\n");
    assert_faulty("[filter f]\nmodule = quota\nrequests = 5/h\nper = user\n",
                  "gateway.ini:4: [filter f] per: 'user' is none of sandbox, client and policy\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_in_a_window),
        cmocka_unit_test(bytes_count_when_a_request_ends),
        cmocka_unit_test(a_reload_gives_no_fresh_window),
        cmocka_unit_test(who_is_counted_is_bounded),
        cmocka_unit_test(faults_have_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
