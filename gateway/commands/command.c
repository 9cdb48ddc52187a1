#include "commands/command.h"

#include "srt/cleanup.h"
#include "srt/must.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

void command_print_version(void)
{
    printf("srt-gateway %s\n", SRT_VERSION);
}

static void print_usage(const struct command *self)
{
    printf("usage: srt-gateway %s %s\n%s\n", self->name, self->synopsis, self->summary);
}

int command_option(const struct command *self, int argc, char **argv, const char *shorts,
                   const struct option *longs)
{
    int option = getopt_long(argc, argv, shorts, longs, NULL);
    switch (option) {
    case 'h':
        print_usage(self);
        exit(EXIT_DONE);
    case 'V':
        command_print_version();
        exit(EXIT_DONE);
    case '?':
        exit(command_misused(self, NULL));
    default:
        return option;
    }
}

int command_misused(const struct command *self, const char *format, ...)
{
    if (format != NULL) {
        va_list args;
        va_start(args, format);
        autofree char *text = must_vformat(format, args);
        va_end(args);
        fprintf(stderr, "srt-gateway: %s\n", text);
    }
    fprintf(stderr, "usage: srt-gateway %s %s\n", self->name, self->synopsis);
    /* What begins with an option is run, too, and likely was meant for another command. */
    if (self->run == command_run)
        fputs("Other commands stand before their options: srt-gateway --help\n", stderr);
    return EXIT_USAGE;
}

const char *command_default_config(void)
{
    static const char system_wide[] = "/etc/srt-gateway/gateway.ini";
    static char *own;
    if (own != NULL)
        return own;
    if (geteuid() == 0 || access(system_wide, F_OK) == 0)
        return system_wide;
    const char *base = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    if (base != NULL && base[0] == '/')
        own = must_format("%s/srt-gateway/gateway.ini", base);
    else if (home != NULL && home[0] == '/')
        own = must_format("%s/.config/srt-gateway/gateway.ini", home);
    return own != NULL ? own : system_wide;
}
