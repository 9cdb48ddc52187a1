#include "launcher/say.h"

#include "config/fault.h"
#include "srt/cleanup.h"
#include "srt/must.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 1, 0))) static void say_list(const char *format, va_list args)
{
    autofree char *text = must_vformat(format, args);
    char *rest = text;
    fputs("srt-launch: ", stderr);
    for (const char *line; (line = strsep(&rest, "\n")) != NULL;) {
        autofree char *shown = fault_escape(line);
        fprintf(stderr, "%s\n", shown);
    }
}

void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_list(format, args);
    va_end(args);
}

int fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_list(format, args);
    va_end(args);
    return EXIT_FAILED;
}
