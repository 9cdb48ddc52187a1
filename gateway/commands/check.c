/*
 * `srt-gateway check` and `options`: what a configuration is, without putting it in force.
 */
#include "commands/command.h"
#include "control/gateway.h"
#include "filters/lint.h"

#include <string.h>

/* What is valid but probably not meant; returns how much of it there was. */
static size_t say_lint(const struct snapshot *snapshot)
{
    struct faults faults = {0};
    lint_configuration(snapshot->config, snapshot->policies, snapshot->loaded, &faults);
    faults_print(&faults, stderr);
    size_t count = faults.count;
    faults_free(&faults);
    return count;
}

int command_check(const struct command *self, int argc, char **argv)
{
    static const struct option longs[] = {
        {"config", required_argument, NULL, 'c'},
        {"strict", no_argument, NULL, 's'},
        COMMAND_COMMON_OPTIONS,
    };
    const char *path = NULL;
    bool strict = false;
    for (int option; (option = command_option(self, argc, argv, "c:hV", longs)) != -1;) {
        if (option == 'c')
            path = optarg;
        else
            strict = true;
    }
    if (optind < argc)
        return command_misused(self, "unexpected word '%s'", argv[optind]);

    size_t warnings = 0;
    struct snapshot *snapshot =
        gateway_load(path != NULL ? path : command_default_config(), &warnings);
    if (snapshot == NULL)
        return EXIT_CONFIG;
    warnings += say_lint(snapshot);
    size_t rules = 0;
    for (size_t i = 0; i < snapshot->config->policy_count; i++)
        rules += policy_rule_count(snapshot->policies[i]);
    bool refused = strict && warnings > 0;
    printf("%s (listeners: %zu, policies: %zu, rules: %zu, warnings: %zu)\n",
           refused ? "valid, but --strict takes no warnings" : "valid",
           snapshot->config->listen_count, snapshot->config->policy_count, rules, warnings);
    snapshot_release(snapshot);
    return refused ? EXIT_CONFIG : EXIT_DONE;
}

int command_options(const struct command *self, int argc, char **argv)
{
    static const struct option longs[] = {COMMAND_COMMON_OPTIONS};
    while (command_option(self, argc, argv, "hV", longs) != -1)
        ;
    if (optind < argc)
        return command_misused(self, "unexpected word '%s'", argv[optind]);
    gateway_config_print_options(stdout);
    return EXIT_DONE;
}
