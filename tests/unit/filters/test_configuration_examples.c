/* docs/configuration.md: every example in it is read and compiled, and every key is in it. */
#include "filters/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char *page;

static int read_page(void **state)
{
    (void)state;
    FILE *file = fopen("../docs/configuration.md", "r");
    size_t size = 0;
    bool good = file != NULL && getdelim(&page, &size, '\0', file) > 0;
    if (file != NULL)
        fclose(file);
    return good ? 0 : -1;
}

static int forget_page(void **state)
{
    (void)state;
    free(page);
    return 0;
}

static void write_file(const char *path, struct str text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text.p, 1, text.len, file), text.len);
    assert_int_equal(fclose(file), 0);
}

/* What the examples name beside themselves. */
static void write_companions(void)
{
    assert_int_equal(mkdir("lists", 0700) | mkdir("teams", 0700) | mkdir("conf.d", 0700), 0);
    write_file("lists/pypi.txt", STR("pypi.org:443\n"));
    write_file("lists/npm.txt", STR("# none yet\nregistry.npmjs.org\n"));
    write_file("lists/bad.txt", STR("bad.example\n"));
    write_file("teams/blue.txt", STR("blue.example\n"));
    write_file("conf.d/team.ini", STR("[policy team]\nallow = team.example\n"));
    write_file("admin.token", STR("secret\n"));
    write_file("staging.token", STR("secret\n"));
}

/* Compiles every policy of the example; a fault would be printed with its line. */
static void accept_example(const char *path)
{
    struct faults faults = {0};
    struct gateway_config *config = gateway_config_read(path, &faults);
    for (size_t i = 0; config != NULL && i < config->policy_count; i++)
        policy_free(policy_compile(&config->policies[i], config, &faults));
    faults_print(&faults, stderr);
    assert_int_equal(faults.errors, 0);
    assert_non_null(config);
    gateway_config_free(config);
    faults_free(&faults);
}

/* The next block that is fenced with `opening`; moves `*at` behind it. */
static bool next_block(const char **at, const char *opening, struct str *block)
{
    const char *start = strstr(*at, opening);
    if (start == NULL)
        return false;
    start += strlen(opening);
    const char *end = strstr(start, "\n```");
    assert_non_null(end);
    *block = (struct str){start, (size_t)(end - start) + 1};
    *at = end + 4;
    return true;
}

static void every_example_is_a_configuration(void **state)
{
    (void)state;
    char home[4096], directory[] = "/tmp/examples.XXXXXX";
    assert_non_null(getcwd(home, sizeof(home)));
    assert_non_null(mkdtemp(directory));
    assert_int_equal(chdir(directory), 0);
    write_companions();
    size_t count = 0;
    struct str block;
    for (const char *at = page; next_block(&at, "```ini\n", &block); count++) {
        char path[32];
        snprintf(path, sizeof(path), "example-%zu.ini", count);
        write_file(path, block);
        accept_example(path);
    }
    assert_int_equal(count, 13);
    char command[64];
    snprintf(command, sizeof(command), "rm -r %s", directory);
    assert_int_equal(system(command), 0);
    assert_int_equal(chdir(home), 0);
}

/* The part of the page under `### [section`, where the section's keys are. */
static struct str keys_of(const char *section)
{
    char heading[64];
    snprintf(heading, sizeof(heading), "\n### %.*s", (int)strcspn(section, " ]"), section);
    const char *start = strstr(page, heading);
    assert_non_null(start);
    const char *end = strstr(start + 1, "\n##");
    assert_non_null(end);
    return (struct str){start, (size_t)(end - start)};
}

static void every_key_is_described_with_its_default(void **state)
{
    (void)state;
    char *options;
    size_t size, count = 0;
    FILE *out = open_memstream(&options, &size);
    gateway_config_print_options(out);
    fclose(out);
    for (char *rest = options, *line; (line = strsep(&rest, "\n")) != NULL && *line != '\0';) {
        char section[32], key[64], fallback[64], row[256];
        line[strcspn(line, "]")] = '\0';
        snprintf(section, sizeof(section), "%s", line);
        assert_int_equal(sscanf(line + strlen(line) + 1, "%63s %63s", key, fallback), 2);
        bool none = strcmp(fallback, "-") == 0;
        snprintf(row, sizeof(row), "\n| `%s` | %s%s%s|", key, none ? "" : "`", none ? "" : fallback,
                 none ? "" : "` ");
        struct str keys = keys_of(section);
        if (memmem(keys.p, keys.len, row, strlen(row)) == NULL)
            fail_msg("docs/configuration.md lacks the row %s of %s]", row + 1, section);
        count++;
    }
    assert_true(count > 50);
    free(options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_is_a_configuration),
        cmocka_unit_test(every_key_is_described_with_its_default),
    };
    return cmocka_run_group_tests(tests, read_page, forget_page);
}
