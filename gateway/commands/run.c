/* `srt-gateway run`. */
#include "control/run.h"
#include "commands/command.h"
#include "srt/str.h"

#include <fcntl.h>

int command_run(const struct command *self, int argc, char **argv)
{
    static const struct option longs[] = {
        {"config", required_argument, NULL, 'c'},    {"private", required_argument, NULL, 'p'},
        {"take-over", required_argument, NULL, 'o'}, {"audit-log", required_argument, NULL, 'a'},
        {"trace", no_argument, NULL, 't'},           COMMAND_COMMON_OPTIONS,
    };
    struct run_options run = {.private_fd = -1, .take_over_fd = -1};
    uint64_t fd;
    for (int option; (option = command_option(self, argc, argv, "c:hV", longs)) != -1;) {
        switch (option) {
        case 'c':
            run.config_path = optarg;
            break;
        case 'p':
            if (!str_uint(str_of(optarg), 65535, &fd) || fcntl((int)fd, F_GETFD) < 0)
                return command_misused(self, "--private %s: not an open descriptor", optarg);
            run.private_fd = (int)fd;
            break;
        case 'o':
            if (!str_uint(str_of(optarg), 65535, &fd) || fcntl((int)fd, F_SETFD, FD_CLOEXEC) != 0)
                return command_misused(self, "--take-over %s: not an open descriptor", optarg);
            run.take_over_fd = (int)fd;
            break;
        case 'a':
            run.audit_log = optarg;
            break;
        default:
            run.trace = true;
        }
    }
    if (optind < argc)
        return command_misused(self, "unexpected word '%s'", argv[optind]);
    if (run.private_fd >= 0 && run.config_path != NULL)
        return command_misused(self, "a private gateway has no configuration file");
    if (run.private_fd >= 0 && run.take_over_fd >= 0)
        return command_misused(self, "a private gateway takes nobody's place");
    if (run.private_fd < 0 && run.audit_log != NULL)
        return command_misused(self, "--audit-log is for --private; a configuration names its own");
    if (run.private_fd < 0 && run.config_path == NULL)
        run.config_path = command_default_config();
    return (int)gateway_run(&run);
}
