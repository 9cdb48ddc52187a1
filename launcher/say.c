#include "launcher/say.h"

#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 1, 0))) static void say_list(const char *format, va_list args)
{
    fputs("srt-launch: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
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
