#include "record/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

static void is(struct json *out, const char *text)
{
    assert_int_equal(out->len, strlen(text));
    assert_memory_equal(out->data, text, out->len);
    json_free(out);
}

static void a_family_is_announced_and_its_samples_follow(void **state)
{
    (void)state;
    struct json out = {0};
    const struct metrics_label labels[] = {{"front", "connect"}, {"reason", "a\"b\\c\nd"}, {0}};
    metrics_family(&out, "x_total", "counter", "How many.");
    metrics_sample(&out, "x_total", labels, 3);
    metrics_sample(&out, "x_total", NULL, 0.25);
    is(&out, "# HELP x_total How many.\n# TYPE x_total counter\n"
             "x_total{front=\"connect\",reason=\"a\\\"b\\\\c\\nd\"} 3\nx_total 0.25\n");
}

static void large_counts_are_written_in_full(void **state)
{
    (void)state;
    struct json out = {0};
    metrics_sample(&out, "x", NULL, 123456789012345.);
    is(&out, "x 123456789012345\n");
    metrics_sample(&out, "x", NULL, 1796014874.25);
    is(&out, "x 1796014874.25\n");
    metrics_sample(&out, "x", NULL, 0.000102);
    is(&out, "x 0.000102\n");
}

static void a_histogram_counts_up_to_each_bound(void **state)
{
    (void)state;
    struct json out = {0};
    struct metrics_histogram histogram = {.sum_ns = 1500000000};
    const struct metrics_label labels[] = {{"result", "ok"}, {0}};
    const uint64_t durations[] = {0, 10000, 10001, 20000000000};
    for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++)
        histogram.buckets[metrics_bucket(durations[i])]++;
    metrics_histogram(&out, "x_seconds", labels, &histogram);
    json_append(&out, (struct str){"", 1});
    assert_ptr_equal(strstr(out.data, "x_seconds_bucket{result=\"ok\",le=\"1e-05\"} 2\n"
                                      "x_seconds_bucket{result=\"ok\",le=\"5e-05\"} 3\n"),
                     out.data);
    assert_non_null(strstr(out.data, "x_seconds_bucket{result=\"ok\",le=\"10.0\"} 3\n"
                                     "x_seconds_bucket{result=\"ok\",le=\"+Inf\"} 4\n"
                                     "x_seconds_sum{result=\"ok\"} 1.5\n"
                                     "x_seconds_count{result=\"ok\"} 4\n"));
    json_free(&out);
}

static void the_process_has_its_standard_families(void **state)
{
    (void)state;
    static const char *const names[] = {"\nprocess_cpu_seconds_total ",
                                        "\nprocess_resident_memory_bytes ",
                                        "\nprocess_open_fds ",
                                        "\nprocess_max_fds ",
                                        "\nprocess_virtual_memory_bytes ",
                                        "\nprocess_start_time_seconds "};
    struct json out = {0};
    metrics_process(&out);
    json_append(&out, (struct str){"", 1});
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *sample = strstr(out.data, names[i]);
        assert_non_null(sample);
        assert_true(strtod(sample + strlen(names[i]), NULL) > 0);
    }
    json_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_family_is_announced_and_its_samples_follow),
        cmocka_unit_test(large_counts_are_written_in_full),
        cmocka_unit_test(a_histogram_counts_up_to_each_bound),
        cmocka_unit_test(the_process_has_its_standard_families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
